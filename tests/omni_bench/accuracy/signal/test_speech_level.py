"""The yardstick is the speech's level, however long the pauses are."""

import numpy as np
import pytest
from voices import RATE, floats, speech

from omni_bench.accuracy.signal.speech_level import active_rms, decibels


def test_pauses_do_not_count():
    samples = floats(speech())
    longer = np.concatenate([samples, np.zeros(5 * RATE, np.float32)])
    assert active_rms(longer, RATE) == pytest.approx(active_rms(samples, RATE))
    assert active_rms(samples, RATE) > np.sqrt(np.square(samples).mean())


def test_it_scales():
    samples = floats(speech())
    assert active_rms(samples / 4, RATE) == pytest.approx(active_rms(samples, RATE) / 4, rel=1e-5)


@pytest.mark.parametrize(
    "samples", [np.zeros(0), np.zeros(RATE), np.full(RATE // 4, 0.1), np.full(RATE, np.nan), np.full(RATE, 1e-3)]
)
def test_nothing_to_measure_against(samples):
    assert active_rms(samples, RATE) is None


def test_decibels_of_nothing_are_finite():
    assert decibels(0.0) < -140
    assert decibels(10.0) == pytest.approx(20.0)
