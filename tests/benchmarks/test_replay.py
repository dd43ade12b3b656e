"""The sixty nights with a known truth, through the gate itself."""

from __future__ import annotations

import pytest

from benchmarks.gate_replay.replay import Nights, replay
from omni_bench.nightly.gate.result import GateOutcome, Status


@pytest.mark.slow
@pytest.mark.parametrize("seed", (2026, 7))
def test_one_drift_two_spikes_and_a_broken_night(seed):
    world = Nights(
        concurrencies=(4,), drift=(35, 0.06), spikes={20: 0.25, 47: 0.30}, broken=frozenset({28}), run_cv=0.01
    )
    results = replay(world, seed)
    alarms = [night for night, one in enumerate(results, start=1) if one.exit_code == 1]
    assert len(alarms) == 1 and 35 <= alarms[0] < 40
    assert [night for night, one in enumerate(results, start=1) if one.exit_code == 3] == [28]
    assert results[27].outcome is GateOutcome.HARD_FAILURE
    assert [night for night, one in enumerate(results, start=1) if one.replaced] == [20, 47]
    assert [one.exit_code for one in results[:10]] == [2] * 10
    assert results[-1].exit_code == 0 and results[-1].with_status(Status.KNOWN)


@pytest.mark.slow
def test_quiet_nights_raise_no_alarm():
    results = replay(Nights(concurrencies=(4,), nights=40), seed=1)
    assert {one.exit_code for one in results[10:]} <= {0, 2} and results[-1].exit_code == 0


def test_the_same_seed_gives_the_same_nights():
    world = Nights(concurrencies=(4,), nights=3)
    first, again, other = (replay(world, seed) for seed in (1, 1, 2))
    assert [one.run for one in first] == [one.run for one in again] != [one.run for one in other]
