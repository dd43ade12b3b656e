"""One function over many tasks: the same results in the same order, wherever they are made."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import pytest

from omni_bench import spread as spread_module
from omni_bench.spread import here, on_all_cores


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(spread_module, "usable_cores", lambda: 2)
    monkeypatch.setattr(spread_module, "_free_bytes", lambda: 8 << 30)


def test_others_do_the_work_in_order_and_no_ctrl_c_reaches_them(two_cores):
    asked = ["__import__('os').getpid()"] * 4 + ["__import__('signal').pthread_sigmask(0, [])"]
    with on_all_cores() as spread:
        assert list(spread(abs, range(-20, 0))) == list(range(20, 0, -1))
        *pids, blocked = spread(eval, asked)
        with pytest.raises(ZeroDivisionError):
            list(spread(eval, ["1", "1 / 0"]))
    assert os.getpid() not in pids and signal.SIGINT in blocked
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_tasks_are_made_only_as_they_are_worked_on(two_cores, monkeypatch):
    made: list[int] = []

    def submit(executor, work, task):
        future: Future = Future()
        future.set_result(work(task))
        return future

    monkeypatch.setattr(spread_module, "_submit", submit)
    with on_all_cores() as spread:
        results = iter(spread(abs, (made.append(task) or task for task in range(100))))
        assert next(results) == 0 and len(made) <= 2 * spread_module.AHEAD + 1


def test_what_killed_processes_leave_is_done_here(two_cores, monkeypatch):
    broken: Future = Future()
    broken.set_exception(BrokenProcessPool())
    monkeypatch.setattr(spread_module, "_submit", lambda executor, work, task: broken if task else None)
    with on_all_cores() as spread:
        assert list(spread(abs, [0, -1, -2])) == [0, 1, 2]


def test_one_core_needs_no_process(monkeypatch):
    monkeypatch.setattr(spread_module, "usable_cores", lambda: 1)
    with on_all_cores() as spread:
        assert spread is here
