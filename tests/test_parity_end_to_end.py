"""The bundled engine with a fixed batch shape gives the same codes and samples alone and in company."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TEXTS = ("Good morning.", "Come in.", "It is late.", "Hello.")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_deterministic_server_answers_alone_as_in_company(tmp_path: Path):
    locale = tmp_path / "data" / "en"
    locale.mkdir(parents=True)
    (locale / "meta.lst").write_text("".join(f"p{i}|||{text}\n" for i, text in enumerate(TEXTS)))
    command = [sys.executable, "-m", "omni_bench", "run", "scenario=smoke", "checks=parity", "asr=none"]
    command += ["dataset=seed_tts", f"dataset.root={tmp_path / 'data'}", "dataset.locale=en"]
    command += [
        "load.concurrency=[4]",
        "load.requests_per_level=4",
        "load.requests_per_slot=1",
        "load.warmup_per_slot=0",
    ]
    command += ["reference.max_batch=4", "reference.deterministic=true", "reference.device=cpu"]
    command += ["load.lag_budget_ms=10000", "output.plots=false", "checks.parity_requests=3"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    (run_dir,) = (tmp_path / "reports" / "runs" / "smoke").iterdir()
    parity = json.loads((run_dir / "run.json").read_text())["levels"][0]["parity"]
    assert (parity["kind"], parity["compared"], parity["mismatches"]) == ("codes", 3, 0), done.stderr
    assert (parity["deterministic"], parity["repeatable"], parity["repeats"]) == (True, True, 2)
    assert parity["exact"] == 3, "the samples too, bit for bit"
    codes = [json.loads(line) for line in (run_dir / "codes.jsonl").read_text().splitlines()]
    assert len(codes) == 3 + 5 and all(record["codebooks"] == 16 and record["frames"] > 3 for record in codes)
    company = [json.loads(line) for line in (run_dir / "requests.jsonl").read_text().splitlines()]
    starts = max(record["started_ns"] for record in company)
    assert starts < min(record["ended_ns"] for record in company), "all four were in flight together"
    assert "parity" not in done.stdout.partition("no performance claim")[2]
