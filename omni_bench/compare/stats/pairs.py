"""Pairs of runs: the change of each pair (a logarithm or a difference), its t interval, and what could be detected.

The run is the unit. Requests of one run share the server's start, the card's temperature and the
neighbours on the host, so they are never pooled over runs: a run enters with one figure a metric
and level, a pair with one logarithm (Kalibera & Jones 2013; Bulej et al., ICPE 2020).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from omni_bench.records.level import Level

POWER = 0.8
MAX_LOG = 700.0
"""A larger change is shown as this one, as no float holds it; only a damaged file has one."""


def as_change(value: float, *, points: bool = False) -> float:
    """A logarithm as a fraction of before, or a difference of shares (``points``), which is 1 at most."""
    return min(max(value, -1.0), 1.0) if points else math.expm1(min(value, MAX_LOG))


def as_ratio(value: float) -> float:
    """A logarithm as a ratio."""
    return math.exp(min(value, MAX_LOG))


@dataclass(frozen=True)
class PairedEffect:
    """Mean and standard deviation (n − 1) of ln(after/before) over ``pairs``; ``sd`` is None with one pair.

    ``points``: of after − before instead, for a share of requests.
    """

    pairs: int
    mean: float
    sd: float | None
    points: bool = False

    @property
    def change(self) -> float:
        """The mean as a fraction of before (0.08 is 8 % more), or as a difference of shares."""
        return as_change(self.mean, points=self.points)

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """:func:`t_interval` on the scale of :attr:`change`; shares differ by 1 at most. None with one pair."""
        bounds = t_interval(self, confidence)
        low, high = (as_change(bound, points=self.points) for bound in bounds) if bounds else (None, None)
        return None if low is None or high is None else (low, high)

    def detectable(self, alpha: float) -> float | None:
        """:func:`smallest_detectable_change` on the scale of :attr:`change`."""
        shift = smallest_detectable_shift(self.sd, self.pairs, alpha=alpha)
        return None if shift is None else as_change(shift, points=self.points)


def log_ratio(before: float | None, after: float | None) -> float | None:
    """ln(after/before); None if a value is missing, not finite, or not positive."""
    values = (before, after)
    if any(value is None or not math.isfinite(value) or value <= 0 for value in values):
        return None
    ratio = after / before  # type: ignore[operator]
    return math.log(ratio) if 0 < ratio < math.inf else math.log(after) - math.log(before)  # type: ignore[arg-type]


def intercept_effect(before_ms: float | None, after_ms: float | None, before_e2el_ms: float | None) -> float | None:
    """What a change of the E2EL intercept alone does to the E2EL of before, as a logarithm.

    An intercept may be near zero or negative, where a ratio means nothing, so its change is
    measured against the median E2EL of before: ln(1 + (after − before) / E2EL). None if a value is missing.
    """
    values = (before_ms, after_ms, before_e2el_ms)
    if any(value is None or not math.isfinite(value) for value in values) or before_e2el_ms <= 0:  # type: ignore[operator]
        return None
    ratio = 1 + (after_ms - before_ms) / before_e2el_ms  # type: ignore[operator]
    return math.log(ratio) if ratio > 0 else None


def points_effect(before: float | None, after: float | None) -> float | None:
    """A change of a share: after − before; None if a value is missing."""
    return None if before is None or after is None else after - before


def common_levels(pairs: Sequence[Mapping[Level, float | None]]) -> tuple[Level, ...]:
    """Levels (concurrencies) at which every pair has a value: a mean over others would mix different things."""
    if not pairs:
        return ()
    shared = set.intersection(*({level for level, value in pair.items() if value is not None} for pair in pairs))
    return tuple(sorted(shared))


def averaged_over_levels(pairs: Sequence[Mapping[Level, float | None]]) -> list[float] | None:
    """One number a pair: the mean of its levels' logarithms, over :func:`common_levels`; None if there are none."""
    levels = common_levels(pairs)
    if not levels:
        return None
    return [statistics.fmean(pair[level] for level in levels) for pair in pairs]  # type: ignore[misc]


def paired_effect(values: Sequence[float], *, points: bool = False) -> PairedEffect:
    """Sum up the logarithms of the pairs, or their differences (``points``). Raises ValueError without any."""
    if not values:
        raise ValueError("no pair to sum up")
    return PairedEffect(
        pairs=len(values),
        mean=statistics.fmean(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        points=points,
    )


def t_interval(effect: PairedEffect, confidence: float) -> tuple[float, float] | None:
    """Two-sided interval of the mean logarithm by Student's t with pairs − 1 degrees of freedom.

    Each end is a one-sided bound of (1 + confidence) / 2: a 90 % interval shows both one-sided 95 %
    bounds. A percentile bootstrap over five pairs would cover only about 83 %. None with one pair.
    """
    if effect.sd is None:
        return None
    half = float(stats.t.ppf((1 + confidence) / 2, effect.pairs - 1)) * effect.sd / math.sqrt(effect.pairs)
    return effect.mean - half, effect.mean + half


def one_sided_p(mean: np.ndarray, sd: np.ndarray, pairs: int) -> np.ndarray:
    """P(T ≥ t) of a mean over ``pairs``, against "not above 0"; arrays of equal shape.

    Without any spread a mean above 0 gives 0, one below gives 1, and 0 itself gives 1/2.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where((mean == 0) & (sd == 0), 0.0, mean / (sd / math.sqrt(pairs)))
    return stats.t.sf(t, pairs - 1)


APART_RANGES = 3.0
APART_LOG = math.log(1.10)


def apart(values: Sequence[float]) -> int | None:
    """Where the one value stands that is far from all others; None if none does, or with fewer than three.

    Far: from the median of the others by three times their whole range, and by 10 %. A word for readers, as small
    groups call for Dixon's kind of test (gap over range); it decides nothing and leaves nothing out.
    """
    if len(values) < 3:
        return None
    found = []
    for index, value in enumerate(values):
        others = [other for number, other in enumerate(values) if number != index]
        gap = abs(value - statistics.median(others))
        if gap > max(APART_RANGES * (max(others) - min(others)), APART_LOG):
            found.append(index)
    return found[0] if len(found) == 1 else None


def smallest_detectable_change(sd: float | None, pairs: int, *, alpha: float) -> float | None:
    """:func:`smallest_detectable_shift` of logarithms as a fraction: 0.039 for 5 pairs at a run CV of 2 %.

    That is with sd = √2 · run CV and alpha 0.05.
    """
    shift = smallest_detectable_shift(sd, pairs, alpha=alpha)
    return None if shift is None else as_change(shift)


def smallest_detectable_shift(sd: float | None, pairs: int, *, alpha: float) -> float | None:
    """The mean that ``pairs`` with this spread find with probability :data:`POWER`.

    One-sided t test at ``alpha``: the non-centrality δ with P(T'(δ) > t_crit) = POWER under the
    non-central t distribution, times sd / √pairs. None with fewer than two pairs.
    """
    if sd is None or pairs < 2:
        return None
    critical = float(stats.t.isf(alpha, pairs - 1))
    shift = optimize.brentq(
        lambda delta: float(stats.nct.sf(critical, pairs - 1, delta)) - POWER, 0.0, 40 + 4 * critical
    )
    return shift * sd / math.sqrt(pairs)
