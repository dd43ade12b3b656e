"""Schedules of an open loop: constant and Poisson arrivals."""

import numpy as np
import pytest
from scipy import stats

from omni_bench.load.arrivals import CONSTANT, GAMMA, MAX_ARRIVALS, POISSON, RateProfile, arrival_offsets_ns


def offsets_s(arrival, rate_hz=10.0, *, seed="0", requests=1000, **more):
    profile = RateProfile.constant(rate_hz)
    return np.array(arrival_offsets_ns(arrival, profile, seed=seed, requests=requests, **more)) / 1e9


def test_constant_arrivals_are_evenly_spaced_from_the_start():
    assert offsets_s(CONSTANT, 4.0, requests=5) == pytest.approx([0, 0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("arrival", [CONSTANT, POISSON, GAMMA])
def test_the_same_seed_gives_the_same_schedule_in_order(arrival):
    first, again = offsets_s(arrival, seed="7"), offsets_s(arrival, seed="7")
    assert (first == again).all() and (np.diff(first) >= 0).all()
    assert arrival == CONSTANT or (offsets_s(arrival, seed="8") != first).any()


@pytest.mark.parametrize("arrival", [POISSON, GAMMA])
@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_a_level_offers_the_rate_that_it_is_named_after(arrival, seed):
    found = offsets_s(arrival, 20.0, seed=seed, requests=60)
    assert len(found) == 60 and found[0] > 0 and found[-1] < 3.0


def test_gaps_of_a_poisson_process_are_exponential():
    gaps = np.diff(offsets_s(POISSON, 10.0, requests=4000))
    assert stats.kstest(gaps, "expon", args=(0, 0.1)).pvalue > 0.001


def test_gamma_of_shape_one_is_poisson():
    assert (offsets_s(GAMMA, burstiness=1.0) == offsets_s(POISSON)).all()


@pytest.mark.parametrize("shape", [0.25, 4.0])
def test_the_shape_of_gamma_is_its_burstiness(shape):
    gaps = np.diff(offsets_s(GAMMA, 10.0, requests=4000, burstiness=shape))
    assert np.mean(gaps) == pytest.approx(0.1, rel=0.02)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(shape**-0.5, rel=0.1)


def test_a_duration_holds_as_many_as_the_rate_makes():
    profile = RateProfile.constant(0.1)
    assert len(arrival_offsets_ns(CONSTANT, profile, seed="", duration_s=30.0)) == 3
    assert len(arrival_offsets_ns(CONSTANT, profile, seed="", duration_s=31.0)) == 4
    found = arrival_offsets_ns(POISSON, profile, seed="", duration_s=1000.0)
    assert len(found) == 100 and found[-1] < 1000e9


@pytest.mark.parametrize(("start_hz", "end_hz"), [(1.0, 19.0), (19.0, 1.0), (10.0, 10.0)])
@pytest.mark.parametrize("arrival", [CONSTANT, POISSON])
def test_a_ramp_integrates_to_the_right_counts(start_hz, end_hz, arrival):
    profile = RateProfile.ramp(start_hz, end_hz, requests=None, duration_s=40.0)
    found = np.array(arrival_offsets_ns(arrival, profile, seed="3", duration_s=40.0)) / 1e9
    assert len(found) == 400
    for end_s in (10.0, 20.0, 30.0):
        slope = (end_hz - start_hz) / 40.0
        wanted = start_hz * end_s + slope * end_s**2 / 2
        assert profile.expected(end_s) == pytest.approx(wanted)
        exact = 1 if arrival == CONSTANT else 4 * np.sqrt(wanted)
        assert abs((found < end_s).sum() - wanted) <= exact


def test_a_ramp_of_so_many_requests_is_as_long_as_it_takes():
    profile = RateProfile.ramp(1.0, 3.0, requests=20, duration_s=None)
    assert profile.length_s == pytest.approx(10.0) and profile.expected(10.0) == pytest.approx(20.0)
    assert [profile.moment(profile.expected(at_s)) for at_s in (0.0, 2.5, 10.0)] == pytest.approx([0.0, 2.5, 10.0])


@pytest.mark.parametrize(
    ("arrival", "more", "message"),
    [
        ("poison", {"requests": 3}, "'poison'; valid: constant"),
        (POISSON, {}, "either requests or duration_s"),
        (POISSON, {"requests": 3, "duration_s": 1.0}, "either requests or duration_s"),
        (CONSTANT, {"duration_s": 1e9}, f"at most {MAX_ARRIVALS}"),
    ],
)
def test_what_is_no_schedule_is_refused(arrival, more, message):
    with pytest.raises(ValueError, match=message):
        arrival_offsets_ns(arrival, RateProfile.constant(10.0), seed="", **more)
