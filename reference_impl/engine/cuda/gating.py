"""silu(gate) × up, between the two products of a feed-forward that is not one of ours, in one kernel."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def gate_kernel(both, out, count, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """``both`` [rows, 2 × WIDTH] -> ``out`` [rows, WIDTH], ``count`` numbers."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    source = both + (at // WIDTH) * (2 * WIDTH) + at % WIDTH
    first = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + WIDTH, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, first * tl.sigmoid(first) * second, mask=inside)


def gate(both: Tensor) -> Tensor:
    """[..., 2 × width], gate before up -> [..., width]; contiguous, rounded once."""
    width = both.shape[-1] // 2
    out = torch.empty((*both.shape[:-1], width), dtype=both.dtype, device=both.device)
    gate_kernel[(triton.cdiv(out.numel(), BLOCK),)](both, out, out.numel(), WIDTH=width, BLOCK=BLOCK)
    return out
