"""From summaries to run.json: what is counted, what makes a run invalid, and that missing stays null."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
import run_factory as runs
from reasons import because

from omni_bench.errors import StoreError
from omni_bench.metrics.level import summarise_level
from omni_bench.metrics.request import request_metrics
from omni_bench.records.invalid_reason import Code
from omni_bench.records.request_metrics import RequestMetrics
from omni_bench.report.utterances import score_of
from omni_bench.run.document import build_level, build_run, utterance_record


def build(timelines, **arguments):
    metrics = [request_metrics(timeline, None) for timeline in timelines]
    return build_level(summarise_level(1, timelines, metrics, {}), metrics, **arguments)


def test_level_of_good_requests():
    level = build([runs.timeline("a"), runs.timeline("b", start_ms=1000)])
    assert (level["requests"], level["completed"], level["failed"], level["valid"]) == (2, 2, 0, True)
    assert level["metrics"]["ttfp_ms"]["p50"] == 100
    assert level["metrics"]["ttfp_ms"]["p95"] is None
    assert level["accuracy"] is None and level["client"] is None
    assert (level["stalls"], level["stalled_requests"]) == (0, 0)


def test_stalls_of_single_chunks_are_unknown_not_zero():
    level = build([runs.timeline("a", chunks=1)])
    assert level["stalls"] is None and level["stalled_requests"] is None


def test_failures_make_level_and_run_invalid():
    run = runs.make_run(levels=[runs.make_level(1), runs.make_level(4, failures=2)])
    good, bad = run["levels"]
    assert good["valid"] and not bad["valid"] and not run["valid"]
    assert bad["errors"] == {"connect": 2} and bad["failed"] == 2
    (reason,) = run["invalid_reasons"]
    assert reason == bad["invalid_reasons"][0] | {"level": "concurrency 4"}
    assert reason["text"] == "2 of 14 requests failed (connect 2)" and reason["code"] == "requests_failed"


def test_other_reasons_make_a_level_or_run_invalid():
    wer, interrupted = because(Code.WER), because(Code.INTERRUPTED)
    level = build([runs.timeline("a")], reasons=[wer])
    assert not level["valid"] and level["invalid_reasons"] == [wer.to_json()]
    run = runs.make_run(levels=[level])
    assert run["invalid_reasons"] == [{**wer.to_json(), "level": "concurrency 1"}]
    assert runs.make_run(own=[interrupted])["invalid_reasons"] == [interrupted.to_json()]


def test_a_run_without_levels_is_not_valid():
    run = runs.make_run(levels=[])
    assert not run["valid"] and [one["code"] for one in run["invalid_reasons"]] == ["no_levels"]


def test_level_without_requests_has_null_figures():
    level = build_level(summarise_level(1, [], [], {}), [])
    assert all(summary["mean"] is None and summary["n"] == 0 for summary in level["metrics"].values())
    runs.make_run(levels=[level])


def test_stalls_come_from_the_request_metrics():
    requests = [RequestMetrics("a", {"stalls": 3}), RequestMetrics("b", {"stalls": None})]
    level = build_level(summarise_level(1, [], [], {}), requests)
    assert (level["stalls"], level["stalled_requests"]) == (3, 1)


def test_accuracy_is_copied_as_fractions():
    accuracy = runs.make_level(1)["accuracy"]
    assert accuracy["judge"] == "tiny.en"
    assert accuracy["wer"] == pytest.approx(accuracy["edits"] / accuracy["words"])
    assert accuracy["cross_talk_hits"] is None and accuracy["parity_mismatches"] is None


def test_start_is_written_in_utc():
    east = datetime(2026, 1, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert runs.make_run(started_utc=east)["started_utc"] == "2025-12-31T23:30:00Z"
    with pytest.raises(StoreError, match="no time zone"):
        runs.make_run(started_utc=datetime(2026, 1, 1))


def test_provenance_that_does_not_fit_is_refused():
    provenance = runs.make_provenance()
    del provenance["hardware"]
    with pytest.raises(StoreError, match="hardware"):
        build_run(
            scenario="x",
            description="",
            started_utc=datetime.now(UTC),
            duration_s=None,
            levels=[runs.make_level(1)],
            provenance=provenance,
        )


def test_utterance_record_keeps_the_whole_score():
    (score,) = runs.scores(["c4-0002"])
    record = utterance_record(score, concurrency=4, prompt_id="p", audio="audio/x.wav", avg_logprob=-0.2)
    assert score_of(record) == score
    assert (record["concurrency"], record["prompt_id"], record["audio"]) == (4, "p", "audio/x.wav")
    assert record["no_speech_prob"] is None
