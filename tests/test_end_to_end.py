"""The product as a user meets it: the bundled server, the bundled voice, the judge, the report."""

from __future__ import annotations

import json

import numpy as np
import pandas
import psutil
import pytest
import soundfile
from command_line import omni_bench

from omni_bench.records.schema import validate_run

# The judge and the lag budget are fixed: another default judge or a busy machine is no failure.
SMOKE = ("run", "scenario=smoke", "output.save_audio=all", "asr.model=tiny.en", "asr.device=cpu")
SMOKE += ("load.lag_budget_ms=10000", "asr.workers=1")  # for six sentences a second judge only costs its start


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """One real run of the smoke scenario: (folder it ran in, finished process, run folder)."""
    folder = tmp_path_factory.mktemp("smoke")
    done = omni_bench(folder, *SMOKE)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (folder / "reports" / "runs" / "smoke").iterdir()
    return folder, done, run


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_smoke_speaks_and_is_understood(smoke):
    _, done, folder = smoke
    run = json.loads((folder / "run.json").read_text())
    validate_run(run, "run.json")
    (level,) = run["levels"]
    assert run["valid"] and level["valid"]
    assert (level["completed"], level["failed"], level["invalid"]) == (6, 0, {})
    assert level["accuracy"]["judge"] == "tiny.en"
    assert level["accuracy"]["wer"] <= 0.15  # six sentences: one misheard word or two
    assert level["metrics"]["ttfp_ms"]["p50"] < level["metrics"]["e2el_ms"]["p50"]
    assert level["metrics"]["ttfp_ms"]["p95"] is None  # too few requests to say
    assert "smoke" in done.stdout and "6/6" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_everything_a_run_promises_is_on_disk(smoke):
    _, _, folder = smoke
    requests = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    measured = [r for r in requests if not r["warmup"]]
    assert len(measured) == 6
    chunks = pandas.read_parquet(folder / "chunks.parquet")
    for request in measured:
        samples, rate = soundfile.read(folder / request["audio"], dtype="int16")
        assert rate == 24000 and samples.size == sum(request["chunk_bytes"]) // 2
        assert samples.size == chunks[chunks.request_id == request["request_id"]]["samples"].sum()
        assert np.abs(samples).max() > 1000
    report = (folder / "report.md").read_text()
    assert "omni-bench run scenario=smoke" in report
    assert {p.stem for p in (folder / "plots").glob("*.png")} >= {"ttfp", "rtf", "e2el", "audio_per_s", "wer"}
    assert "ready" in (folder / "server.log").read_text()
    assert (folder / ".hydra" / "overrides.yaml").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_server_is_gone(smoke):
    folder, _, run = smoke
    port = json.loads((run / "run.json").read_text())["provenance"]["target"]["url"].rsplit(":", 1)[1]
    commands = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
    left = [command for command in commands if port in command and "reference_impl" in " ".join(command)]
    assert left == [], folder


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_old_run_can_be_judged_and_drawn_again(smoke):
    _, _, folder = smoke
    before = json.loads((folder / "run.json").read_text())
    (folder / "report.md").unlink()
    assert omni_bench(folder, "report", str(folder)).returncode == 0
    assert (folder / "report.md").exists()
    done = omni_bench(folder, "judge", str(folder), "asr.model=tiny.en", "asr.batch_size=3", "asr.workers=1")
    assert done.returncode == 0, done.stderr
    after = json.loads((folder / "run.json").read_text())
    assert after["levels"][0]["accuracy"] == before["levels"][0]["accuracy"]
