"""Stored lines that were edited, or written by another program."""

from __future__ import annotations

import re

import pytest
import run_factory as runs
from repository import DATA

from omni_bench.errors import StoreError
from omni_bench.records.prompt import Prompt
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline_json import timeline_from_dict
from omni_bench.run.measure import measure_request
from omni_bench.run.stored_results import prompt_of, read_results, read_stored, result_record


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
    with pytest.raises(StoreError, match=f"(request|timeline) 'c1-0000': .*{re.escape(message)}") as caught:
        check({**record, **change})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("absent", ["text", "language"])
def test_a_line_of_a_killed_run_that_does_not_say_what_was_asked_for(record, absent):
    assert prompt_of(record, timeline_from_dict(record)).text == "Good morning."
    del record[absent]
    with pytest.raises(StoreError, match=f"request 'c1-0000': missing required field {absent}"):
        prompt_of(record, timeline_from_dict(record))


def test_figures_that_only_a_later_omni_bench_knows_are_passed_over():
    folder = RunFolder(DATA / "old_runs/parity_words")
    run = folder.read_run()
    (level, *_) = run["levels"]
    parts = {
        "cpu_wait": {"wait_s": 1.0, "lag_p99_ms": 1.0, "cores": 2, "with_server": False},
        "ttfp_bias": {"p50_ms": 0.1, "p99_ms": 0.2, "concurrency": 4, "workers": 1, "requests": 64},
    }
    node = {"address": "10.0.0.2", "workers": 1, "offset_ms": 0.1, "error_ms": 0.1, "one_machine": False, "new": 1}
    level["client"] |= {name: part | {"new": 1} for name, part in parts.items()} | {"nodes": [node]}
    level["pace"] = {"expected": {"letters_per_s": 12.0, "spread": 0.1, "source": "language", "limit": 3.0, "new": 1}}
    result = read_results(folder, run)[0]
    assert result.lag.cpu.cores == 2 and result.lag.bias.requests == 64 and result.lag.nodes[0].error_ms == 0.1
    assert result.expected_pace.letters_per_s == 12.0
    level["client"]["lag_p99_ms"] = None
    assert read_results(folder, run)[0].lag is None, "not measured, and not a lag of nothing"
    level["client"] |= {"lag_p99_ms": 1.0, "lag_p50_ms": None}
    with pytest.raises(StoreError, match=r"run\.json: concurrency \d+: client: p50_ms is None; expected float"):
        read_results(folder, run)
