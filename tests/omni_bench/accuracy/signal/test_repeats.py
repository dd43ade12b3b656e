"""A chunk that is sent twice is found; tones, silence and repeated words are not."""

import numpy as np
import pytest
from voices import RATE, speech

from omni_bench.accuracy.signal.fingerprints import AudioMatch
from omni_bench.accuracy.signal.repeats import HashTable, says_something_twice, self_matches, sentences


def repeats(samples):
    return list(self_matches(samples, RATE).repeats)


def test_clean_speech_repeats_nothing():
    assert repeats(speech()) == []


def test_a_chunk_sent_twice():
    samples = speech()
    spoilt = np.concatenate([samples[:21_000], samples[19_000:21_000], samples[21_000:]])
    assert repeats(spoilt) == [AudioMatch(21_000, 19_000, 2000)]


def test_a_stale_chunk_from_long_before():
    samples = speech().copy()
    samples[60_000:64_000] = samples[20_000:24_000]
    assert [(match.at, match.source_at, match.length) for match in repeats(samples)] == [(60_000, 20_000, 4000)]


def test_a_chunk_sent_three_times():
    samples = speech()
    chunk = samples[19_000:22_000]
    assert repeats(np.concatenate([samples[:22_000], chunk, chunk, samples[22_000:]]))


def test_less_than_40_ms_does_not_count():
    samples = speech().copy()
    samples[60_000:60_900] = samples[20_000:20_900]
    assert repeats(samples) == []


@pytest.mark.parametrize("hertz", [220, 440, 1000])
def test_a_steady_tone_is_periodic_and_no_repeat(hertz):
    tone = np.round(8000 * np.sin(2 * np.pi * hertz * np.arange(2400) / RATE)).astype("<i2")
    found = self_matches(np.tile(tone, 40), RATE)
    assert found.repeats == () and not len(found.anchors.at)


@pytest.mark.parametrize("samples", [np.zeros(RATE, "<i2"), np.full(RATE, 700, "<i2"), np.zeros(0, "<i2")])
def test_silence_repeats_nothing(samples):
    assert repeats(samples) == []


def test_look_up_lists_all_pairs():
    positions, indices = HashTable(np.array([9, 5], np.uint64)).look_up(np.array([5, 7, 5, 9], np.uint64))
    assert sorted(zip(positions.tolist(), indices.tolist(), strict=True)) == [(0, 1), (2, 1), (3, 0)]


def test_repeated_sentences():
    assert says_something_twice("No. I said no! No.")
    assert not says_something_twice("No, I said so.")
    assert sentences("One, two;  THREE!\n") == ["one", "two", "three"]
    assert sentences("好的。好的。") == ["好的", "好的"]
    assert sentences("") == []
