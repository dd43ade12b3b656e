"""From logits to the next input: top-k, temperature, the draw and the gather of an embedding in one kernel.

The k-th largest logit is found without a sort: its bits are fixed two at a time, from the top,
by counting how many logits are at least as large (a radix search). Ties with it stay in, and
ids are drawn in rising order, as :func:`reference_impl.model.sampling.draw_by_id` does.
"""

# ruff: noqa: SIM108 - two branches are read more easily than one long line

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from reference_impl.model.sampling import Draw


@triton.jit
def _kth_largest(logits, COUNT: tl.constexpr, BITS: tl.constexpr):
    """The COUNT-th largest of ``logits`` [SIZE] float32 of which only the upper BITS bits are in use."""
    signed = logits.to(tl.int32, bitcast=True)
    # flips the order of negative numbers, then lifts everything above zero
    ordered = signed ^ ((signed >> 31) & 0x7FFFFFFF)
    if BITS == 16:  # two numbers of 32 bits are compared faster than two of 64
        keys = (ordered >> 16) + (1 << 15)
    else:
        keys = ordered.to(tl.int64) + (tl.full((), 1, tl.int64) << 31)
    one = tl.full((), 1, keys.dtype)
    found = tl.zeros((), keys.dtype)
    for digit in tl.static_range(BITS // 2):
        unit = one << (BITS - 2 - 2 * digit)
        # three counts of at most 2^16 in one sum
        reached = (keys >= found + unit).to(tl.int64)
        reached += (keys >= found + 2 * unit).to(tl.int64) << 20
        reached += (keys >= found + 3 * unit).to(tl.int64) << 40
        counts = tl.sum(reached, 0)
        for place in tl.static_range(3):
            found += tl.where(((counts >> (20 * place)) & 0xFFFFF) >= COUNT, unit, 0)
    if BITS == 16:
        key = (found - (1 << 15)) << 16
    else:
        key = (found - (one << 31)).to(tl.int32)
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _draw(logits, ids, number, temperature, TOP_K: tl.constexpr, GREEDY: tl.constexpr, BITS: tl.constexpr):
    """One of ``ids`` [SIZE] by logits [SIZE] float32 (-inf: never) and a uniform number."""
    if GREEDY:
        # with a NaN among the logits any id could win, even one that is not in the vocabulary
        code = tl.argmax(tl.where(logits == logits, logits, float("-inf")), 0)
    else:
        if TOP_K > 0:
            # adding zero turns -0 into 0, which compares equal but has other bits
            logits = tl.where(logits >= _kth_largest(logits + 0.0, TOP_K, BITS), logits, float("-inf"))
        logits = logits / temperature
        shares = tl.exp(logits - tl.max(logits, 0))
        rising = tl.cumsum(shares, 0)
        possible = shares > 0
        hit = possible & (rising > number * tl.max(rising, 0))
        first = tl.min(tl.where(hit, ids, 1 << 30), 0)
        # rounding can leave nothing above the number
        code = tl.minimum(first, tl.max(tl.where(possible, ids, 0), 0))
    return code


@triton.jit
def draw_rest_kernel(
    logits, uniforms, frames, result, tables, inputs, frame_stride, temperature, group,
    GROUPS: tl.constexpr, VOCABULARY: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, WIDTH_BLOCK: tl.constexpr,
    TOP_K: tl.constexpr, GREEDY: tl.constexpr, BITS: tl.constexpr, LAST: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Code ``group`` of one row, and the code predictor's input made of it (not for the last group)."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.program_id(0)
    ids = tl.arange(0, SIZE)
    number = tl.load(uniforms + row.to(tl.int64) * frame_stride + tl.load(frames + row) * GROUPS + group)
    values = tl.load(logits + row * VOCABULARY + ids, mask=ids < VOCABULARY, other=float("-inf")).to(tl.float32)
    code = _draw(values, ids, number, temperature, TOP_K, GREEDY, BITS)
    tl.store(result + row * (GROUPS + 1) + group, code.to(tl.int64))
    if not LAST:
        lane = tl.arange(0, WIDTH_BLOCK)
        source = tables + (code + group * VOCABULARY).to(tl.int64) * WIDTH + lane
        tl.store(inputs + row * WIDTH + lane, tl.load(source, mask=lane < WIDTH), mask=lane < WIDTH)


@triton.jit
def draw_first_kernel(
    logits, uniforms, frames, result, code0, segment_frames, min_frames, seen, frame_stride, temperature, penalty,
    GROUPS: tl.constexpr, VOCABULARY: tl.constexpr, SIZE: tl.constexpr, END: tl.constexpr, SUPPRESSED: tl.constexpr,
    PENALISE: tl.constexpr, TOP_K: tl.constexpr, GREEDY: tl.constexpr, BITS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Code 0 of one row's next frame: repetition penalty, end token masked early on, suppressed ids, the draw."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.program_id(0)
    ids = tl.arange(0, SIZE)
    inside = ids < VOCABULARY
    number = tl.load(uniforms + row.to(tl.int64) * frame_stride + tl.load(frames + row) * GROUPS)
    values = tl.load(logits + row * VOCABULARY + ids, mask=inside, other=float("-inf")).to(tl.float32)
    if PENALISE:
        again = tl.load(seen + row * VOCABULARY + ids, mask=inside, other=0) != 0
        values = tl.where(again, tl.where(values > 0, values / penalty, values * penalty), values)
    allowed = inside & ((ids < SUPPRESSED) | (ids == END))
    early = tl.load(segment_frames + row) < tl.load(min_frames + row)
    allowed = allowed & ((ids != END) | (early == 0))
    code = _draw(tl.where(allowed, values, float("-inf")), ids, number, temperature, TOP_K, GREEDY, BITS)
    tl.store(code0 + row, code.to(tl.int64))
    tl.store(result + row * (GROUPS + 1) + GROUPS, code.to(tl.int64))
    if PENALISE:
        tl.store(seen + row * VOCABULARY + code, 1)


@triton.jit
def begin_frame_kernel(
    hidden, code0, tables, inputs, result,
    GROUPS: tl.constexpr, WIDTH: tl.constexpr, WIDTH_BLOCK: tl.constexpr, COPY: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Position 1 of a frame's inputs (COPY: and 0, for equal widths of the two models); code 0 to the result."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.program_id(0)
    lane = tl.arange(0, WIDTH_BLOCK)
    mask = lane < WIDTH
    code = tl.load(code0 + row)
    tl.store(result + row * (GROUPS + 1), code)
    tl.store(inputs + (2 * row + 1) * WIDTH + lane, tl.load(tables + code * WIDTH + lane, mask=mask), mask=mask)
    if COPY:
        tl.store(inputs + 2 * row * WIDTH + lane, tl.load(hidden + row * WIDTH + lane, mask=mask), mask=mask)


@triton.jit
def embed_frame_kernel(
    result, first_table, tables, trailing, segment_frames, trailing_lengths, out, trailing_stride,
    GROUPS: tl.constexpr, VOCABULARY: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, TRAILING: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """The talker's next input: the sum of a frame's embeddings and of the text vector that is due."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.program_id(0)
    lane = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = lane < WIDTH
    codes = result + row * (GROUPS + 1)
    total = tl.load(first_table + tl.load(codes) * WIDTH + lane, mask=mask, other=0.0).to(tl.float32)
    for group in tl.static_range(1, GROUPS):
        entry = tl.load(codes + group) + (group - 1) * VOCABULARY
        total += tl.load(tables + entry * WIDTH + lane, mask=mask, other=0.0).to(tl.float32)
    if TRAILING:
        due = tl.minimum(tl.load(segment_frames + row), tl.load(trailing_lengths + row))
        text = trailing + row.to(tl.int64) * trailing_stride + due * WIDTH
        total += tl.load(text + lane, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row * WIDTH + lane, total, mask=mask)


@triton.jit
def end_frame_kernel(
    x, gain, out, counters, active, eps, rows,
    FIRST: tl.constexpr, COUNT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """RMSNorm of one row, and its counters FIRST ... FIRST + COUNT advance by one if its slot is taken."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    mask = lane < WIDTH
    wide = tl.load(x + row * WIDTH + lane, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / WIDTH + eps)
    tl.store(out + row * WIDTH + lane, wide * scale * tl.load(gain + lane, mask=mask).to(tl.float32), mask=mask)
    counter = counters + (FIRST + tl.arange(0, COUNT)) * rows + row
    tl.store(counter, tl.load(counter) + tl.load(active + row))


@dataclass(frozen=True)
class FastDraw:
    """What the kernels need of a :class:`reference_impl.model.sampling.Draw`."""

    temperature: float
    top_k: int
    greedy: bool

    @classmethod
    def of(cls, draw: Draw, vocabulary: int) -> FastDraw | None:
        """None if this draw has no kernel: a nucleus."""
        if draw.temperature <= 0:
            return cls(1.0, 0, True)
        if draw.top_p < 1.0:
            return None
        return cls(draw.temperature, draw.top_k if draw.top_k < vocabulary else 0, False)


def key_bits(logits: Tensor) -> int:
    """How many upper bits of a float32 tell two logits of this type apart."""
    return 16 if logits.dtype == torch.bfloat16 else 32
