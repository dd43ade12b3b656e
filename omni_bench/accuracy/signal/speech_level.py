"""How loud the speech of one response is: the yardstick that the signal checks measure against."""

from __future__ import annotations

import numpy as np

from omni_bench.metrics.pcm import AUDIBLE_DBFS

WINDOW_S = 0.010
ACTIVE_RANGE_DB = 30.0
SHORTEST_S = 0.5
LSB = 1 / 32768
STEADY_DB = 6.0


def decibels(ratio: np.ndarray | float) -> np.ndarray | float:
    """Amplitude ratio -> dB; what is 0 counts as a thousandth of one 16-bit step."""
    return 20 * np.log10(np.maximum(ratio, LSB / 1e3))


def active_rms(samples: np.ndarray, sample_rate_hz: int) -> float | None:
    """RMS of the speech itself: of the 10 ms windows within 30 dB of the loudest one.

    ``samples``: float [n] in −1..1. Pauses do not count, so it does not depend on how long they
    are. None if there is nothing to measure against: under half a second, or no window above
    −50 dBFS.
    """
    window = round(WINDOW_S * sample_rate_hz)
    whole = len(samples) // window * window if window else 0
    if len(samples) < SHORTEST_S * sample_rate_hz or not whole:
        return None
    power = np.square(samples[:whole].reshape(-1, window)).mean(axis=1, dtype=np.float64)
    loudest = power.max()
    if not np.isfinite(loudest) or loudest <= 10 ** (AUDIBLE_DBFS / 10):
        return None
    return float(np.sqrt(power[power > loudest * 10 ** (-ACTIVE_RANGE_DB / 10)].mean()))


def is_steady(samples: np.ndarray, sample_rate_hz: int) -> bool:
    """Whether nine tenths of the 10 ms windows are within 6 dB of the loudest tenth: a tone or a hum, and no speech.

    In speech, which has pauses and consonants, they are 20 dB apart and more. ``samples``: float [n] in −1..1.
    """
    window = round(WINDOW_S * sample_rate_hz)
    whole = len(samples) // window * window
    low, high = np.percentile(np.square(samples[:whole].reshape(-1, window)).mean(axis=1, dtype=np.float64), (10, 90))
    return bool(low > high * 10 ** (-STEADY_DB / 10))
