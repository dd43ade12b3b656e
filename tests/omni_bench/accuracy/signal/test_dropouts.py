"""Lost frames are holes; pauses and digital silence between sentences are not."""

import numpy as np
import pytest
from voices import RATE, floats, speech

from omni_bench.accuracy.signal.dropouts import abrupt_falls, abrupt_onsets, constant_runs, fall_db, onset_ratios
from omni_bench.accuracy.signal.speech_level import active_rms

LOUD = round(0.9 * RATE)  # within the third syllable (0.8 to 1.0 s)


def with_hole(length_s, start=LOUD, filled=0.0):
    samples = speech().copy()
    count = round(length_s * RATE)
    samples[start : start + count] = np.random.default_rng(0).normal(size=count) * filled
    return floats(samples)


def check(samples):
    active = active_rms(samples, RATE)
    return (
        abrupt_falls(samples, active, RATE),
        constant_runs(samples, active, RATE),
        abrupt_onsets(samples, active, RATE),
    )


def test_clean_speech_has_no_holes():
    assert check(floats(speech())) == ([], [], [])


def test_a_lost_frame_is_found_and_placed():
    falls, _, _ = check(with_hole(0.080))
    assert [fall.at_s for fall in falls] == [pytest.approx(0.9, abs=0.002)]
    assert falls[0].duration_s >= 0.080


def test_comfort_noise_in_the_hole_does_not_hide_it():
    falls, runs, _ = check(with_hole(0.080, filled=12))
    assert len(falls) == 1
    assert runs == []


def test_a_short_run_of_zeros_within_a_syllable():
    falls, runs, _ = check(with_hole(0.010))
    assert falls == []
    assert [(round(run.at_s, 3), round(run.duration_s, 3)) for run in runs] == [(0.9, 0.01)]


def test_a_hole_that_ends_abruptly_is_an_onset():
    samples = with_hole(0.25, start=round(0.62 * RATE))
    _, _, onsets = check(samples)
    assert len(onsets) == 1
    assert onsets[0].at_s + onsets[0].duration_s == pytest.approx(0.87, abs=0.003)


def test_digital_silence_between_sentences_is_a_pause():
    pause = np.zeros(round(0.3 * RATE), np.float32)
    first = floats(speech(2.0))[: round(1.9 * RATE)]  # ends in a pause
    assert check(np.concatenate([first, pause, floats(speech(2.0, seed=1))])) == ([], [], [])


def test_an_abrupt_end_is_no_hole():
    samples = np.concatenate([floats(speech())[:LOUD], np.zeros(RATE, np.float32)])
    assert check(samples)[:2] == ([], [])


def test_speech_that_begins_the_file_is_no_onset():
    samples = np.concatenate([np.zeros(RATE // 2, np.float32), floats(speech())[LOUD:]])
    assert check(samples)[2] == []


@pytest.mark.parametrize("count", [0, 1, 100, 960])
def test_audio_too_short_for_windows(count):
    samples = np.full(count, 0.1, np.float32)
    assert not np.isfinite(fall_db(samples, 0.1, RATE)).any()
    assert len(onset_ratios(samples, 0.1, RATE)[0]) == 0
    assert constant_runs(samples, 0.1, RATE) == []


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 48_000])
def test_other_sample_rates(rate):
    samples = floats(speech(rate=rate)).copy()
    assert abrupt_falls(samples, active_rms(samples, rate), rate) == []
    start = round(0.9 * rate)
    samples[start : start + round(0.08 * rate)] = 0
    assert len(abrupt_falls(samples, active_rms(samples, rate), rate)) == 1
