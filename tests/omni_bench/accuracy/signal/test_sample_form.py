"""The form of samples by their bytes alone: what is clear is named, what is 16-bit mono never."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from omni_bench.accuracy.signal.sample_form import other_form
from omni_bench.datasets.bundled import bundled_root

RECORDINGS = sorted(bundled_root().glob("seed_tts_mini/en/*/*.wav")) or sorted(bundled_root().rglob("*.wav"))


@pytest.mark.parametrize("path", RECORDINGS[:4], ids=lambda path: path.name)
def test_the_forms_of_a_recording(path):
    pcm = soundfile.read(path, dtype="int16")[0]
    assert other_form(pcm.astype("<i2").tobytes()) is None
    assert other_form((pcm / 32768).astype("<f4").tobytes()) == "32-bit floats"
    assert other_form(pcm.astype(">i2").tobytes()) == "big-endian samples"
    assert other_form(np.repeat(pcm, 2).astype("<i2").tobytes()) == "two channels with the same samples"


def test_noise_silence_and_little_are_nothing():
    noise = np.random.default_rng(1).integers(-9000, 9000, 24_000).astype("<i2").tobytes()
    assert other_form(noise) is None and other_form(bytes(48_000)) is None and other_form(noise[:2000]) is None
