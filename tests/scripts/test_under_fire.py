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
        "c1-0000 was sent again",
        "c2-0000 was sent again",
    ]
