"""What the self-test makes of runs that did not go as planned: no judge and no server is needed for that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omni_bench.errors import ConfigError, TargetError
from omni_bench.records.invalid_reason import Code, invalid
from omni_bench.run.progress import RunProgress
from omni_bench.selftest import campaign
from omni_bench.selftest.cases import chosen_faults, clean_case
from omni_bench.selftest.plan import QUICK

DIED = invalid(Code.SERVER_BROKE, message="the server died").to_json()
JOB_RUN = {"levels": [], "valid": False, "invalid_reasons": [DIED], "duration_s": 2.0}


@pytest.fixture
def plan():
    return replace(QUICK, concurrency=(2,), clean_runs=1)


@pytest.fixture
def no_runs(monkeypatch):
    """Runs end as the test says, and leave nothing but what :func:`campaign._read` is told to find."""
    made = []

    def run(config, folder, command, quiet):
        made.append(folder)
        raise TargetError("the server died\nits log")

    monkeypatch.setattr(campaign, "run", run)
    monkeypatch.setattr(campaign, "_read", lambda folder: (JOB_RUN, [], None))
    return made


def heard(plan, tmp_path, cases):
    jobs = [campaign._Job(case, 0, tmp_path / case.name / "0") for case in cases]
    with RunProgress() as progress:
        return campaign._run_all(plan, jobs, tmp_path / "prompts", tmp_path, progress, ["omni-bench"])


def test_a_clean_server_that_does_not_start_is_no_silent_one(plan, tmp_path, no_runs):
    (clean,) = heard(plan, tmp_path, [clean_case()])
    assert clean.problem == "the server died"
    with RunProgress() as progress:
        (case,) = campaign._judge_all([clean], None, plan, plan_config(plan, tmp_path), progress)
    assert case.problem == "the server died" and not case.alarms


def test_a_fault_that_leaves_nothing_says_why(plan, tmp_path, no_runs):
    (fault,) = heard(plan, tmp_path, chosen_faults(["empty_ok"]))
    assert fault.problem == "the server died"


def test_a_run_of_the_same_plan_is_kept(plan, tmp_path, no_runs, monkeypatch):
    monkeypatch.setattr(campaign, "came_to_its_end", lambda folder: True)
    monkeypatch.setattr(campaign, "other_settings", lambda folder, config: [])
    (clean,) = heard(plan, tmp_path, [clean_case()])
    assert not no_runs
    # what went wrong in it is not forgotten, and neither is how long it took
    assert (clean.kept, clean.problem, clean.duration_s) == (True, "the server died", 2.0)


def test_a_run_of_another_plan_is_neither_kept_nor_deleted(plan, tmp_path, no_runs, monkeypatch):
    monkeypatch.setattr(campaign, "came_to_its_end", lambda folder: True)
    monkeypatch.setattr(campaign, "other_settings", lambda folder, config: ["load"])
    folder = tmp_path / "clean" / "0"
    folder.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"other settings \(load\)"):
        heard(plan, tmp_path, [clean_case()])
    assert folder.is_dir() and not no_runs


def plan_config(plan, tmp_path):
    return campaign.compose(plan.overrides(0, tmp_path))
