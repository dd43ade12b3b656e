"""Results of ``vllm bench serve``: fields, what is missing, how files make up runs, never a verdict."""

from __future__ import annotations

import json
import math

import pytest
from repository import DATA

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.load import load_arm
from omni_bench.compare.result import Advisory, ComparisonOutcome
from omni_bench.compare.vllm_bench import read_result
from omni_bench.errors import ComparabilityError, ConfigError, StoreError
from omni_bench.metrics.definitions import summarised
from omni_bench.records.level import Rate


@pytest.fixture
def write(tmp_path, bench_result):
    """A function that writes a result and gives its path."""

    def write(name, *arguments, **changes):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(bench_result(*arguments, **changes)))
        return path

    return write


def test_fields(bench_result):
    run = read_result(bench_result(), "a.json")
    (level,) = run.levels
    assert (level.concurrency, level.requests, level.why) == (4, 32, ())
    assert set(level.metrics) == {metric.name for metric in summarised()}
    assert level.value("ttfp_ms") == 110.0 and level.figure("ttfp_ms", "p90") == 150.0
    assert level.value("rtf") == 0.25 and level.figure("rtf", "p99") == 0.4
    assert level.value("e2el_ms") == 880.0 and level.value("audio_per_s") == 5.5
    assert level.figure("audio_s", "mean") == 3.4
    assert level.metrics["ttfp_ms"]["n"] == 32 and run.requests is None


def test_what_was_not_measured_is_missing_not_zero(bench_result):
    level = read_result(bench_result(mean_e2el_ms=0.0, median_e2el_ms=0, audio_throughput=0.0), "a.json").levels[0]
    assert level.value("ttft_ms") is None and level.metrics["ttft_ms"]["n"] == 0
    assert level.value("e2el_ms") is None and level.value("audio_per_s") is None
    assert level.value("stall_s") is None and level.figure("ttfp_ms", "p95") is None
    assert level.accuracy is None


@pytest.mark.parametrize("value", [None, "fast", True, -1.0, math.nan, math.inf])
def test_what_is_no_measurement_is_missing(bench_result, value):
    level = read_result(bench_result(median_audio_rtf=value, p50_audio_rtf=value), "a.json").levels[0]
    assert level.value("rtf") is None


def test_percentiles_as_rows(bench_result):
    data = bench_result(percentiles_audio_rtf=[[50.0, 0.2], [95.0, 0.33], "?"])
    del data["median_audio_rtf"]
    level = read_result(data, "a.json").levels[0]
    assert level.value("rtf") == 0.2 and level.figure("rtf", "p95") == 0.33
    assert level.figure("rtf", "p99") == 0.4  # the flat field goes first


def test_failures_make_it_invalid(bench_result):
    assert [str(one) for one in read_result(bench_result(failed=3), "a").invalid] == ["c = 4: 3 of 35 requests failed"]
    assert [str(one) for one in read_result(bench_result(completed=0), "a").invalid] == [
        "c = 4: no request was completed"
    ]
    older = bench_result()
    del older["failed"]
    assert read_result(older, "a").invalid == ()


def test_concurrency_without_a_limit(bench_result):
    assert read_result(bench_result(None), "a").levels[0].concurrency == 32
    for changes in ({"request_rate": 0.0}, {"request_rate": "fast"}, {"num_prompts": None}):
        with pytest.raises(StoreError, match=r"a\.json: max_concurrency is None"):
            read_result(bench_result(None, **changes), "a.json")
    with pytest.raises(StoreError, match="max_concurrency is 0"):
        read_result(bench_result(0), "a.json")


@pytest.mark.parametrize("data", [[], {}, {"schema_version": "1.2"}, "text", {"completed": 1}])
def test_other_json_is_refused(data):
    with pytest.raises(StoreError, match="is not a result of `vllm bench serve"):
        read_result(data, "a.json")
    with pytest.raises(StoreError, match="completed is 'all'"):
        read_result({"completed": "all", "duration": 1}, "a.json")


def test_two_results_are_compared_without_a_verdict(write):
    comparison = compare_runs(load_arm(str(write("a.json"))), load_arm(str(write("b.json", slower=1.5))))
    assert comparison.outcome is ComparisonOutcome.ADVISORY and Advisory.NO_REQUESTS in comparison.advisory
    assert {primary.verdict for primary in comparison.primaries} == {None}
    changes = [primary.change for primary in comparison.primaries]
    assert changes[:3] == pytest.approx([0.5, 0.5, 1 / 1.5 - 1])
    assert changes[3:] == [None, None], "it prints neither the slowest tenth nor who stalled"
    assert comparison.guard.tripped is False and comparison.guard.basis == "level means"


def test_many_results_still_give_no_verdict(write):
    for i in range(5):
        write(f"before/{i}.json", slower=1 + i / 1000)
        write(f"after/{i}.json", slower=2 + i / 999)
    folder = write("before/0.json").parent
    comparison = compare_runs(load_arm(str(folder)), load_arm(f"{folder.parent}/after/*.json"))
    assert comparison.pairs == 5 and comparison.outcome is ComparisonOutcome.ADVISORY
    assert {primary.verdict for primary in comparison.primaries} == {None}


def test_a_sweep_is_one_run(write):
    files = [
        write(f"c{level}_{i}.json", level, num_prompts=8 * level, slower=1 + i) for i in (0, 1) for level in (8, 1)
    ]
    runs = load_arm(",".join(map(str, files)))
    assert [[level.concurrency for level in run.levels] for run in runs] == [[1, 8], [1, 8]]
    assert [run.level(8).value("ttfp_ms") for run in runs] == [110.0, 220.0]
    with pytest.raises(StoreError, match="1 of max_concurrency 1, 2 of max_concurrency 8"):
        load_arm(",".join(map(str, [files[0], files[1], files[2]])))
    other = write("other.json", 1, model_id="another")
    with pytest.raises(StoreError, match="differ in model_id"):
        load_arm(f"{files[0]},{other}")


def test_other_keys_are_refused(write, make):
    first = load_arm(str(write("a.json")))
    with pytest.raises(ComparabilityError, match=r"bench\.num_prompts: 32 \| 64"):
        compare_runs(first, load_arm(str(write("b.json", num_prompts=64))))
    with pytest.raises(ComparabilityError, match=r"client\.program: vllm bench serve \| omni-bench"):
        compare_runs(first, [make.view(levels=(4,))])
    mixed = compare_runs(first, [make.view(levels=(4,))], force=True)
    assert mixed.outcome is ComparisonOutcome.ADVISORY and mixed.forced


def test_files_that_are_no_results(write, tmp_path, make):
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(StoreError, match=r"broken\.json is not JSON"):
        load_arm(str(tmp_path / "broken.json"))
    with pytest.raises(ConfigError, match="mixes run folders"):
        load_arm(f"{write('a.json')},{make.folder('run')}")


@pytest.mark.parametrize("huge", [2**63, 10**400], ids=["63_bits", "400_digits"])
def test_numbers_that_nobody_can_keep(write, huge):
    with pytest.raises(StoreError, match=r"a\.json is not JSON: \d+(\.\.\.)? is an integer of more than 64 bits"):
        load_arm(str(write("a.json", request_throughput=huge)))
    (run,) = load_arm(str(write("b.json", tokenizer_id=float("inf"), request_throughput=float("nan"))))
    assert run.keys["bench.tokenizer_id"] is None and run.levels[0].value("requests_per_s") is None


def test_a_request_rate_is_a_level(bench_result):
    (level,) = read_result(bench_result(None, request_rate=0.5), "a.json").levels
    assert level.concurrency == Rate(0.5)
    (capped,) = read_result(bench_result(8, request_rate=0.5), "a.json").levels
    assert capped.concurrency == 8, "with a limit, that is what the user set for the server"


def test_a_sweep_over_rates_is_one_run(write):
    files = [write(f"r{i}.json", None, request_rate=rate, num_prompts=8 + i) for i, rate in enumerate((1.0, 0.1, 0.5))]
    (run,) = load_arm(",".join(map(str, files)))
    assert [level.concurrency for level in run.levels] == [Rate(0.1), Rate(0.5), Rate(1.0)]
    assert run.keys["load.rate_hz"] == [0.1, 0.5, 1.0] and "load.concurrency" not in run.keys
    assert run.keys["bench.request_rate"] == [0.1, 0.5, 1.0]
    with pytest.raises(StoreError, match=r"2 of 0\.1 req/s, 1 of 0\.5 req/s"):
        load_arm(f"{files[1]},{write('again.json', None, request_rate=0.1)},{files[2]}")
    with pytest.raises(StoreError, match=r"r0\.json is of a request rate .*c4\.json of a concurrency"):
        load_arm(f"{files[0]},{write('c4.json')}")


REAL = DATA / "vllm_bench"


def test_a_real_result():
    """vllm-omni 0.30.0 against the reference server with an engine of a fixed pace (benchmarks/interop)."""
    (run,) = load_arm(str(REAL / "speech_c4.json"))
    (level,) = run.levels
    assert (level.concurrency, level.requests, run.invalid) == (4, 12, ())
    measured = {name for name, metric in level.metrics.items() if metric["n"]}
    assert measured == {"ttfp_ms", "rtf", "e2el_ms", "audio_s", "prebuffer_s", "audio_per_s", "requests_per_s"}
    data = json.loads((REAL / "speech_c4.json").read_text())
    assert level.value("ttfp_ms") == data["median_audio_ttfp_ms"] and level.value("audio_s") == 0.2
    assert level.value("e2el_ms") / 200 == pytest.approx(level.value("rtf"))  # 0.2 s of audio a request
    assert level.value("audio_per_s") == pytest.approx(0.2 * level.value("requests_per_s"))
    assert level.figure("ttfp_ms", "p90") > level.value("ttfp_ms") and level.figure("ttfp_ms", "p95") is None
    assert run.facts.target == "openai-audio-speech steady"


def test_no_underrun_is_a_measurement_where_there_is_audio(bench_result):
    """Their other zeros mean that nothing was measured."""
    fields = {"median_audio_underrun_s": 0.0, "percentiles_audio_underrun_s": [[90.0, 0.0]], "median_audio_rtf": 0.0}
    level = read_result(bench_result(total_audio_duration_s=105.6, **fields), "a.json").levels[0]
    assert level.value("prebuffer_s") == 0.0 == level.figure("prebuffer_s", "p90") and level.value("rtf") is None
    chat = read_result(bench_result(total_audio_duration_s=105.6, backend="openai-chat-omni", **fields), "a").levels[0]
    assert chat.value("prebuffer_s") is None, "their chat backend does not measure it"
    silent = read_result(bench_result(total_audio_duration_s=0, **fields), "a.json").levels[0]
    assert silent.value("prebuffer_s") is None and silent.metrics["prebuffer_s"]["n"] == 0


def test_a_real_result_at_a_rate():
    (run,) = load_arm(str(REAL / "speech_rate_0.5.json"))
    (level,) = run.levels
    assert (level.concurrency, level.requests, run.invalid) == (Rate(0.5), 4, ())
    assert 0.030 < level.value("prebuffer_s") < 0.045, "eight reads of 25 ms, one each 30 ms"
    assert compare_runs([run], [run]).outcome is ComparisonOutcome.ADVISORY


def test_a_real_result_of_chat():
    """Text metrics beside those of audio; the underruns of chat are zeros that nobody measured."""
    level = load_arm(str(REAL / "chat_c1.json"))[0].levels[0]
    missing = {name for name, metric in level.metrics.items() if not metric["n"]}
    assert {"ttft_ms", "tpot_ms", "itl_ms", "ttfp_ms", "rtf"}.isdisjoint(missing) and "prebuffer_s" in missing
    assert level.value("tpot_ms") == pytest.approx(5, abs=0.2), "the stand-in for a text model writes one each 5 ms"
