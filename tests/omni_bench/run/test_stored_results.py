"""Stored lines that were edited, or written by another program."""

from __future__ import annotations

import re

import pytest
import run_factory as runs

from omni_bench.errors import StoreError
from omni_bench.records.prompt import Prompt
from omni_bench.records.timeline_json import timeline_from_dict
from omni_bench.run.measure import measure_request
from omni_bench.run.stored_results import read_stored, result_record


@pytest.fixture
def record():
    """A line as a run writes it."""
    result = measure_request(runs.timeline("c1-0000", chunks=2), Prompt("p", "Good morning.", None, None, "en"), None)
    return result_record(result, "audio/c1-0000.wav")


def check(record):
    read_stored(record, timeline_from_dict(record))


def test_what_a_run_writes_is_right_with_a_recording_and_without(record):
    check(record)
    check({**record, "audio": None, "metrics": {"ttfa_ms": None}, "sample_rate_hz": None})


@pytest.mark.parametrize("absent", ["shared_audio", "ref_text", "prompt_text"])
def test_lines_of_older_versions_lack_some_fields(record, absent):
    del record[absent]
    check(record)


@pytest.mark.parametrize("absent", ["text", "language", "audio", "faults", "metrics"])
def test_a_line_without_results_is_no_finished_request(record, absent):
    del record[absent]
    with pytest.raises(StoreError, match=absent):
        check(record)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": 7}, "text is 7; expected str"),
        ({"audio": 7}, "audio is 7; expected str | null"),
        ({"faults": "silent"}, "faults is 'silent'; expected array"),
        ({"shared_audio": "all"}, "shared_audio is 'all'; expected array"),
        ({"metrics": {"ttfa_ms": "soon"}}, "metrics.ttfa_ms is 'soon'; must be a number or null"),
        ({"sample_rate_hz": 0}, "sample_rate_hz is 0; must be at least 1"),
        ({"chunk_bytes": [-2, 4]}, "must be 0 or more each"),
        ({"ended_ns": -5}, "ended_ns is -5; must be at least started_ns="),
        ({"text": {"long": "x" * 500}}, "..."),
    ],
)
def test_a_value_that_no_run_can_have_written_is_named_with_its_request(record, change, message):
    with pytest.raises(StoreError, match=f"request 'c1-0000': .*{re.escape(message)}") as caught:
        check({**record, **change})
    assert len(str(caught.value)) < 200
