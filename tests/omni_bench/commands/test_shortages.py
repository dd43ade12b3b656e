"""Runs that lack something, or are not alone: one message, never a traceback, and what finished is kept."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

from repository import HELPERS

from omni_bench.commands.run import MEMORY_BYTES

SERVER = f"{sys.executable} {HELPERS / 'fake_speech_server.py'} {{port}} 0.05"
RUN = (
    "scenario=smoke", "load.concurrency=[1,2]", "load.requests_per_level=3", "load.requests_per_slot=1", "asr=none",
    "load.lag_budget_ms=10000", "output.plots=false", "target=command", "client.model=tone", "dataset=random",
    "dataset.min_words=1", "dataset.max_words=2", f"target.command='{SERVER}'",
)  # fmt: skip


def begin(*words: str, limits: dict[int, int] | None = None) -> subprocess.Popen[str]:
    def limit() -> None:
        for what, value in (limits or {}).items():
            resource.setrlimit(what, (value, value))

    command = [sys.executable, "-m", "omni_bench", "run", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limit)


def said(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=60)[1]


def last(text: str) -> str:
    assert "Traceback" not in text and "internal error" not in text
    return text.strip().splitlines()[-1]


def test_a_full_disk_keeps_what_finished_and_the_run_can_be_gone_on_with(tmp_path):
    """As a limit on the size of files: the first audio (34 kB) is within it, the second (48 kB) is not."""
    folder = tmp_path / "run"
    full = begin(*RUN, f"hydra.run.dir={folder}", limits={resource.RLIMIT_FSIZE: 45_000})
    message = last(said(full))
    assert "cannot write" in message and "file too large" in message.lower() and full.returncode == 3
    kept = (folder / "requests.jsonl").read_text().splitlines()
    assert [json.loads(line)["request_id"] for line in kept][:1] == ["c1-0000"]
    again = begin("--resume", str(folder))
    said(again)
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    names = [line["request_id"] for line in lines]
    assert lines[0]["ended_ns"] == json.loads(kept[0])["ended_ns"], "what finished is kept"
    assert again.returncode in (0, 1) and sorted(names) == [f"c{c}-000{i}" for c in (1, 2) for i in range(3)]


def test_too_few_files_too_little_memory_and_no_folder_are_told_before_anything_is_sent():
    few = begin(*RUN, limits={resource.RLIMIT_NOFILE: 64})
    assert "need 66 open files, and this process may have 64" in last(said(few)) and few.returncode == 2
    little = begin(*RUN, limits={resource.RLIMIT_AS: 300 << 20})
    assert "may have 300 MiB of memory, and needs 384 MiB" in last(said(little)) and little.returncode == 2
    nowhere = begin(*RUN, "hydra.run.dir=/proc/nowhere/run")
    assert "/proc/nowhere" in last(said(nowhere)) and nowhere.returncode == 3


def test_two_runs_at_once_do_not_touch_each_other(tmp_path):
    both = [begin(*RUN, f"hydra.run.dir={tmp_path / name}") for name in "ab"]
    for process, name in zip(both, "ab", strict=True):
        said(process)
        run = json.loads((Path(tmp_path) / name / "run.json").read_text())
        assert process.returncode == 0 and [level["completed"] for level in run["levels"]] == [3, 3]


def test_a_run_fits_into_the_memory_that_it_says_it_needs(tmp_path):
    process = begin(*RUN, f"hydra.run.dir={tmp_path / 'run'}", limits={resource.RLIMIT_AS: MEMORY_BYTES})
    assert last(said(process)) and process.returncode == 0
