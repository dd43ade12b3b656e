"""The acute rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from omni_bench.compare.stats.nightly import prediction

NIGHTS = [0.01 * ((-1) ** i) for i in range(12)]


def test_too_few_nights_predict_nothing():
    assert prediction(NIGHTS[:9]) is None
    assert prediction(NIGHTS[:10]) is not None


def test_the_interval_is_that_of_one_more_night():
    found = prediction(NIGHTS)
    half = stats.t.ppf(0.9975, 11) * np.std(NIGHTS, ddof=1) * math.sqrt(1 + 1 / 12)
    assert found.high - found.mean == pytest.approx(half)
    assert found.mean - found.low == pytest.approx(half)


def test_coverage_is_what_it_says():
    rng = np.random.default_rng(0)
    misses = 0
    for row in rng.normal(0, 0.02, (4000, 11)):
        found = prediction(row[:10])
        misses += not found.low <= row[10] <= found.high
    low, high = stats.binom.ppf([0.0005, 0.9995], 4000, 0.005)
    assert low <= misses <= high


def test_both_conditions_are_needed():
    quiet = prediction([0.001 * ((-1) ** i) for i in range(12)])
    assert quiet.high < 0.04 and not quiet.acute(0.04, 1)  # certain, and too small to matter
    assert quiet.acute(0.06, 1)
    loud = prediction([0.04 * ((-1) ** i) for i in range(12)])
    assert not loud.acute(0.08, 1)  # large, and within what this machine does


def test_only_the_bad_side_counts():
    found = prediction(NIGHTS)
    assert found.acute(0.2, 1) and not found.acute(-0.2, 1)
    assert found.acute(-0.2, -1) and not found.acute(0.2, -1)


def test_equal_nights_have_an_interval_of_no_width():
    found = prediction([0.5] * 10)
    assert found.low == found.high == 0.5 and found.acute(0.56, 1) and not found.acute(0.54, 1)
