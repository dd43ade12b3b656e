"""Runs that had no end: killed, or with their folder removed. What was there by then, or is in memory, is written."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from omni_bench.commands.stored_runs import report_command
from omni_bench.errors import EXIT_INVALID, StoreError
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.run import load_phase, orchestrate
from omni_bench.run.orchestrate import run
from omni_bench.run.rebuild import rebuild


class Killed(BaseException):
    """Stands for a SIGKILL: nothing after it runs."""


def test_a_killed_run_is_reported_from_what_is_there(config, tmp_path, target, load, monkeypatch, capsys):
    folder = tmp_path / "run"
    with monkeypatch.context() as killing:
        killing.setattr(RunFolder, "end", lambda self, **_: None)

        def kill(*_: object) -> None:
            raise Killed

        killing.setattr(orchestrate, "judged_results", kill)
        with pytest.raises(Killed):
            run(config, folder)
    assert (folder / "begun.json").is_file() and (folder / ".spool").is_dir() and not (folder / "run.json").exists()
    seen = len((folder / "requests.jsonl").read_text().splitlines())
    with pytest.raises(StoreError, match=r"omni-bench report .* writes it from what is there"):
        RunFolder.open(folder).read_run()
    with RunFolder.open(folder) as going_on:
        assert going_on.claim()
        with pytest.raises(StoreError, match="goes on"):
            rebuild(folder)
    assert report_command([str(folder)]) == EXIT_INVALID
    document = json.loads((folder / "run.json").read_text())
    assert document["invalid_reasons"][0]["code"] == "interrupted" and len(document["levels"]) >= 1
    assert sum(level["requests"] for level in document["levels"]) == seen > 0
    assert document["levels"][0]["metrics"]["ttfa_ms"]["n"] > 0  # it needs the audio
    assert document["levels"][0]["warmup"] is None and document["levels"][0]["client"] is None, "not known, and not 0"
    assert list(folder.glob("audio/*.wav")) and (folder / "report.md").is_file()
    assert not (folder / "begun.json").exists() and (folder / ".spool").exists(), "it can be gone on with"
    assert report_command([str(folder)]) == EXIT_INVALID  # as any other run


def test_a_folder_that_is_removed_is_written_again(config, tmp_path, target, load, monkeypatch, capsys):
    folder, config.load.concurrency = tmp_path / "run", [1, 2]
    real, measured = load_phase.run_level, []

    def removed_after_the_first(plan: Any, **named: Any) -> LevelRecording:
        recording = real(plan, **named)
        measured.extend(recording.timelines)
        if len(measured) == len(recording.timelines):
            shutil.rmtree(folder)
        return recording

    monkeypatch.setattr(load_phase, "run_level", removed_after_the_first)
    with pytest.raises(StoreError, match="was removed while the run went on"):
        run(config, folder)
    document = json.loads((folder / "run.json").read_text())
    assert sum(level["requests"] for level in document["levels"]) == len(measured)
    assert len((folder / "requests.jsonl").read_text().splitlines()) == len(measured)
    lost, kept = document["levels"]
    assert lost["invalid"] == {"unchecked": lost["requests"]} and "unchecked" not in kept["invalid"]
    assert document["invalid_reasons"][0]["code"] == "not_stored"
