"""Comparisons as lines of parity.jsonl, and a level's parity as it stands in run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from omni_bench.accuracy.parity.compare import ParityComparison, Words
from omni_bench.accuracy.parity.verdict import LevelParity
from omni_bench.errors import shorten
from omni_bench.records.convert import record_of, structure

_WORD_FIELDS = tuple(field.name for field in fields(Words))


def comparison_record(comparison: ParityComparison) -> dict[str, Any]:
    """A line of parity.jsonl: the comparison, with what was heard (all null without a judge) beside the rest."""
    record = record_of(comparison)
    return record | (record.pop("words") or dict.fromkeys(_WORD_FIELDS))


def comparison_of(record: Mapping[str, Any]) -> ParityComparison:
    """The inverse of :func:`comparison_record`. Raises StoreError for a field that is missing or of another type."""
    what = f"comparison of {shorten(repr(record.get('request_id')), 80)}"
    comparison = structure({**record, "words": None}, ParityComparison, what)
    return comparison if record.get("heard") is None else replace(comparison, words=structure(record, Words, what))


def parity_record(parity: LevelParity | None) -> dict[str, Any] | None:
    """``parity`` of a level in run.json; ``first`` with the ids, the place and the neighbours."""
    if parity is None:
        return None
    record = asdict(parity)
    first = parity.first
    record["first"] = None
    if first is not None:
        names = ("request_id", "solo_id", "prompt_id", "first_frame", "first_codebook", "first_sample", "at_s")
        record["first"] = {name: getattr(first, name) for name in names}
        record["first"]["neighbours"] = [asdict(one) for one in first.neighbours]
    return record
