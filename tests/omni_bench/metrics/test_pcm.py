"""What can be heard, and from when."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.metrics.pcm import audible_span, samples_from_pcm

RATE = 24_000
WINDOW = 480
LIMIT = 10 ** (-50 / 20)  # 0.00316...


def first_audible(samples, rate_hz):
    span = audible_span(samples, rate_hz)
    return None if span is None else span[0]


def test_pcm_is_little_endian_and_half_samples_are_dropped():
    assert samples_from_pcm(b"\x00\x80\xff\x7f\x01").tolist() == [-1.0, 32767 / 32768]
    assert samples_from_pcm(b"\x01").tolist() == []


@pytest.mark.parametrize(("level", "audible"), [(LIMIT * 1.001, 0), (LIMIT * 0.999, None), (0.0, None), (1.0, 0)])
def test_the_threshold_is_the_rms_of_a_window(level, audible):
    assert first_audible(np.full(WINDOW, level), RATE) == audible


def test_windows_follow_each_other_from_the_first_sample():
    samples = np.zeros(10 * WINDOW)
    samples[3 * WINDOW + 5 :] = 0.5
    assert first_audible(samples, RATE) == 3 * WINDOW


def test_a_short_last_window_counts_by_its_own_mean():
    samples = np.zeros(2 * WINDOW + 10)
    samples[-10:] = LIMIT * 1.001
    assert first_audible(samples, RATE) == 2 * WINDOW


def test_nothing_and_non_finite_samples_are_silent():
    assert first_audible(np.array([]), RATE) is None
    assert first_audible(np.array([np.nan, np.inf, -np.inf] * 300), RATE) is None


@given(st.binary(max_size=5000), st.sampled_from([8000, 22_050, 24_000, 48_000]))
def test_it_agrees_with_a_loop_over_windows(pcm, rate):
    samples = samples_from_pcm(pcm) * 0.005
    window = round(0.02 * rate)
    expected = None
    for start in range(0, len(samples), window):
        if np.mean(samples[start : start + window] ** 2) > 1e-5:
            expected = start
            break
    assert first_audible(samples, rate) == expected
