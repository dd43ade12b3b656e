"""Recordings: equal, equal but for rounding, or other speech."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from omni_bench.accuracy.parity.pcm import ROUNDING_LSB, compare_pcm, read_samples
from omni_bench.errors import StoreError


def tone(samples: int = 4800) -> np.ndarray:
    return (8000 * np.sin(0.05 * np.arange(samples))).astype(np.int16)


def test_the_same_samples_are_exactly_equal():
    found = compare_pcm(tone(), tone())
    assert (found.exact, found.equal, found.first_sample, found.length_difference) == (True, True, None, 0)
    assert found.sha256[0] == found.sha256[1]


def test_rounding_is_no_difference_but_not_exact():
    other = tone()
    other[100] += ROUNDING_LSB
    found = compare_pcm(tone(), other)
    assert found.equal and not found.exact and found.sha256[0] != found.sha256[1]


def test_the_first_sample_beyond_rounding_is_named():
    other = tone()
    other[50] += 1
    other[700] += ROUNDING_LSB + 1
    other[900] += 5000
    assert compare_pcm(tone(), other).first_sample == 700


def test_extremes_do_not_wrap_around():
    low, high = np.full(3, -32768, np.int16), np.full(3, 32767, np.int16)
    assert compare_pcm(low, high).first_sample == 0


@pytest.mark.parametrize(("one", "other", "difference"), [(100, 120, -20), (120, 100, 20), (0, 5, -5)])
def test_a_longer_recording_parts_where_the_other_ends(one, other, difference):
    found = compare_pcm(tone(one), tone(other))
    assert not found.equal and not found.exact
    assert found.first_sample == min(one, other) and found.length_difference == difference


def test_nothing_twice_is_equal():
    assert compare_pcm(tone(0), tone(0)).exact


def test_raw_and_wav_recordings_are_read_alike(tmp_path):
    (tmp_path / "a.pcm").write_bytes(tone().tobytes() + b"\x01")
    soundfile.write(tmp_path / "a.wav", tone(), 24000, subtype="PCM_16")
    assert np.array_equal(read_samples(tmp_path / "a.pcm"), tone())
    assert np.array_equal(read_samples(tmp_path / "a.wav"), tone())


@pytest.mark.parametrize("name", ["gone.pcm", "gone.wav"])
def test_a_recording_that_is_gone_is_named(tmp_path, name):
    with pytest.raises(StoreError, match=name):
        read_samples(tmp_path / name)
