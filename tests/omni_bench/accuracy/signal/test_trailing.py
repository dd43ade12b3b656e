"""Stale audio after the end restarts within a sample, stops in the middle of speech, or is a copy."""

import numpy as np
import pytest
from voices import RATE, floats, speech

from omni_bench.accuracy.signal.dropouts import abrupt_onsets
from omni_bench.accuracy.signal.speech_level import active_rms
from omni_bench.accuracy.signal.trailing import end_level_db, reaches_end, restarts_at_end, stops_at_full_level

QUIET_END = round(1.9 * RATE)  # in a pause
LOUD = round(0.9 * RATE)


def ended():
    return floats(speech())[:QUIET_END]


def stale(length_s, seed=1):
    return floats(speech(seed=seed))[LOUD : LOUD + round(length_s * RATE)]


def verdicts(samples):
    active = active_rms(samples, RATE)
    onsets = abrupt_onsets(samples, active, RATE)
    return restarts_at_end(onsets, len(samples) / RATE), stops_at_full_level(samples, active, RATE)


def test_a_clean_end():
    assert verdicts(ended()) == (False, False)
    assert end_level_db(ended(), active_rms(ended(), RATE), RATE) < -30


def test_stale_audio_behind_the_end():
    restarts, stops = verdicts(np.concatenate([ended(), stale(0.06)]))
    assert restarts
    assert stops


def test_a_cut_without_a_gap_before_it_is_not_called_trailing():
    steady = floats(speech()).copy()
    samples = np.concatenate([steady[:LOUD], np.tile(steady[LOUD - 2400 : LOUD], 10)])
    assert not stops_at_full_level(samples, active_rms(samples, RATE), RATE)


def test_a_last_syllable_after_a_pause_is_speech():
    assert verdicts(floats(speech())[: round(2.3 * RATE)]) == (False, False)


@pytest.mark.parametrize(("until", "expected"), [((), False), ((1.0, 2.0), False), ((1.0, 2.99), True), ((3.0,), True)])
def test_copies_that_reach_the_end(until, expected):
    assert reaches_end(until, 3.0) is expected
