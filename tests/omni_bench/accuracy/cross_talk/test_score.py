"""Local alignment of letters: what a match is worth, and that the fast and the traced form agree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.accuracy.cross_talk.score import WordWeights, best_match, best_scores, letters_of

EVEN = WordWeights({})
texts = st.lists(st.text("abcd", min_size=1, max_size=5), min_size=1, max_size=6).map(tuple)


def letters(text, weights=EVEN):
    words = tuple(text.split()) if isinstance(text, str) else text
    return letters_of(words, range(len(words)), weights)


def score(heard, source, weights=EVEN):
    return best_scores(letters(heard, weights), [letters(source, weights)])[0]


def test_an_exact_word_is_worth_its_letters_and_one():
    assert score("boats", "boats") == 6
    assert score("blue boats", "the blue boats wait") == 11


def test_nothing_in_common_is_worth_nothing():
    assert score("xyz", "abc") == score("", "abc") == score("abc", "") == 0
    assert best_scores(letters("abc"), []).tolist() == []


def test_common_words_are_worth_less():
    weights = WordWeights({"the": 0.1})
    assert score("the", "the", weights) == pytest.approx(0.4)


def test_a_wrong_letter_costs_one_and_its_own_worth():
    assert score("boets", "boats") == pytest.approx(4 * 6 / 5 - 1)


def test_words_split_and_joined_are_found():
    assert score("key board", "keyboard") == 9
    assert score("purplecow", "purple cow") == pytest.approx(11)


def test_a_chinese_character_is_worth_two():
    assert score("我 们 今 天", "我 们 今 天") == 8


def test_left_out_letters_cost_one_each():
    assert score("yellowboats", "yellow old boats") == pytest.approx(7 + 6 - 3)


def test_sources_of_different_length_do_not_disturb_each_other():
    sources = ["boats", "the old blue boats wait in the harbour", "b"]
    together = best_scores(letters("old blue boats"), [letters(one) for one in sources])
    assert together.tolist() == [score("old blue boats", one) for one in sources]


@settings(deadline=None, max_examples=60)
@given(texts, texts, st.dictionaries(st.text("abcd", min_size=1, max_size=5), st.floats(0, 1), max_size=3))
def test_the_traced_alignment_has_the_same_score(heard, source, weights):
    weights = WordWeights(weights)
    match = best_match(letters(heard, weights), letters(source, weights))
    assert match.score == pytest.approx(score(heard, source, weights), abs=1e-4)
    assert bool(match.heard) == bool(match.source) == (match.score > 0)


def test_the_match_names_the_words_of_both():
    match = best_match(letters("zzz blue boats qqq"), letters("the blue boats"))
    assert match.heard == match.source == (1, 2)


def test_indices_are_those_of_the_whole_text():
    words = ("the", "blue", "boats")
    match = best_match(letters_of(words, (1, 2), EVEN), letters("boats"))
    assert match.heard == (2,) and match.source == (0,)


def test_a_match_of_pieces_names_the_words_it_touches():
    match = best_match(letters("abcdefgh"), letters("xxxxxdefxxxxx"))
    assert match.score > 0 and match.heard == match.source == (0,)
