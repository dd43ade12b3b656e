"""The matrix product kernels against float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from small_model import DEVICE, INTERPRETED, needs_kernels

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda.linear import Tile, linear

pytestmark = needs_kernels
EPS = 1e-6


@pytest.mark.parametrize("options", [(), ("norm",), ("norm", "gated"), ("residual",), ("bias",)], ids="-".join)
@pytest.mark.parametrize(("rows", "each"), [(1, 64), (2, 64), (33, 64), (33, 16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_product(dtype: torch.dtype, rows: int, each: int, options: set[str]) -> None:
    if INTERPRETED and dtype == torch.bfloat16:
        pytest.skip("a Gluon kernel has no interpreter")
    if dtype == torch.float32 and each < 64:
        pytest.skip("only the kernel for bfloat16 shares rows")
    # dependent launches where there are any, in the type that they are used with
    pdl = dtype == torch.bfloat16 and torch.cuda.get_device_capability() >= (9, 0)
    n, k = 80, 160  # neither is a multiple of the tile
    generator = torch.Generator(DEVICE).manual_seed(rows)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=DEVICE).to(dtype)

    x, gain = random(rows, k), random(k)
    weight = (random(2 * n if "gated" in options else n, k) * k**-0.5).to(dtype)
    bias, residual = random(n), random(rows, n)
    out = torch.full((rows + 1, n), float("nan"), device=DEVICE, dtype=dtype)
    linear(
        x, weight, out, rows, Tile(16, 1, 64, 4, dot=False) if rows == 1 else Tile(16, 4, 32, 4, rows=each),
        gain=gain if "norm" in options else None, eps=EPS, gated="gated" in options,
        bias=bias if "bias" in options else None, residual=residual if "residual" in options else None, pdl=pdl,
    )  # fmt: skip
    wide = x.double()
    if "norm" in options:
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * gain.double()
    want = wide @ weight.double().T
    if "gated" in options:
        gate, up = want.chunk(2, dim=-1)
        want = F.silu(gate) * up
    if "bias" in options:
        want = want + bias.double()
    if "residual" in options:
        want = want + residual.double()
    error = ((out[:rows].double() - want).norm() / want.norm()).item()
    assert error < (1e-5 if dtype == torch.float32 else 6e-3)
    assert out[rows].isnan().all(), "a row that is not there was written"


@pytest.mark.skipif(INTERPRETED, reason="a Gluon kernel has no interpreter")
@pytest.mark.parametrize(
    ("parts", "ahead", "turn", "columns", "each", "blocks", "held"),
    [
        (1, 2, True, 8, 64, 1, False),
        (2, 2, False, 32, 64, 1, True),
        (5, 1, True, 16, 16, 1, False),
        (5, 2, True, 32, 16, 1, True),
        (5, 2, False, 8, 16, 3, True),  # 24 columns a program, and the last one has fewer
        (1, 1, False, 16, 64, 3, False),
    ],
)
def test_ways_to_read_ahead_and_to_share_rows(
    parts: int, ahead: int, turn: bool, columns: int, each: int, blocks: int, held: bool
) -> None:
    n, k, rows = 80, 256 * parts, 19
    generator = torch.Generator(DEVICE).manual_seed(parts)
    x, gain, weight = (
        torch.randn(shape, generator=generator, device=DEVICE).bfloat16() for shape in ((rows, k), (k,), (2 * n, k))
    )
    out = torch.empty(rows, n, device=DEVICE, dtype=torch.bfloat16)
    tile = Tile(columns, 4, 64, 4, ahead=ahead, turn=turn, rows=each, blocks=blocks, held=held)
    linear(x, (weight * k**-0.5).bfloat16(), out, rows, tile, gain=gain, eps=EPS, gated=True)
    wide = x.double()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * gain.double()
    gate, up = (wide @ (weight * k**-0.5).bfloat16().double().T).chunk(2, dim=-1)
    want = F.silu(gate) * up
    assert ((out.double() - want).norm() / want.norm()).item() < 6e-3


@pytest.mark.skipif(INTERPRETED, reason="a Gluon kernel has no interpreter")
def test_row_does_not_depend_on_its_neighbours() -> None:
    x, weight = (torch.randn(32, 256, device=DEVICE).bfloat16() for _ in range(2))
    tile = Tile(8, 4, 64, 4)
    together, alone = (torch.empty(32, 32, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    linear(x, weight, together, 32, tile)
    for row in range(32):
        linear(x[row : row + 1], weight, alone[row : row + 1], 1, tile)
    assert torch.equal(together, alone)


def test_plain_tile_is_for_one_row() -> None:
    x = torch.zeros(2, 32, device=DEVICE)
    with pytest.raises(ValueError, match="one row, not 2"):
        linear(x, x, x, 2, Tile(16, 1, 32, 4, dot=False))


def test_a_tile_that_is_held_has_a_barrier_for_each_warp() -> None:
    x = torch.zeros(2, 32, device=DEVICE)
    with pytest.raises(ValueError, match="at most 15 groups, not 16"):
        linear(x, x, x, 2, Tile(16, 16, 32, 16, held=True))


@pytest.mark.parametrize("each", [8, 24, 128])
def test_rows_of_a_program_are_what_the_matrix_units_take(each: int) -> None:
    x = torch.zeros(2, 32, device=DEVICE)
    with pytest.raises(ValueError, match=f"rows, not {each}"):
        linear(x, x, x, 2, Tile(16, 1, 32, 4, rows=each))
