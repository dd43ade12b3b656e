"""Comparisons as lines of parity.jsonl, and a level's parity as it stands in run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from omni_bench.accuracy.parity.compare import Comparison, Neighbour, Words
from omni_bench.accuracy.parity.verdict import LevelParity
from omni_bench.errors import StoreError, shorten
from omni_bench.records.level import Level, level_fields, level_of

_TEXT, _TEXT_OR_NULL = (str,), (str, type(None))
_INT, _INT_OR_NULL = (int,), (int, type(None))
_FLAG, _FLAG_OR_NULL = (bool,), (bool, type(None))
_NUMBER, _NUMBER_OR_NULL = (int, float), (int, float, type(None))
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("request_id", "solo_id", "prompt_id"), _TEXT),
    **dict.fromkeys(("kind", "problem", "solo_error", "sha256", "solo_sha256"), _TEXT_OR_NULL),
    **dict.fromkeys(
        ("seed", "first_frame", "first_codebook", "first_sample", "arrived_ns", "length_difference"), _INT_OR_NULL
    ),
    "repeat": _FLAG,
    **dict.fromkeys(("equal", "exact"), _FLAG_OR_NULL),
    "at_s": _NUMBER_OR_NULL,
}
_WORD_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("heard", "heard_alone"), _TEXT),
    **dict.fromkeys(("wer", "wer_alone"), _NUMBER),
    "wer_between": _NUMBER_OR_NULL,
    **dict.fromkeys(("worse", "worse_alone", "corrupted", "corrupted_alone"), _FLAG),
}
_WORD_FIELDS = tuple(field.name for field in fields(Words))


def comparison_record(comparison: Comparison) -> dict[str, Any]:
    """A line of parity.jsonl: the comparison, with what was heard (all null without a judge) beside the rest."""
    record = asdict(comparison)
    words = record.pop("words") or dict.fromkeys(_WORD_FIELDS)
    record |= level_fields(comparison.concurrency)
    return {**record, "neighbours": [asdict(one) for one in comparison.neighbours], **words}


def comparison_of(record: Mapping[str, Any]) -> Comparison:
    """The inverse of :func:`comparison_record`. Raises StoreError for a field that is missing or of another type."""
    values = {name: _checked(record, name, types) for name, types in _TYPES.items()}
    words = None
    if record.get("heard") is not None:
        words = Words(**{name: _checked(record, name, types) for name, types in _WORD_TYPES.items()})
    neighbours = record.get("neighbours")
    if not isinstance(neighbours, list) or not all(_is_neighbour(one) for one in neighbours):
        raise StoreError(_wrong(record, "neighbours", "a list of objects with the strings request_id and prompt_id"))
    return Comparison(
        **values,
        concurrency=_level(record),
        neighbours=tuple(Neighbour(one["request_id"], one["prompt_id"]) for one in neighbours),
        words=words,
    )


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


def _level(record: Mapping[str, Any]) -> Level:
    if record.get("rate_hz") is None:
        return _checked(record, "concurrency", _INT)
    return level_of(record)


def _is_neighbour(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(name), str) for name in ("request_id", "prompt_id"))


def _checked(record: Mapping[str, Any], name: str, types: tuple[type, ...]) -> Any:
    value = record.get(name, _MISSING)
    is_flag = isinstance(value, bool)
    if value is _MISSING or not isinstance(value, types) or (is_flag and bool not in types):
        names = " or ".join("null" if one is type(None) else one.__name__ for one in types)
        raise StoreError(_wrong(record, name, names))
    return value


def _wrong(record: Mapping[str, Any], name: str, what: str) -> str:
    shown = shorten(repr(record[name]), 80) if name in record else "missing"
    return f"comparison of {shorten(repr(record.get('request_id')), 80)}: {name} is {shown}; must be {what}"


_MISSING = object()
