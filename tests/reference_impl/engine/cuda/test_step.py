"""A whole frame of the captured step's kernels, also where its counters are as large as they get, without a GPU.

Triton's interpreter runs them (``conftest.py`` looks at every address); the two attention kernels, which it cannot
run, are stood in for by PyTorch.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from small_model import INTERPRETED, small_config
from torch import Tensor

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.random_weights import random_model
from reference_impl.model.config import PredictorConfig
from reference_impl.model.sampling import request_uniforms
from reference_impl.prompt.builder import TalkerPrompt
from reference_impl.settings import ServerSettings

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda import step
from reference_impl.engine.cuda.drawing import FastDraw
from reference_impl.engine.cuda.step import FullStep, SlotState

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1")
GROUPS, CODES, END, VOCABULARY, HIDDEN, MAX_SEQ_LEN, MAX_FRAMES = 4, 16, 18, 24, 48, 24, 6


def normed(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * gain


def turned(x: Tensor, rotary: tuple[Tensor, Tensor], position: int) -> Tensor:
    cos, sin = (table[position] for table in rotary)  # an IndexError behind the table's end
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def attended(heads: Tensor, norms, rotary, keys: Tensor, values: Tensor, at: int, position: int, eps: float) -> Tensor:
    """One new position at ``at`` of keys/values [kv_heads, positions, D], from heads [heads + 2 kv_heads, D]."""
    kv_heads, _, dim = keys.shape
    query, key, value = heads.split([len(heads) - 2 * kv_heads, kv_heads, kv_heads])
    keys[:, at] = turned(normed(key, norms[1], eps), rotary, position)
    values[:, at] = value
    query = turned(normed(query, norms[0], eps), rotary, position).view(kv_heads, -1, dim)
    shares = (query @ keys[:, : at + 1].transpose(1, 2) * dim**-0.5).softmax(-1)
    return (shares @ values[:, : at + 1]).flatten()


def frame_attention(qkv, norms, rotary, keys, values, out, rows, position, new, eps, pdl):
    dim = keys.shape[3]
    for place in range(rows * new):
        row, at = place // new, position + place % new
        heads = qkv[place].view(-1, dim)
        out[place] = attended(heads, norms, rotary, keys[row], values[row], at, at, eps)


def slot_attention(qkv, norms, rotary, keys, values, lengths, positions, out, rows, eps, pdl):
    for row in range(rows):
        heads, at, position = qkv[row].view(-1, keys.shape[3]), int(lengths[row]), int(positions[row])
        out[row] = attended(heads, norms, rotary, keys[row], values[row], at, position, eps)


class InterpretedBatch(DecodeBatch):
    """Steps with the kernels of the captured step, one after the other."""

    def __init__(self, model, settings, max_frames, pad):
        super().__init__(model, settings, max_frames, pad)
        self._active = torch.zeros(settings.max_batch, dtype=torch.long)
        state = SlotState(self._hidden, self._uniforms, self._counters, self._active, self._seen, self._trailing)
        draws = FastDraw.of(self._draw_code0, VOCABULARY), FastDraw.of(self._draw_rest, CODES)
        self.full = FullStep(model, self._cache, state, *draws, self._penalty, pdl=False)

    def step(self) -> np.ndarray:
        self._active[: self.count] = 1
        self.full.run(self.settings.max_batch)
        return self.full.result[: self.count].numpy().copy()


@pytest.fixture(scope="module")
def model() -> Model:
    config = small_config(HIDDEN)

    def narrow(stack):
        return dataclasses.replace(stack, num_layers=1, num_heads=2, num_kv_heads=1, head_dim=16, intermediate_size=32)

    predictor = PredictorConfig(
        dataclasses.replace(narrow(config.predictor.transformer), hidden_size=32), CODES, GROUPS
    )
    talker = dataclasses.replace(
        config.talker, transformer=narrow(config.talker.transformer), codec_vocab_size=VOCABULARY, codec_eos_id=END,
        first_suppressed_id=CODES,
    )  # fmt: skip
    config = dataclasses.replace(config, talker=talker, predictor=predictor)
    built = random_model(config, torch.device("cpu"), torch.float32, MAX_SEQ_LEN, 64, seed=1)
    for parameter in (*built.talker.parameters(), *built.predictor.parameters()):
        parameter.data = parameter.data.contiguous()  # a CPU has matrices by columns, the kernels read rows
    return built


@pytest.fixture(autouse=True)
def attention(monkeypatch):
    monkeypatch.setattr(step, "frame_attention", frame_attention)
    monkeypatch.setattr(step, "slot_attention", slot_attention)


def batch_of(kind: type[DecodeBatch], model: Model) -> DecodeBatch:
    settings = ServerSettings(device="cpu", max_batch=3, max_seq_len=MAX_SEQ_LEN, recorded=False)
    batch = kind(model, settings, MAX_FRAMES, torch.full((HIDDEN,), 0.1))
    for seed, length in enumerate((5, 9)):
        generator = torch.Generator().manual_seed(seed)
        embeds, trailing = (torch.randn(count, HIDDEN, generator=generator) for count in (length, seed))
        row = batch.allocate_slot(request_uniforms(seed, MAX_FRAMES + 1, GROUPS))
        batch.prefill(row, TalkerPrompt(embeds, torch.arange(length), length, trailing), 1000, None, 0)
    return batch


def test_codes_equal_eager_float32(model):
    with torch.inference_mode():
        want, got = (batch_of(kind, model) for kind in (DecodeBatch, InterpretedBatch))
        for _ in range(2):
            np.testing.assert_array_equal(got.step(), want.step())
        assert got._counters[1:5, 2].tolist() == [0] * 4, "an idle row counts nothing"
        torch.testing.assert_close(got._hidden[:2], want._hidden[:2], rtol=1e-4, atol=1e-5)


def test_the_last_step_of_the_longest_request_stays_within_its_tables_float32(model):
    """The step in vain behind the last frame: the cache, the rotary table, the random numbers, and the text are at
    their ends, and codebook 0 is the end token."""
    with torch.inference_mode():
        batch = batch_of(InterpretedBatch, model)
        last = MAX_SEQ_LEN - 1
        # a batch has one row of numbers more than frames; the first draw behind the step takes the last
        batch._counters[:, 0] = torch.tensor([END, last, last, MAX_FRAMES - 1, last, 0, MAX_SEQ_LEN])
        batch._trailing[0] = 0.1
        codes = batch.step()
        assert batch._counters[1:5, 0].tolist() == [last + 1, last + 1, MAX_FRAMES, last + 1]
    assert codes[0, 0] == END and (codes[:, 1:GROUPS] < CODES).all()
