"""A run in which a check did not run is not a run that passed it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from omni_bench.records.invalid_reason import Code, InvalidReason, invalid
from omni_bench.run.config.compose import compose
from omni_bench.selftest import soundness
from omni_bench.selftest.cases import chosen_faults, clean_case
from omni_bench.selftest.evidence import ALONE, StoredAnswer
from omni_bench.selftest.plan import QUICK
from omni_bench.selftest.soundness import came_to_its_end, other_fault, other_settings, own_problem, unproven

PLAN = replace(QUICK, concurrency=(2,), requests_per_level=2, solo=1)


def answer(name="c2-0000", concurrency=2):
    return StoredAnswer(name, "p1", 3, concurrency, "Hi.", "en", None, (), Path("x.wav"), 24000, 1.0, 80.0, None)


def level(**changes):
    checked = {"accuracy": {"wer": 0.0}, "cross_talk": {"hits": 0}, "parity": {"compared": 1}}
    return {"concurrency": 2, "invalid_reasons": [], **checked, **changes}


ANSWERS = [answer(), answer("c2-0001"), answer("solo-c2-0000", ALONE)]


def test_a_run_in_which_everything_was_checked_stands_for_itself():
    assert unproven({"levels": [level()]}, ANSWERS, PLAN) is None


@pytest.mark.parametrize(
    ("run", "answers", "why"),
    [
        (None, [], "no run.json"),
        ({"levels": []}, [], "concurrency 2 was not measured"),
        ({"levels": [level()]}, ANSWERS[1:], "1 of 2 requests"),
        ({"levels": [level(accuracy={"wer": None})]}, ANSWERS, "nothing was heard"),
        ({"levels": [level(accuracy=None)]}, ANSWERS, "nothing was heard"),
        ({"levels": [level(cross_talk=None)]}, ANSWERS, "cross-talk was not checked"),
        ({"levels": [level(parity=None)]}, ANSWERS, "parity was not checked"),
        ({"levels": [level(parity={"compared": 0})]}, ANSWERS, "parity was not checked"),
        ({"levels": [level()]}, ANSWERS[:2], "0 of 1 requests were sent alone"),
    ],
)
def test_whatever_did_not_run_is_told(run, answers, why):
    assert why in unproven(run, answers, PLAN)


def test_the_runs_own_reason_is_told_from_those_of_its_levels():
    bad = {**invalid(Code.WER, rate="WER", value=0.5, limit=0.1).to_json(), "level": "concurrency 2"}
    died = invalid(Code.SERVER_BROKE, message="the server died").to_json()
    run = {"valid": False, "levels": [level()], "invalid_reasons": [bad]}
    assert own_problem(run) is None
    assert own_problem({**run, "invalid_reasons": [bad, died]}) == "the server died"


@pytest.mark.parametrize(
    ("name", "described", "right"),
    [
        (None, {"health": {"fault": None}, "chaos": None}, True),
        (None, {"health": {"fault": "empty_ok"}, "chaos": None}, False),
        ("empty_ok", {"health": {"fault": "empty_ok"}, "chaos": None}, True),
        ("empty_ok", {"health": {"fault": None}, "chaos": None}, False),
        ("cut", {"health": {"fault": None}, "chaos": {"name": "cut"}}, True),
        ("cut", {"health": {"fault": None}, "chaos": None}, False),
        ("cut", {"health": {"fault": "empty_ok"}, "chaos": {"name": "cut"}}, False),
        ("cut", {}, False),
    ],
)
def test_nothing_counts_as_caught_that_was_not_there(name, described, right):
    case = chosen_faults([name])[0] if name else clean_case()
    problem = other_fault({"provenance": {"target": {"description": described}}}, case)
    assert (problem is None) is right


@pytest.mark.parametrize(
    ("codes", "duration_s", "ended"),
    [
        ([], 2.0, True),
        ([Code.SERVER_BROKE], 2.0, True),
        ([Code.JUDGING_UNFINISHED], 2.0, True),
        ([Code.INTERRUPTED], 2.0, False),
        ([Code.INTERRUPTED_ALONE], 2.0, False),
        ([], None, False),  # gone on with by itself: without it the duration of the self-test would not be known
    ],
)
def test_a_run_that_did_not_come_to_its_end_has_a_run_json_too(tmp_path, monkeypatch, codes, duration_s, ended):
    monkeypatch.setattr("omni_bench.records.run_folder.validate_run", lambda run, where: None)
    reasons = [InvalidReason(code, code.blame, "x").to_json() for code in codes]
    run = {"valid": not codes, "invalid_reasons": reasons, "duration_s": duration_s}
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert came_to_its_end(tmp_path) is ended


def test_no_run_and_a_broken_one_did_not_come_to_their_end(tmp_path):
    assert not came_to_its_end(tmp_path / "nothing")
    (tmp_path / "run.json").write_text("{")
    assert not came_to_its_end(tmp_path)


def test_settings_of_another_self_test(tmp_path, monkeypatch):
    monkeypatch.setattr("omni_bench.records.run_folder.validate_run", lambda run, where: None)
    config = compose([*PLAN.overrides(0, tmp_path), "target.chaos=cut"])
    stored = json.loads(json.dumps(soundness.asdict(config)))
    (tmp_path / "run.json").write_text(json.dumps({"provenance": {"config": stored}}))
    assert other_settings(tmp_path, config) == []
    other = compose([*PLAN.overrides(1, tmp_path), "target.chaos=stall"])
    assert other_settings(tmp_path, other) == ["client", "dataset", "target.chaos"]
