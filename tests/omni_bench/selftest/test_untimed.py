"""Runs in a process of their own: their answers come in order, and an interrupted parent interrupts them."""

from __future__ import annotations

import json
import time

import pytest

from omni_bench.errors import OmniBenchError
from omni_bench.selftest import untimed
from omni_bench.selftest.soundness import came_to_its_end
from omni_bench.selftest.untimed import Order, beside
from omni_bench.subprocesses import start_module

NOBODY = ("scenario=smoke", "asr=none", "target=external", "target.startup_timeout_s=0.2")


def order(folder, *more):
    return Order((*NOBODY, *more), str(folder), ("omni-bench", "selftest"))


def test_each_run_is_made_and_answered_for(tmp_path):
    first, second = (order(tmp_path / name, "target.url=http://127.0.0.1:1") for name in ("one", "two"))
    with beside([first, second]) as answers:
        problems = [answer["problem"] for answer in answers]
    assert len(problems) == 2 and all(problem.startswith("no server answers at target.url") for problem in problems)
    for name in ("one", "two"):
        assert json.loads((tmp_path / name / "run.json").read_text())["provenance"]["command"][1] == "selftest"


def test_no_run_at_all_ends_at_once():
    with beside([]) as answers:
        assert list(answers) == []


def test_a_run_under_way_is_interrupted_with_its_parent(tmp_path):
    folder = tmp_path / "run"
    waits = order(folder, "target.url=http://127.0.0.1:1", "target.startup_timeout_s=600")
    with pytest.raises(KeyboardInterrupt), beside([waits]):
        while not folder.exists():
            time.sleep(0.02)
        raise KeyboardInterrupt
    assert not came_to_its_end(folder), "it did not wait for its server for ten minutes"


def test_a_process_that_ends_early_is_an_error(tmp_path):
    with pytest.raises(OmniBenchError, match="ended before"), beside([order(tmp_path, "no.such=key")]) as answers:
        next(answers)


def test_a_process_that_is_killed_before_it_is_told_is_an_error(tmp_path, monkeypatch):
    def killed(module):
        process = start_module(module)
        process.kill()
        process.wait()
        return process

    monkeypatch.setattr(untimed, "start_module", killed)
    with pytest.raises(OmniBenchError, match="ended before"), beside([order(tmp_path)]) as answers:
        next(answers)


def test_a_process_that_is_killed_in_a_run_is_an_error(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(untimed, "start_module", lambda module: started.append(start_module(module)) or started[0])
    waits = order(tmp_path / "run", "target.url=http://127.0.0.1:1", "target.startup_timeout_s=600")
    with pytest.raises(OmniBenchError, match="ended before"), beside([waits]) as answers:
        while not (tmp_path / "run").exists():
            time.sleep(0.02)
        started[0].kill()
        next(answers)
