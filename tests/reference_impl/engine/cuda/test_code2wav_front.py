"""What stands before Code2Wav's decoder, in pieces, against the modules it is made of."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from small_model import DEVICE, needs_kernels
from torch import Tensor, nn

from reference_impl.model.code2wav import SplitQuantizer, UpsampleStage
from reference_impl.model.code2wav_layers import CausalConv, CausalTransposedConv, StreamState, WindowTransformer
from reference_impl.model.presets import TINY

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda.code2wav import FastQuantizer, FastTransformer, FastUpsample
from reference_impl.engine.cuda.gating import gate

pytestmark = needs_kernels
SLOTS = 5
CALLS = (1, 2, 8, 1, 3, 8)
"""Frames of one call after the other: fewer and more than a history holds."""


def random_module(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(4)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.2
    for name, child in module.named_modules():
        child.name = name or "module"
        if isinstance(child, CausalConv):
            child.prepare()
    return module.to(DEVICE)


def module_state(module: nn.Module) -> StreamState:
    tensors = {
        child.name: torch.zeros((SLOTS, *child.state_shape()), device=DEVICE)
        for child in module.modules()
        if hasattr(child, "state_shape") and 0 not in child.state_shape()
    }
    return StreamState(tensors, torch.zeros(SLOTS, dtype=torch.long, device=DEVICE))


def calls(channels: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """(streams, how many frames of each count, inputs [B, T, channels]): some streams sit out a call."""
    generator = torch.Generator().manual_seed(5)
    rows, less = ([3, 0, 4], [0, 3, 1]), (0, 2, 7)
    return [
        (
            torch.tensor(rows[i % 2], device=DEVICE),
            torch.tensor([max(1, frames - less[(i + stream) % 3]) for stream in range(3)], device=DEVICE),
            torch.randn(3, frames, channels, generator=generator).to(DEVICE),
        )
        for i, frames in enumerate(CALLS)
    ]


def test_transformer_float32() -> None:
    config = dataclasses.replace(TINY.code2wav, num_layers=2)  # the interpreter takes its time
    module = random_module(WindowTransformer(config, 64))
    module.rotary.fill()
    state = module_state(module)
    histories = [torch.zeros_like(state.tensors[layer.name]) for layer in module.layers]
    fast, heard = FastTransformer(module, histories), torch.zeros(SLOTS, dtype=torch.long, device=DEVICE)
    for rows, lengths, x in calls(config.latent_dim):
        got = fast(x, rows, lengths, heard)
        for stream, (row, length) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True)):
            state.rows = slice(row, row + 1)
            want = module(x[stream : stream + 1, :length], state)
            torch.testing.assert_close(got[stream : stream + 1, :length], want, rtol=1e-4, atol=1e-4)
            state.frames[row] += length
        heard[rows] += lengths
        for layer, history in zip(module.layers, histories, strict=True):
            torch.testing.assert_close(history, state.tensors[layer.name], rtol=1e-4, atol=1e-4)


def test_a_stream_that_is_never_reset_stays_within_the_rotary_table_float32() -> None:
    config = TINY.code2wav
    module = random_module(WindowTransformer(config, 64))
    table = module.rotary.table
    # behind a table of 64 positions lies what must not be read
    module.rotary.table = torch.cat([table, torch.full_like(table, float("nan"))])[:64]
    fast = FastTransformer(module, [torch.zeros(SLOTS, *layer.state_shape(), device=DEVICE) for layer in module.layers])
    x = torch.randn(2, 8, config.latent_dim, generator=torch.Generator().manual_seed(6)).to(DEVICE)
    heard = torch.tensor([60, 0, 100, 0, 0], device=DEVICE)
    assert fast(x, *torch.tensor([[0, 2], [8, 8]], device=DEVICE), heard).isfinite().all()


@pytest.mark.parametrize("channels", [48, 80])
def test_upsampling_float32(channels: int) -> None:
    module = random_module(UpsampleStage(channels, 2))
    assert isinstance(module.transposed, CausalTransposedConv)
    state = module_state(module)
    fast = FastUpsample(module, torch.zeros(SLOTS, module.block.dwconv.history, channels, device=DEVICE))
    for rows, lengths, x in calls(channels):
        got = fast(x, rows, lengths, x.shape[1])
        for stream, (row, length) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True)):
            state.rows = slice(row, row + 1)
            want = module(x[stream : stream + 1, :length].transpose(1, 2), state).transpose(1, 2)
            torch.testing.assert_close(got[stream : stream + 1, : want.shape[1]], want, rtol=1e-4, atol=1e-4)


def test_quantizer_float32() -> None:
    config = SimpleNamespace(codebook_dim=24, num_code_groups=16, codebook_size=30)
    module = random_module(SplitQuantizer(config))
    codes = torch.randint(30, (3, 16, 5), generator=torch.Generator().manual_seed(6)).to(DEVICE)
    torch.testing.assert_close(FastQuantizer(module)(codes), module(codes), rtol=1e-4, atol=1e-5)


def test_gate_float32() -> None:
    both = torch.randn(3, 7, 2 * 37, generator=torch.Generator().manual_seed(7)).to(DEVICE)
    first, second = both.chunk(2, dim=-1)
    torch.testing.assert_close(gate(both), nn.functional.silu(first) * second)
