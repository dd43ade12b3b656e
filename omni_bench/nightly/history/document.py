"""The history for programs: what ``omni-bench history ... --json`` prints. A missing value is null."""

from __future__ import annotations

from typing import Any

from omni_bench.nightly.history.database import Baseline, History
from omni_bench.nightly.history.records import StoredRun
from omni_bench.nightly.history.trend import Trend, trends


def record_document(run: StoredRun) -> dict[str, Any]:
    """One run, without its figures."""
    return {
        "run_id": run.run_id,
        "source": run.source,
        "scenario": run.scenario,
        "series": run.series,
        "target": run.target,
        "hardware": run.hardware,
        "started_utc": run.started_utc,
        "commit": run.commit,
        "valid": run.valid,
    }


def night_document(run: StoredRun) -> dict[str, Any]:
    """One run, and why it can be shown but not gated (null if it can be)."""
    return {**record_document(run), "advisory": run.advisory}


def baseline_document(baseline: Baseline) -> dict[str, Any]:
    """One baseline with the runs it comes from."""
    return {
        "series": baseline.series,
        "set_utc": baseline.set_utc,
        "note": baseline.note,
        "runs": [night_document(run) for run in baseline.runs],
    }


def series_document(history: History, series: str) -> dict[str, Any]:
    """One series: its nights, trends, alarms and baseline. Changes are fractions. Raises StoreError."""
    nights, baseline, verdicts = history.nights(series), history.baseline(series), history.verdicts(series)
    return {
        "series": series,
        "nights": [{**night_document(night), "outcome": verdicts.get(night.run_id)} for night in nights],
        "trends": [_trend(trend) for trend in trends(nights, baseline)],
        "alarms": [vars(alarm) for alarm in history.alarms(series)],
        "baseline": None if baseline is None else baseline_document(baseline),
    }


def _trend(trend: Trend) -> dict[str, Any]:
    return {
        "metric": trend.series.metric,
        "load": trend.series.load,
        "values": [
            {"run_id": night.run_id, "value": value}
            for night, value in zip(trend.series.nights, trend.series.values, strict=True)
        ],
        "segment_mean": trend.segment[0],
        "segment_nights": trend.segment[1],
        "against_baseline": trend.against_baseline,
        "changes": [
            {
                "first_night": change.night.run_id,
                "change": change.point.change,
                "p": change.point.p,
                "commits": list(change.commits),
                "worse": change.worse,
            }
            for change in trend.changes
        ],
    }
