"""Bars on a terminal, plain lines elsewhere, and never a complaint."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from timelines import make_timeline

from omni_bench.load.events import RequestFinished, WarmupDone
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.run import progress as progress_module
from omni_bench.run.progress import PartOf, RunProgress


def planned(name: str, warmup: bool) -> PlannedRequest:
    return PlannedRequest(name, name, {}, None, warmup, None)


def finished(name: str, ok: bool = True, warmup: bool = False, kind: str = "timeout") -> RequestFinished:
    timeline = make_timeline(name, failed=None if ok else kind, concurrency=2)
    return RequestFinished(replace(timeline, warmup=warmup))


def plan(warmups: int, requests: int) -> LevelPlan:
    return LevelPlan(
        concurrency=2,
        warmup=tuple(planned(f"w{index}", True) for index in range(warmups)),
        measured=tuple(planned(f"m{index}", False) for index in range(requests)),
    )


def drive(progress: RunProgress, warmups: int = 2, requests: int = 3) -> None:
    level = plan(warmups, requests)
    with progress:
        progress.begin_load([level, level])
        for _ in range(2):
            progress.begin_level(level)
            for index in range(warmups):
                progress.on_event(finished(f"w{index}", warmup=True))
            progress.on_event(WarmupDone(2, warmups, 0))
            for index in range(requests):
                progress.on_event(finished(f"m{index}", ok=index != 1))
            progress.end()
        progress.begin_judging(4, "a judge")
        progress.judged(2, 4)
        progress.judged(4, 4)
        progress.end()
        progress.say("[done] 100%")


def test_off_a_terminal_there_are_plain_lines():
    out = io.StringIO()
    drive(RunProgress(Console(file=out, force_terminal=False)))
    text = out.getvalue()
    assert "\x1b" not in text and "\r" not in text
    lines = text.splitlines()
    assert lines[0].startswith("level 1/2, concurrency 2: warm-up 2/2, ")
    assert lines[1].startswith("level 1/2, concurrency 2: requests 3/3, 1 failed, ")
    assert lines[3].startswith("level 2/2, concurrency 2: requests 3/3, 1 failed, ")
    assert lines[4].startswith("judging with a judge 4/4, ")
    assert lines[5:] == ["[done] 100%"], "no markup is read into a message"


def test_a_long_level_speaks_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    progress = RunProgress(Console(file=out, force_terminal=False))
    progress.begin_load([plan(0, 10)])
    progress.begin_level(plan(0, 10))
    progress.on_event(WarmupDone(2, 0, 0))
    for index in range(10):
        now[0] += 10.0
        progress.on_event(finished(f"m{index}"))
    lines = out.getvalue().splitlines()
    assert [line.split(": ")[1].split(",")[0] for line in lines] == [f"requests {n}/10" for n in (2, 4, 6, 8, 10)]
    assert lines[0].endswith("about 1:20 left")


def test_on_a_terminal_there_are_bars():
    out = io.StringIO()
    drive(RunProgress(Console(file=out, force_terminal=True, width=120)))
    text = out.getvalue()
    assert "\x1b" in text and "all levels" in text and "concurrency 2: requests" in text and "1 failed" in text


def test_requests_sent_alone_have_a_bar_of_their_own_and_do_not_overfill_that_of_all_levels():
    out = io.StringIO()
    progress = RunProgress(Console(file=out, force_terminal=True, width=120))
    with progress:
        level = plan(0, 1)
        progress.begin_load([level, level])
        for _ in range(2):
            progress.begin_level(level)
            progress.on_event(WarmupDone(2, 0, 0))
            progress.on_event(finished("m0"))
        progress.begin_alone(3)
        for index in range(3):
            progress.on_event(WarmupDone(1, 0, 0))  # of the level's own worker
            progress.on_event(finished(f"solo-m{index}"))
        progress.end()
    last = out.getvalue().rpartition("all levels")[2]
    assert "2/2" in last.splitlines()[0] and "alone, for parity: requests" in last and "3/3" in last


def test_the_bars_of_a_study_are_not_cut_at_80_columns():
    out = io.StringIO()
    part = PartOf("run 3/10, pair 2/5, before", 2, 10, lambda: "about 14 min left", "before")
    with RunProgress(Console(file=out, force_terminal=True, width=80), part) as progress:
        progress.begin_level(plan(1, 32))
        progress.on_event(WarmupDone(2, 1, 0))
        progress.on_event(finished("m0"))
    shown = out.getvalue()
    assert "…" not in shown and "14 min left" in shown and "ETA" in shown
    assert "before: level 1, concurrency 2: requests" in shown


def test_a_dumb_terminal_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    drive(RunProgress(Console(file=out, force_terminal=True)))
    assert "level 1/2, concurrency 2: requests 3/3" in out.getvalue() and "━" not in out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_events_out_of_order_do_no_harm(terminal):
    progress = RunProgress(Console(file=io.StringIO(), force_terminal=terminal))
    progress.on_event(finished("m0"))
    progress.on_event(WarmupDone(2, 0, 0))
    progress.judged(3, 2)
    progress.end()
    progress.begin_judging(0, "a judge")
    progress.judged(1, 0)
    progress.end()


def test_requests_that_ctrl_c_cancelled_neither_count_nor_fail():
    out = io.StringIO()
    progress = RunProgress(Console(file=out, force_terminal=False))
    progress.begin_load([plan(2, 6)])
    progress.begin_level(plan(2, 6))
    for index in range(2):
        progress.on_event(finished(f"w{index}", warmup=True))
    progress.on_event(WarmupDone(2, 2, 0))
    for index in range(6):
        progress.on_event(finished(f"m{index}", ok=index == 0, kind="timeout" if index == 1 else "cancelled"))
    progress.end()
    lines = out.getvalue().splitlines()
    assert lines[1:] == ["level 1/1, concurrency 2: requests 2/6, 1 failed, 4 cancelled, 0 s"]


def test_cancelled_requests_fill_no_bar():
    out = io.StringIO()
    progress = RunProgress(Console(file=out, force_terminal=True, width=120))
    with progress:
        level = plan(0, 4)
        progress.begin_load([level, level])
        progress.begin_level(level)
        progress.on_event(WarmupDone(2, 0, 0))
        progress.on_event(finished("m0"))
        for index in range(1, 4):
            progress.on_event(finished(f"m{index}", ok=False, kind="cancelled"))
        progress.end()
    last = out.getvalue().rpartition("all levels")[2]
    assert "1/8" in last.splitlines()[0] and "1/4" in last and "3 cancelled" in last and "failed" not in last


def test_a_stage_after_the_load_speaks_once_it_takes_long(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    with RunProgress(Console(file=out, force_terminal=False)) as progress:
        for done in range(1, 5):
            progress.tell("brief", done, 4)
        for done in range(1, 5):
            now[0] += 10.0
            progress.tell("checking the answers", done, 4)
        progress.tell("drawing", 0, 2)
        now[0] += 20.0
    lines = out.getvalue().splitlines()
    assert lines == ["checking the answers 3/4, about 0:07 left", "checking the answers 4/4, 30 s"]


def test_a_stage_is_full_when_the_next_begins(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    with RunProgress(Console(file=out, force_terminal=False)) as progress:
        for done in range(5):  # told before each plot, as nothing follows the last
            progress.tell("drawing the plots", done, 5)
            now[0] += 2.0
        progress.tell("writing report.md", 0, 1)
    assert out.getvalue().splitlines() == ["drawing the plots 5/5, 10 s"]


def test_a_brief_stage_leaves_no_bar_and_a_terminal_that_is_gone_costs_nothing(monkeypatch):
    out = io.StringIO()
    progress = RunProgress(Console(file=out, force_terminal=True, width=120))
    with progress:
        progress.tell("brief", 1, 1)
        progress.tell("next", 1, 1)
    assert progress._bars.tasks == []

    def gone(*_: object) -> None:
        raise OSError("no terminal any more")

    monkeypatch.setattr(RunProgress, "end", gone)
    with progress:
        progress.tell("another", 1, 2)
