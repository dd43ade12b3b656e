"""The pieces of a code predictor step."""

from __future__ import annotations

import pytest
import torch


def test_embed_frame_is_the_sum_of_sixteen_tables(tiny):
    codes = torch.randint(0, 512, (3, 16), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        found = tiny.predictor.embed_frame(codes, tiny.talker.codec_embedding.weight)
        expected = tiny.talker.codec_embedding.weight[codes[:, 0]].clone()
        for group in range(1, 16):
            expected += tiny.predictor.embeddings[group - 1][codes[:, group]]
    assert found.shape == (3, 320)
    assert (found - expected).abs().max() < 1e-5


def test_a_hidden_state_of_the_wrong_rank_is_refused(tiny):
    """[B, 1, H] beside [B] would broadcast to a plausible wrong result."""
    with pytest.raises(ValueError, match=r"hidden \(3, 1, 320\) and code0 \(3,\)"):
        tiny.predictor.first_inputs(torch.zeros(3, 1, 320), torch.zeros(3, dtype=torch.long))
