"""omni-bench export: results of vllm bench serve (read back by our own reader), MLflow, and what it refuses."""

from __future__ import annotations

import importlib.util
import json

import pytest
from compare_factory import Factory
from repository import ROOT

from omni_bench.commands.cli import main
from omni_bench.compare.load import load_arm, load_run
from omni_bench.compare.vllm_bench import DISTRIBUTIONS, RATES
from omni_bench.records.level import Rate


@pytest.fixture
def make(tmp_path):
    return Factory(tmp_path)


@pytest.mark.parametrize("levels", [(1, 4), (Rate(2.5), Rate(5.0))], ids=["closed loop", "open loop"])
def test_results_of_vllm_bench_are_read_back(make, tmp_path, levels, capsys):
    path = make.folder("run", levels=levels, config={"client.kind": "openai_speech", "client.model": "tiny"})
    assert main(["export", str(path), "--vllm-bench", str(tmp_path / "out"), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["vllm_bench"]["files"]
    ours, (theirs,) = load_run(path), load_arm(str(tmp_path / "out"))
    assert len(files) == 2 and [level.concurrency for level in theirs.levels] == list(levels)
    for mine, read in zip(ours.levels, theirs.levels, strict=True):
        assert (read.requests, read.why) == (mine.requests, ())
        for metric in (*DISTRIBUTIONS, *RATES):
            for figure in ("mean", "p50", "p90", "p95", "p99"):
                assert read.figure(metric, figure) == mine.figure(metric, figure), (metric, figure)
    found = json.loads((tmp_path / "out").joinpath(files[0].rpartition("/")[2]).read_text())
    assert found["backend"] == "openai-audio-speech" and found["date"] == "20261128-000000"
    assert found["duration"] == pytest.approx(found["completed"] / found["request_throughput"])
    assert found["total_audio_duration_s"] / found["duration"] == pytest.approx(found["audio_throughput"])
    # no text, no tokens, no goodput: nothing is 0 that was not measured
    assert not [key for key in found if "ttft" in key or "token" in key or "goodput" in key]
    assert not [key for key, value in found.items() if value is None]


def test_a_configuration_without_groups_is_no_fault(make, tmp_path):
    path = make.folder("run", levels=(1,))
    run = json.loads((path / "run.json").read_text())
    run["provenance"]["config"] |= {"client": None, "load": None}
    (path / "run.json").write_text(json.dumps(run))
    assert main(["export", str(path), "--vllm-bench", str(tmp_path / "out")]) == 0
    assert "model_id" not in json.loads((tmp_path / "out" / "c1.json").read_text())


def test_an_invalid_level_is_left_out_of_results(make, tmp_path, capsys):
    run = make.folder("run", levels=(2,), failures=1)
    assert main(["export", str(run), "--vllm-bench", str(tmp_path / "out")]) == 2
    assert "no level of this run is valid" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_what_is_refused(make, tmp_path, capsys):
    (tmp_path / "h.sqlite").write_bytes(b"SQLite format 3\0")
    run = str(make.folder("run", levels=(1,)))
    for words, message in (
        ([run], "say as what"),
        ([str(tmp_path / "h.sqlite"), "--mlflow", "x"], "is a history, which --mlflow does not take"),
        ([str(tmp_path / "nope"), "--csv", "x"], "no such file or folder; runs lie in"),
        ([run, "--mlflow", "http://me:secret@127.0.0.1:1"], "MLFLOW_TRACKING_PASSWORD"),
        ([run, "--mlflow", "http://me:secret@["], "--mlflow: that is no address"),
        ([run, "--mlflow", "http://me:secret℀@x"], "--mlflow: that is no address"),
    ):
        assert main(["export", *words]) == 2
        said = capsys.readouterr().err
        assert message in said and "secret" not in said


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="the extra mlflow is not installed")
def test_mlflow(make, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # its servers need packages that the client has not
    from mlflow.tracking import MlflowClient

    uri, run = (tmp_path / "store").as_uri(), make.folder("run", levels=(1, 4), corrupted=(3,))
    broken = make.folder("broken", levels=(2,), failures=1, started=5)
    assert [main(["export", str(path), "--mlflow", uri]) for path in (run, run, broken)] == [0, 0, 0]
    assert "was there already" in capsys.readouterr().out
    client = MlflowClient(tracking_uri=uri)
    found = client.search_runs([client.get_experiment_by_name("qwen3_tts").experiment_id], order_by=["start_time"])
    assert [(one.info.status, one.data.tags["omni_bench.valid"]) for one in found] == [
        ("FINISHED", "true"), ("FAILED", "false"),
    ]  # fmt: skip
    good, bad = (one.data.metrics for one in found)
    level = json.loads((run / "run.json").read_text())["levels"][1]
    assert good["c4/ttfp_ms_p50"] == level["metrics"]["ttfp_ms"]["p50"] and good["c4/wer"] == level["accuracy"]["wer"]
    assert "c4/ttft_ms_p50" not in good and "c4/ttfp_ms_p99" not in good
    assert bad["c2/failed"] == 1 and "c2/wer" in bad and "c2/ttfp_ms_p50" not in bad
    assert found[0].data.params["load.concurrency"] == "[1, 4]"
    assert [one.path for one in client.list_artifacts(found[0].info.run_id)] == ["run.json"]


def test_the_reports_of_this_repository_can_be_exported(tmp_path, capsys):
    """Committed without their requests."""
    assert main(["export", str(ROOT / "reports/qwen3_tts_cpu"), "--vllm-bench", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.glob("*.json")} == {f"c{level}.json" for level in (1, 4, 8, 16, 32)}
