"""The client's own part of TTFP: computed against known send times, kept with the machine, and never claimed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import run_factory as runs
from timelines import BASE_NS, make_timeline

from omni_bench.commands.cli import main
from omni_bench.errors import OmniBenchError, StoreError
from omni_bench.metrics.level import summarise_level
from omni_bench.metrics.request import request_metrics
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.level import Rate
from omni_bench.records.recording import LevelRecording, LoopLag, NodeClock, TtfpBias
from omni_bench.report.markdown import legend
from omni_bench.run import calibration
from omni_bench.run.calibration import Calibration, bias_at, calibrated_levels, calibration_of, store, with_bias
from omni_bench.run.document import build_level
from omni_bench.run.stored_results import _lag_from
from omni_bench.run.validity import level_reasons
from omni_bench.targets.null_server import Pace

LAG = LoopLag(0.1, 0.5, 1.0, 100, workers=2)
CALIBRATION_FILE = calibration.calibration_file
NODE = NodeClock("10.0.0.2", 2, -1.5, 0.3, False)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "calibration_file", CALIBRATION_FILE)  # over the suite's, which knows of no file
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return CALIBRATION_FILE()


def recorded(*timelines, level=2):
    return LevelRecording(level, timelines, (), {}, LAG, False, False)


def known(concurrency, workers, p99_ms):
    return Calibration(TtfpBias(0.1, p99_ms, concurrency, workers, 64), 0.2, LAG, "2026-01-31T12:00:00Z")


def test_bias_and_jitter_from_two_accounts_of_the_same_requests():
    """Of 101 requests one is stamped 9 ms late, the others 1 ms; its second chunk came 8 ms sooner after the first."""
    late = [9.0, *[1.0] * 100]
    timelines = [
        replace(make_timeline(f"r{i}", chunks=((100 + ms, 10), (201, 10))), wire_id=f"x-{i}")
        for i, ms in enumerate(late)
    ]
    sent_ns = {f"x-{i}": [BASE_NS + 100_000_000, BASE_NS + 200_000_000] for i in range(101)}
    found = calibration_of(recorded(*timelines), sent_ns)
    assert found.bias == TtfpBias(pytest.approx(1.0), pytest.approx(1.0), 2, 2, 101)  # 1 in 101 is just beyond p99
    assert found.jitter_p99_ms == pytest.approx(0.0)
    found = calibration_of(recorded(*timelines[:2]), sent_ns)
    assert found.bias.p99_ms == pytest.approx(8.92) and found.jitter_p99_ms == pytest.approx(7.92)
    with pytest.raises(OmniBenchError, match="1 of 2 requests at 2 streams failed"):
        calibration_of(recorded(timelines[0], make_timeline("b", failed="connect")), sent_ns)


def test_what_is_kept_is_found_at_the_next_level_above_with_as_many_processes(cache):
    assert bias_at(1, 1, "openai_speech") is None
    store([known(32, 1, 0.9), known(8, 1, 0.4), known(512, 8, 4.0)])
    store([known(8, 1, 0.5)])  # made again
    assert [one["bias"]["concurrency"] for one in json.loads(cache.read_text())["levels"]] == [8, 32, 512]
    assert bias_at(4, 1, "openai_speech").p99_ms == 0.5 and bias_at(9, 1, "openai_speech").p99_ms == 0.9
    assert bias_at(33, 1, "openai_speech") is None and bias_at(33, 8, "openai_speech").p99_ms == 4.0
    assert bias_at(4, 1, "openai_speech_sse") is None
    timelines = [make_timeline(f"r{i}", started=0, ended=100) for i in range(40)]
    assert with_bias(recorded(*timelines, level=Rate(2.0)), "openai_speech").lag.bias is None  # none with two
    cache.write_text("{broken")
    assert bias_at(4, 1, "openai_speech") is None
    store([known(4, 1, 0.3)])
    assert bias_at(4, 1, "openai_speech").p99_ms == 0.3


@pytest.mark.parametrize(("p99_ms", "refused"), [(99.0, False), (100.0, True)])
def test_a_ttfp_that_the_client_may_have_made_itself_makes_no_claim(p99_ms, refused):
    timelines = [runs.timeline(name) for name in "abc"]
    metrics = [request_metrics(one, None) for one in timelines]
    lag = replace(LAG, bias=TtfpBias(0.1, metrics[0]["ttfp_ms"] * p99_ms / 100, 4, 2, 64), nodes=(NODE,))
    summary = summarise_level(2, timelines, metrics, {}, lag=lag)
    assert [reason.code for reason in level_reasons(summary)] == ["ttfp_under_bias"] * refused
    level = build_level(summary, metrics)
    assert level["client"]["ttfp_bias"]["concurrency"] == 4 and level["client"]["workers"] == 2
    assert _lag_from(level["client"], "a level") == lag


def test_an_open_loop_is_calibrated_up_to_its_cap():
    assert calibrated_levels(LoadConfig(kind="closed_loop", concurrency=[16, 4])) == [4, 16]
    assert calibrated_levels(LoadConfig(kind="open_loop", max_in_flight=64)) == [1, 8, 32, 64]
    assert calibrated_levels(LoadConfig(kind="open_loop", max_in_flight=1000)) == [1, 8, 32, 128, 512]


def test_the_command(cache, monkeypatch, capsys):
    monkeypatch.setattr(calibration, "PACE", Pace(first_ms=5, interval_ms=5, chunk_ms=10, chunks=2, spread_ms=5))
    monkeypatch.setattr(calibration, "MIN_REQUESTS", 4)
    assert main(["calibrate", "load.concurrency=[2]"]) == 0
    out = capsys.readouterr().out
    found = bias_at(2, 1, "openai_speech")
    assert 0 < found.p50_ms <= found.p99_ms and found.requests == 8
    assert f"{found.p99_ms:.2f}" in out and str(cache) in out
    assert main(["calibrate", "client=openai_speech_sse"]) == 2
    assert "the null server speaks raw samples" in capsys.readouterr().err


@pytest.mark.parametrize(("p99_ms", "said"), [(0.5, "0.50 at c = 2."), (1.5, "1.50 at c = 2 (more than the 1 ms that")])
def test_the_report_has_the_bound_beside_ttfp(p99_ms, said):
    level = runs.make_level(2)
    level["client"] = {**(level["client"] or {}), "ttfp_bias": asdict(TtfpBias(0.1, p99_ms, 32, 1, 64))}
    assert said in legend(runs.make_run(levels=[level]))
    level["client"]["nodes"] = [asdict(NODE)]
    assert "(clocks of 1 node known within 0.30)" in legend(runs.make_run(levels=[level]))
    level["client"]["ttfp_bias"] = None
    assert "n/a at c = 2 (clocks of 1 node" in legend(runs.make_run(levels=[level]))
    level["client"]["nodes"] = []
    assert "own part of TTFP" not in legend(runs.make_run(levels=[level]))


def test_a_user_without_a_home_folder_is_told_where_to_keep_figures(cache, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # what it gives where no home is known
    assert calibration.read_calibrations() == []
    with pytest.raises(StoreError, match=r"no home folder; .* XDG_CACHE_HOME=FOLDER"):
        calibration.calibrate([1], ClientConfig(kind="openai_speech"), 1, print)
