"""The product of a decode step for 2 to 64 rows in bfloat16, on the matrix units.

Written in Gluon, Triton's dialect with explicit layouts, for one reason: with ``k_width`` 8
a thread loads the operands of the matrix unit straight from memory, 16 bytes of one row at a
time, and no weight takes a detour through shared memory. Each warp has a part of K; the parts
are added at the end, in a layout in which one thread holds all parts of its numbers. What is
computed is the same as in ``linear.py``.
"""

from __future__ import annotations

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.ampere import mma_v2
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


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


@gluon.jit(do_not_specialize=["rows"])
def few_rows_kernel(
    x, gain, weight, bias, residual, out, rows, x_stride, out_stride, eps,
    N: gl.constexpr, K: gl.constexpr, NORM: gl.constexpr, GATED: gl.constexpr, BIAS: gl.constexpr,
    RESIDUAL: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr, GROUPS: gl.constexpr, CHUNK: gl.constexpr,
    AHEAD: gl.constexpr, TURN: gl.constexpr, SHARES: gl.constexpr, PDL: gl.constexpr,
):  # fmt: skip
    """See :func:`.linear.linear`. SHARES programs in a row have the same COLUMNS, ROWS rows each."""
    units: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [GROUPS, 1, 1], [1, 16, 8])
    inputs_layout: gl.constexpr = gl.DotOperandLayout(0, units, 8)
    weights_layout: gl.constexpr = gl.DotOperandLayout(1, units, 8)
    # for the end: what is added up is in one thread
    cells: gl.constexpr = gl.BlockedLayout([GROUPS, 1, 2], [1, 64 // COLUMNS, COLUMNS // 2], [1, GROUPS, 1], [2, 1, 0])
    flat: gl.constexpr = gl.SliceLayout(0, cells)
    step: gl.constexpr = GROUPS * CHUNK
    parts: gl.constexpr = (K + step - 1) // step
    if PDL:
        gdc_launch_dependents()
    # neighbours share weights, which the second of them finds in the L2 cache
    program = gl.program_id(0) // SHARES
    first_row = gl.program_id(0) % SHARES * ROWS
    # all programs read the same inputs: they take turns where to begin, so that not all ask for the same line
    turn = (program % parts) * step if TURN else 0
    first = program * COLUMNS
    n = first + _index(COLUMNS, 2, weights_layout)
    weight_k = _index(GROUPS, 0, weights_layout) * CHUNK + _index(CHUNK, 1, weights_layout)
    weight_at = weight + n * K + weight_k
    input_k = _index(GROUPS, 0, inputs_layout) * CHUNK + _index(CHUNK, 2, inputs_layout)
    row3 = first_row + _index(ROWS, 1, inputs_layout)
    input_at = x + row3 * x_stride + input_k
    # what is under way, oldest first: AHEAD parts of the weights, and behind the wait as many of the inputs
    at = _place(0, turn, K)
    tile = gl.load(weight_at + at, mask=(n < N) & (at + weight_k < K), other=0.0)
    if GATED:
        up_tile = gl.load(weight_at + N * K + at, mask=(n < N) & (at + weight_k < K), other=0.0)
    if NORM:
        gains = gl.load(gain + at + input_k, mask=at + input_k < K, other=0.0)
    if AHEAD == 2 and parts > 1:
        second = _place(step, turn, K)
        tile2 = gl.load(weight_at + second, mask=(n < N) & (second + weight_k < K), other=0.0)
        if GATED:
            up_tile2 = gl.load(weight_at + N * K + second, mask=(n < N) & (second + weight_k < K), other=0.0)
        if NORM:
            gains2 = gl.load(gain + second + input_k, mask=second + input_k < K, other=0.0)
    if PDL:
        gdc_wait()

    inputs = gl.load(input_at + at, mask=(row3 < rows) & (at + input_k < K), other=0.0)
    if AHEAD == 2 and parts > 1:
        inputs2 = gl.load(input_at + second, mask=(row3 < rows) & (second + input_k < K), other=0.0)
    row = gl.expand_dims(first_row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, flat)), 1)
    column = gl.expand_dims(first + gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, flat)), 0)
    mask = (row < rows) & (column < N)
    if RESIDUAL:
        old = gl.load(residual + row * N + column, mask=mask, other=0.0).to(gl.float32)
    total = gl.zeros((GROUPS, ROWS, COLUMNS), gl.float32, layout=units)
    up_total = total
    squares = gl.zeros((GROUPS, ROWS), gl.float32, layout=gl.SliceLayout(2, inputs_layout))
    for part in gl.static_range(parts):
        if part + AHEAD < parts:
            # ask for a later part before working on this one
            later = _place((part + AHEAD) * step, turn, K)
            next_tile = gl.load(weight_at + later, mask=(n < N) & (later + weight_k < K), other=0.0)
            if GATED:
                next_up_tile = gl.load(weight_at + N * K + later, mask=(n < N) & (later + weight_k < K), other=0.0)
            next_inputs = gl.load(input_at + later, mask=(row3 < rows) & (later + input_k < K), other=0.0)
            if NORM:
                next_gains = gl.load(gain + later + input_k, mask=later + input_k < K, other=0.0)
        if NORM:
            wide = inputs.to(gl.float32)
            squares += gl.sum(wide * wide, 2)
            inputs = inputs * gains  # rounded once, as the product in float32 would be
        total = mma_v2(inputs, tile, total)
        if GATED:
            up_total = mma_v2(inputs, up_tile, up_total)
        if AHEAD == 2 and part + 1 < parts:
            tile = tile2
            inputs = inputs2
            if GATED:
                up_tile = up_tile2
            if NORM:
                gains = gains2
            if part + 2 < parts:
                tile2 = next_tile
                inputs2 = next_inputs
                if GATED:
                    up_tile2 = next_up_tile
                if NORM:
                    gains2 = next_gains
        if AHEAD == 1 and part + 1 < parts:
            tile = next_tile
            inputs = next_inputs
            if GATED:
                up_tile = next_up_tile
            if NORM:
                gains = next_gains

    y = gl.sum(gl.convert_layout(total, cells), 0)
    if NORM:
        square = gl.sum(gl.convert_layout(squares, gl.SliceLayout(2, cells)), 0)
        scale = gl.expand_dims(gl.convert_layout(gl.rsqrt(square / K + eps), gl.SliceLayout(1, flat)), 1)
        y = y * scale
    if GATED:
        up = gl.sum(gl.convert_layout(up_total, cells), 0)
        if NORM:
            up = up * scale
        y = y / (1.0 + gl.exp(-y)) * up
    if BIAS:
        y = y + gl.load(bias + column, mask=column < N, other=0.0).to(gl.float32)
    if RESIDUAL:
        y = y + old
    gl.store(out + row * out_stride + column, y.to(out.dtype.element_ty), mask=mask)
