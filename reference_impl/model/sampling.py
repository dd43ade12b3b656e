"""Sampling with per-request, counter-based randomness.

Every random number a request will need is fixed by its own seed before it starts: frame t
and codebook g of a request draw uniform number [t, g], whatever else runs at the same time, in
whatever batch shape, on whatever device. NumPy's Philox generator supplies them (Salmon et
al., SC'11: counter-based, so a stream is a pure function of key and counter).

The filters have the meaning, and are applied in the order, of transformers 4.57 (the package
the released models are used with): repetition penalty, minimum of new tokens, suppressed
tokens, temperature, top-k, top-p.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from reference_impl.model.config import SamplingConfig
from reference_impl.settings import ServerSettings


@dataclass(frozen=True)
class Draw:
    """How one id is drawn from logits; see :class:`SamplingConfig` for the fields."""

    temperature: float
    top_k: int
    top_p: float = 1.0

    def __call__(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """logits [B, V] (any float type), uniforms [B] in [0, 1) -> ids [B] int64."""
        if self.temperature <= 0:
            return logits.argmax(dim=-1)
        return draw_by_id(restrict(logits, self.temperature, self.top_k, self.top_p), uniforms)


def effective_sampling(config: SamplingConfig, settings: ServerSettings) -> SamplingConfig:
    """The checkpoint's sampling with what the server's settings override."""
    given = {f.name: getattr(settings, f.name, None) for f in fields(config)}
    return replace(config, **{name: value for name, value in given.items() if value is not None})


def talker_draw(config: SamplingConfig) -> Draw:
    """How codebook 0 is drawn."""
    return Draw(config.temperature, config.top_k, config.top_p)


def predictor_draw(config: SamplingConfig) -> Draw:
    """How codebooks 1..15 are drawn."""
    return Draw(config.predictor_temperature, config.predictor_top_k, config.predictor_top_p)


def request_uniforms(seed: int, frames: int, groups: int) -> np.ndarray:
    """Uniform numbers in [0, 1) for one request, float32 [frames, groups].

    A longer table begins with the shorter one. ``seed`` is taken modulo 2^128.
    """
    generator = np.random.Generator(np.random.Philox(key=seed % 2**128))
    return generator.random((frames, groups), dtype=np.float32)


def penalise(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Make repetition less likely: positive logits of seen ids are divided by ``penalty``, others multiplied.

    logits [B, V] float32, seen [B, V] boolean. Keskar et al. 2019 (CTRL), section 4.1, each
    id counted once.
    """
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def restrict(logits: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Logits / temperature in float32 [B, V] with everything that must not be drawn at -inf.

    ``top_k``: ids below the k-th largest logit go, ties with it stay (0: all stay).
    ``top_p``: of what is left the least likely go whose probabilities sum to at most 1 - top_p,
    so the id that crosses the threshold stays, and at least one.
    """
    logits = logits.float() / temperature
    if 0 < top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    if top_p < 1.0:
        rising, ids = logits.sort(dim=-1)
        gone = rising.softmax(dim=-1).cumsum(dim=-1) <= 1.0 - top_p
        gone[:, -1] = False
        logits = logits.masked_fill(torch.zeros_like(gone).scatter(-1, ids, gone), float("-inf"))
    return logits


def draw_by_id(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Softmax and the inverse of its cumulative distribution, ids in rising order.

    logits [B, V] float32 (-inf: never drawn), uniforms [B] in [0, 1) -> ids [B] int64.
    """
    cumulative = logits.softmax(dim=-1).cumsum(dim=-1)
    total = cumulative[:, -1:]
    # an id without probability adds nothing: it must not be drawn, neither before the draw nor after the last step
    return ((cumulative <= uniforms[:, None] * total) & (cumulative < total)).sum(dim=-1)


def segment_uniform(seed: int, segment: int) -> float:
    """The number in [0, 1) that draws the first code of a later segment: another stream of the same seed."""
    generator = np.random.Generator(np.random.Philox(key=seed % 2**128, counter=[0, 0, 0, segment]))
    return float(generator.random(dtype=np.float32))
