"""The product of a decode step for up to 64 rows in bfloat16, on the matrix units.

Written in Gluon, Triton's dialect with explicit layouts, for one reason: with ``k_width`` 8
a thread loads the operands of the matrix unit straight from memory, 16 bytes of one row at a
time, and no weight takes a detour through shared memory. Each warp has a part of K; the parts
are added at the end, in a layout in which one thread holds all parts of its numbers. What is
computed is the same as in ``linear.py``.
"""

# ruff: noqa: RUF005, SIM108 - the kernels' language has no (*a, b), and two branches are read more easily

from __future__ import annotations

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

HOLD = gl.constexpr(
    """{
    .reg .u32 own;
    .reg .pred never;
    mov.u32 own, %tid.x;
    setp.eq.u32 never, own, 4294967295;
    shr.u32 own, own, 5;
    add.u32 own, own, 1;
    barrier.red.popc.u32 $0, own, 32, never;
    }"""
)
"""Each warp waits at a barrier of its own, so for nothing, and counts the threads that say yes, which none does."""


@gluon.jit
def _index(size: gl.constexpr, axis: gl.constexpr, layout: gl.constexpr):
    """0 ... size along one axis of three, in a layout of three axes."""
    if axis == 0:
        line = gl.arange(0, size, layout=gl.SliceLayout(1, gl.SliceLayout(2, layout)))
        cube = gl.expand_dims(gl.expand_dims(line, 1), 2)
    elif axis == 1:
        line = gl.arange(0, size, layout=gl.SliceLayout(0, gl.SliceLayout(2, layout)))
        cube = gl.expand_dims(gl.expand_dims(line, 0), 2)
    else:
        line = gl.arange(0, size, layout=gl.SliceLayout(0, gl.SliceLayout(0, layout)))
        cube = gl.expand_dims(gl.expand_dims(line, 0), 0)
    return cube


@gluon.jit
def _place(start, turn, K: gl.constexpr):
    """Where in K the part of a loop's ``start`` begins: every program begins ``turn`` further on."""
    at = start + turn
    return gl.where(at >= K, at - K, at)


@gluon.jit
def hold():
    """Zero, once all loads above this line are under way; for at most 15 warps.

    What is computed with it begins after them. Without that, the assembler moves a load down behind computations that
    wait for another one, and each load costs the memory's whole latency.
    """
    return gl.inline_asm_elementwise(HOLD, "=r", [], gl.int32, is_pure=False, pack=1)


@gluon.jit
def _read(
    weight_at, input_at, gain_at, at, n, weight_k, row3, rows, input_k,
    N: gl.constexpr, K: gl.constexpr, NORM: gl.constexpr, GATED: gl.constexpr, COLUMNS: gl.constexpr,
    BLOCKS: gl.constexpr, EVEN: gl.constexpr, WEIGHTS: gl.constexpr,
):  # fmt: skip
    """A part of K from ``at`` on. WEIGHTS: a tile for each block of columns (of gate, then of up), and the gains.
    Otherwise the inputs."""
    if WEIGHTS:
        tiles = ()
        for block in gl.static_range(BLOCKS * (2 if GATED else 1)):
            shift = block % BLOCKS * COLUMNS
            source = weight_at + shift * K + (block // BLOCKS) * (N * K) + at
            if EVEN:
                tile = gl.load(source)
            else:
                tile = gl.load(source, mask=(n + shift < N) & (at + weight_k < K), other=0.0)
            tiles = tiles + (tile,)
        if NORM:
            gains = gl.load(gain_at + at, mask=at + input_k < K, other=0.0)
        else:
            gains = 0
        result = (tiles, gains)
    else:
        result = gl.load(input_at + at, mask=(row3 < rows) & (at + input_k < K), other=0.0)
    return result


@gluon.jit(do_not_specialize=["rows"])
def few_rows_kernel(
    x, gain, weight, bias, residual, out, rows, x_stride, out_stride, eps,
    N: gl.constexpr, K: gl.constexpr, NORM: gl.constexpr, GATED: gl.constexpr, BIAS: gl.constexpr,
    RESIDUAL: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr, BLOCKS: gl.constexpr, GROUPS: gl.constexpr,
    CHUNK: gl.constexpr, AHEAD: gl.constexpr, TURN: gl.constexpr, SHARES: gl.constexpr, HELD: gl.constexpr,
    PDL: gl.constexpr,
):  # fmt: skip
    """See :func:`.linear.linear`. SHARES programs in a row have the same BLOCKS × COLUMNS, ROWS rows each."""
    units: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [GROUPS, 1, 1], [1, 16, 8])
    inputs_layout: gl.constexpr = gl.DotOperandLayout(0, units, 8)
    weights_layout: gl.constexpr = gl.DotOperandLayout(1, units, 8)
    # for the end: what is added up is in one thread
    cells: gl.constexpr = gl.BlockedLayout([GROUPS, 1, 2], [1, 64 // COLUMNS, COLUMNS // 2], [1, GROUPS, 1], [2, 1, 0])
    flat: gl.constexpr = gl.SliceLayout(0, cells)
    step: gl.constexpr = GROUPS * CHUNK
    parts: gl.constexpr = (K + step - 1) // step
    EVEN: gl.constexpr = N % (BLOCKS * COLUMNS) == 0 and K % step == 0
    if PDL:
        gdc_launch_dependents()
    # neighbours share weights, which the second of them finds in the L2 cache
    program = gl.program_id(0) // SHARES
    first_row = gl.program_id(0) % SHARES * ROWS
    # all programs read the same inputs: they take turns where to begin, so that not all ask for the same line
    turn = (program % parts) * step if TURN else 0
    first = program * (BLOCKS * COLUMNS)
    n = first + _index(COLUMNS, 2, weights_layout)
    weight_k = _index(GROUPS, 0, weights_layout) * CHUNK + _index(CHUNK, 1, weights_layout)
    weight_at = weight + n * K + weight_k
    input_k = _index(GROUPS, 0, inputs_layout) * CHUNK + _index(CHUNK, 2, inputs_layout)
    row3 = first_row + _index(ROWS, 1, inputs_layout)
    input_at = x + row3 * x_stride + input_k
    gain_at = gain + input_k
    # what is under way, oldest first: AHEAD parts of the weights, and behind the wait as many of the inputs
    weights = ()
    for part in gl.static_range(min(AHEAD, parts)):
        weights = weights + (_read(
            weight_at, input_at, gain_at, _place(part * step, turn, K), n, weight_k, row3, rows, input_k,
            N, K, NORM, GATED, COLUMNS, BLOCKS, EVEN, True,
        ),)  # fmt: skip
    if PDL:
        gdc_wait()

    inputs = ()
    for part in gl.static_range(min(AHEAD, parts)):
        inputs = inputs + (_read(
            weight_at, input_at, gain_at, _place(part * step, turn, K), n, weight_k, row3, rows, input_k,
            N, K, NORM, GATED, COLUMNS, BLOCKS, EVEN, False,
        ),)  # fmt: skip
    row = gl.expand_dims(first_row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, flat)), 1)
    column = gl.expand_dims(first + gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, flat)), 0)
    old = ()
    if RESIDUAL:
        for block in gl.static_range(BLOCKS):
            there = column + block * COLUMNS
            old = old + (gl.load(residual + row * N + there, mask=(row < rows) & (there < N), other=0.0),)
    totals = ()
    for _ in gl.static_range(BLOCKS * (2 if GATED else 1)):
        totals = totals + (gl.zeros((GROUPS, ROWS, COLUMNS), gl.float32, layout=units),)
    squares = gl.zeros((GROUPS, ROWS), gl.float32, layout=gl.SliceLayout(2, inputs_layout))
    for part in gl.static_range(parts):
        tiles, gains = weights[0]
        now = inputs[0]
        weights, inputs = weights[1:], inputs[1:]
        if part + AHEAD < parts:
            # ask for a later part before working on this one
            later = _place((part + AHEAD) * step, turn, K)
            weights = weights + (_read(
                weight_at, input_at, gain_at, later, n, weight_k, row3, rows, input_k,
                N, K, NORM, GATED, COLUMNS, BLOCKS, EVEN, True,
            ),)  # fmt: skip
            inputs = inputs + (_read(
                weight_at, input_at, gain_at, later, n, weight_k, row3, rows, input_k,
                N, K, NORM, GATED, COLUMNS, BLOCKS, EVEN, False,
            ),)  # fmt: skip
        if HELD and (part == 0 or part + AHEAD < parts):
            now = now + hold().to(now.dtype)
        if NORM:
            wide = now.to(gl.float32)
            squares += gl.sum(wide * wide, 2)
            now = now * gains  # rounded once, as the product in float32 would be
        sums = ()
        for block in gl.static_range(BLOCKS * (2 if GATED else 1)):
            sums = sums + (mma_v2(now, tiles[block], totals[block]),)
        totals = sums

    if NORM:
        square = gl.sum(gl.convert_layout(squares, gl.SliceLayout(2, cells)), 0)
        scale = gl.expand_dims(gl.convert_layout(gl.rsqrt(square / K + eps), gl.SliceLayout(1, flat)), 1)
    for block in gl.static_range(BLOCKS):
        y = gl.sum(gl.convert_layout(totals[block], cells), 0)
        if NORM:
            y = y * scale
        if GATED:
            up = gl.sum(gl.convert_layout(totals[BLOCKS + block], cells), 0)
            if NORM:
                up = up * scale
            y = y / (1.0 + gl.exp(-y)) * up
        there = column + block * COLUMNS
        if BIAS:
            y = y + gl.load(bias + there, mask=there < N, other=0.0).to(gl.float32)
        if RESIDUAL:
            y = y + old[block].to(gl.float32)
        gl.store(out + row * out_stride + there, y.to(out.dtype.element_ty), mask=(row < rows) & (there < N))
