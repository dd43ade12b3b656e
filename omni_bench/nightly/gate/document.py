"""gate.json: the verdict for programs."""

from __future__ import annotations

from typing import Any

from omni_bench.nightly.gate.result import GateResult, IntegrityCase, SeriesResult
from omni_bench.nightly.history.document import record_document

VERSION = "2.2"


def to_document(result: GateResult) -> dict[str, Any]:
    """The whole verdict. Changes are fractions; a missing value is null."""
    return {
        "schema_version": VERSION,
        "outcome": str(result.outcome),
        "exit_code": result.exit_code,
        "run": record_document(result.run),
        "nights": result.nights,
        "integrity": [_case(case) for case in result.integrity],
        "series": [_series(one) for one in result.series],
        "changes": [
            {
                "is_new": change.onset.is_new,
                "nights": change.onset.nights,
                "last_good": None if change.onset.last_good is None else record_document(change.onset.last_good),
                "first_bad": record_document(change.onset.first_bad),
                "series": [{"metric": one.metric, "load": one.load} for one in change.series],
            }
            for change in result.changes
        ],
        "next_steps": [vars(step) for step in result.next_steps],
        "notes": list(result.notes),
        "pinned": None if result.pinned is None else record_document(result.pinned),
        "second_run": None if result.rerun is None else record_document(result.rerun),
        "second_run_stands_for_the_night": result.replaced,
        "baseline": None
        if result.baseline is None
        else {
            "set_utc": result.baseline.set_utc,
            "note": result.baseline.note,
            "runs": [record_document(run) for run in result.baseline.runs],
        },
    }


def _case(case: IntegrityCase) -> dict[str, Any]:
    return {
        "name": case.name,
        "ok": case.ok,
        "failures": [reason.to_json() for reason in case.failures],
        "errors": [reason.to_json() for reason in case.errors],
        "warnings": list(case.warnings),
    }


def _series(one: SeriesResult) -> dict[str, Any]:
    expected = one.expected
    return {
        "metric": one.metric,
        "load": one.load,
        "status": str(one.status),
        "reason": one.reason,
        "value": one.value,
        "change": one.change,
        "second_run_change": one.second_change,
        "against_baseline": one.against_baseline,
        "expected": None if expected is None else vars(expected),
        "commits": None if one.commits is None else list(one.commits),
        "alarm": None if one.alarm is None else vars(one.alarm),
    }
