"""A run.json, and a result of vllm bench, as records."""

from __future__ import annotations

import copy

import pytest
import run_factory as runs
from repository import DATA

from omni_bench.compare.vllm_bench import group_results, merged, read_result
from omni_bench.nightly.history.load import load_records
from omni_bench.nightly.history.records import ADVISORY, content_hash, record_of_bench, record_of_run, series_id

RESULT = {
    "date": "20261128-031500",
    "backend": "openai-audio-speech",
    "label": "nightly",
    "model_id": "Qwen/Qwen3-TTS",
    "num_prompts": 32,
    "request_rate": "inf",
    "max_concurrency": 4,
    "duration": 20.5,
    "completed": 32,
    "failed": 0,
    "median_audio_ttfp_ms": 90.0,
    "median_audio_rtf": 0.4,
    "audio_throughput": 5.5,
}


def of_bench(**changes):
    result = RESULT | changes
    (parts,) = group_results([read_result(result, "bench.json")])
    view = merged(parts)
    return record_of_bench(view, [result])


def test_a_run():
    run = runs.make_run(concurrencies=(1, 4))
    record = record_of_run(run, "here")
    assert record.valid == run["valid"] and record.started_utc == run["started_utc"]
    assert [level.load for level in record.levels] == ["c = 1", "c = 4"]
    assert record.level("c = 4").value("rtf") == run["levels"][1]["metrics"]["rtf"]["p50"]
    assert record.level("c = 4").value("audio_per_s") == run["levels"][1]["metrics"]["audio_per_s"]["mean"]
    assert record.level("c = 9") is None and record.advisory is None
    assert record.commit == run["provenance"]["harness"]["commit"], "the bundled server is of the harness's commit"


def test_the_id_is_of_the_content_not_of_the_layout():
    run = runs.make_run()
    backwards = dict(reversed(list(run.items())))
    assert record_of_run(backwards, "b").run_id == record_of_run(run, "a").run_id
    changed = copy.deepcopy(run)
    changed["duration_s"] += 1
    assert record_of_run(changed, "a").run_id != record_of_run(run, "a").run_id


def test_the_series_is_of_what_makes_runs_comparable():
    run = runs.make_run()
    same = record_of_run(run, "a")

    def changed(change):
        other = copy.deepcopy(run)
        change(other)
        return record_of_run(other, "b").series

    assert changed(lambda one: one["provenance"]["prompts"].update(sha256="ff" * 32)) != same.series
    assert changed(lambda one: one["provenance"]["hardware"].update(cpu="Slow CPU 1")) != same.series
    assert changed(lambda one: one.update(scenario="smoke")) != same.series
    health = {"model": "other", "device": "cpu", "device_name": "cpu"}
    assert changed(lambda one: one["provenance"]["target"]["description"].update(health=health)) != same.series
    # a default that a commit changed is what a nightly is there to judge
    assert changed(lambda one: one["provenance"]["config"].update(reference={"chunk_frames": 4})) == same.series
    assert changed(lambda one: one["provenance"]["harness"].update(commit="9" * 40)) == same.series


def test_a_result_of_vllm_bench_is_advisory():
    record = of_bench()
    assert record.advisory == ADVISORY and record.valid and record.scenario == "nightly"
    assert record.started_utc == "2026-11-28T03:15:00Z"
    assert record.level("c = 4").value("rtf") == 0.4 and record.level("c = 4").value("audio_per_s") == 5.5
    assert record.level("c = 4").value("e2el_ms") is None


@pytest.mark.parametrize("date", (None, "", "yesterday", 7))
def test_a_result_without_a_date(date):
    assert of_bench(date=date).started_utc is None


def test_a_failed_request_makes_a_result_invalid():
    record = of_bench(failed=1)
    assert not record.valid and [str(one) for one in record.reasons] == ["c = 4: 1 of 33 requests failed"]


@pytest.mark.parametrize(
    ("changes", "concurrency", "arrival"),
    (
        ({"max_concurrent_requests": 3, "burstiness": 1.0}, 3, "poisson"),
        ({"max_concurrent_requests": 3, "burstiness": 0.5}, 3, "gamma"),
        ({}, 32, "poisson"),
        ({"max_concurrent_requests": 0}, 32, "poisson"),
        ({"max_concurrent_requests": 99}, 32, "poisson"),
    ),
)
def test_a_result_at_a_rate_below_one_a_second(changes, concurrency, arrival):
    record = of_bench(max_concurrency=None, request_rate=0.1, **changes)
    (level,) = record.levels
    assert (level.load, level.concurrency, level.arrival) == ("0.1 req/s", concurrency, arrival)
    assert record.series != of_bench(max_concurrency=None, request_rate=0.5).series


def test_hash_of_content_tells_values_apart():
    assert content_hash({"a": 1}) != content_hash({"a": 2}) != content_hash({"a": "2"})


def test_a_real_result_at_a_rate():
    """vllm-omni 0.30.0, --request-rate 0.5 without --max-concurrency."""
    path = DATA / "vllm_bench" / "speech_rate_0.5.json"
    (record,) = load_records([str(path)])
    (level,) = record.levels
    assert (level.load, level.concurrency, level.arrival, level.requests) == ("0.5 req/s", 1, "poisson", 4)
    assert record.started_utc == "2026-11-28T07:08:22Z" and level.value("ttfp_ms") > 50


def test_a_series_goes_on_when_a_newer_version_knows_one_more_key():
    keys = dict(record_of_run(runs.make_run(), "a").keys)
    assert keys["client.modalities"] == [] and keys["load.burstiness"] == 1.0
    older = {name: value for name, value in keys.items() if name not in ("client.modalities", "load.burstiness")}
    assert series_id("s", "t", older) == series_id("s", "t", keys)
    assert series_id("s", "t", keys | {"client.modalities": ["text"]}) != series_id("s", "t", keys)
    assert series_id("s", "t", keys | {"prompts.sha256": None}) != series_id("s", "t", keys)
