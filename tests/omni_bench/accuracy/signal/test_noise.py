"""White noise at 10 dB is noise; speech, hum, and a hiss that a cloned voice may have are not."""

import numpy as np
import pytest
from voices import RATE, floats, speech

from omni_bench.accuracy.signal.noise import noise_floor
from omni_bench.accuracy.signal.speech_level import active_rms


def at_snr(snr_db, noise=None):
    samples = floats(speech()).astype(float)
    noise = np.random.default_rng(3).normal(size=len(samples)) if noise is None else noise(len(samples))
    return samples + noise / np.sqrt(np.square(noise).mean()) * np.sqrt(np.square(samples).mean()) * 10 ** (
        -snr_db / 20
    )


def floor(samples):
    return noise_floor(samples, active_rms(samples, RATE), RATE)


@pytest.mark.parametrize(("snr_db", "is_noise"), [(5, True), (10, True), (20, False), (30, False)])
def test_white_noise(snr_db, is_noise):
    found = floor(at_snr(snr_db))
    assert found.is_noise is is_noise
    assert found.flatness > 0.9
    assert found.level_db == pytest.approx(-snr_db, abs=3)


def test_clean_speech():
    assert not floor(floats(speech())).is_noise


def test_hum_is_not_broadband():
    def hum(count):
        return np.sin(2 * np.pi * 500 * np.arange(count) / RATE)

    found = floor(at_snr(8, hum))
    assert found.level_db > -13
    assert not found.is_noise


def test_digital_silence_does_not_hide_noise():
    padded = np.concatenate([np.zeros(RATE), at_snr(10), np.zeros(RATE)])
    assert floor(padded).is_noise


def test_too_short_to_tell():
    assert floor(at_snr(10)[: round(0.9 * RATE)]) is None
    assert noise_floor(np.zeros(0), 0.1, RATE) is None
