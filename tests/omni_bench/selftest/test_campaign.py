"""What the self-test makes of runs that did not go as planned: no judge and no server is needed for that."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from omni_bench.errors import ConfigError, TargetError
from omni_bench.records.invalid_reason import Code, invalid
from omni_bench.run.progress import RunProgress
from omni_bench.selftest import campaign, untimed
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

    monkeypatch.setattr(untimed, "run", run)
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


def test_faults_in_the_model_are_run_beside_those_at_the_wire(plan, tmp_path, monkeypatch):
    """What is timed is run before, with nothing beside it; the runs come back in the order of the cases."""
    elsewhere, here = [], []

    @contextmanager
    def beside(orders):
        here.append("beside")
        elsewhere.extend(Path(order.folder).parent.name for order in orders)
        yield iter([{"problem": None, "duration_s": 7.0}] * len(orders))

    monkeypatch.setattr(campaign, "beside", beside)
    monkeypatch.setattr(campaign, "_shared_server", lambda *_: nullcontext("http://127.0.0.1:1"))
    monkeypatch.setattr(campaign, "one_run", lambda config, folder, command: here.append(folder.parent.name))
    monkeypatch.setattr(campaign, "_read", lambda folder: (JOB_RUN, [], None))
    model = ["shared_proj_buf", "broadcast_add", "noncausal_mask", "stale_rows", "pinned_alias"]
    cases = [clean_case(), *chosen_faults([*model, "serial_predictor", "cut"])]
    runs = heard(plan, tmp_path, cases)
    assert [one.job.case.name for one in runs] == [case.name for case in cases]
    assert here == ["clean", "serial_predictor", "beside", "cut", "shared_proj_buf", "pinned_alias"]
    assert elsewhere == ["broadcast_add", "noncausal_mask", "stale_rows"]
    assert [one.duration_s for one in runs if one.job.case.name in elsewhere] == [7.0] * 3
