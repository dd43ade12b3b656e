"""Text cut into sentences."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.errors import ConfigError
from reference_impl.prompt.text.split import split_sentences

WORDS = st.lists(
    st.tuples(st.text("abcdefghij'", min_size=1, max_size=14), st.sampled_from(["", "", "", "", ",", ".", "?", "!"])),
    max_size=40,
).map(lambda words: " ".join(word + mark for word, mark in words))


def test_each_sentence_is_a_segment():
    text = "The first sentence is here. Is this the second one? Yes, it most surely is!"
    assert split_sentences(text, 100) == [
        "The first sentence is here.",
        "Is this the second one?",
        "Yes, it most surely is!",
    ]


def test_a_very_short_sentence_joins_its_neighbour():
    assert split_sentences("Yes. That is what I have said all along.", 100) == [
        "Yes. That is what I have said all along."
    ]
    assert split_sentences("That is what I have said all along. Yes.", 100) == [
        "That is what I have said all along. Yes."
    ]


def test_a_short_sentence_stays_alone_where_joining_would_be_too_long():
    assert split_sentences("Yes. That is what I have said all along.", 36) == [
        "Yes.",
        "That is what I have said all along.",
    ]


def test_a_long_sentence_breaks_at_a_clause_before_it_breaks_at_a_space():
    text = "When the rain had stopped at last, we walked along the river to the old mill"
    assert split_sentences(text, 50) == [
        "When the rain had stopped at last,",
        "we walked along the river to the old mill",
    ]


def test_a_long_sentence_without_clauses_breaks_into_even_parts():
    pieces = split_sentences(" ".join(["word"] * 21), 100)
    assert [len(piece) for piece in pieces] == [54, 49] or [len(piece) for piece in pieces] == [49, 54]


def test_a_word_longer_than_the_limit_is_cut():
    assert split_sentences("a " + "b" * 25, 10) == ["a", "b" * 10, "b" * 10, "b" * 5]


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_nothing_gives_no_segments(text):
    assert split_sentences(text, 10) == []


@pytest.mark.parametrize("max_chars", [0, -1])
def test_a_limit_below_one_is_an_error(max_chars):
    with pytest.raises(ConfigError, match=f"max_chars is {max_chars}"):
        split_sentences("a", max_chars)


@given(WORDS, st.integers(16, 120))
@settings(max_examples=300)
def test_no_word_is_lost_and_no_segment_is_too_long(text, max_chars):
    segments = split_sentences(text, max_chars)
    assert " ".join(segments).split() == text.split()
    assert all(0 < len(segment) <= max_chars for segment in segments)


@given(st.text("ab .,", max_size=80), st.integers(1, 12))
@settings(max_examples=300)
def test_tiny_limits_keep_every_character(text, max_chars):
    segments = split_sentences(text, max_chars)
    assert "".join("".join(segments).split()) == "".join(text.split())
    assert all(0 < len(segment) <= max_chars for segment in segments)
