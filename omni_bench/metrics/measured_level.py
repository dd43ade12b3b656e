"""What the figures of a whole level are computed from, and the fit of E2EL over audio length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from omni_bench.metrics.slo import Slo, goodput
from omni_bench.metrics.throughput import Throughput, throughput
from omni_bench.records.level import Level, Rate
from omni_bench.records.request_metrics import RequestMetrics
from omni_bench.records.timeline import Timeline

FIT_MIN_POINTS = 8  # fewer points than this do not hold a line against one outlier
TAIL_SHARE = 0.10
TAIL_MIN_REQUESTS = 10  # so that a tenth of them is a request
FIT_MIN_SPREAD = 0.10  # (p90 - p10) / median of the audio lengths


@dataclass(frozen=True)
class E2elFit:
    """E2EL = intercept + slope · audio length: the fixed cost, and the marginal real-time factor."""

    intercept_ms: float
    slope: float


@dataclass(frozen=True)
class MeasuredLevel:
    """The measured requests of a level; ``metrics[i]`` belongs to ``timelines[i]``.

    ``invalid``: request id -> reasons why its answer is invalid. ``slo``: the service level, None without one.
    """

    concurrency: Level
    timelines: Sequence[Timeline]
    metrics: Sequence[RequestMetrics]
    invalid: Mapping[str, tuple[str, ...]]
    slo: Slo | None = None

    @cached_property
    def ok_ids(self) -> set[str]:
        """Requests whose stream ended cleanly."""
        return {timeline.request_id for timeline in self.timelines if timeline.ok}

    @cached_property
    def faulty(self) -> dict[str, tuple[str, ...]]:
        """Those of them whose answer is invalid, in the order of the requests, with the reasons."""
        ids = (timeline.request_id for timeline in self.timelines)
        return {one: self.invalid[one] for one in ids if one in self.ok_ids and self.invalid.get(one)}

    @cached_property
    def good(self) -> list[RequestMetrics]:
        """The metrics of the others: only these enter a distribution or a fit."""
        return [one for one in self.metrics if one.request_id in self.ok_ids and one.request_id not in self.faulty]

    @cached_property
    def rates(self) -> Throughput:
        """Audio, requests and tokens per second."""
        return throughput(self.timelines, self.concurrency, self.faulty)

    @cached_property
    def fit(self) -> E2elFit | None:
        """:func:`e2el_fit` of the good requests."""
        fitted = [one for one in self.good if one["audio_s"] and one["e2el_ms"] is not None]
        return e2el_fit([one["audio_s"] for one in fitted], [one["e2el_ms"] for one in fitted])

    def tail(self, metric: str) -> float | None:
        """:func:`slowest_mean` of a metric of the good requests."""
        return slowest_mean([one[metric] for one in self.good])

    @property
    def stalled(self) -> float | None:
        """Share of the good requests with a stall, of those that could have one; None if none could."""
        stalls = [one["stalls"] for one in self.good if one["stalls"] is not None]
        return sum(count > 0 for count in stalls) / len(stalls) if stalls else None

    @property
    def goodput(self) -> float | None:
        """:func:`omni_bench.metrics.slo.goodput`; in an open loop its limits hold from the scheduled start on."""
        from_schedule = isinstance(self.concurrency, Rate)
        return goodput(self.metrics, self.ok_ids, self.faulty, self.slo, from_schedule=from_schedule)


def slowest_mean(values: Iterable[float | None]) -> float | None:
    """Mean of the slowest tenth, rounded up, of the values that are not None; None with fewer than 10.

    The expected shortfall at 90 % (Acerbi & Tasche 2002). Of 1,000 simulated studies of 5 pairs of 32 requests in which
    every seventh is late by chance, it finds more than p95, and three times as many as p90: it moves with every late
    request, a percentile only once their share passes it (issue 18).
    """
    present = sorted(value for value in values if value is not None)
    if len(present) < TAIL_MIN_REQUESTS:
        return None
    slowest = present[-math.ceil(TAIL_SHARE * len(present)) :]
    return math.fsum(slowest) / len(slowest)


def e2el_fit(audio_s: Sequence[float], e2el_ms: Sequence[float]) -> E2elFit | None:
    """Theil–Sen line of E2EL over audio length (median of pairwise slopes; Theil 1950, Sen 1968).

    The intercept is median(E2EL) − slope · median(audio). None with fewer than 8 points, or
    when the audio lengths hardly vary: p90 − p10 below a tenth of their median leaves the
    slope to noise.
    """
    if len(audio_s) < FIT_MIN_POINTS:
        return None
    p10, p50, p90 = np.percentile(audio_s, (10, 50, 90))
    if p90 - p10 <= FIT_MIN_SPREAD * p50:
        return None
    x, y = np.asarray(audio_s), np.asarray(e2el_ms) / 1e3
    slope = _median_slope(x, y)
    return E2elFit(intercept_ms=float(np.median(y) - slope * np.median(x)) * 1e3, slope=slope)


FIT_ALL_PAIRS = 1000
SLOPE_DIGITS = 1e-9


def _median_slope(x: np.ndarray, y: np.ndarray) -> float:
    """The median of the slopes of all pairs; of many points without making the pairs, whose number is the square.

    It is where Kendall's tau of x and y − slope · x changes its sign (Sen 1968), which is found by halving, each step
    in n · log n; of an even number of pairs it is the lower of the two in the middle.
    """
    from scipy import stats  # slow to import

    if len(x) <= FIT_ALL_PAIRS:
        return float(stats.theilslopes(y, x).slope)
    some = np.linspace(0, len(x) - 1, FIT_ALL_PAIRS).astype(int)
    guess = stats.theilslopes(y[some], x[some])

    def is_above(slope: float) -> bool:
        return bool(stats.kendalltau(x, y - slope * x).statistic > 0)

    width = max(guess.high_slope - guess.low_slope, SLOPE_DIGITS)
    low, high = float(guess.slope - width), float(guess.slope + width)
    while not is_above(low):
        low, width = low - width, 2 * width
    while is_above(high):
        high, width = high + width, 2 * width
    while high - low > SLOPE_DIGITS:
        middle = (low + high) / 2
        low, high = (middle, high) if is_above(middle) else (low, middle)
    return (low + high) / 2
