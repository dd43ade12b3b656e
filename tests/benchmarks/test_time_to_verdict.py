"""A study on a card, with servers whose figures are made up: it stops where `omni-bench ab` would."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from benchmarks import time_to_verdict
from benchmarks.time_to_verdict import SAME, SLOW, CardStudy
from omni_bench.compare.stats.verdicts import Verdict
from omni_bench.run.config.compose import compose


@pytest.fixture
def study(monkeypatch):
    """A function that plays a study whose after is ``slower``; the arms in the order of their runs."""
    order = []
    wobble = itertools.cycle((0.004, -0.006, 0.003, -0.005, 0.007, -0.002))

    def figures(target, config, plan, prepared, spool):
        order.append(target.name)
        time = target.slower * (1 + next(wobble))
        times = {"ttfp_ms": 90 * time, "rtf": 0.2 * time, "audio_per_s": 40 / time, "ttfp_tail_ms": 99 * time}
        return {**times, "stalled": 0.0}

    monkeypatch.setattr(time_to_verdict, "_figures", figures)
    monkeypatch.setattr(
        time_to_verdict, "prepare", lambda *arguments: SimpleNamespace(plans=[SimpleNamespace(concurrency=8)])
    )

    def play(case, slower, tmp_path, runs=99):
        arms = {name: SimpleNamespace(name=name, slower=factor) for name, factor in (("before", 1), ("after", slower))}
        one = CardStudy(case, 3)
        time_to_verdict._run_card_study(one, arms, compose(["scenario=smoke"]), tmp_path, lambda: len(order) < runs)
        return one

    return SimpleNamespace(play=play, order=order)


def test_a_slowdown_stops_at_the_first_look_and_nothing_at_the_full_study(study, tmp_path):
    slow = study.play(SLOW, 1.08, tmp_path)
    assert (slow.verdict, slow.pairs) == (Verdict.REGRESSION, 3) and slow.run_cv < 0.02
    assert study.order in (
        ["before", "after", "after", "before", "after", "before"],
        ["after", "before", "before", "after", "before", "after"],
    )
    same = study.play(SAME, 1.0, tmp_path)
    assert (same.verdict, same.pairs) == (Verdict.NO_REGRESSION, 5)
    text = time_to_verdict._card_report([slow.row(), same.row()], ["x=1"], "a card")
    assert "**slow_8**, REGRESSION, found: 1 of 1 studies" in text and "**A/A**, false REGRESSION: 0 of 1" in text


def test_a_study_that_runs_out_of_time_has_no_verdict(study, tmp_path):
    assert study.play(SLOW, 1.08, tmp_path, runs=5).verdict is None
    turns = time_to_verdict._in_turns()
    assert len(turns) == 30 and [case for case, _ in turns[:3]].count(SAME) == 2


@pytest.mark.usefixtures("study")
def test_a_call_that_was_cut_off_is_gone_on_with(monkeypatch, tmp_path):
    started = []

    def server(config, log):
        started.append(log.stem)
        info = SimpleNamespace(health={"device_name": "a card"})
        slower = 1.08 if log.stem == "slow" else 1.0
        return SimpleNamespace(name=log.stem, slower=slower, start=lambda: info, stop=lambda: None)

    monkeypatch.setattr(time_to_verdict, "create_target", server)
    monkeypatch.setattr(time_to_verdict, "DEVICE_STUDIES", {SAME: 2, SLOW: 1})
    keep, words = tmp_path / "kept.jsonl", ["scenario=smoke", "reference.graphs=off"]
    whole = time_to_verdict.on_card(words, 60, keep)
    assert "1 of 1 studies" in whole and "0 of 2 studies" in whole and started == ["one", "other", "slow"]
    lines = keep.read_text().splitlines()
    keep.write_text("\n".join(lines[:2]) + "\n")
    assert time_to_verdict.on_card(words, 60, keep).count("slow_8  ") == whole.count("slow_8  ")
    assert keep.read_text().splitlines()[:2] == lines[:2] and len(keep.read_text().splitlines()) == 3
