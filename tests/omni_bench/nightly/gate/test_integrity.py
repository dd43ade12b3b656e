"""Integrity: what is a hard failure, what no measurement, what a warning."""

from __future__ import annotations

from dataclasses import replace

import night_factory as made
import pytest
from reasons import because

from omni_bench.nightly.gate.integrity import check_integrity, failed, not_measured
from omni_bench.records.invalid_reason import Code

NOT_THE_SERVER = (Code.CLIENT_LAG, Code.CLIENT_LAG_UNKNOWN, Code.CLIENT_LATE, Code.NOTHING_COMPARED)
HARD = (
    Code.INVALID_AUDIO,
    Code.REQUESTS_FAILED,
    Code.CROSS_TALK,
    Code.PARITY_DIFFERS,
    Code.WER,
    Code.WARMUP_FAILED,
    Code.UNKNOWN,
)


def test_a_good_night():
    cases = check_integrity(made.night(1, concurrencies=(1, 4)), None)
    assert [case.name for case in cases] == ["run", "c = 1", "c = 4"]
    assert all(case.ok and not case.warnings for case in cases)


@pytest.mark.parametrize("code", HARD)
def test_what_the_server_did_is_a_hard_failure(code):
    reason = because(code)
    cases = check_integrity(made.night(1, level_reasons=(reason,)), None)
    assert failed(cases) and not not_measured(cases) and cases[1].failures == (reason,)


@pytest.mark.parametrize("code", NOT_THE_SERVER)
def test_what_client_or_judge_did_is_no_measurement(code):
    reason = because(code)
    cases = check_integrity(made.night(1, level_reasons=(reason,)), None)
    assert not_measured(cases) and not failed(cases) and cases[1].errors == (reason,)


@pytest.mark.parametrize(("words", "measured"), [(0, False), (40, True)])
def test_a_night_of_which_the_judge_compared_nothing_is_not_measured(words, measured):
    """Such a night passed: a run of before it was a reason to be invalid calls itself valid."""
    run = made.night(1)
    accuracy = {"excluded": 32, "words": words}
    cases = check_integrity(replace(run, levels=(replace(run.levels[0], accuracy=accuracy),)), None)
    assert not_measured(cases) is not measured
    assert [reason.code for reason in cases[1].errors] == ([] if measured else [Code.NOTHING_COMPARED])
    assert any("32 of" in warning for warning in cases[1].warnings) is measured


def test_an_interrupted_run_is_no_measurement():
    reason = because(Code.INTERRUPTED)
    cases = check_integrity(made.night(1, reasons=(reason,)), None)
    assert not_measured(cases) and cases[0].errors == (reason,)


def test_invalid_without_a_reason_is_still_invalid():
    night = replace(made.night(1), valid=False)
    assert not_measured(check_integrity(night, None))
    mute = replace(night, levels=(replace(night.levels[0], valid=False),))
    assert failed(check_integrity(mute, None))
    assert not_measured(check_integrity(replace(night, valid=True, levels=()), None))


def test_a_level_that_calls_itself_valid_despite_failures():
    assert failed(check_integrity(made.night(1, failed=2), None))
    assert failed(check_integrity(made.night(1, faulty=1), None))


def test_cross_talk_by_chance_warns_and_fails_when_it_repeats():
    first, second = made.night(1, hits=1), made.night(2, hits=2)
    cases = check_integrity(second, made.night(1, hits=0))
    assert not failed(cases) and "a failure if they repeat" in cases[1].warnings[0]
    assert not failed(check_integrity(second, None))
    repeated = check_integrity(second, first)
    assert failed(repeated) and "2 hits tonight, 1 the night before" in str(repeated[1].failures[0])


def test_allowed_parity_mismatches_and_injected_faults_warn():
    cases = check_integrity(made.night(1, mismatches=3, faults=("reference.fault=slow_8",)), None)
    assert not failed(cases) and not not_measured(cases)
    assert "reference.fault=slow_8" in cases[0].warnings[0] and "3 answers differ" in cases[1].warnings[0]
    said = check_integrity(made.night(1, settings={"server.fault": "x\ny"}), None)
    assert said[0].warnings == ("the server says: fault x y",)
