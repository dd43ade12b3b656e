"""Pairs of runs: hand-computed t intervals, the procedure's table of detectable changes, and what is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.compare.stats.pairs import (
    averaged_over_levels,
    common_levels,
    intercept_effect,
    log_ratio,
    one_sided_p,
    paired_effect,
    smallest_detectable_change,
    t_interval,
)

# Quantiles of Student's t from any printed table.
T95_DF4, T975_DF4 = 2.132, 2.776


def test_interval_by_hand():
    effect = paired_effect([0.01, 0.02, 0.03, 0.04, 0.05])
    assert effect.mean == pytest.approx(0.03)
    assert effect.sd == pytest.approx(math.sqrt(0.001 / 4))  # deviations −2, −1, 0, 1, 2 hundredths
    assert effect.change == pytest.approx(math.exp(0.03) - 1)
    half = T95_DF4 * effect.sd / math.sqrt(5)
    assert t_interval(effect, 0.90) == pytest.approx((0.03 - half, 0.03 + half), abs=1e-5)
    half = T975_DF4 * effect.sd / math.sqrt(5)
    assert t_interval(effect, 0.95) == pytest.approx((0.03 - half, 0.03 + half), abs=1e-5)


def test_one_pair_has_no_spread_and_no_interval():
    effect = paired_effect([0.1])
    assert effect.sd is None and effect.mean == 0.1
    assert t_interval(effect, 0.9) is None
    assert smallest_detectable_change(effect.sd, 1, alpha=0.05) is None
    with pytest.raises(ValueError, match="no pair"):
        paired_effect([])


@pytest.mark.parametrize(
    ("run_cv", "percent"),
    [(0.01, (3.3, 1.9, 1.4)), (0.02, (6.7, 3.9, 2.8)), (0.03, (10, 5.9, 4.2)), (0.05, (18, 10, 7.2))],
)
def test_the_table_of_detectable_changes(run_cv, percent):
    for pairs, expected in zip((3, 5, 8), percent, strict=True):
        found = smallest_detectable_change(math.sqrt(2) * run_cv, pairs, alpha=0.05)
        digits = 1 if expected < 10 else 0
        assert round(100 * found, digits) == expected


def test_what_is_detectable_is_found_as_often_as_said():
    sd, pairs, alpha, studies = 0.03, 5, 0.05, 40_000
    shift = math.log1p(smallest_detectable_change(sd, pairs, alpha=alpha))
    draws = np.random.default_rng(7).normal(shift, sd, (studies, pairs))
    found = (one_sided_p(draws.mean(axis=1), draws.std(axis=1, ddof=1), pairs) <= alpha).mean()
    assert found == pytest.approx(0.8, abs=4 * math.sqrt(0.8 * 0.2 / studies))


@settings(max_examples=20)
@given(st.floats(1e-4, 0.3), st.integers(2, 12))
def test_more_pairs_and_less_spread_detect_less(sd, pairs):
    found = smallest_detectable_change(sd, pairs, alpha=0.05)
    assert 0 < smallest_detectable_change(sd, pairs + 1, alpha=0.05) < found
    assert smallest_detectable_change(sd / 2, pairs, alpha=0.05) < found
    assert smallest_detectable_change(sd, pairs, alpha=0.01) > found


def test_p_values_by_hand():
    # t = 2.132 with 4 degrees of freedom leaves 5 % above it.
    sd = 0.02
    mean = T95_DF4 * sd / math.sqrt(5)
    p = one_sided_p(np.array([mean, -mean, 0.0]), np.array([sd] * 3), 5)
    assert p == pytest.approx([0.05, 0.95, 0.5], abs=1e-4)


def test_p_values_without_any_spread():
    assert list(one_sided_p(np.array([0.1, -0.1, 0.0]), np.zeros(3), 5)) == [0.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("before", "after"), [(None, 1.0), (1.0, None), (0.0, 1.0), (1.0, 0.0), (-1, 1), (1, math.nan)]
)
def test_no_ratio_of_what_is_missing_or_not_positive(before, after):
    assert log_ratio(before, after) is None


def test_log_ratio():
    assert log_ratio(100.0, 108.0) == pytest.approx(math.log(1.08))


def test_the_intercept_is_weighed_by_the_latency():
    assert intercept_effect(100.0, 150.0, 1000.0) == pytest.approx(math.log(1.05))
    assert intercept_effect(-20.0, 30.0, 1000.0) == pytest.approx(math.log(1.05))
    assert intercept_effect(None, 30.0, 1000.0) is None
    assert intercept_effect(0.0, 30.0, None) is None
    assert intercept_effect(0.0, 30.0, 0.0) is None
    assert intercept_effect(0.0, -1000.0, 1000.0) is None


def test_levels_are_averaged_over_those_that_every_pair_has():
    pairs = [{1: 0.1, 4: 0.3, 8: None}, {1: 0.2, 4: 0.4, 8: 9.0}]
    assert common_levels(pairs) == (1, 4)
    assert averaged_over_levels(pairs) == pytest.approx([0.2, 0.3])
    assert averaged_over_levels([{1: None}, {1: 0.1}]) is None
    assert common_levels([]) == () and averaged_over_levels([]) is None
