"""Studies with a runner that makes run folders by hand instead of launching servers."""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import pytest
from fake_runner import FakeRunner

from omni_bench.compare.ab.arms import StudyArm
from omni_bench.compare.ab.state import StudyState
from omni_bench.compare.stats.verdicts import StudyPlan
from omni_bench.run.config.compose import compose

composed = cache(compose)


@pytest.fixture
def fake_runner(make):
    """A function that makes a :class:`FakeRunner`."""
    return lambda **arguments: FakeRunner(make, **arguments)


@pytest.fixture
def new_state():
    """A function that makes the state of a new study of two configurations."""

    def state(plan=StudyPlan(5, 8), start="before"):  # noqa: B008 - frozen
        arms = []
        for name, predictor in (("before", "reprefill"), ("after", "kv_cache")):
            overrides = ("scenario=smoke", "load.concurrency=[2,4]", f"reference.predictor={predictor}")
            arms.append(
                StudyArm(name, f"reference.predictor={predictor}", overrides, deepcopy(composed(overrides)), None)
            )
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
