"""The convolutions of Code2Wav, channels last, each with what surrounds it.

Everything between 50 Hz and 24 kHz is one kind of kernel: a causal convolution as a matrix
product over taps × channels, then bias, residual, and the SnakeBeta of the layer that reads it. A
transposed convolution of kernel 2s and stride s is one as well: two taps (this input and the
one before), s × channels outputs. An input has its history in front of it, in one buffer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.language.extra.cuda import libdevice

from reference_impl.model.code2wav_layers import SnakeBeta


@triton.jit(do_not_specialize=["steps", "per_frame"])
def exchange_kernel(
    buffer, state, slots, lengths, steps, per_frame, slot_stride,
    HISTORY: tl.constexpr, ROWS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A stream's history into the rows before its ``steps`` new ones; the history becomes what is before its end."""
    stream = tl.program_id(0)
    row = tl.arange(0, ROWS)[:, None]
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    mask = (row < HISTORY) & (channel < CHANNELS)
    here = buffer + stream.to(tl.int64) * (HISTORY + steps) * CHANNELS + channel
    kept = state + tl.load(slots + stream) * slot_stride + channel
    old = tl.load(kept + row * CHANNELS, mask=mask, other=0.0)
    later = row + tl.load(lengths + stream).to(tl.int32) * per_frame
    shifted = tl.load(kept + later * CHANNELS, mask=mask & (later < HISTORY), other=0.0)
    fresh = tl.load(here + later * CHANNELS, mask=mask & (later >= HISTORY), other=0.0)
    tl.debug_barrier()  # the history is read by all before it is overwritten
    tl.store(here + row * CHANNELS, old, mask=mask)
    tl.store(kept + row * CHANNELS, tl.where(later < HISTORY, shifted, fresh), mask=mask)


@triton.jit(do_not_specialize=["count", "steps", "dilation", "next_history"])
def convolution_kernel(
    x, weight, bias, residual, raw, activated, frequency, gain, count, steps, dilation, next_history,
    TAPS: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, UP: tl.constexpr, RESIDUAL: tl.constexpr,
    RAW: tl.constexpr, ACTIVATED: tl.constexpr, WAVE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """See :meth:`Convolution.run`. Program (block of outputs, block of stream × step)."""
    width: tl.constexpr = UP * OUTPUTS
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    stream, step = m // steps, m % steps
    begin = (stream.to(tl.int64) * (steps + (TAPS - 1) * dilation) + step) * INPUTS
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for part in tl.range(0, TAPS * (INPUTS // BLOCK_K)):
        tap = part // (INPUTS // BLOCK_K)
        channel = (part % (INPUTS // BLOCK_K)) * BLOCK_K + k
        inputs = tl.load(
            x + begin[:, None] + tap * dilation * INPUTS + channel[None, :], mask=(m < count)[:, None], other=0.0
        )
        weights = tl.load(
            weight + (tap * INPUTS + channel)[:, None] * width + n[None, :], mask=(n < width)[None, :], other=0.0
        )
        total = tl.dot(inputs, weights, total, input_precision="ieee")
    mask = (m < count)[:, None] & (n < width)[None, :]
    total += tl.load(bias + n % OUTPUTS, mask=n < width, other=0.0).to(tl.float32)[None, :]
    flat = m[:, None].to(tl.int64) * width + n[None, :]
    if RESIDUAL:
        total += tl.load(residual + flat, mask=mask, other=0.0).to(tl.float32)
    if RAW:
        tl.store(raw + flat, total, mask=mask)
    if ACTIVATED:
        phase = total * tl.load(frequency + n % OUTPUTS, mask=n < width, other=0.0).to(tl.float32)[None, :]
        # sin² repeats itself after π: near zero the fast sine is exact to 2^-20
        turns = tl.floor(phase * 0.3183098861837907 + 0.5)
        wave = libdevice.fast_sinf((phase - turns * 3.140625) - turns * 0.0009676535897932)
        total += wave * wave * tl.load(gain + n % OUTPUTS, mask=n < width, other=0.0).to(tl.float32)[None, :]
        line = stream.to(tl.int64) * (next_history + steps * UP) + next_history + step * UP
        tl.store(activated + line[:, None] * OUTPUTS + n[None, :], total, mask=mask)
    if WAVE:
        # the wave is in the model's type before it becomes 16 bits
        clamped = tl.minimum(tl.maximum(total.to(raw.dtype.element_ty).to(tl.float32), -1.0), 1.0) * 32767.0
        # adding and taking away 1.5 × 2^23 rounds to the nearest integer, halves to even
        tl.store(activated + flat, (clamped + 12582912.0 - 12582912.0).to(tl.int16), mask=mask)


@triton.jit(do_not_specialize=["per_frame"])
def depthwise_kernel(
    x, weight, bias, history, slots, lengths, out, per_frame, slot_stride,
    STEPS: tl.constexpr, TAPS: tl.constexpr, CHANNELS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """See :func:`depthwise`. Program (stream, block of channels)."""
    stream = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    inside = channel < CHANNELS
    here = x + stream.to(tl.int64) * (STEPS * CHANNELS) + channel
    kept = history + tl.load(slots + stream) * slot_stride + channel
    total = tl.load(bias + channel, mask=inside, other=0.0).to(tl.float32) + tl.zeros((ROWS, BLOCK), tl.float32)
    for tap in tl.static_range(TAPS):
        source = row + tap - (TAPS - 1)  # below zero: in the history, whose last row is -1
        fresh = tl.load(here + source * CHANNELS, mask=inside & (source >= 0) & (row < STEPS), other=0.0)
        old = tl.load(kept + (source + TAPS - 1) * CHANNELS, mask=inside & (source < 0), other=0.0)
        factor = tl.load(weight + tap * CHANNELS + channel, mask=inside, other=0.0).to(tl.float32)
        total += tl.where(source < 0, old, fresh).to(tl.float32) * factor
    # what the history becomes: its rows are those at the end of the stream
    count = tl.load(lengths + stream).to(tl.int32) * per_frame
    later = row + count - (TAPS - 1)
    next_fresh = tl.load(here + later * CHANNELS, mask=inside & (later >= 0) & (row < TAPS - 1), other=0.0)
    next_old = tl.load(kept + (row + count) * CHANNELS, mask=inside & (later < 0), other=0.0)
    tl.debug_barrier()  # the history is read by all before it is overwritten
    tl.store(kept + row * CHANNELS, tl.where(later < 0, next_old, next_fresh), mask=inside & (row < TAPS - 1))
    target = out + stream.to(tl.int64) * (STEPS * CHANNELS) + row * CHANNELS + channel
    tl.store(target, total, mask=inside & (row < STEPS))


@dataclass(frozen=True)
class Convolution:
    """Weights [taps, inputs, up × outputs] of one convolution, whose input has ``history`` rows of the past."""

    weight: Tensor
    bias: Tensor
    dilation: int
    up: int

    @classmethod
    def of(cls, conv: nn.Conv1d) -> Convolution:
        """From weights [outputs, inputs, taps]."""
        return cls(conv.weight.permute(2, 1, 0).contiguous(), conv.bias, conv.dilation[0], 1)

    @classmethod
    def of_transposed(cls, conv: nn.ConvTranspose1d) -> Convolution:
        """From weights [inputs, outputs, 2 × stride]; tap 0 is the input before, whose second half falls here."""
        (inputs, outputs, _), stride = conv.weight.shape, conv.stride[0]
        halves = conv.weight.view(inputs, outputs, 2, stride).permute(2, 0, 3, 1)  # [half, inputs, stride, outputs]
        return cls(halves.flip(0).reshape(2, inputs, stride * outputs).contiguous(), conv.bias, 1, stride)

    @property
    def history(self) -> int:
        """Rows of the past that an output looks back to."""
        return (self.weight.shape[0] - 1) * self.dilation

    def run(
        self, x: Tensor, streams: int, steps: int, *, residual: Tensor | None = None, raw: Tensor | None = None,
        act: SnakeBeta | None = None, activated: Tensor | None = None, next_history: int = 0, wave: bool = False,
    ) -> None:  # fmt: skip
        """``x`` holds [streams, history + steps, inputs]; results are for the ``steps`` new rows of every stream.

        y = convolution + bias (+ ``residual`` [streams, steps × up, outputs]) goes to ``raw`` in the
        same shape; ``act``(y) to ``activated`` [streams, next_history + steps × up, outputs], behind
        its history; ``wave``: clamped to [-1, 1] as 16-bit samples to ``activated`` [streams, steps].
        """
        taps, inputs, width = self.weight.shape
        count = streams * steps
        block_m, block_n, block_k, warps, stages = tile_of(count, taps, inputs, width)
        nothing = x
        convolution_kernel[(triton.cdiv(width, block_n), triton.cdiv(count, block_m))](
            x, self.weight, self.bias, nothing if residual is None else residual, nothing if raw is None else raw,
            nothing if activated is None else activated, self.bias if act is None else act.frequency,
            self.bias if act is None else act.gain, count, steps, self.dilation, next_history,
            TAPS=taps, INPUTS=inputs, OUTPUTS=width // self.up, UP=self.up, RESIDUAL=residual is not None,
            RAW=raw is not None, ACTIVATED=act is not None, WAVE=wave, BLOCK_M=block_m, BLOCK_N=block_n,
            BLOCK_K=block_k, num_warps=warps, num_stages=stages,
        )  # fmt: skip


def tile_of(count: int, taps: int, inputs: int, width: int) -> tuple[int, int, int, int, int]:
    """What a program of :func:`convolution_kernel` takes: rows and columns of outputs, inputs at a time, warps, stages.

    Measured on one H200 for the decoder's layers, in a call of 32 streams and 8 frames (issue 18). Where several
    programs have the same rows, each reads all their inputs: 96 columns are better a part of 128 than three times 32.
    """
    at_a_time = 64 if inputs % 64 == 0 else 32 if inputs % 32 == 0 else 16
    if count <= 64:
        return 32, 32, at_a_time, 4, 4
    whole = [size for size in (128, 64) if width % size == 0]
    part = min(128 if taps > 1 else 32, max(16, triton.next_power_of_2(width)))
    warps = 8 if taps > 2 and width >= 768 else 4
    return 128, [*whole, part][0], at_a_time, warps, 3


def exchange(
    buffer: Tensor, state: Tensor, slots: Tensor, lengths: Tensor, streams: int, steps: int, frames: int
) -> None:
    """Put the histories of ``slots`` before the new rows in ``buffer`` [streams, history + steps, C], and renew them.

    state [all slots, history, C]; lengths [streams]: how many of the ``frames`` that ``steps`` rows are count.
    """
    _, history, channels = state.shape
    block = min(128, triton.next_power_of_2(channels))
    exchange_kernel[(streams, triton.cdiv(channels, block))](
        buffer, state, slots, lengths, steps, steps // frames, state.stride(0), HISTORY=history,
        ROWS=triton.next_power_of_2(history), CHANNELS=channels, BLOCK=block,
    )  # fmt: skip


def depthwise(
    x: Tensor, weight: Tensor, bias: Tensor, history: Tensor, slots: Tensor, lengths: Tensor, frames: int
) -> Tensor:
    """A causal convolution of every channel by itself: x [streams, steps, C] -> the same shape.

    weight [taps, C]; bias [C]; history [all slots, taps - 1, C], which is renewed; slots [streams];
    lengths and ``frames`` as of :func:`exchange`.
    """
    streams, steps, channels = x.shape
    taps, out = len(weight), torch.empty_like(x)
    block = min(64, triton.next_power_of_2(channels))
    depthwise_kernel[(streams, triton.cdiv(channels, block))](
        x, weight, bias, history, slots, lengths, out, steps // frames, history.stride(0), STEPS=steps, TAPS=taps,
        CHANNELS=channels, ROWS=triton.next_power_of_2(max(steps, taps - 1)), BLOCK=block,
    )  # fmt: skip
    return out
