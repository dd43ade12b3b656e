"""Summaries and the sizes they need."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.metrics.measured_level import slowest_mean
from omni_bench.metrics.summary import Summary, requests_needed, summarise


def test_the_support_rule():
    assert (requests_needed(95), requests_needed(99)) == (59, 299)
    assert 1 - 0.95**59 >= 0.95 > 1 - 0.95**58
    assert 1 - 0.99**299 >= 0.95 > 1 - 0.99**298


@given(st.floats(1, 99.9), st.floats(0.5, 0.999))
def test_needed_is_the_smallest_that_does(percentile, confidence):
    n = requests_needed(percentile, confidence)
    assert 1 - (percentile / 100) ** n >= confidence - 1e-12
    assert n == 1 or 1 - (percentile / 100) ** (n - 1) < confidence


@pytest.mark.parametrize("percentile", [0, 100, -1])
def test_percentiles_are_inside_0_and_100(percentile):
    with pytest.raises(ValueError, match="percentile"):
        requests_needed(percentile)


def test_nothing():
    assert summarise([]) == summarise([None, None]) == Summary(0, None, None, None, None, None, None)


def test_one_value_has_no_spread():
    assert summarise([4.0]) == Summary(n=1, mean=4.0, std=None, p50=4.0, p90=4.0, p95=None, p99=None)


def test_values_by_hand_and_missing_ones_left_out():
    summary = summarise([1.0, None, 2.0, 3.0, 4.0])
    assert summary == Summary(n=4, mean=2.5, std=statistics.stdev([1, 2, 3, 4]), p50=2.5, p90=3.7, p95=None, p99=None)


@pytest.mark.parametrize(
    ("n", "p95", "p99"), [(58, False, False), (59, True, False), (298, True, False), (299, True, True)]
)
def test_percentiles_are_granted_by_size(n, p95, p99):
    summary = summarise(range(n))
    assert (summary.p95 is not None, summary.p99 is not None) == (p95, p99)
    if p95:
        assert summary.p95 == pytest.approx(0.95 * (n - 1))
    if p99:
        assert summary.p99 == pytest.approx(0.99 * (n - 1))


def test_many_values_of_few_requests_grant_nothing():
    assert summarise(range(1000), requests=58).p95 is None
    assert summarise(range(1000), requests=59).p95 is not None
    assert summarise(range(10), requests=1000).p95 is None


def test_the_mean_of_the_slowest_tenth():
    assert slowest_mean([*range(1, 11)]) == 10
    assert slowest_mean([*range(1, 12), None]) == 10.5, "a tenth of 11 is 2, rounded up"
    assert slowest_mean([float(value) for value in range(100)]) == 94.5
    assert slowest_mean([*range(9), None]) is None
