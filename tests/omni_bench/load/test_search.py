"""The search for the highest rate: doubling, then bisection."""

import math

import pytest

from omni_bench.load.search import bracket, is_precise, next_rate
from omni_bench.records.config import LoadConfig


def search(limit_hz, **settings):
    """All probes of a search on a server that holds up to ``limit_hz``."""
    load = LoadConfig(kind="rate_search", rate_hz=[1.0], **{"max_rate_hz": 1000.0, **settings})
    probes = {}
    while (rate_hz := next_rate(probes, load)) is not None:
        assert rate_hz not in probes
        probes[rate_hz] = rate_hz <= limit_hz
    return probes


def test_it_doubles_then_bisects():
    probes = search(11.0, precision=0.1)
    assert list(probes)[:5] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert list(probes)[5] == pytest.approx(math.sqrt(8 * 16), rel=1e-4)


@pytest.mark.parametrize("limit_hz", [0.07, 0.9, 1.0, 1.03, 19.7, 333.0])
@pytest.mark.parametrize("precision", [0.02, 0.1, 0.5])
def test_it_ends_with_the_limit_between_two_rates_within_the_precision(limit_hz, precision):
    probes = search(limit_hz, precision=precision, max_probes=40)
    low_hz, high_hz = bracket(probes)
    assert low_hz <= limit_hz < high_hz <= low_hz * (1 + precision) and is_precise(low_hz, high_hz, precision)


def test_a_server_that_never_fails_is_left_at_the_highest_rate():
    probes = search(math.inf, max_rate_hz=50.0)
    assert list(probes) == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 50.0]
    assert bracket(probes) == (50.0, None)


def test_a_server_that_always_fails_is_left_at_the_lowest_rate():
    probes = search(0.0, min_rate_hz=0.1)
    assert min(probes) == 0.1 and bracket(probes) == (None, 0.1)


def test_it_never_takes_more_probes_than_allowed():
    assert len(search(777.0, precision=0.01, max_probes=5)) == 5
    assert not is_precise(*bracket(search(777.0, max_probes=5)), 0.1)


def test_a_rate_that_holds_above_one_that_does_not_is_not_believed():
    assert bracket({1.0: True, 2.0: False, 4.0: True}) == (1.0, 2.0)
