"""Matrix products of a decode step, each with everything around it that needs no other program's result.

With at most 64 rows a step is bound by reading every weight once, and by the number of
kernels on its dependent chain. So one kernel does norm + product + SwiGLU, or product +
residual. Its programs ask for their first weights *before* they wait for the kernel in front
of them (programmatic dependent launch, compute capability 9.0 and later), so that the memory
stays busy while the chain is waiting.

The sum over K is cut into ``groups`` that different warps compute, and always in the same
way: a row's result does not depend on the other rows nor on their number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from reference_impl.engine.cuda.few_rows import few_rows_kernel

ROWS_EACH = (16, 32, 64)
"""Rows that a program on the matrix units can take."""
MOST_HELD = 15
"""Warps with a barrier of their own; a program has 16, and one is for all."""


@dataclass(frozen=True)
class Tile:
    """How a program works: output ``columns``, the part of K it takes at a time (``groups`` × ``chunk``), warps.

    ``dot``: on the matrix units (rows are padded to 16); otherwise by plain multiplications, for one row.
    ``ahead``: how many parts are requested before the first is used, 1 or 2. ``turn``: programs begin at
    different parts, for K that has whole ones only. ``rows``: the most that one program takes, 16, 32 or 64.
    ``blocks``: a program has that many times ``columns``. ``held``: what is requested ahead is, before anything is
    computed, which takes more registers (see :func:`.few_rows.hold`). The last five count in ``few_rows.py`` alone.
    """

    columns: int
    groups: int
    chunk: int
    warps: int
    dot: bool = True
    ahead: int = 1
    turn: bool = False
    rows: int = 64
    blocks: int = 1
    held: bool = False

    def shares(self, rows: int) -> int:
        """How many programs have the same columns, for ``rows`` rows, a power of two."""
        return max(1, rows // self.rows)


@triton.jit
def _load_weights(weight, columns, start, N: tl.constexpr, K: tl.constexpr, GROUPS: tl.constexpr, CHUNK: tl.constexpr,
                  DOT: tl.constexpr):  # fmt: skip
    """Part of ``weight`` [N, K] from K = start on: [GROUPS, CHUNK, COLUMNS], or without DOT [COLUMNS, CHUNK]."""
    if DOT:
        k = (start + tl.arange(0, GROUPS)[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :])[:, :, None]
        n = columns[None, None, :]
    else:
        k = start + tl.arange(0, CHUNK)[None, :]
        n = columns[:, None]
    return tl.load(weight + n.to(tl.int64) * K + k, mask=(n < N) & (k < K), other=0.0)


@triton.jit
def _load_inputs(x, start, rows, x_stride, K: tl.constexpr, ROWS: tl.constexpr, GROUPS: tl.constexpr,
                 CHUNK: tl.constexpr, DOT: tl.constexpr):  # fmt: skip
    """Part of ``x`` [rows, K] from K = start on: [GROUPS, ROWS, CHUNK], or [1, CHUNK] for the only row."""
    if DOT:
        k = (start + tl.arange(0, GROUPS)[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :])[:, None, :]
        row = tl.arange(0, ROWS)[None, :, None]
        inputs = tl.load(x + row * x_stride + k, mask=(row < rows) & (k < K), other=0.0)
    else:
        k = start + tl.arange(0, CHUNK)[None, :]
        inputs = tl.load(x + k, mask=k < K, other=0.0)
    return inputs


@triton.jit(do_not_specialize=["rows"])
def linear_kernel(
    x, gain, weight, bias, residual, out, rows, x_stride, out_stride, eps,
    N: tl.constexpr, K: tl.constexpr, NORM: tl.constexpr, GATED: tl.constexpr, BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUPS: tl.constexpr, CHUNK: tl.constexpr,
    DOT: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """See :func:`linear`. Program n computes columns n × COLUMNS ... of every row."""
    if PDL:
        gdc_launch_dependents()
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    step: tl.constexpr = GROUPS * CHUNK
    tile = _load_weights(weight, columns, 0, N, K, GROUPS, CHUNK, DOT)
    if GATED:
        up_tile = _load_weights(weight + N * K, columns, 0, N, K, GROUPS, CHUNK, DOT)
    if PDL:
        gdc_wait()

    inputs = _load_inputs(x, 0, rows, x_stride, K, ROWS, GROUPS, CHUNK, DOT)
    row = tl.arange(0, ROWS)[:, None]
    column = columns[None, :]
    mask = (row < rows) & (column < N)
    if RESIDUAL:
        old = tl.load(residual + row * N + column, mask=mask, other=0.0)
    if DOT:
        squares = tl.zeros((GROUPS, ROWS), tl.float32)
        total = tl.zeros((GROUPS, ROWS, COLUMNS), tl.float32)
    else:
        squares = tl.zeros((1, CHUNK), tl.float32)
        total = tl.zeros((COLUMNS, CHUNK), tl.float32)
    up_total = total
    for start in tl.range(0, K, step):
        if step < K:
            # ask for the next part before working on this one (after the last nothing is read)
            next_tile = _load_weights(weight, columns, start + step, N, K, GROUPS, CHUNK, DOT)
            next_inputs = _load_inputs(x, start + step, rows, x_stride, K, ROWS, GROUPS, CHUNK, DOT)
            if GATED:
                next_up_tile = _load_weights(weight + N * K, columns, start + step, N, K, GROUPS, CHUNK, DOT)
        if NORM:
            if DOT:
                k = (start + tl.arange(0, GROUPS)[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :])[:, None, :]
            else:
                k = start + tl.arange(0, CHUNK)[None, :]
            wide = inputs.to(tl.float32)
            squares += tl.sum(wide * wide, 2) if DOT else wide * wide
            inputs = (wide * tl.load(gain + k, mask=k < K, other=0.0).to(tl.float32)).to(inputs.dtype)
        if DOT:
            total = tl.dot(inputs, tile, total, input_precision="ieee")
            if GATED:
                up_total = tl.dot(inputs, up_tile, up_total, input_precision="ieee")
        else:
            wide = inputs.to(tl.float32)
            total += wide * tile.to(tl.float32)
            if GATED:
                up_total += wide * up_tile.to(tl.float32)
        if step < K:
            tile = next_tile
            inputs = next_inputs
            if GATED:
                up_tile = next_up_tile

    if DOT:
        y = tl.sum(total, 0)
        mean = tl.sum(squares, 0)[:, None] / K
        up = tl.sum(up_total, 0)
    else:
        y = tl.sum(total, 1)[None, :]
        mean = tl.sum(squares, 1)[:, None] / K
        up = tl.sum(up_total, 1)[None, :]
    if NORM:
        scale = tl.rsqrt(mean + eps)
        y *= scale
        up *= scale
    if GATED:
        y = y * tl.sigmoid(y) * up
    if BIAS:
        y += tl.load(bias + column, mask=column < N, other=0.0).to(tl.float32)
    if RESIDUAL:
        y += old.to(tl.float32)
    tl.store(out + row * out_stride + column, y, mask=mask)


def linear(
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    rows: int,
    tile: Tile,
    *,
    gain: Tensor | None = None,
    eps: float = 0.0,
    gated: bool = False,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    pdl: bool = False,
) -> None:
    """out[:rows] = f(x[:rows]) for x [>= rows, K] and weight [N, K] (``gated``: [2N, K], gate above up).

    f in order: RMSNorm with ``gain`` [K]; the product; silu(gate) × up; + ``bias`` [N]; +
    ``residual`` [>= rows, N], which may be ``out``. Sums are float32; rounded once at the end,
    and once before the product. ``x`` and ``out`` may have row strides of their own.
    """
    k = weight.shape[1]
    n = weight.shape[0] // 2 if gated else weight.shape[0]
    if not tile.dot and rows != 1:
        raise ValueError(f"a tile without dot is for one row, not {rows}")
    if tile.held and tile.groups > MOST_HELD:
        raise ValueError(f"a tile that is held has at most {MOST_HELD} groups, not {tile.groups}")
    if tile.rows not in ROWS_EACH:
        raise ValueError(f"a program takes one of {ROWS_EACH} rows, not {tile.rows}")
    block = max(16, triton.next_power_of_2(rows)) if tile.dot else 1
    nothing = x
    arguments = (
        x,
        nothing if gain is None else gain,
        weight,
        nothing if bias is None else bias,
        nothing if residual is None else residual,
        out,
        rows,
        x.stride(0),
        out.stride(0),
        eps,
    )
    few = tile.dot and weight.dtype == torch.bfloat16
    blocks, shares, warps = (tile.blocks, tile.shares(block), tile.groups) if few else (1, 1, tile.warps)
    grid = (triton.cdiv(n, tile.columns * blocks) * shares,)
    fixed = {
        "N": n,
        "K": k,
        "NORM": gain is not None,
        "GATED": gated,
        "BIAS": bias is not None,
        "RESIDUAL": residual is not None,
        "ROWS": block,
        "COLUMNS": tile.columns,
        "GROUPS": tile.groups,
        "CHUNK": tile.chunk,
        "PDL": pdl,
        "launch_pdl": pdl,
    }
    if few:
        turn = tile.turn and k % (tile.groups * tile.chunk) == 0
        fixed["ROWS"] = block // shares
        few_rows_kernel[grid](
            *arguments,
            **fixed,
            BLOCKS=blocks,
            AHEAD=tile.ahead,
            TURN=turn,
            SHARES=shares,
            HELD=tile.held,
            num_warps=warps,
        )
    else:
        linear_kernel[grid](*arguments, **fixed, DOT=tile.dot, num_warps=warps)
