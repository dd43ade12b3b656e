"""Shooting at runs: the plan, two kills for real, and that a loss would be seen."""

from __future__ import annotations

import json
import signal
import sys

import pytest
from repository import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import under_fire
from under_fire import LEVEL, MAIN, SERVER, WHERE, Kill, Run, planned


def test_the_plan_is_random_and_leaves_no_place_out():
    first, again, other = planned(100, 0), planned(100, 0), planned(100, 1)
    assert first == again != other
    places = [(one.process, one.phase, one.judge) for one in first]
    assert set(places[: len(WHERE)]) == set(places[len(WHERE) : 2 * len(WHERE)]) == set(WHERE)


@pytest.mark.parametrize("process", [MAIN, SERVER])
def test_a_kill_loses_nothing_and_leaves_nothing(process, tmp_path):
    result = Run(Kill(0, process, LEVEL, False, signal.SIGKILL, 0.4), tmp_path / f"shot-at-{process}").shoot()
    assert result.problems == () and result.finished >= 3


def test_a_loss_is_seen(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [{"request_id": f"c1-000{i}", "ended_ns": i} for i in (0, 1, 1)]
    (folder / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "run.json").touch()
    shot = Run(Kill(0, MAIN, LEVEL, False, signal.SIGKILL, 0.5), folder)
    problems = shot._whole({"c1-0000": 7, "c1-0001": 1, "c2-0000": 3})
    assert problems == [
        "c1-0001 twice",
        f"3 of {under_fire.REQUESTS * len(under_fire.LEVELS)} requests in the end",
    ]
    assert shot._sent_again({"c1-0000": 7, "c1-0001": 1, "c2-0000": 3}) == ["c1-0000", "c2-0000"]


def test_the_report_grows_by_parts_and_shows_what_was_lost(tmp_path, monkeypatch, capsys):
    def shoot(run):
        bad = run.kill.number == 2
        shots.append(run.kill.number)
        return under_fire.Result(run.kill, True, 3, int(bad), 0, 2 * bad, ("lost c1-0000",) * bad)

    shots, out = [], tmp_path / "under_fire.md"
    monkeypatch.setattr(Run, "shoot", shoot)
    words = ["--kills", "6", "--out", str(out)]
    assert under_fire.main([*words, "--only", "0", "--only", "1"]) == 0
    assert under_fire.main([*words, "--minutes", "0"]) == 0 and "4 kills of seed 0 are still" in capsys.readouterr().out
    assert under_fire.main(words) == 1 and sorted(shots) == [0, 1, 2, 3, 4, 5]
    assert under_fire.main([*words, "--seed", "1"]) == 1
    text = out.read_text()
    assert "12 kills (seed 0, 1), 12 of a living process; 36 requests had finished before them, 2 of" in text
    assert "- seed 1, kill 2: lost c1-0000" in text and "2 kills left processes" in text
    assert len((tmp_path / "under_fire.jsonl").read_text().splitlines()) == 12
