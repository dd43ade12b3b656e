"""One rule for corrupted utterances."""

from __future__ import annotations

import pytest

from omni_bench.accuracy.wer import is_corrupted, score_utterance

TEXT = "the quick brown fox jumps over the lazy dog today"


def score(heard: str, text: str = TEXT, forced: str | None = None):
    return score_utterance("r", text, heard, "en", forced)


@pytest.mark.parametrize(
    ("heard", "corrupted"),
    [
        (TEXT, False),
        ("the quick brown fox jumps over the lazy cat today", False),
        ("the quick brown fox jumps", False),  # exactly half
        ("the quick brown fox", True),
        ("", True),
        (f"{TEXT} and then a neighbour said", False),
        (f"{TEXT} and then a neighbour said much more", True),
        (f"{TEXT} {TEXT}", True),
    ],
)
def test_by_itself_more_than_half_of_the_words_are_wrong(heard, corrupted):
    assert is_corrupted(score(heard)) is corrupted


def test_one_misheard_word_of_a_word_is_the_judges():
    assert is_corrupted(score("yeah", "yes")) is False
    assert is_corrupted(score("", "yes", forced="silent")) is True


def test_beside_a_twin_two_more_edits_are_too_many():
    one_edit, four_words = score(TEXT.replace("dog", "cat")), score(f"see you next week {TEXT}")
    assert is_corrupted(one_edit, score(TEXT)) is False
    assert is_corrupted(four_words) is False and is_corrupted(four_words, one_edit) is True
    assert is_corrupted(four_words, four_words) is False and is_corrupted(one_edit, four_words) is False


def test_a_text_without_words_says_nothing():
    assert is_corrupted(score("anything", "...")) is None
