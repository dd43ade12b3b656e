"""A run that is judged later, by another process, is the run that it would have been in place."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from omni_bench.errors import AccuracyError, ConfigError
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.beside import LOWEST_PRIORITY, JudgingBeside
from omni_bench.run.orchestrate import judge_measured, run, run_in_turns
from omni_bench.run.progress import PartOf
from omni_bench.run.provenance import hardware
from omni_bench.run.turns import Measured, Part


@pytest.fixture
def measured(config, tmp_path, target, load) -> Any:
    """A function that measures a run and leaves it to be judged: its folder."""

    def make() -> Path:
        part = Part(config, tmp_path / "later", ("omni-bench",), PartOf("", 0, 1, lambda: ""), target, (1,))
        (ended,) = run_in_turns([part], lambda turn: [0])
        assert ended == Measured(part.folder) and not (part.folder / "run.json").exists()
        return part.folder

    return make


def content(folder: Path) -> dict[str, Any]:
    """All that is stored of a run but when it was made and how long that took."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    found: dict[str, Any] = {name: path.read_bytes() for name, path in files.items() if "report" not in name}
    document = json.loads(found.pop("run.json"))
    assert document.pop("started_utc") and document.pop("duration_s") > 0
    document["provenance"].pop("harness")  # whether it was changed meanwhile
    return {**found, "run.json": document}


def test_the_result_is_that_of_judging_in_place(config, tmp_path, load, judge, measured):
    judge.mishears["c2-0001"] = "something else"
    load.spoil["c2-0003"] = bytes(48000 * 3)
    folder = measured()
    assert judge.heard == []
    document = judge_measured(folder, hardware())
    run(config, tmp_path / "in place", ["omni-bench"], quiet=True)
    assert content(folder) == content(tmp_path / "in place") and document["duration_s"] < 60
    assert "in parts" not in (folder / "report.md").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match="the run has ended"):
        judge_measured(folder, hardware())


def test_a_run_that_could_not_be_judged_can_be_judged_again(load, judge, measured):
    folder = measured()
    judge.error = AccuracyError("no weights")
    with pytest.raises(AccuracyError):
        judge_measured(folder, hardware())
    assert not RunFolder.open(folder).read_run()["valid"]
    judge.error = None
    assert judge_measured(folder, hardware())["valid"]


def test_a_judge_on_a_card_is_not_beside_what_is_measured(
    config, tmp_path, target, load, judge, judge_spec, monkeypatch
):
    monkeypatch.setattr("omni_bench.run.prepare.find_judge", lambda *_: replace(judge_spec, device="cuda"))
    part = Part(config, tmp_path / "run", (), PartOf("", 0, 1, lambda: ""), target, (1,))
    (ended,) = run_in_turns([part], lambda turn: [0])
    assert isinstance(ended, dict) and ended["valid"]


@pytest.mark.slow
def test_another_process_judges_on_its_cores_at_the_lowest_priority(config, tmp_path, load, measured):
    config.asr.kind = "none"
    folder, cores = measured(), sorted(os.sched_getaffinity(0))[:1]
    judging = JudgingBeside(cores, tmp_path / "judging.log")
    judging.judge(folder)
    process = psutil.Process(judging._process.pid)
    assert process.cpu_affinity() == cores
    assert judging.ended(wait=True) == [folder] and process.nice() == LOWEST_PRIORITY
    run(config, tmp_path / "in place", ["omni-bench"], quiet=True)
    assert content(folder) == content(tmp_path / "in place")
    judging.judge(folder)
    with pytest.raises(AccuracyError, match=r"could not be judged: .* the run has ended"):
        judging.ended(wait=True)
    judging.close()
    assert not process.is_running()
