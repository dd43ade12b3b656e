"""What no run can have written: values of a stored line of requests.jsonl that make no request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omni_bench.clients.timeline import Timeline
from omni_bench.errors import StoreError
from omni_bench.run.signal_checks import SHARED_FORM, is_shared_form
from omni_bench.text import shorten


def check_values(record: Mapping[str, Any], timeline: Timeline) -> None:
    """Raise StoreError with the first value of ``record`` that is none; ``timeline``: the request as read from it.

    A field that is missing altogether, or no mapping where one is due, is a KeyError or TypeError.
    """
    shared = record.get("shared_audio", [])  # runs of older versions have none
    faults, ttfa_ms, ref_text = record["faults"], record["metrics"]["ttfa_ms"], record.get("ref_text")
    prompt_text = record.get("prompt_text")
    checks = [(name, record[name], isinstance(record[name], str), "a string") for name in ("text", "language")]
    checks += [
        ("audio", record["audio"], record["audio"] is None or isinstance(record["audio"], str), "a string or null"),
        ("ref_text", ref_text, ref_text is None or isinstance(ref_text, str), "a string or null"),
        ("prompt_text", prompt_text, prompt_text is None or isinstance(prompt_text, str), "a string or null"),
        (
            "faults",
            faults,
            isinstance(faults, list) and all(isinstance(fault, str) for fault in faults),
            "a list of strings",
        ),
        ("shared_audio", shared, is_shared_form(shared), SHARED_FORM),
        (
            "metrics.ttfa_ms",
            ttfa_ms,
            ttfa_ms is None or (isinstance(ttfa_ms, (int, float)) and not isinstance(ttfa_ms, bool)),
            "a number or null",
        ),
        (
            "sample_rate_hz",
            timeline.sample_rate_hz,
            timeline.sample_rate_hz is None or timeline.sample_rate_hz >= 1,
            "at least 1, or null",
        ),
        ("chunk_bytes", timeline.chunk_bytes, all(size >= 0 for size in timeline.chunk_bytes), "0 or more each"),
        (
            "ended_ns" if timeline.ended_ns is not None else "failed_ns",
            timeline.finished_ns,
            timeline.finished_ns >= timeline.started_ns,
            f"at least started_ns={timeline.started_ns}",
        ),
    ]
    for name, value, holds, what in checks:
        if not holds:
            raise StoreError(f"request {timeline.request_id!r}: {name} is {shorten(repr(value), 80)}; must be {what}")
