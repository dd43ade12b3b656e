"""Rolling hashes agree with the plain comparison of windows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from voices import speech

from omni_bench.accuracy.signal.fingerprints import AudioMatch, audible_windows, extend, window_hashes


@given(st.lists(st.integers(-3, 3), max_size=60), st.integers(1, 8))
def test_equal_windows_have_equal_hashes_and_others_do_not(values, window):
    samples = np.array(values, "<i2")
    hashes = window_hashes(samples, window)
    windows = [samples[at : at + window].tobytes() for at in range(max(0, len(samples) - window + 1))]
    assert len(hashes) == len(windows)
    assert len(set(hashes.tolist())) == len(set(windows))
    assert all((hashes[0] == hashes[at]) == (windows[0] == windows[at]) for at in range(len(windows)))


def test_extreme_samples():
    samples = np.tile(np.array([-32768, 32767, 0, -1], "<i2"), 50)
    hashes = window_hashes(samples, 40)
    assert (hashes[4:] == hashes[:-4]).all()
    assert hashes[0] != hashes[1]


def test_a_constant_is_not_audible():
    assert not audible_windows(np.full(1000, 9000, "<i2"), 480).any()
    assert audible_windows(speech(1.0)[3000:4000], 480).all()
    assert len(audible_windows(np.zeros(10, "<i2"), 480)) == 0


def test_extend_finds_the_whole_stretch_and_drops_false_hits():
    ours, theirs = speech(1.0, seed=1).copy(), speech(1.0, seed=2)
    ours[5000:8000] = theirs[1000:4000]
    ours[4999], ours[8000] = theirs[999] + 1, theirs[4000] + 1
    assert extend(ours, theirs, 4000, np.array([5100, 6000, 9000]), 480) == [AudioMatch(5000, 1000, 3000)]


def test_extend_at_the_ends():
    samples = speech(0.1)
    assert extend(samples, samples, 0, np.array([0, 700]), 480) == [AudioMatch(0, 0, len(samples))]
    assert extend(samples[100:], samples, -100, np.array([0]), 480) == [AudioMatch(0, 100, len(samples) - 100)]
