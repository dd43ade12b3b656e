"""Change points: the search against brute force, the test against chance, and the limits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.compare.stats.drift import MIN_SEGMENT, best_gains, change_points, energy_cost, permutation_p


def energy_distance(left, right):
    """E(X, Y) by its definition."""
    cross = np.abs(left[:, None] - right).mean()
    return 2 * cross - np.abs(left[:, None] - left).mean() - np.abs(right[:, None] - right).mean()


def brute_force_gain(series):
    """The best n·m/(n + m)·E(X, Y)/2 over all splits."""
    n = len(series)
    splits = range(MIN_SEGMENT, n - MIN_SEGMENT + 1)
    return max(k * (n - k) / n * energy_distance(series[:k], series[k:]) / 2 for k in splits)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(-3, 3, allow_nan=False, width=32), min_size=6, max_size=14))
def test_the_gain_of_a_split_is_the_energy_distance(values):
    series = np.array(values, dtype=np.float64)
    orders = np.arange(len(series))[None, :]
    assert best_gains(orders, series)[0] == pytest.approx(brute_force_gain(series), abs=1e-9)


def test_the_cost_for_ruptures_gives_the_same_gain():
    series = np.random.default_rng(3).normal(size=12)
    cost = energy_cost().fit(series)
    gains = [cost.error(0, 12) - cost.error(0, k) - cost.error(k, 12) for k in range(3, 10)]
    assert max(gains) == pytest.approx(brute_force_gain(series))


def test_the_permutation_test_agrees_with_all_permutations():
    segment = np.array([0.0, 0.1, 0.03, 0.2, 0.21, 0.18])
    gains = best_gains(np.array(list(itertools.permutations(range(6)))), segment)
    exact = float((gains >= gains[0] * (1 - 1e-9)).mean())
    # stopped early at so large a p, after some tens of permutations
    assert exact == pytest.approx(permutation_p(segment), abs=0.15) and exact > 0.05


def test_a_step_is_found_where_it_is():
    series = np.random.default_rng(1).normal(0, 0.01, 60)
    series[35:] += math.log1p(0.06)
    (point,) = change_points(series)
    assert point.index == 35 and point.change == pytest.approx(0.06, abs=0.01) and point.p < 0.001


@pytest.mark.parametrize("change", (0.06, -0.06))
def test_three_nights_of_a_new_level_are_enough_and_two_are_not(change):
    series = np.random.default_rng(2).normal(0, 0.005, 40)
    series[37:] += change
    assert [point.index for point in change_points(series)] == [37]
    assert change_points(series[:39]) == ()


def test_a_certain_change_below_three_percent_is_none():
    series = np.random.default_rng(4).normal(0, 0.001, 60)
    series[30:] += math.log1p(0.025)
    assert permutation_p(series) < 0.001
    assert change_points(series) == ()


def test_several_steps_and_a_slow_creep():
    rng = np.random.default_rng(5)
    steps = np.repeat([0.0, 0.08, -0.02], 20) + rng.normal(0, 0.005, 60)
    assert [point.index for point in change_points(steps)] == [20, 40]
    creep = np.linspace(0, 0.10, 60) + rng.normal(0, 0.005, 60)
    assert change_points(creep), "a hundred small losses are one large one"


def test_one_spike_is_no_change():
    series = np.random.default_rng(6).normal(0, 0.01, 40)
    series[20] += 0.3
    assert change_points(series) == ()


def test_short_constant_and_empty_series():
    assert change_points([]) == change_points([0.1]) == change_points([0.5] * 30) == ()
    assert change_points([0.0] * 2 + [1.0] * 3) == ()


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        change_points([0.0, math.nan, 1.0])


def test_noise_alone_is_seldom_a_change():
    rng = np.random.default_rng(7)
    found = sum(bool(change_points(rng.normal(0, 0.03, 40))) for _ in range(60))
    assert found <= 2
