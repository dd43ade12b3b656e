"""The product of a decode step for 2 to 64 rows in bfloat16, on the matrix units.

Written in Gluon, Triton's dialect with explicit layouts, for one reason: with ``k_width`` 8
a thread loads the operands of the matrix unit straight from memory, 16 bytes of one row at a
time, and no weight takes a detour through shared memory. Each warp has a part of K; the parts
are added at the end. What is computed is the same as in ``linear.py``.
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


@gluon.jit(do_not_specialize=["rows"])
def few_rows_kernel(
    x, gain, weight, bias, residual, out, rows, x_stride, out_stride, eps,
    N: gl.constexpr, K: gl.constexpr, NORM: gl.constexpr, GATED: gl.constexpr, BIAS: gl.constexpr,
    RESIDUAL: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr, GROUPS: gl.constexpr, CHUNK: gl.constexpr,
    PDL: gl.constexpr,
):  # fmt: skip
    """See :func:`reference_impl.fast.linear.linear`. Program n computes columns n × COLUMNS ... of every row."""
    units: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [GROUPS, 1, 1], [1, 16, 8])
    inputs_layout: gl.constexpr = gl.DotOperandLayout(0, units, 8)
    weights_layout: gl.constexpr = gl.DotOperandLayout(1, units, 8)
    step: gl.constexpr = GROUPS * CHUNK
    if PDL:
        gdc_launch_dependents()
    first = gl.program_id(0) * COLUMNS
    n = first + _index(COLUMNS, 2, weights_layout)
    weight_k = _index(GROUPS, 0, weights_layout) * CHUNK + _index(CHUNK, 1, weights_layout)
    weight_at = weight + n * K + weight_k
    tile = gl.load(weight_at, mask=(n < N) & (weight_k < K), other=0.0)
    if GATED:
        up_tile = gl.load(weight_at + N * K, mask=(n < N) & (weight_k < K), other=0.0)
    input_k = _index(GROUPS, 0, inputs_layout) * CHUNK + _index(CHUNK, 2, inputs_layout)
    row3 = _index(ROWS, 1, inputs_layout)
    if NORM:
        gains = gl.load(gain + input_k, mask=input_k < K, other=0.0)
    if PDL:
        gdc_wait()

    inputs = gl.load(x + row3 * x_stride + input_k, mask=(row3 < rows) & (input_k < K), other=0.0)
    flat: gl.constexpr = gl.SliceLayout(0, units)
    row = gl.expand_dims(gl.arange(0, ROWS, layout=gl.SliceLayout(1, flat)), 1)
    column = gl.expand_dims(first + gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, flat)), 0)
    mask = (row < rows) & (column < N)
    if RESIDUAL:
        old = gl.load(residual + row * N + column, mask=mask, other=0.0).to(gl.float32)
    total = gl.zeros((GROUPS, ROWS, COLUMNS), gl.float32, layout=units)
    up_total = total
    squares = gl.zeros((GROUPS, ROWS), gl.float32, layout=gl.SliceLayout(2, inputs_layout))
    for start in gl.static_range(0, K, step):
        if start + step < K:
            # ask for the next part before working on this one
            inside = start + step + weight_k < K
            next_tile = gl.load(weight_at + start + step, mask=(n < N) & inside, other=0.0)
            if GATED:
                next_up_tile = gl.load(weight_at + N * K + start + step, mask=(n < N) & inside, other=0.0)
            k = start + step + input_k
            next_inputs = gl.load(x + row3 * x_stride + k, mask=(row3 < rows) & (k < K), other=0.0)
            if NORM:
                next_gains = gl.load(gain + k, mask=k < K, other=0.0)
        if NORM:
            wide = inputs.to(gl.float32)
            squares += gl.sum(wide * wide, 2)
            inputs = (wide * gains.to(gl.float32)).to(inputs.dtype)
        total = mma_v2(inputs, tile, total)
        if GATED:
            up_total = mma_v2(inputs, up_tile, up_total)
        if start + step < K:
            tile = next_tile
            inputs = next_inputs
            if GATED:
                up_tile = next_up_tile
            if NORM:
                gains = next_gains

    y = gl.sum(total, 0)
    if NORM:
        scale = gl.rsqrt(gl.convert_layout(gl.sum(squares, 0), gl.SliceLayout(1, flat)) / K + eps)
        scale = gl.expand_dims(scale, 1)
        y = y * scale
    if GATED:
        up = gl.sum(up_total, 0)
        if NORM:
            up = up * scale
        y = y / (1.0 + gl.exp(-y)) * up
    if BIAS:
        y = y + gl.load(bias + column, mask=column < N, other=0.0).to(gl.float32)
    if RESIDUAL:
        y = y + old
    gl.store(out + row * out_stride + column, y.to(out.dtype.element_ty), mask=mask)
