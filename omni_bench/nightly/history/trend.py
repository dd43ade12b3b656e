"""The trend of every gated metric: its nights, change points, and the commits between which each change came."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from omni_bench.compare.stats.drift import MIN_SEGMENT, ChangePoint, change_points
from omni_bench.compare.stats.nightly import prediction, without_alarmed
from omni_bench.compare.stats.pairs import as_change, as_ratio
from omni_bench.compare.stats.verdicts import worse_sign
from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.history.database import Baseline, HistoryAlarm
from omni_bench.nightly.history.records import StoredRun
from omni_bench.nightly.history.series import MetricSeries, gated_of, loads, series_of


@dataclass(frozen=True)
class Change:
    """A change point with its place in time. ``commits``: of the last night before and the first after, None unknown.

    ``worse``: whether it is for the worse. ``night``: its first night.
    """

    point: ChangePoint
    night: StoredRun
    commits: tuple[str | None, str | None]
    worse: bool


@dataclass(frozen=True)
class Trend:
    """One metric at one load. ``segment``: geometric mean of the nights since the last change point, and how many.

    ``against_baseline``: that mean against the baseline's, as a fraction; None without one. ``start``: where the
    segment begins, with the baseline at the earliest; ``baseline_start``: where that does.
    """

    series: MetricSeries
    changes: tuple[Change, ...]
    segment: tuple[float | None, int]
    against_baseline: float | None
    start: int = 0
    baseline_start: int = 0

    @property
    def last(self) -> float | None:
        """The newest valid value."""
        return self.series.values[-1] if self.series.values else None


def trends(runs: Sequence[StoredRun], baseline: Baseline | None = None) -> list[Trend]:
    """The trends of one series of runs (oldest first), by metric, then load; those without any value are left out."""
    found = []
    for metric in dict.fromkeys(name for run in runs for name in gated_of(run)):
        for load in loads(runs):
            series = series_of(runs, metric, load)
            if series.logs:
                found.append(_trend(series, baseline))
    return found


def _trend(series: MetricSeries, baseline: Baseline | None) -> Trend:
    changes = located_changes(series)
    since = first_night(baseline)
    baseline_start = sum(order_of(night) < since for night in series.nights) if since else 0
    start = min(max([baseline_start, *(change.point.index for change in changes)]), len(series.logs) - 1)
    mean = statistics.fmean(series.logs[start:])
    as_value = values_of(series, (mean,))
    normal = baseline_log(series.metric, series.load, baseline)
    return Trend(
        series=series,
        changes=changes,
        segment=(None if as_value is None else as_value[0], len(series.logs) - start),
        against_baseline=None if normal is None else series.change(mean - normal),
        start=start,
        baseline_start=baseline_start,
    )


def located_changes(series: MetricSeries) -> tuple[Change, ...]:
    """The change points of a series, with nights and commits."""
    sign = worse_sign(METRICS[series.metric].better)
    return tuple(
        Change(
            point=point,
            night=series.nights[point.index],
            commits=(series.nights[point.index - 1].commit, series.nights[point.index].commit),
            worse=sign * point.change > 0,
        )
        for point in change_points(series.logs, points=series.points)
    )


def first_onset(series: MetricSeries, start: int, alarms: Sequence[HistoryAlarm]) -> int | None:
    """How many nights after ``start`` the first alarmed change began that the segment from there does not begin with.

    ``alarms``: of this metric and load. None without one.
    """
    index = {night.run_id: number for number, night in enumerate(series.nights)}
    onsets = [index[alarm.onset_run] - start for alarm in alarms if alarm.onset_run in index]
    return min((onset for onset in onsets if onset > MIN_SEGMENT), default=None)


def expected_values(trend: Trend, alarms: Sequence[HistoryAlarm] = ()) -> list[tuple[float, ...] | None]:
    """Between which values each night was expected by those before it, since the last change point or the baseline.

    None with fewer than ten such nights. ``alarms``: of this metric and load. It is the interval by which the gate
    calls a night acute, but for change points that were found only later.
    """
    series, sign = trend.series, worse_sign(METRICS[trend.series.metric].better)
    starts = [0, trend.baseline_start, *(change.point.index for change in trend.changes)]
    found = []
    for index in range(len(series.logs)):
        start = max((start for start in starts if start < index), default=0)
        onset = first_onset(series, start, alarms)
        logs = without_alarmed(series.logs[start:index], onset, sign, points=series.points)
        ends = prediction(logs, points=series.points)
        found.append(None if ends is None else values_of(series, (ends.low, ends.high)))
    return found


def values_of(series: MetricSeries, logs: Sequence[float]) -> tuple[float, ...] | None:
    """The series' logarithms as values of its metric; None where no night tells how they are related."""
    entry, scale = METRICS[series.metric], 1.0
    if series.points:  # a share of requests is its own logarithm, and no less than none and no more than all
        return tuple(min(max(log, 0.0), 1.0) for log in logs)
    if not entry.as_share:
        return tuple(map(as_ratio, logs))
    if entry.relative_to:  # ln(1 + value / E2EL), with one E2EL for the whole series
        known = zip(series.values, series.logs, strict=True)
        scale = next((value / math.expm1(log) for value, log in known if value and log), 0.0)
    return tuple(scale * as_change(log) for log in logs) if scale else None


def order_of(run: StoredRun) -> tuple[str, str]:
    """What nights are put in order by."""
    return (run.started_utc or "", run.run_id)


def first_night(baseline: Baseline | None) -> tuple[str, str] | None:
    """Where a baseline begins: no night before it is judged by any more. None without one, or without its runs."""
    return None if baseline is None else min(map(order_of, baseline.runs), default=None)


def baseline_log(metric: str, load: str, baseline: Baseline | None) -> float | None:
    """Mean logarithm of the baseline's runs; None without a baseline, a value, or a logarithm (an intercept)."""
    if baseline is None or (METRICS[metric].as_share and not METRICS[metric].points):
        return None
    logs = series_of(baseline.runs, metric, load).logs
    return statistics.fmean(logs) if logs else None


def commit_range(commits: tuple[str | None, str | None]) -> str:
    """``abc1234..def5678``; ``same commit abc1234`` where nothing was committed in between, so that it is no commit."""
    before, after = (commit[:12] if commit else "unknown" for commit in commits)
    return f"same commit {after}" if commits[0] is not None and commits[0] == commits[1] else f"{before}..{after}"
