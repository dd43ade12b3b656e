"""Spliced recordings: cut where it is quiet, and made of the pieces that they claim."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cross_talk.cases import KINDS, ONSET_ADDED, TAIL_ADDED, WHOLE, Recording, cut_at, join, splice

RATE_HZ = 8000
WORD, GAP = 4000, 800
TEXT = "one2 two2 thre four five sixx"


def recording(name: str, level: int) -> Recording:
    """Six words of half a second at a constant ``level``, 0.1 s of silence between and around them."""
    word, gap = np.full(WORD, level, dtype=np.int16), np.zeros(GAP, dtype=np.int16)
    return Recording(name, TEXT, np.concatenate([gap, *[word, gap] * 6]))


VICTIM, SOURCE = recording("victim", 1000), recording("source", 5000)


@pytest.mark.parametrize("word", [1, 2, 3, 4, 5])
def test_cuts_fall_into_the_gap_before_the_word(word):
    gap_start = word * (WORD + GAP)
    assert gap_start <= cut_at(VICTIM, word, RATE_HZ) <= gap_start + GAP


def test_the_ends_are_the_ends_of_the_recording():
    assert cut_at(VICTIM, 0, RATE_HZ) == cut_at(VICTIM, -2, RATE_HZ) == 0
    assert cut_at(VICTIM, 6, RATE_HZ) == VICTIM.samples.size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first_words", [True, False])
def test_a_case_is_made_of_both_and_names_the_words(kind, first_words):
    case = splice(kind, VICTIM, SOURCE, RATE_HZ, np.random.default_rng(3), first_words=first_words)
    assert 5000 in case.samples and (1000 in case.samples) is (kind != WHOLE)
    assert case.words in TEXT and (case.victim, case.source) == ("victim", "source")


def test_four_words_at_either_end():
    rng = np.random.default_rng(0)
    onset = splice(ONSET_ADDED, VICTIM, SOURCE, RATE_HZ, rng, first_words=True)
    tail = splice(TAIL_ADDED, VICTIM, SOURCE, RATE_HZ, rng, first_words=False)
    assert onset.words == "one2 two2 thre four" and tail.words != onset.words
    foreign = np.flatnonzero(onset.samples == 5000)
    assert foreign.size == 4 * WORD and foreign.max() < np.flatnonzero(onset.samples == 1000).min()
    assert np.flatnonzero(tail.samples == 5000).min() > np.flatnonzero(tail.samples == 1000).max()


def test_pieces_meet_in_silence():
    loud = np.full(1000, 8000, dtype=np.int16)
    joined = join([loud, loud], RATE_HZ)
    assert joined.size == 2000 and joined[0] == joined[-1] == 8000
    assert abs(int(joined[999])) < 500 and joined[1000] == 0
