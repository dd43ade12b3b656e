"""Sampling with per-request, counter-based randomness.

Every random number a request will need is fixed by its own seed before it starts: frame t
and codebook g of a request draw uniform number [t, g], whatever else runs beside it, in
whatever batch shape, on whatever device. NumPy's Philox generator supplies them (Salmon et
al., SC'11: counter-based, so a stream is a pure function of key and counter).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def request_uniforms(seed: int, frames: int, groups: int) -> np.ndarray:
    """Uniform numbers in [0, 1) for one request, float32 [frames, groups].

    A longer table begins with the shorter one. ``seed`` is taken modulo 2^128.
    """
    generator = np.random.Generator(np.random.Philox(key=seed % 2**128))
    return generator.random((frames, groups), dtype=np.float32)


def sample(logits: Tensor, temperature: float, top_k: int, uniforms: Tensor) -> Tensor:
    """Draw one id a row. logits [B, V] (any float type), uniforms [B] in [0, 1) -> ids [B] int64.

    ``temperature`` 0 takes the largest logit. Otherwise softmax over the ``top_k`` largest
    logits (all of them if 0 or at least V) divided by the temperature, and the inverse of its
    cumulative distribution at the uniform number, ids ordered by falling logit.
    """
    if temperature <= 0:
        return logits.argmax(dim=-1)
    size = logits.shape[-1]
    values, ids = logits.float().topk(size if top_k <= 0 else min(top_k, size), dim=-1)
    cumulative = torch.softmax(values / temperature, dim=-1).cumsum(dim=-1)
    # the last entry can be a rounding error below 1: scale the draw, not the distribution
    rank = (cumulative <= uniforms[:, None] * cumulative[:, -1:]).sum(dim=-1)
    return ids.gather(-1, rank.clamp(max=ids.shape[-1] - 1)[:, None])[:, 0]
