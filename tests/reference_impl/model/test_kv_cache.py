"""What one sequence leaves in a slot must not reach the next one there, whatever it was."""

from __future__ import annotations

import numpy as np
import torch

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.model.sampling import request_uniforms
from reference_impl.prompt.builder import TalkerPrompt
from reference_impl.settings import ServerSettings

PAD = torch.zeros(64)


def new_batch(model) -> DecodeBatch:
    return DecodeBatch(model, ServerSettings(device="cpu", max_batch=3, max_seq_len=64, recorded=False), 8, PAD)


def enter(batch: DecodeBatch, seed: int, length: int, broken: bool = False) -> None:
    embeds = torch.randn(length, len(PAD), generator=torch.Generator().manual_seed(seed))
    if broken:
        embeds[length // 2] = float("nan")
    row = batch.allocate_slot(request_uniforms(seed, 9, 16))
    batch.prefill(row, TalkerPrompt(embeds, torch.arange(length), length), 100, None, 0)


def test_a_sequence_of_no_numbers_spoils_neither_the_next_in_its_slot_nor_the_one_that_is_moved_there(small):
    """The speaker's vector of a recording at 1e18 times full scale is NaN, and masked rows count too (0 × NaN)."""
    with torch.inference_mode():
        alone = []
        for seed in (1, 2):
            batch = new_batch(small)
            enter(batch, seed, 6)
            alone.append([batch.step()[0] for _ in range(4)])
        batch = new_batch(small)
        enter(batch, 3, 30, broken=True)
        enter(batch, 1, 6)
        moved = [batch.step()[1]]
        assert batch._hidden[0].isnan().all()
        assert batch.free_slot(0) == 1
        moved += [batch.step()[0] for _ in range(3)]
        batch.free_slot(0)
        enter(batch, 4, 30, broken=True)
        batch.free_slot(0)
        enter(batch, 2, 6)
        followed = [batch.step()[0] for _ in range(4)]
    np.testing.assert_array_equal(moved, alone[0])
    np.testing.assert_array_equal(followed, alone[1])
