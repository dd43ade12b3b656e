"""Timelines as JSON objects: the form of ``requests.jsonl`` and of the load worker's events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from omni_bench.errors import StoreError
from omni_bench.records.level import level_fields, level_of
from omni_bench.records.timeline import RequestError, Timeline

_FIELD_NAMES = tuple(field.name for field in fields(Timeline))
_TEXT_FIELDS = ("request_id", "prompt_id")
_INT_FIELDS = ("scheduled_ns", "started_ns", "sample_width_bytes")
_OPTIONAL_INT_FIELDS = (
    "seed",
    "headers_ns",
    "first_byte_ns",
    "first_audio_ns",
    "ended_ns",
    "failed_ns",
    "sample_rate_hz",
    "http_status",
    "completion_tokens",
)
_OPTIONAL_TEXT_FIELDS = ("reply_text", "server_request_id")
_INT_LIST_FIELDS = ("chunk_arrived_ns", "chunk_bytes", "text_arrived_ns", "text_tokens")
_ADDED_FIELDS = {
    "chunk_ends": (),  # not in lines of schema 1.0; the rest not before 1.4
    "text_arrived_ns": (),
    "text_tokens": (),
    "reply_text": None,
    "completion_tokens": None,
    "server_request_id": None,
}


def timeline_to_dict(timeline: Timeline) -> dict[str, Any]:
    """All fields of a timeline as JSON values: tuples become lists, the error an object or null.

    The level is ``concurrency``, or ``rate_hz`` beside a ``concurrency`` of null (:mod:`omni_bench.records.level`).
    """
    values: dict[str, Any] = {name: getattr(timeline, name) for name in _FIELD_NAMES}
    for name in (*_INT_LIST_FIELDS, "chunk_ends"):
        values[name] = list(values[name])
    values |= level_fields(timeline.concurrency)
    if timeline.error is not None:
        values["error"] = {"kind": timeline.error.kind, "message": timeline.error.message}
    return values


def timeline_from_dict(values: Mapping[str, Any]) -> Timeline:
    """The exact inverse of :func:`timeline_to_dict`; keys it does not know are ignored.

    Raises StoreError when a field is missing or has the wrong type; the message names it.
    """
    values = {**_ADDED_FIELDS, **values}
    missing = [name for name in _FIELD_NAMES if name not in values]
    if missing:
        raise StoreError(f"timeline {values.get('request_id', '?')!r}: missing field(s) {', '.join(missing)}")
    known = {name: values[name] for name in _FIELD_NAMES}
    for name in _TEXT_FIELDS:
        _expect(known, name, isinstance(known[name], str), "a string")
    for name in _INT_FIELDS:
        _expect(known, name, _is_int(known[name]), "an integer")
    if values.get("rate_hz") is None:
        _expect(known, "concurrency", _is_int(known["concurrency"]), "an integer")
    else:
        known["concurrency"] = level_of(values)
    for name in _OPTIONAL_INT_FIELDS:
        _expect(known, name, known[name] is None or _is_int(known[name]), "an integer or null")
    for name in _OPTIONAL_TEXT_FIELDS:
        _expect(known, name, known[name] is None or isinstance(known[name], str), "a string or null")
    for name in _INT_LIST_FIELDS:
        is_ints = isinstance(known[name], (list, tuple)) and all(_is_int(item) for item in known[name])
        _expect(known, name, is_ints, "a list of integers")
        known[name] = tuple(known[name])
    same_length = len(known["chunk_arrived_ns"]) == len(known["chunk_bytes"])
    _expect(known, "chunk_bytes", same_length, "as long as chunk_arrived_ns")
    tokens_fit = len(known["text_tokens"]) in (0, len(known["text_arrived_ns"]))
    _expect(known, "text_tokens", tokens_fit, "empty or as long as text_arrived_ns")
    ends = known["chunk_ends"]
    is_flags = isinstance(ends, (list, tuple)) and all(isinstance(item, bool) for item in ends)
    _expect(known, "chunk_ends", is_flags, "a list of true and false")
    _expect(known, "chunk_ends", len(ends) in (0, len(known["chunk_bytes"])), "empty or as long as chunk_bytes")
    known["chunk_ends"] = tuple(ends)
    _expect(known, "sample_width_bytes", known["sample_width_bytes"] >= 1, "at least 1")
    _expect(known, "warmup", isinstance(known["warmup"], bool), "true or false")
    finished = (known["ended_ns"] is None) != (known["failed_ns"] is None)
    _expect(known, "ended_ns", finished, "set where failed_ns is null, and the other way round")
    known["error"] = _error_from(known)
    _expect(known, "error", (known["error"] is None) == (known["failed_ns"] is None), "set exactly where failed_ns is")
    return Timeline(**known)


def _error_from(values: Mapping[str, Any]) -> RequestError | None:
    error = values["error"]
    if error is None:
        return None
    is_error = (
        isinstance(error, Mapping) and isinstance(error.get("kind"), str) and isinstance(error.get("message"), str)
    )
    _expect(values, "error", is_error, "null or an object with the strings kind and message")
    return RequestError(kind=error["kind"], message=error["message"])


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _expect(values: Mapping[str, Any], name: str, holds: bool, what: str) -> None:
    if not holds:
        shown = repr(values[name])
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        raise StoreError(f"timeline {values['request_id']!r}: {name} is {shown}; must be {what}")
