"""compare.json: a comparison for other programs, with its schema and version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator

from omni_bench.compare.result import ComparedArm, Comparison
from omni_bench.compare.stats.verdicts import PrimaryVerdict
from omni_bench.errors import StoreError
from omni_bench.records.level import level_fields
from omni_bench.records.schema import misfits

COMPARE_SCHEMA_VERSION = "2.3"


@cache
def compare_schema() -> dict[str, Any]:
    """The JSON schema of compare.json (``omni_bench/compare/compare.schema.json``)."""
    return json.loads((resources.files("omni_bench.compare") / "compare.schema.json").read_text(encoding="utf-8"))


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(compare_schema())


def validate_comparison(document: Mapping[str, Any]) -> None:
    """Raise StoreError, naming the first few places, if ``document`` does not fit the schema."""
    if listed := misfits(_validator(), document):
        raise StoreError(f"the comparison does not fit its schema {COMPARE_SCHEMA_VERSION}: {listed}")


def to_document(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain types, checked against its schema. Missing is null; changes and rates are fractions."""
    guard, look = comparison.guard, comparison.look
    document = {
        "schema_version": COMPARE_SCHEMA_VERSION,
        "outcome": str(comparison.outcome),
        "gives_verdicts": comparison.gives_verdicts,
        "advisory": list(comparison.advisory.values()),
        "before": _arm(comparison.before),
        "after": _arm(comparison.after),
        "pairs": comparison.pairs,
        "used_pairs": [index + 1 for index in comparison.used],
        "alpha": comparison.alpha,
        "look": None
        if look is None
        else {"number": look.number, "of": len(look.at), "pairs": look.pairs, "planned": list(look.at)},
        "levels": [{**level_fields(level), "requests": count} for level, count in comparison.requests],
        "hardware": comparison.hardware,
        "prompts": comparison.prompts,
        "judge": comparison.judge,
        "settings": [asdict(one) for one in comparison.settings],
        "versions": [asdict(one) for one in comparison.versions],
        "faults": list(comparison.faults),
        "stated_faults": list(comparison.stated_faults),
        "stopped": comparison.stopped,
        "forced": [asdict(one) for one in comparison.forced],
        "invalid": list(comparison.invalid),
        "failures": list(comparison.failures),
        "notes": list(comparison.notes),
        "length_guard": {
            "tripped": guard.tripped,
            "reason": guard.reason,
            "change": guard.change,
            "total_change": guard.total_change,
            "levels": [{**level_fields(level), "change": change} for level, change in guard.levels],
            "prompts": guard.prompts,
            "outside": guard.outside,
            "basis": guard.basis,
        },
        "primaries": [_primary(primary) for primary in comparison.primaries],
        "cells": [
            {
                **asdict(cell),
                **level_fields(cell.concurrency),
                "mark": str(cell.mark),
                "delta": cell.delta,
                "interval": _pair(cell.interval),
            }
            for cell in comparison.cells
        ],
        "accuracy": {
            **asdict(comparison.accuracy),
            "rates": list(comparison.accuracy.rates),
            "levels": [{**asdict(level), **level_fields(level.concurrency)} for level in comparison.accuracy.levels],
            "worse": comparison.accuracy_worse,
        },
        "broken": [
            {**asdict(one), "levels": [level_fields(level) for level in one.levels]} for one in comparison.broken
        ],
        "pair_changes": [asdict(one) for one in comparison.pair_changes],
        "worst": [{**asdict(one), **level_fields(one.concurrency)} for one in comparison.worst],
    }
    validate_comparison(document)
    return document


def _arm(arm: ComparedArm) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(arm).items()}


def _primary(primary: PrimaryVerdict) -> dict[str, Any]:
    return {
        "metric": primary.metric,
        "better": primary.better,
        "pairs": primary.effect.pairs if primary.effect else 0,
        "log_change": primary.effect.mean if primary.effect else None,
        "log_sd": primary.effect.sd if primary.effect else None,
        "change": primary.change,
        "interval": _pair(primary.interval),
        "detectable": primary.detectable,
        "p_worse": primary.p_worse,
        "p_better": primary.p_better,
        "verdict": None if primary.verdict is None else str(primary.verdict),
    }


def _pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)
