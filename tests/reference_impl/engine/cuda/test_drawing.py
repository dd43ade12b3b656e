"""The draw kernel against the draws of ``sampling.py``."""

from __future__ import annotations

import pytest
import torch
from small_model import DEVICE, INTERPRETED, needs_kernels

from reference_impl.model.sampling import Draw

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda.drawing import FastDraw, draw_rest_kernel, key_bits

pytestmark = needs_kernels
# each row is a program of its own, and the interpreter runs them in turn; 23 and 63 do not divide 100: no number of the
# ties below lies on a step of the distribution
ROWS, VOCABULARY = 24 if INTERPRETED else 64, 300


def drawn(logits: torch.Tensor, uniforms: torch.Tensor, draw: Draw) -> torch.Tensor:
    fast = FastDraw.of(draw, VOCABULARY)
    assert fast is not None
    table = torch.zeros(ROWS, 1, 2, device=DEVICE)
    table[:, 0, 1] = uniforms
    result = torch.full((ROWS, 3), -1, dtype=torch.long, device=DEVICE)
    frames = torch.zeros(ROWS, dtype=torch.long, device=DEVICE)
    draw_rest_kernel[(ROWS,)](
        logits, table, frames, result, logits, logits, table.stride(0), fast.temperature, 1, GROUPS=2,
        VOCABULARY=VOCABULARY, SIZE=512, WIDTH=1, WIDTH_BLOCK=1, TOP_K=fast.top_k, GREEDY=fast.greedy,
        BITS=key_bits(logits), LAST=True, PDL=False,
    )  # fmt: skip
    assert (result[:, [0, 2]] == -1).all()
    return result[:, 1]


DRAWS = [Draw(0.9, 50), Draw(1.3, 1), Draw(0.7, 0), Draw(0.0, 50)]


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_same_ids(dtype: torch.dtype, draw: Draw) -> None:
    generator = torch.Generator(DEVICE).manual_seed(0)
    logits = (torch.randn(ROWS, VOCABULARY, generator=generator, device=DEVICE) * 3).to(dtype)
    # numbers in the middle between two steps of the distribution would differ by rounding only
    uniforms = torch.rand(ROWS, generator=generator, device=DEVICE)
    assert torch.equal(drawn(logits, uniforms, draw), draw(logits, uniforms))


def test_ties_zeros_and_ends() -> None:
    logits = torch.zeros(ROWS, VOCABULARY, device=DEVICE)
    logits[:, ::2] = -0.0
    logits[:, 100:] = float("-inf")
    draw = Draw(1.0, 10)
    uniforms = torch.linspace(0, 1 - 2**-24, ROWS, device=DEVICE)
    ids = drawn(logits, uniforms, draw)
    assert torch.equal(ids, draw(logits, uniforms))
    assert ids.max() == 99 and ids.min() == 0


def test_logits_that_are_no_numbers_draw_an_id_of_the_vocabulary_float32() -> None:
    draw = Draw(0.0, 50)
    generator = torch.Generator(DEVICE).manual_seed(1)
    logits = torch.randn(ROWS, VOCABULARY, generator=generator, device=DEVICE)
    logits[::2] = float("nan")
    logits[0, 5] = 1.0
    uniforms = torch.rand(ROWS, generator=generator, device=DEVICE)
    ids = drawn(logits, uniforms, draw)
    assert ids.min() >= 0 and ids.max() < VOCABULARY
    assert torch.equal(ids[1::2], draw(logits[1::2], uniforms[1::2]))


def test_draws_without_a_kernel() -> None:
    assert FastDraw.of(Draw(0.9, 50, top_p=0.8), 2048) is None
    assert FastDraw.of(Draw(0.0, 50, top_p=0.8), 2048) == FastDraw(1.0, 0, True)
