"""The summary of one level: distributions, rates, the E2EL fit, and counts of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from omni_bench.metrics.definitions import METRICS, REQUEST_METRICS
from omni_bench.metrics.open_loop import OpenLoop, open_loop_facts
from omni_bench.metrics.request import RequestMetrics
from omni_bench.metrics.slo import Slo, goodput
from omni_bench.metrics.summary import Summary, summarise
from omni_bench.metrics.throughput import throughput
from omni_bench.records.level import Level, Rate
from omni_bench.records.recording import LoopLag
from omni_bench.records.timeline import Timeline

FIT_MIN_POINTS = 8  # fewer points than this do not hold a line against one outlier
FIT_MIN_SPREAD = 0.10  # (p90 - p10) / median of the audio lengths


@dataclass(frozen=True)
class E2elFit:
    """E2EL = intercept + slope · audio length: the fixed cost, and the marginal real-time factor."""

    intercept_ms: float
    slope: float


@dataclass(frozen=True)
class Warmup:
    """How the warm-up of a level went; ``errors``: its failed requests by kind."""

    completed: int
    failed: int
    errors: dict[str, int]

    @classmethod
    def of(cls, timelines: Sequence[Timeline]) -> Warmup:
        """Count the requests of a warm-up."""
        errors = Counter(timeline.error.kind for timeline in timelines if timeline.error is not None)
        completed = sum(timeline.ok for timeline in timelines)
        return cls(completed=completed, failed=len(timelines) - completed, errors=dict(errors.most_common()))


@dataclass(frozen=True)
class LevelSummary:
    """One level of a run.

    ``completed``: requests whose stream ended cleanly; ``faulty``: how many of those have audio
    that failed a check. ``errors``: failed requests by error kind; ``invalid``: faulty ones by
    reason (one request may have several). ``distributions``: by the names of
    REQUEST_METRICS; ``scalars``: by those of LEVEL_METRICS; both are of the completed requests
    that are not faulty. ``warmup`` is None if it is not known. ``open_loop``: what became of the schedule of an
    open loop, whose ``concurrency`` is a Rate; None in a closed loop.
    """

    concurrency: Level
    arrival: str
    requests: int
    completed: int
    faulty: int
    failed: int
    errors: dict[str, int]
    invalid: dict[str, int]
    lag: LoopLag | None
    warmup: Warmup | None
    distributions: dict[str, Summary]
    scalars: dict[str, float | None]
    open_loop: OpenLoop | None = None

    def metrics_json(self) -> dict[str, dict[str, Any]]:
        """``metrics`` of run.json: name -> {unit, better, n, mean, std, p50, p90, p95, p99}.

        The value of a level-wide metric is its ``mean``, with the number of requests it was
        made from as ``n`` and no spread.
        """
        result: dict[str, dict[str, Any]] = {}
        for name, metric in METRICS.items():
            if name in self.distributions:
                summary = self.distributions[name]
            else:
                value = self.scalars[name]
                count = self.requests if name == "goodput" else self.completed - self.faulty
                summary = Summary(
                    n=count if value is not None else 0, mean=value, std=None, p50=None, p90=None, p95=None, p99=None
                )
            result[name] = {"unit": metric.unit, "better": metric.better, **asdict(summary)}
        return result


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
    from scipy import stats  # slow to import

    fit = stats.theilslopes(np.asarray(e2el_ms) / 1e3, np.asarray(audio_s), method="separate")
    return E2elFit(intercept_ms=float(fit.intercept) * 1e3, slope=float(fit.slope))


def summarise_level(
    concurrency: Level,
    timelines: Sequence[Timeline],
    metrics: Sequence[RequestMetrics],
    invalid: Mapping[str, tuple[str, ...]],
    *,
    lag: LoopLag | None = None,
    warmup: Warmup | None = None,
    slo: Slo | None = None,
    arrival: str = "closed_loop",
    max_in_flight: int | None = None,
) -> LevelSummary:
    """Summarise the measured requests of a level.

    ``metrics[i]`` belongs to ``timelines[i]``; ``invalid``: request id -> reasons from
    :func:`omni_bench.accuracy.signal.audio_faults.audio_faults` (ids without reasons may be left out;
    those of failed requests are not counted, they are failures already). Requests with invalid
    audio enter no distribution, rate or fit. ``max_in_flight``: the cap of an open loop (``concurrency`` is a Rate).
    Raises ValueError when the two sequences do not belong together.
    """
    ids = [timeline.request_id for timeline in timelines]
    if ids != [request.request_id for request in metrics]:
        raise ValueError("timelines and metrics are not of the same requests in the same order")
    ok_ids = {timeline.request_id for timeline in timelines if timeline.ok}
    errors = Counter(timeline.error.kind for timeline in timelines if timeline.error is not None)
    faulty = {request_id: invalid[request_id] for request_id in ids if request_id in ok_ids and invalid.get(request_id)}
    faults = Counter(reason for reasons in faulty.values() for reason in reasons)
    good = [request for request in metrics if request.request_id in ok_ids and request.request_id not in faulty]
    fitted = [request for request in good if request.audio_s and request.e2el_ms is not None]
    fit = e2el_fit([request.audio_s for request in fitted], [request.e2el_ms for request in fitted])
    rates = throughput(timelines, concurrency, faulty)
    open_loop = None
    if isinstance(concurrency, Rate):
        open_loop = open_loop_facts(timelines, max_in_flight or len(timelines) or 1)
    return LevelSummary(
        concurrency=concurrency,
        arrival=arrival,
        requests=len(timelines),
        completed=len(ok_ids),
        faulty=len(faulty),
        failed=len(timelines) - len(ok_ids),
        errors=dict(errors.most_common()),
        invalid=dict(faults.most_common()),
        lag=lag,
        warmup=warmup,
        distributions={metric.name: _distribution(metric.name, good) for metric in REQUEST_METRICS},
        scalars={
            "audio_per_s": rates.audio_per_s,
            "audio_per_s_steady": rates.audio_per_s_steady,
            "tokens_per_s": rates.tokens_per_s,
            "requests_per_s": rates.requests_per_s,
            "e2el_intercept_ms": fit.intercept_ms if fit is not None else None,
            "e2el_slope": fit.slope if fit is not None else None,
            "goodput": goodput(metrics, ok_ids, faulty, slo, from_schedule=open_loop is not None),
        },
        open_loop=open_loop,
    )


def _distribution(name: str, metrics: Sequence[RequestMetrics]) -> Summary:
    """One value a request, or the values of all requests together where a request has many."""
    values = [getattr(request, name) for request in metrics]
    if any(isinstance(value, tuple) for value in values):
        return summarise((value for many in values for value in many), requests=sum(bool(many) for many in values))
    return summarise(values)
