"""The trends of a series as a table, for the terminal and as markdown."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.foreign_text import one_field
from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.history.database import Baseline, HistoryAlarm
from omni_bench.nightly.history.records import StoredRun
from omni_bench.nightly.history.trend import Change, Trend, commit_range, first_night, order_of
from omni_bench.report.format import change_text, number, percent, signed_percent

HEADERS = ("metric", "load", "nights", "last", "segment mean", "segment", "mean vs baseline", "change points")


def trend_rows(trends: Sequence[Trend]) -> list[list[str]]:
    """One row a trend, under :data:`HEADERS`."""
    return [
        [
            metric_name(trend.series.metric),
            trend.series.load,
            str(len(trend.series.logs)),
            value_text(trend.series.metric, trend.last),
            value_text(trend.series.metric, trend.segment[0]),
            _nights(trend.segment[1]),
            change_text(METRICS[trend.series.metric], trend.against_baseline),
            "; ".join(change_line(trend.series.metric, change) for change in trend.changes) or "none",
        ]
        for trend in trends
    ]


def change_line(metric: str, change: Change) -> str:
    """``2026-11-03 +6.1 % worse (abc..def)``, of a share ``+6.1 points``."""
    direction = "worse" if change.worse else "better"
    amount = change_text(METRICS[metric], change.point.change)
    return f"{change.night.date} {amount} {direction} ({commit_range(change.commits)})"


def heading(runs: Sequence[StoredRun]) -> str:
    """What the series is: scenario, target, hardware, nights and their dates."""
    newest = runs[-1]
    dates = [run.started_utc[:10] for run in runs if run.started_utc]
    span = f", {' to '.join(dict.fromkeys((dates[0], dates[-1])))}" if dates else ""
    invalid = sum(not run.valid for run in runs)
    left_out = f", {invalid} of them invalid and left out" if invalid else ""
    advisory = f" ({newest.advisory})" if newest.advisory else ""
    injected = sum(bool(run.faults) for run in runs)
    faulty = f", {injected} of them with a fault injected on purpose" if injected else ""
    stated = sum(run.stated_fault is not None for run in runs)
    faulty += f", in {stated} of them the server says that it has a fault" if stated else ""
    nights = f"{_nights(len(runs))}{span}{left_out}{faulty}"
    who = f"{one_field(newest.scenario)}: {newest.target} on {newest.hardware}"
    return f"{who}{advisory}; {nights}; series {newest.series}"


def baseline_line(baseline: Baseline | None) -> str:
    """Which baseline holds, and the runs that it comes from."""
    if baseline is None:
        return "baseline: none was set (omni-bench history baseline set RUN... --note WHY)"
    note = f" ({one_field(baseline.note)})" if baseline.note else ""
    sources = ", ".join(f"{run.started_utc or 'undated'} {run.source} [{run.run_id[:12]}]" for run in baseline.runs)
    return f"baseline set {baseline.set_utc}{note} from {sources}"


def metric_name(metric: str) -> str:
    """``TTFP p50``, as in reports and comparisons."""
    entry = METRICS[metric]
    return f"{entry.short} p50" if entry.headline == "p50" else entry.short


def value_text(metric: str, *values: float | None) -> str:
    """``114 ms``, ``25.00 %``; of three, an expected value with the ends of its interval: ``114 [103, 126] ms``."""
    of = percent if METRICS[metric].percent else number
    unit = METRICS[metric].unit
    first, *ends = map(of, values)
    return first + (f" [{', '.join(ends)}]" if ends else "") + (f" {unit}" if unit and values[0] is not None else "")


def _nights(count: int) -> str:
    return f"{count} night{'' if count == 1 else 's'}"


def alarm_lines(
    alarms: Sequence[HistoryAlarm], runs: Sequence[StoredRun], baseline: Baseline | None = None
) -> list[str]:
    """What was alarmed, one line each, and whether the baseline accepts it: whether that begins with it or later."""
    since = first_night(baseline)
    accepted = set() if since is None else {run.run_id for run in runs if order_of(run) <= since}
    dates = {run.run_id: run.date for run in runs}
    return [
        f"{dates.get(alarm.raised_by, 'n/a')}: {alarm.kind} {_change(alarm)} since {dates.get(alarm.onset_run, 'n/a')}"
        + (", accepted by the baseline" if alarm.onset_run in accepted else "")
        for alarm in alarms
    ]


def _change(alarm: HistoryAlarm) -> str:
    """``RTF p50 c = 1 +10.0 %``; a metric that only another omni-bench has by its name there."""
    if alarm.metric not in METRICS:
        return f"{alarm.metric} {alarm.load} {signed_percent(alarm.change)}"
    return f"{metric_name(alarm.metric)} {alarm.load} {change_text(METRICS[alarm.metric], alarm.change)}"
