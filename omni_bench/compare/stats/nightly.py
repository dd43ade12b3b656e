"""One night against the nights before it: the acute rule, and what a night's level is compared with.

Acute: tonight lies outside the 99.5 % t prediction interval of at least ten nights of the current segment AND is worse
by more than 5 %. The first alone alarms on quiet machines for nothing that matters, the second alone on noisy ones.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from omni_bench.compare.stats.pairs import as_change

CONFIDENCE = 0.995
MIN_NIGHTS = 10
ACUTE_LIMIT = 0.05


@dataclass(frozen=True)
class Prediction:
    """Where the next night is expected, from ``nights`` logarithms: mean and the ends of the interval.

    ``points``: from shares, whose changes are differences.
    """

    nights: int
    mean: float
    low: float
    high: float
    points: bool = False

    def change(self, log: float) -> float:
        """A night's logarithm against the mean, as a fraction: 0.08 is 8 % more."""
        return as_change(log - self.mean, points=self.points)

    def spread(self) -> float:
        """How much more than another night one night may be by chance, as a fraction: both vary as the nights do."""
        return as_change(math.sqrt(2) * (self.high - self.mean), points=self.points)

    def acute(self, log: float, sign: int) -> bool:
        """Whether a night is outside of the interval on the bad side and worse by more than 5 %.

        ``sign``: 1 if more is worse, −1 if less is.
        """
        outside = log > self.high if sign > 0 else log < self.low
        return outside and sign * self.change(log) > ACUTE_LIMIT


def prediction(logs: Sequence[float], *, points: bool = False) -> Prediction | None:
    """The t prediction interval of one more night: mean ± t(n − 1) · s · √(1 + 1/n). None below ten nights."""
    nights = len(logs)
    if nights < MIN_NIGHTS:
        return None
    mean = statistics.fmean(logs)
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, nights - 1))
    half = quantile * statistics.stdev(logs) * math.sqrt(1 + 1 / nights)
    return Prediction(nights, mean, mean - half, mean + half, points)


def without_alarmed(logs: Sequence[float], onset: int | None, sign: int, *, points: bool = False) -> list[float]:
    """``logs`` without the nights from ``onset`` on that are acute against those before them that stay.

    ``onset``: of an alarm that nobody accepted, None without one. Its nights would widen the interval and raise its
    mean, and hide the next regression; those after it was mended stay.
    """
    kept = list(logs[:onset])
    for log in logs[len(kept) :]:
        expected = prediction(kept, points=points)
        if expected is None or not expected.acute(log, sign):
            kept.append(log)
    return kept
