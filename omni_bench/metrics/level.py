"""The summary of one level: its metrics, and counts of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from omni_bench.metrics.definitions import summarised
from omni_bench.metrics.measured_level import MeasuredLevel
from omni_bench.metrics.metric import Metric, Scope
from omni_bench.metrics.open_loop import OpenLoop, open_loop_facts
from omni_bench.metrics.slo import Slo
from omni_bench.metrics.summary import Summary, summarise
from omni_bench.records.level import Level, Rate
from omni_bench.records.recording import LoopLag
from omni_bench.records.request_metrics import RequestMetrics
from omni_bench.records.timeline import Timeline


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
    reason (one request may have several). ``distributions``: of the metrics of requests, by name;
    ``scalars``: those of the whole level; both are of the completed requests that are not faulty.
    ``warmup`` is None if it is not known. ``open_loop``: what became of the schedule of an
    open loop, whose ``concurrency`` is a Rate; None in a closed loop. ``first_lag_ms``: how long the first bytes of
    requests waited in the client; None where nobody measured it. ``measured_before``: requests of an attempt that
    was cut short; a level that has any has no ``scalars``, as nobody knows for how long it was measured.
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
    first_lag_ms: Summary | None = None
    measured_before: int = 0

    def metrics_json(self) -> dict[str, dict[str, Any]]:
        """``metrics`` of run.json: name -> {unit, better, n, mean, std, p50, p90, p95, p99}.

        The value of a level-wide metric is its ``mean``, with the number of requests it was
        made from as ``n`` and no spread.
        """
        result: dict[str, dict[str, Any]] = {}
        for metric in summarised():
            if metric.scope is Scope.REQUEST:
                summary = self.distributions[metric.name]
            else:
                value = self.scalars[metric.name]
                count = self.requests if metric.of_all else self.completed - self.faulty
                summary = Summary(
                    n=count if value is not None else 0, mean=value, std=None, p50=None, p90=None, p95=None, p99=None
                )
            result[metric.name] = {"unit": metric.unit, "better": metric.better, **asdict(summary)}
        return result


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
    measured_before: int = 0,
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
    measured = MeasuredLevel(concurrency, timelines, metrics, invalid, slo)
    ok_ids, faulty = measured.ok_ids, measured.faulty
    errors = Counter(timeline.error.kind for timeline in timelines if timeline.error is not None)
    faults = Counter(reason for reasons in faulty.values() for reason in reasons)
    lags = [one.first_lag_ns / 1e6 for one in timelines if one.ok and one.first_lag_ns is not None]
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
        distributions={
            metric.name: _distribution(metric, measured.good)
            for metric in summarised()
            if metric.scope is Scope.REQUEST
        },
        scalars={
            metric.name: None if measured_before else metric.compute(measured)
            for metric in summarised()
            if metric.scope is Scope.LEVEL
        },
        open_loop=open_loop,
        first_lag_ms=summarise(lags) if lags else None,
        measured_before=measured_before,
    )


def _distribution(metric: Metric, requests: Sequence[RequestMetrics]) -> Summary:
    """One value a request, or the values of all requests together where a request has many."""
    values = [request[metric.name] for request in requests]
    if metric.many:
        return summarise((value for many in values for value in many), requests=sum(map(bool, values)))
    return summarise(values)
