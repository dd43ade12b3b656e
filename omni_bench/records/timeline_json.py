"""Timelines as JSON objects: the form of ``requests.jsonl`` and of the load worker's events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omni_bench.errors import shorten
from omni_bench.records.convert import expect, record_of, structure
from omni_bench.records.timeline import Timeline


def timeline_to_dict(timeline: Timeline) -> dict[str, Any]:
    """All fields of a timeline as JSON values: tuples become lists, the error an object or null.

    The level is ``concurrency``, or ``rate_hz`` beside a ``concurrency`` of null (:mod:`omni_bench.records.level`).
    """
    return record_of(timeline)


def timeline_from_dict(values: Mapping[str, Any]) -> Timeline:
    """The exact inverse of :func:`timeline_to_dict`; keys it does not know are ignored.

    Fields that older schemas lack have the defaults of :class:`Timeline` (``chunk_ends`` of 1.0, text before 1.4).
    Raises StoreError when a field is missing or has the wrong type; the message names it.
    """
    what = f"timeline {shorten(repr(values.get('request_id', '?')), 80)}"
    timeline = structure(values, Timeline, what)
    chunks, texts = len(timeline.chunk_bytes), len(timeline.text_arrived_ns)
    ended, failed = timeline.ended_ns is not None, timeline.failed_ns is not None
    rate_hz = timeline.sample_rate_hz
    for name, holds, must_be in (
        ("chunk_bytes", chunks == len(timeline.chunk_arrived_ns), "as long as chunk_arrived_ns"),
        ("chunk_bytes", all(size >= 0 for size in timeline.chunk_bytes), "0 or more each"),
        ("chunk_ends", len(timeline.chunk_ends) in (0, chunks), "empty or as long as chunk_bytes"),
        ("text_tokens", len(timeline.text_tokens) in (0, texts), "empty or as long as text_arrived_ns"),
        ("sample_rate_hz", rate_hz is None or rate_hz >= 1, "at least 1, or null"),
        ("sample_width_bytes", timeline.sample_width_bytes >= 1, "at least 1"),
        ("ended_ns", ended != failed, "set where failed_ns is null, and the other way round"),
        ("error", (timeline.error is not None) == failed, "set exactly where failed_ns is"),
    ):
        expect(what, name, values.get(name), holds, must_be)
    return timeline
