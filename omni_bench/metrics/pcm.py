"""PCM bytes as float samples, and which 20 ms windows of them can be heard."""

from __future__ import annotations

import numpy as np

WINDOW_S = 0.020
AUDIBLE_DBFS = -50.0  # RMS; 0 dBFS is the RMS of a constant at full scale
_AUDIBLE_MEAN_SQUARE = 10 ** (AUDIBLE_DBFS / 10)


def samples_from_pcm(pcm: bytes) -> np.ndarray:
    """s16le bytes -> float64 [samples] in −1..1 (full scale 32768); a trailing half sample is dropped."""
    whole = len(pcm) - len(pcm) % 2
    return np.frombuffer(pcm, dtype="<i2", count=whole // 2).astype(np.float64) / 32768.0


def audible_span(samples: np.ndarray, sample_rate_hz: int) -> tuple[int, int] | None:
    """(first, end) in samples of what can be heard, the end excluded; None if no window is above −50 dBFS.

    ``samples``: float [n] in −1..1. Windows of 20 ms follow each other from sample 0; a
    shorter last one counts by its own mean. Non-finite samples count as silence.
    """
    if len(samples) == 0:
        return None
    window = max(1, round(WINDOW_S * sample_rate_hz))
    starts = np.arange(0, len(samples), window)
    power = np.square(np.where(np.isfinite(samples), samples, 0.0))
    ends = np.minimum(starts + window, len(samples))
    mean_square = np.add.reduceat(power, starts) / (ends - starts)
    audible = np.flatnonzero(mean_square > _AUDIBLE_MEAN_SQUARE)
    return (int(starts[audible[0]]), int(ends[audible[-1]])) if len(audible) else None
