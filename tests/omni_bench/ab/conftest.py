"""Studies with a runner that makes run folders by hand instead of launching servers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from omni_bench.compare.ab.arms import Arm
from omni_bench.compare.ab.state import StudyState
from omni_bench.compare.stats.verdicts import Plan
from omni_bench.run.config.compose import compose


@pytest.fixture
def make(runs, tmp_path):
    """The factory of run folders, beside the tests of the comparison."""
    path = Path(__file__).parents[1] / "compare" / "conftest.py"
    spec = importlib.util.spec_from_file_location("compare_factory", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Factory(runs, tmp_path)


class FakeRunner:
    """Makes the run that a server of some speed would have left.

    ``slower``: by arm, how much longer everything takes. ``wobble``: run effects in order of the runs, cycling.
    ``ends``: by the number of the call (from 1), an error to raise instead, "invalid", or a function to call first.
    """

    def __init__(self, make, *, slower=(1.0, 1.0), wobble=(0.004, -0.01, 0.007, -0.005, 0.009, -0.002), ends=None):
        self.make, self.wobble = make, wobble
        self.slower = dict(zip(("before", "after"), slower, strict=True))
        self.ends = ends or {}
        self.levels = (2, 4)
        self.calls = []

    def __call__(self, config, folder, command):
        arm = folder.name.split("-")[1]
        self.calls.append(SimpleNamespace(arm=arm, folder=folder, config=config, command=tuple(command)))
        number = len(self.calls)
        end = self.ends.get(number)
        if isinstance(end, BaseException):
            folder.mkdir(parents=True)
            (folder / "requests.jsonl").write_text("")
            raise end
        if callable(end):
            end(folder)
        effect = self.slower[arm] * (1 + self.wobble[number % len(self.wobble)])
        failures = 1 if end == "invalid" else 0
        name = folder.relative_to(self.make.tmp_path)
        self.make.folder(name, slower=effect, started=number, failures=failures, levels=self.levels, requests=6)
        return json.loads((folder / "run.json").read_text())


@pytest.fixture
def fake_runner(make):
    """A function that makes a :class:`FakeRunner`."""
    return lambda **arguments: FakeRunner(make, **arguments)


@pytest.fixture
def new_state():
    """A function that makes the state of a new study of two configurations."""

    def state(plan=Plan(5, 8), start="before"):  # noqa: B008 - frozen
        arms = []
        for name, predictor in (("before", "reprefill"), ("after", "kv_cache")):
            overrides = ("scenario=smoke", "load.concurrency=[2,4]", f"reference.predictor={predictor}")
            arms.append(Arm(name, f"reference.predictor={predictor}", overrides, compose(overrides), None))
        return StudyState(
            command=("omni-bench", "ab"),
            started_utc="2026-11-28T00:00:00Z",
            harness={"version": "0.1.0", "commit": None, "dirty": None},
            plan=plan,
            seed=1,
            start=start,
            arms=(arms[0], arms[1]),
        )

    return state
