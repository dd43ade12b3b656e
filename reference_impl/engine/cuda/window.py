"""Code2Wav's sliding-window attention: rotary embedding, the stream's history, softmax and the new history at once.

A program has one head of one stream. It puts the history's keys and values and the new ones
into one tile, attends, and writes the ``window - 1`` rows before the stream's end back.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

LEAST_ROWS = 16  # of a product on the matrix units


@triton.jit
def _rotated(vectors, stride, cos, sin, rows, positions, last, mask, DIM: tl.constexpr):
    """Rows ``rows`` of ``vectors`` after the rotary embedding, in float32 [rows, DIM]; ``sin`` has its sign."""
    lane = tl.arange(0, DIM)[None, :]
    at = vectors + rows[:, None] * stride
    plain = tl.load(at + lane, mask=mask[:, None], other=0.0)
    swapped = tl.load(at + (lane + DIM // 2) % DIM, mask=mask[:, None], other=0.0)
    turn = tl.minimum(positions, last)[:, None] * (2 * DIM) + lane
    c = tl.load(cos + turn, mask=mask[:, None], other=0.0).to(plain.dtype).to(tl.float32)
    s = tl.load(sin + turn, mask=mask[:, None], other=0.0).to(plain.dtype).to(tl.float32)
    return plain.to(tl.float32) * c + swapped.to(tl.float32) * s


@triton.jit
def window_attention_kernel(
    qkv, table, history, slots, lengths, frames, out, positions, slot_stride, scale,
    HEADS: tl.constexpr, DIM: tl.constexpr, KEPT: tl.constexpr, NEW: tl.constexpr, QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):  # fmt: skip
    """See :func:`window_attention`. Program (stream, head)."""
    stream, head = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + stream)
    heard = tl.load(frames + slot)
    end = positions - 1  # of the table
    dtype: tl.constexpr = qkv.dtype.element_ty
    width: tl.constexpr = 3 * HEADS * DIM
    here = qkv + stream.to(tl.int64) * (NEW * width) + head * DIM
    lane = tl.arange(0, DIM)[None, :]

    # key j is row j of the history, then the new ones
    key = tl.arange(0, KEYS)
    old, new = key < KEPT, (key >= KEPT) & (key < KEPT + NEW)
    kept = history + slot * slot_stride + head * (KEPT * DIM)
    old_at = key[:, None] * DIM + lane
    fresh = key - KEPT
    fresh_keys = _rotated(here + HEADS * DIM, width, table, table + DIM, fresh, heard + fresh, end, new, DIM).to(dtype)
    keys = tl.where(old[:, None], tl.load(kept + old_at, mask=old[:, None], other=0.0), fresh_keys)
    values = tl.load(kept + HEADS * KEPT * DIM + old_at, mask=old[:, None], other=0.0)
    fresh_at = here + 2 * HEADS * DIM + fresh[:, None] * width + lane
    values = tl.where(old[:, None], values, tl.load(fresh_at, mask=new[:, None], other=0.0))

    query = tl.arange(0, QUERIES)
    asks = query < NEW
    queries = _rotated(here, width, table, table + DIM, query, heard + query, end, asks, DIM).to(dtype)
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
    distance = KEPT + query[:, None] - key[None, :]
    seen = (distance >= 0) & (distance <= KEPT) & (heard + key - KEPT >= 0)[None, :]
    scores = tl.where(seen, scores, float("-inf"))
    shares = tl.exp(scores - tl.max(scores, 1)[:, None])
    total = tl.sum(shares, 1)[:, None]
    result = tl.dot(shares.to(dtype), values, input_precision="ieee") / total
    target = out + (stream * NEW + query[:, None]).to(tl.int64) * (HEADS * DIM) + head * DIM + lane
    tl.store(target, result, mask=asks[:, None])

    tl.debug_barrier()  # the history is read by all before it is overwritten
    count = tl.load(lengths + stream).to(tl.int32)
    stays = ((key >= count) & (key < KEPT + count))[:, None]
    tl.store(kept + old_at - count * DIM, keys, mask=stays)
    tl.store(kept + HEADS * KEPT * DIM + old_at - count * DIM, values, mask=stays)


def window_attention(
    qkv: Tensor, table: Tensor, history: Tensor, slots: Tensor, lengths: Tensor, frames: Tensor, out: Tensor, new: int
) -> None:
    """``new`` positions of each of some streams, of which the first ``lengths`` count, after those that they keep.

    qkv [streams × new, 3 × heads × D]; table [positions, 2, D] float32 as of
    :class:`reference_impl.model.layers.RotaryTable`; history [all slots, 2, heads, window - 1, D], which is
    renewed; slots, lengths [streams], each slot a different one; frames [all slots]: positions heard before
    -> out [streams × new, heads × D]. Beyond the end of the table its last position is used: what a chunk is filled up
    with may reach it.
    """
    _, _, heads, kept, dim = history.shape
    window_attention_kernel[(len(slots), heads)](
        qkv, table, history, slots, lengths, frames, out, len(table), history.stride(0), dim**-0.5,
        HEADS=heads, DIM=dim, KEPT=kept, NEW=new,
        QUERIES=max(LEAST_ROWS, triton.next_power_of_2(new)), KEYS=max(LEAST_ROWS, triton.next_power_of_2(kept + new)),
    )  # fmt: skip
