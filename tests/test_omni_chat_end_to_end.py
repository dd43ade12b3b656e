"""An omni chat from the command line: text and speech are measured, and the speech is understood."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from omni_bench.records.schema import validate_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
# A busy machine is no failure of the product.
SMALL = ("load.requests_per_level=2", "load.lag_budget_ms=10000", "output.plots=false", "load.warmup_per_slot=1")
JUDGED = ("asr.model=tiny.en", "asr.device=cpu", "asr.workers=1", "reference.threads=1", "load.concurrency=[2]")


def test_text_and_speech_of_a_chat_are_measured_and_understood(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "omni_bench", "run", "scenario=qwen3_omni_text_audio", *SMALL, *JUDGED],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run_folder,) = (tmp_path / "reports" / "runs" / "qwen3_omni_text_audio").iterdir()
    run = json.loads((run_folder / "run.json").read_text())
    validate_run(run, "run.json")
    assert run["valid"], run["invalid_reasons"]
    (level,) = run["levels"]
    assert (level["completed"], level["failed"], level["invalid"]) == (4, 0, {})
    assert level["accuracy"]["wer"] <= 0.2
    ttft, ttfp = (level["metrics"][name]["p50"] for name in ("ttft_ms", "ttfp_ms"))
    assert 0 < ttft < ttfp < level["metrics"]["e2el_ms"]["p50"]
