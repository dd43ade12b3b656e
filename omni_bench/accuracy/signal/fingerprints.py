"""Finding equal stretches of samples in linear time: rolling hashes of 16-bit audio.

Two different recordings never agree in 20 ms of audible 16-bit samples by chance, so equality
is exact evidence. Windows at every position of one recording are looked up among windows at
every 20 ms (anchors) of another, which finds every common stretch of 40 ms and more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omni_bench.metrics.pcm import AUDIBLE_DBFS

WINDOW_S = 0.020
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_INVERSE = pow(_BASE, -1, 1 << 64)


@dataclass(frozen=True)
class AudioMatch:
    """``samples[at : at + length]`` of one recording equals ``[source_at : source_at + length]`` of another."""

    at: int
    source_at: int
    length: int


def window_hashes(samples: np.ndarray, window: int) -> np.ndarray:
    """Polynomial hash modulo 2^64 of every window: int16 [n] -> uint64 [n − window + 1] (Karp and Rabin 1987).

    Prefix sums of x[i]·bⁱ, differences taken, and multiplied by b⁻ⁱ.
    """
    if len(samples) < window:
        return np.empty(0, np.uint64)
    # as uint64 the negative values wrap, which the arithmetic does anyway
    summed = np.zeros(len(samples) + 1, np.uint64)
    np.cumsum(samples.astype(np.int64).view(np.uint64) * _powers(_BASE, len(samples)), out=summed[1:])
    count = len(samples) - window + 1
    return (summed[window:] - summed[:count]) * _powers(_INVERSE, count)


def audible_windows(samples: np.ndarray, window: int) -> np.ndarray:
    """bool [n // window]: which of the windows side by side are above −50 dBFS (about their mean: a constant is not
    audible)."""
    values = samples[: len(samples) // window * window].reshape(-1, window).astype(np.int64)
    mean = values.sum(axis=1) / window
    power = np.square(values).sum(axis=1) / window - mean * mean
    return power > 32768.0**2 * 10 ** (AUDIBLE_DBFS / 10)


def extend(ours: np.ndarray, theirs: np.ndarray, lag: int, hits: np.ndarray, window: int) -> list[AudioMatch]:
    """The longest equal stretches through ``hits`` (starts of equal windows in ``ours``) at one ``lag``.

    ``lag``: position in ``ours`` minus position in ``theirs``. Windows whose hash agreed but
    whose samples do not are dropped.
    """
    low, high = max(0, lag), min(len(ours), len(theirs) + lag)
    differs = np.flatnonzero(ours[low:high] != theirs[low - lag : high - lag]) + low
    bounds = np.concatenate([[low - 1], differs, [high]])
    after = np.unique(np.searchsorted(bounds, hits, side="right"))
    starts, ends = bounds[after - 1] + 1, bounds[after]
    return [
        AudioMatch(int(start), int(start) - lag, int(end - start))
        for start, end in zip(starts, ends, strict=True)
        if end - start >= window
    ]


_cached: dict[int, np.ndarray] = {}


def _powers(base: int, count: int) -> np.ndarray:
    """base⁰ … baseⁿ⁻¹ modulo 2^64; the longest so far is kept."""
    known = _cached.get(base)
    if known is None or len(known) < count:
        steps = np.full(1 << max(16, int(count - 1).bit_length()), base, np.uint64)
        steps[0] = 1
        known = _cached[base] = np.multiply.accumulate(steps)
    return known[:count]
