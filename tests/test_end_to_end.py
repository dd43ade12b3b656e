"""The product as a user meets it: its wheel, unpacked as ``pip install`` would, at work in an empty folder.

One run of the smoke scenario (bundled server, bundled voice, judge, report) is what all tests here look at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile
from command_line import omni_bench
from repository import ROOT

from omni_bench.commands.cli import main
from omni_bench.records.schema import validate_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# The judge and the lag budget are fixed: another default judge or a busy machine is no failure.
SMOKE = ("run", "scenario=smoke", "output.save_audio=all", "asr.model=tiny.en", "asr.device=cpu")
SMOKE += ("load.lag_budget_ms=10000", "load.warmup_per_slot=0")  # nothing is timed
SMOKE += ("asr.workers=1",)  # for six sentences a second judge only costs its start


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel built from this tree, unpacked: what `pip install` would put into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    done = subprocess.run([*build, str(ROOT)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("omni_bench-*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def smoke(wheel, tmp_path_factory):
    """One real run of the smoke scenario: (folder it ran in, finished process, run folder)."""
    folder = tmp_path_factory.mktemp("smoke")
    done = omni_bench(folder, *SMOKE, PYTHONPATH=str(wheel))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (folder / "reports" / "runs" / "smoke").iterdir()
    return folder, done, run


def test_the_wheel_holds_voice_scenarios_and_data(wheel, tmp_path):
    names = [path.name for path in wheel.iterdir() if not path.name.endswith(".dist-info")]
    assert sorted(names) == ["omni_bench", "reference_impl"]
    voice = Path("reference_impl", "checkpoints", "tiny")
    shipped, here = ({p.relative_to(top) for p in (top / voice).rglob("*")} for top in (wheel, ROOT))
    assert shipped == here and voice / "speech_tokenizer" / "model.safetensors" in shipped
    listed = omni_bench(tmp_path, "list", PYTHONPATH=str(wheel))
    assert listed.returncode == 0, listed.stderr
    assert "qwen3_tts_c16" in listed.stdout and "seed_tts_mini" in listed.stdout
    where = "import omni_bench, sys; sys.exit(0 if omni_bench.__file__.startswith(sys.argv[1]) else 1)"
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    assert subprocess.run([sys.executable, "-c", where, str(wheel)], cwd=tmp_path, env=environment).returncode == 0


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


def test_everything_a_run_promises_is_on_disk(smoke):
    _, _, folder = smoke
    requests = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    measured = [r for r in requests if not r["warmup"]]
    assert len(measured) == 6
    for request in measured:
        samples, rate = soundfile.read(folder / request["audio"], dtype="int16")
        assert rate == 24000 and samples.size == sum(request["chunk_bytes"]) // 2
        assert np.abs(samples).max() > 1000
    report = (folder / "report.md").read_text()
    assert "omni-bench run scenario=smoke" in report
    assert {p.stem for p in (folder / "plots").glob("*.png")} >= {"ttfp", "rtf", "e2el", "wer"}
    assert "ready" in (folder / "server.log").read_text()
    assert (folder / ".hydra" / "overrides.yaml").exists()


def test_the_server_is_gone(smoke):
    folder, _, run = smoke
    port = json.loads((run / "run.json").read_text())["provenance"]["target"]["url"].rsplit(":", 1)[1]
    commands = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
    left = [command for command in commands if port in command and "reference_impl" in " ".join(command)]
    assert left == [], folder


def test_an_old_run_can_be_judged_and_drawn_again(smoke):
    _, _, folder = smoke
    before = json.loads((folder / "run.json").read_text())
    (folder / "report.md").unlink()
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.md").exists()
    assert main(["judge", str(folder), "asr.model=tiny.en", "asr.batch_size=3", "asr.workers=1"]) == 0
    after = json.loads((folder / "run.json").read_text())
    assert after["levels"][0]["accuracy"] == before["levels"][0]["accuracy"]
