"""Code2Wav's kernels and graphs against the modules, in pieces and at once."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from small_model import needs_cuda, small_model

from reference_impl.loading.random_weights import random_model
from reference_impl.model.presets import QWEN3_TTS_0_6B

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda.audio import Code2WavGraphs
from reference_impl.engine.cuda.code2wav import FastCode2Wav

pytestmark = needs_cuda
HOP = 1920


def test_samples_of_the_released_shape() -> None:
    """No further from float32 than the modules in bfloat16 are."""
    model = random_model(QWEN3_TTS_0_6B, torch.device("cuda"), torch.bfloat16, 32, 64)
    wide = copy.deepcopy(model.code2wav).float()
    wide.prepare()
    fast = FastCode2Wav(model.code2wav, 9, 3 * 8 * HOP)
    states = model.code2wav.new_state(9), wide.new_state(9)
    rows = torch.tensor([5, 2, 7], device="cuda")
    with torch.inference_mode():
        for frames in (1, 2, 8, 3, 8):
            codes = torch.randint(2048, (3, 16, frames), device="cuda")
            module, want = (m.push(codes, s, rows).float() for m, s in zip((model.code2wav, wide), states, strict=True))
            got = fast.push(codes, rows, torch.full_like(rows, frames)).float() / 32767
            assert (got - want).norm() < 1.1 * (module - want).norm()


def test_graphs_pieces_and_spare_streams() -> None:
    """A stream's samples depend neither on what else is in the call nor on how it is cut; a reset one begins anew."""
    model = small_model(dtype=torch.bfloat16)
    graphs = Code2WavGraphs(model, slots=4, rows=4, frames=4)
    codes = np.random.default_rng(0).integers(0, 512, (3, 7, 16))
    with torch.inference_mode():
        # the second stream's three frames are filled up to four beside the others
        first = graphs.push([codes[0, :4], codes[1, :3], codes[2, :1]], [2, 0, 3])
        second = graphs.push([codes[0, 4:], codes[1, 3:]], [2, 0])
        graphs.reset([0, 2, 3])
        torch.cuda.synchronize()
        alone = [
            np.concatenate([graphs.push([codes[stream, t : t + 1]], [slot])[0] for t in range(frames)])
            for stream, slot, frames in ((0, 2, 7), (1, 0, 7), (2, 3, 1))
        ]
    assert [len(samples) // HOP for samples in (*first, *second)] == [4, 3, 1, 3, 4]
    together = [*(np.concatenate(pair) for pair in zip(first, second, strict=False)), first[2]]
    for one, other in zip(together, alone, strict=True):
        signal = np.abs(one.astype(int)).mean()
        assert np.abs(other.astype(int) - one).mean() < 0.03 * signal


def test_thousands_of_calls_with_a_spare_stream() -> None:
    """Three of four streams: the fourth is one of the spare ones, which no reset ever takes back to frame 0."""
    model = small_model(dtype=torch.bfloat16)
    graphs = Code2WavGraphs(model, slots=4, rows=4, frames=4)
    codes = list(np.random.default_rng(1).integers(0, 512, (3, 4, 16)))
    with torch.inference_mode():
        first = graphs.push(codes, [2, 0, 3])
        for call in range(2000):
            graphs.push(codes, [2, 0, 3])
            if call % 50 == 49:  # no stream is longer than the table
                graphs.reset([0, 2, 3])
        torch.cuda.synchronize()
        assert not graphs._decoder._frames.any()
        # as if it had gone on for years: an index that is not held back would be far from any memory there is
        graphs._decoder._frames[4:] = 2**40
        torch.cuda.synchronize()
        again = graphs.push(codes, [2, 0, 3])
    torch.cuda.synchronize()
    np.testing.assert_array_equal(again, first)
