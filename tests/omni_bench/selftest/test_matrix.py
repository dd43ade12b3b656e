"""Alarms become verdicts: caught, missed, false alarms."""

from __future__ import annotations

import pytest

from omni_bench.selftest.cases import CLEAN, SelftestCase
from omni_bench.selftest.matrix import CaseRun, DetectorAlarm, SelftestResult, group_by_case, rate_interval

FAULT = SelftestCase("swap", "model", "swaps", ("cross_talk", "wer"), 2, ("reference.fault=swap",))
SERVER = SelftestCase(CLEAN, CLEAN, "clean", (), 1, ())


def case_run(case=FAULT, repeat=0, alarms=(), problem=None):
    return CaseRun(case, repeat, f"{case.name}/{repeat}", tuple(alarms), 1.0, problem)


def result(*runs, skipped=()):
    return SelftestResult(group_by_case(runs), tuple(skipped), 1.0, {})


def test_a_fault_is_caught_by_any_detector_named_in_advance():
    run = case_run(alarms=[DetectorAlarm("wer", 4, "x"), DetectorAlarm("wer", 2, "y"), DetectorAlarm("noise", 1, "z")])
    assert run.caught
    assert run.lowest("wer") == 2
    assert run.lowest("cross_talk") is None


def test_an_alarm_of_another_detector_is_not_the_one_named():
    run = case_run(alarms=[DetectorAlarm("noise", 1, "z")])
    assert not run.caught
    assert not result(run).ok


def test_an_alarm_below_the_concurrency_at_which_the_fault_shows_is_of_something_else():
    assert not case_run(alarms=[DetectorAlarm("wer", 1, "x")]).caught
    assert case_run(alarms=[DetectorAlarm("wer", 1, "x"), DetectorAlarm("cross_talk", 2, "y")]).caught


def test_a_fault_must_be_caught_in_every_run():
    hit = case_run(alarms=[DetectorAlarm("wer", 2, "x")])
    miss = case_run(repeat=1)
    assert result(hit).ok
    assert not result(hit, miss).ok
    (verdict,) = group_by_case([hit, miss])
    assert (verdict.caught, verdict.times("wer"), verdict.lowest("wer")) == (1, 1, 2)


def test_the_clean_server_must_stay_silent():
    assert result(case_run(SERVER)).ok
    alarming = result(case_run(SERVER), case_run(SERVER, 1, [DetectorAlarm("clicks", 4, "x")]))
    assert not alarming.ok
    assert alarming.false_alarms()[:2] == (1, 2)


def test_a_run_that_could_not_be_judged_is_not_ok_even_if_it_alarmed():
    run = case_run(alarms=[DetectorAlarm("wer", 2, "x")], problem="no run.json")
    assert not result(run).ok


def test_a_clean_run_that_proves_nothing_is_neither_silent_nor_counted():
    broken = result(case_run(SERVER, problem="the server died"), case_run(SERVER, 1))
    assert not broken.ok
    assert broken.false_alarms()[:2] == (0, 1)
    assert result(case_run(SERVER, problem="the server died")).false_alarms() is None


def test_without_clean_runs_there_is_no_rate():
    assert result(case_run()).false_alarms() is None


@pytest.mark.parametrize(
    ("events", "runs", "low", "high"),
    # Clopper & Pearson: with no event the upper bound is 1 - (0.025)^(1/n)
    [(0, 20, 0.0, 1 - 0.025 ** (1 / 20)), (20, 20, 0.025 ** (1 / 20), 1.0)],
)
def test_the_interval_is_exact(events, runs, low, high):
    assert rate_interval(events, runs) == pytest.approx((low, high), abs=1e-9)


def test_detectors_are_ordered_by_how_many_cases_have_them():
    other = SelftestCase("other", "wire", "other", ("wer",), 1, ())
    matrix = result(
        case_run(alarms=[DetectorAlarm("noise", 1, "x")]), case_run(other, alarms=[DetectorAlarm("wer", 1, "y")])
    )
    assert matrix.detectors == ["wer", "cross_talk", "noise"]
