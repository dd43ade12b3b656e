"""Attention of a decode step: head norm, rotary embedding, cache write and softmax in one kernel.

Two kernels for the two caches, in Gluon (Triton with explicit layouts). A program has one row
and one query head. Every tensor is cut into threads in the same way: 8 lanes of a warp share
a position and have 8 neighbouring numbers of each half of the head (the two halves are all
that the rotate-half layout needs), so that nothing is exchanged between warps before the end.
The new key never takes the way through the cache before it is attended to.
"""

# ruff: noqa: RUF005 - the kernels' language has no (*a, b)

from __future__ import annotations

import triton
import triton.experimental.gluon.language as gl
from torch import Tensor
from triton.experimental import gluon
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from reference_impl.engine.cuda.few_rows import hold

FRAME_WARPS = 1
FEW_ROWS = 8
SLOT_CUT = {True: (64, 8, True), False: (32, 2, False)}
"""For few rows or more: cached positions at a time, warps, and whether all loads of a turn are under way before the
first is used. With more rows many small programs hide each other's loads, and more registers would leave room for
fewer of them (one H200, 128 positions; at 32 rows 60 us a layer, all five kernels, instead of 70)."""


@gluon.jit
def _halves(pointer, DIM: gl.constexpr, lane: gl.constexpr):
    """A vector of DIM numbers as two halves in float32."""
    at = pointer + gl.arange(0, DIM // 2, layout=lane)
    return gl.load(at).to(gl.float32), gl.load(at + DIM // 2).to(gl.float32)


@gluon.jit
def _store_halves(pointer, first, second, DIM: gl.constexpr, lane: gl.constexpr):
    at = pointer + gl.arange(0, DIM // 2, layout=lane)
    gl.store(at, first.to(pointer.dtype.element_ty))
    gl.store(at + DIM // 2, second.to(pointer.dtype.element_ty))


@gluon.jit
def _norm_rotate(first, second, gain1, gain2, cos, sin, eps, DIM: gl.constexpr):
    """RMSNorm, then the rotary embedding, of a head given as two halves in float32."""
    scale = gl.rsqrt((gl.sum(first * first, 0) + gl.sum(second * second, 0)) / DIM + eps)
    first = first * scale * gain1
    second = second * scale * gain2
    return first * cos - second * sin, second * cos + first * sin


@gluon.jit
def _rotary(cos, sin, position, dtype: gl.constexpr, DIM: gl.constexpr, lane: gl.constexpr):
    """cos and sin of a position, rounded to the model's type unless they are; the second half repeats the first."""
    at = position * DIM + gl.arange(0, DIM // 2, layout=lane)
    return gl.load(cos + at).to(dtype).to(gl.float32), gl.load(sin + at).to(dtype).to(gl.float32)


@gluon.jit(do_not_specialize=["position"])
def frame_attention_kernel(
    qkv, q_gain, k_gain, cos, sin, keys, values, out, position, eps, scale,
    NEW: gl.constexpr, POSITIONS: gl.constexpr, BLOCK: gl.constexpr, WARPS: gl.constexpr, KV_HEADS: gl.constexpr,
    GROUP: gl.constexpr, DIM: gl.constexpr, PDL: gl.constexpr,
):  # fmt: skip
    """See :func:`frame_attention`. Program (row, query head, new position); BLOCK: at least ``position``, or 0.

    A program has few warps and goes through its code once: what counts is the number of instructions.
    """
    cells: gl.constexpr = gl.BlockedLayout([1, 8], [512 // DIM, DIM // 16], [WARPS, 1], [1, 0])
    lane: gl.constexpr = gl.SliceLayout(0, cells)
    row_layout: gl.constexpr = gl.SliceLayout(1, cells)
    dtype: gl.constexpr = keys.dtype.element_ty
    width: gl.constexpr = KV_HEADS * (GROUP + 2) * DIM
    if PDL:
        gdc_launch_dependents()
    row, head, new = gl.program_id(0), gl.program_id(1), gl.program_id(2)
    kv_head = head // GROUP
    q_gain1, q_gain2 = _halves(q_gain, DIM, lane)
    k_gain1, k_gain2 = _halves(k_gain, DIM, lane)
    turns = ()
    for other in gl.static_range(NEW):
        turns = turns + (_rotary(cos, sin, position + other, dtype, DIM, lane),)
    if NEW == 1:
        c, s = turns[0]
    else:
        c, s = _rotary(cos, sin, position + new, dtype, DIM, lane)
    if PDL:
        gdc_wait()
    # everything is asked for before the first of it is used
    q1, q2 = _halves(qkv + (row * NEW + new) * width + head * DIM, DIM, lane)
    fresh = ()
    for other in gl.static_range(NEW):
        source = qkv + (row * NEW + other) * width
        new1, new2 = _halves(source + (KV_HEADS * GROUP + kv_head) * DIM, DIM, lane)
        value1, value2 = _halves(source + (KV_HEADS * (GROUP + 1) + kv_head) * DIM, DIM, lane)
        fresh = fresh + ((new1, new2, value1, value2),)
    slot = (row * KV_HEADS + kv_head) * POSITIONS
    if BLOCK > 0:
        here = gl.arange(0, BLOCK, layout=row_layout)
        cell = gl.expand_dims(here, 1)
        at = (slot + cell) * DIM + gl.expand_dims(gl.arange(0, DIM // 2, layout=lane), 0)
        seen = cell < position
        # keys of an earlier frame may be read: their scores do not count
        k1 = gl.load(keys + at)
        k2 = gl.load(keys + at + DIM // 2)
        v1 = gl.load(values + at, mask=seen, other=0.0)
        v2 = gl.load(values + at + DIM // 2, mask=seen, other=0.0)
    zero = hold().to(gl.float32)
    q1, q2 = _norm_rotate(q1 + zero, q2 + zero, q_gain1, q_gain2, c, s, eps, DIM)
    top = float("-inf")
    if BLOCK > 0:
        scores = gl.sum(gl.expand_dims(q1, 0) * k1.to(gl.float32) + gl.expand_dims(q2, 0) * k2.to(gl.float32), 1)
        scores = gl.where(here < position, scores * scale, float("-inf"))
        top = gl.max(scores, 0)
    own = ()
    for other in gl.static_range(NEW):
        new1, new2, value1, value2 = fresh[other]
        cosine, sine = turns[other]
        new1, new2 = _norm_rotate(new1 + zero, new2 + zero, k_gain1, k_gain2, cosine, sine, eps, DIM)
        new1, new2 = new1.to(dtype), new2.to(dtype)
        if (other == new) & (head % GROUP == 0):
            target = (slot + position + other) * DIM
            _store_halves(keys + target, new1, new2, DIM, lane)
            _store_halves(values + target, value1, value2, DIM, lane)
        score = gl.sum(q1 * new1.to(gl.float32) + q2 * new2.to(gl.float32), 0) * scale
        score = gl.where(other <= new, score, float("-inf"))
        own = own + (score,)
        top = gl.maximum(top, score)
    total = 0.0
    result1 = gl.zeros((DIM // 2,), gl.float32, layout=lane)
    result2 = gl.zeros((DIM // 2,), gl.float32, layout=lane)
    if BLOCK > 0:
        shares = gl.exp(scores - top)
        total = gl.sum(shares, 0)
        shares = gl.expand_dims(shares, 1)
        result1 = gl.sum(shares * v1.to(gl.float32), 0)
        result2 = gl.sum(shares * v2.to(gl.float32), 0)
    for other in gl.static_range(NEW):
        share = gl.exp(own[other] - top)
        _, _, value1, value2 = fresh[other]
        total += share
        result1 += share * value1
        result2 += share * value2
    target = out + ((row * NEW + new) * KV_HEADS * GROUP + head) * DIM
    _store_halves(target, result1 / total, result2 / total, DIM, lane)


@gluon.jit
def slot_attention_kernel(
    qkv, q_gain, k_gain, cos, sin, keys, values, lengths, positions, out, slot_stride, head_stride, eps, scale,
    BLOCK: gl.constexpr, WARPS: gl.constexpr, KV_HEADS: gl.constexpr, GROUP: gl.constexpr, DIM: gl.constexpr,
    HELD: gl.constexpr, PDL: gl.constexpr,
):  # fmt: skip
    """See :func:`slot_attention`. Program (row, query head).

    Each of the BLOCK places keeps a softmax of its own over the positions that fall to it; they are joined at the end.
    """
    cells: gl.constexpr = gl.BlockedLayout([1, 8], [512 // DIM, DIM // 16], [WARPS, 1], [1, 0])
    lane: gl.constexpr = gl.SliceLayout(0, cells)
    place_layout: gl.constexpr = gl.SliceLayout(1, cells)
    dtype: gl.constexpr = keys.dtype.element_ty
    if PDL:
        gdc_launch_dependents()
    row, head = gl.program_id(0), gl.program_id(1)
    kv_head = head // GROUP
    # lengths and what is cached come from earlier steps: no need to wait for the kernels in front
    length = gl.load(lengths + row).to(gl.int32)
    position = gl.load(positions + row).to(gl.int32)
    q_gain1, q_gain2 = _halves(q_gain, DIM, lane)
    k_gain1, k_gain2 = _halves(k_gain, DIM, lane)
    c, s = _rotary(cos, sin, position, dtype, DIM, lane)
    slot = row.to(gl.int64) * slot_stride + kv_head * head_stride
    place = gl.arange(0, BLOCK, layout=place_layout)
    cell = gl.expand_dims(place, 1)
    at = slot + cell * DIM + gl.expand_dims(gl.arange(0, DIM // 2, layout=lane), 0)
    seen = cell < length
    k1 = gl.load(keys + at, mask=seen, other=0.0)
    k2 = gl.load(keys + at + DIM // 2, mask=seen, other=0.0)
    v1 = gl.load(values + at, mask=seen, other=0.0)
    v2 = gl.load(values + at + DIM // 2, mask=seen, other=0.0)
    if PDL:
        gdc_wait()

    source = qkv + row * (KV_HEADS * (GROUP + 2) * DIM)
    q1, q2 = _halves(source + head * DIM, DIM, lane)
    new1, new2 = _halves(source + (KV_HEADS * GROUP + kv_head) * DIM, DIM, lane)
    value1, value2 = _halves(source + (KV_HEADS * (GROUP + 1) + kv_head) * DIM, DIM, lane)
    zero = hold().to(gl.float32) if HELD else 0.0
    q1, q2 = _norm_rotate(q1 + zero, q2 + zero, q_gain1, q_gain2, c, s, eps, DIM)
    new1, new2 = _norm_rotate(new1, new2, k_gain1, k_gain2, c, s, eps, DIM)
    if head % GROUP == 0:
        target = slot + length * DIM
        _store_halves(keys + target, new1, new2, DIM, lane)
        _store_halves(values + target, value1, value2, DIM, lane)
    new1 = new1.to(dtype).to(gl.float32)
    new2 = new2.to(dtype).to(gl.float32)
    # the first place begins with the new position, the others with nothing
    own = gl.sum(q1 * new1 + q2 * new2, 0) * scale
    top = gl.where(place == 0, own, float("-inf"))
    total = gl.where(place == 0, 1.0, 0.0)
    begin = gl.expand_dims(total, 1)
    result1 = begin * gl.expand_dims(value1, 0)
    result2 = begin * gl.expand_dims(value2, 0)
    query1, query2 = gl.expand_dims(q1, 0), gl.expand_dims(q2, 0)
    for start in range(0, length, BLOCK):
        coming = cell + start + BLOCK < length
        next_at = at + (start + BLOCK) * DIM
        next_k1 = gl.load(keys + next_at, mask=coming, other=0.0)
        next_k2 = gl.load(keys + next_at + DIM // 2, mask=coming, other=0.0)
        next_v1 = gl.load(values + next_at, mask=coming, other=0.0)
        next_v2 = gl.load(values + next_at + DIM // 2, mask=coming, other=0.0)
        zero = hold().to(gl.float32) if HELD else 0.0
        scores = gl.sum((query1 + zero) * k1.to(gl.float32) + (query2 + zero) * k2.to(gl.float32), 1) * scale
        higher = gl.where(place + start < length, gl.maximum(top, scores), top)
        # a place that has seen nothing yet has nothing to shrink
        shrink = gl.where(total > 0, gl.exp(top - higher), 0.0)
        share = gl.where(place + start < length, gl.exp(scores - higher), 0.0)
        total = total * shrink + share
        shrink2, share2 = gl.expand_dims(shrink, 1), gl.expand_dims(share, 1)
        result1 = result1 * shrink2 + share2 * v1.to(gl.float32)
        result2 = result2 * shrink2 + share2 * v2.to(gl.float32)
        top = higher
        k1, k2, v1, v2 = next_k1, next_k2, next_v1, next_v2
    part = gl.where(total > 0, gl.exp(top - gl.max(top, 0)), 0.0)
    part2 = gl.expand_dims(part / gl.sum(total * part, 0), 1)
    target = out + (row * KV_HEADS * GROUP + head) * DIM
    _store_halves(target, gl.sum(result1 * part2, 0), gl.sum(result2 * part2, 0), DIM, lane)


def frame_attention(
    qkv: Tensor, norms: tuple[Tensor, Tensor], rotary: tuple[Tensor, Tensor], keys: Tensor, values: Tensor, out: Tensor,
    rows: int, position: int, new: int, eps: float, pdl: bool = False,
) -> None:  # fmt: skip
    """``new`` positions, from ``position`` on, of frames whose earlier ones are cached.

    qkv [rows × new, (heads + 2 kv_heads) × D]; norms: gains of query and key [D]; rotary: cos,
    sin [positions, D] float32; keys/values [rows, kv_heads, positions, D] -> out [rows × new, heads × D].
    """
    kv_heads, positions, dim = keys.shape[1:]
    group = qkv.shape[1] // dim // kv_heads - 2
    frame_attention_kernel[(rows, kv_heads * group, new)](
        qkv, *norms, *rotary, keys, values, out, position, eps, dim**-0.5, NEW=new,
        POSITIONS=positions, BLOCK=min(positions, max(4, triton.next_power_of_2(position))) if position else 0,
        WARPS=FRAME_WARPS, KV_HEADS=kv_heads, GROUP=group, DIM=dim, PDL=pdl, num_warps=FRAME_WARPS, launch_pdl=pdl,
    )  # fmt: skip


def slot_attention(
    qkv: Tensor, norms: tuple[Tensor, Tensor], rotary: tuple[Tensor, Tensor], keys: Tensor, values: Tensor,
    lengths: Tensor, positions: Tensor, out: Tensor, rows: int, eps: float, pdl: bool = False,
) -> None:  # fmt: skip
    """One new position for each row, after lengths[row] earlier ones; its cost follows each row's own length.

    qkv [rows, (heads + 2 kv_heads) × D]; keys/values [slots, kv_heads, max_len, D]; lengths,
    positions (rotary) [rows] -> out [rows, heads × D].
    """
    kv_heads, _, dim = keys.shape[1:]
    group = qkv.shape[1] // dim // kv_heads - 2
    block, warps, held = SLOT_CUT[rows <= FEW_ROWS]
    slot_attention_kernel[(rows, kv_heads * group)](
        qkv, *norms, *rotary, keys, values, lengths, positions, out, keys.stride(0), keys.stride(1), eps, dim**-0.5,
        BLOCK=block, WARPS=warps, KV_HEADS=kv_heads, GROUP=group, DIM=dim, HELD=held, PDL=pdl, num_warps=warps,
        launch_pdl=pdl,
    )  # fmt: skip
