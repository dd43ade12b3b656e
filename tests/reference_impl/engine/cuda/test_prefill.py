"""Prompts that are read together, and rows that leave together, against the eager batch: without a GPU.

Triton's interpreter runs the kernels of a prompt, and what would be a graph is run again; the step is the eager one.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from small_model import INTERPRETED, MAX_SEQ_LEN, small_config

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.loading.random_weights import random_model
from reference_impl.model.sampling import request_uniforms
from reference_impl.prompt.builder import TalkerPrompt
from reference_impl.settings import ServerSettings

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda.batch import FullStepBatch
from reference_impl.engine.cuda.prefill import COUNTS, LENGTHS, MOST, PromptGraphs

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1")
HIDDEN = 96


class RunAgain:
    """What a captured call would be."""

    def __init__(self, prompts: PromptGraphs, key: tuple[int, int], calls: list[tuple[int, int]]):
        self.prompts, self.key, self.calls = prompts, key, calls

    def replay(self) -> None:
        self.calls.append(self.key)
        self.prompts._run(*self.key)


class UncapturedPrompts(PromptGraphs):
    def __init__(self, batch: DecodeBatch):
        self._talker, self._cache, self._hidden = batch.model.talker, batch._cache, batch._hidden
        self.longest = max(length for length in LENGTHS if length <= MAX_SEQ_LEN)
        self._embeds = batch._hidden.new_zeros(MOST * self.longest, HIDDEN)
        self._where = torch.zeros(3, MOST, dtype=torch.long)
        self.calls: list[tuple[int, int]] = []
        self._graphs = {
            (count, length): RunAgain(self, (count, length), self.calls) for count in COUNTS for length in LENGTHS
        }


class UncapturedBatch(FullStepBatch):
    """Gathers as the batch of one graph does, and steps as the eager one."""

    overlaps_steps = False

    def __init__(self, model, settings, max_frames, pad):
        DecodeBatch.__init__(self, model, settings, max_frames, pad)
        self._active = torch.zeros(settings.max_batch, dtype=torch.long)
        self._prompts = UncapturedPrompts(self)
        self.batches_prefill, self._allocated, self._pending = True, [], []

    def step(self) -> np.ndarray:
        self._prefill_pending()
        return DecodeBatch.step(self)


def enter(batch: DecodeBatch, seed: int, length: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    embeds, trailing = (torch.randn(count, HIDDEN, generator=generator) for count in (length, seed % 4))
    row = batch.allocate_slot(request_uniforms(seed, 20 + seed, 16))
    batch.prefill(row, TalkerPrompt(embeds, torch.arange(length), length, trailing), 1000, None, 0)


def test_codes_equal_eager_float32() -> None:
    config = small_config(HIDDEN)
    two_layers = dataclasses.replace(config.talker.transformer, num_layers=2)  # the interpreter takes its time
    config = dataclasses.replace(config, talker=dataclasses.replace(config.talker, transformer=two_layers))
    model = random_model(config, torch.device("cpu"), torch.float32, MAX_SEQ_LEN, 64, seed=1)
    settings = ServerSettings(device="cpu", max_batch=8, max_seq_len=MAX_SEQ_LEN, recorded=False)
    codes = []
    for kind in (DecodeBatch, UncapturedBatch):
        batch = kind(model, settings, 30, torch.full((HIDDEN,), 0.1))
        with torch.inference_mode():
            for seed, length in enumerate((10, 40, 12, 5, 8)):
                enter(batch, seed, length)
            spoken = [batch.step() for _ in range(2)]
            assert batch.free_slots([0, 3]) == {0: 4}
            enter(batch, 6, 33)
            enter(batch, 7, MAX_SEQ_LEN - 20)  # longer than any graph
            spoken += [batch.step() for _ in range(2)]
            assert batch.free_slots([1, 0, 4]) == {0: 2, 1: 3}
            spoken += [batch.step() for _ in range(2)]
        codes.append(spoken)
    for want, got in zip(*codes, strict=True):
        np.testing.assert_array_equal(want, got)
    # prompts of like lengths share a call, and none is padded to another's length
    assert batch._prompts.calls == [(4, 32), (1, 64), (1, 64)]
    assert batch._active.tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
