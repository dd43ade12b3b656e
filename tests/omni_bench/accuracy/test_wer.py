"""Word error rates of utterances and of a corpus."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.accuracy.wer import (
    alignment,
    is_corrupted,
    score_corpus,
    score_utterance,
)


def score(reference, hypothesis, language="en", forced=None):
    return score_utterance("r1", reference, hypothesis, language, forced)


def test_edits_are_counted_by_kind():
    result = score("The cat sat on the warm mat.", "the bat sat on warm mat today")
    assert (result.substitutions, result.deletions, result.insertions) == (1, 1, 1)
    assert (result.reference_words, result.edits, result.wer) == (7, 3, 3 / 7)
    # characters: c becomes b, "the " is deleted, " today" is added
    assert (result.character_edits, result.reference_characters) == (1 + 4 + 6, 27)
    assert result.cer == 11 / 27


def test_a_perfect_transcript_scores_zero():
    result = score("Don't go, please.", "do not go please")
    assert (result.wer, result.cer, result.edits, result.forced) == (0.0, 0.0, 0, None)


def test_a_rate_may_exceed_one():
    assert score("yes", "yes yes yes yes").wer == 3.0


@pytest.mark.parametrize("reason", ["failed", "empty", "silent"])
def test_a_forced_utterance_is_wholly_wrong_whatever_was_heard(reason):
    result = score("one small step", "one small step", forced=reason)
    assert (result.wer, result.cer, result.forced, result.hypothesis) == (1.0, 1.0, reason, "")
    assert (result.deletions, result.substitutions, result.insertions) == (result.reference_words, 0, 0)


def test_chinese_counts_characters_in_both_rates():
    result = score("你好，世界！", "你号世界", "zh")
    assert (result.wer, result.cer, result.reference_words, result.reference_characters) == (0.25, 0.25, 4, 4)


def test_a_reference_without_words_has_no_rate_but_words_heard_there_count():
    empty = score("...", "anything at all")
    assert (empty.wer, empty.cer, empty.reference_words, empty.edits) == (None, None, 0, 3)
    corpus = score_corpus("tiny.en", [empty, score("...", "", forced="failed"), score("a b c d", "a b c x")])
    assert (corpus.utterances, corpus.excluded, corpus.forced, corpus.wer) == (1, 2, 0, (3 + 1) / 4)
    assert is_corrupted(empty)
    assert is_corrupted(score("...", "")) is None


def test_another_script_of_the_language_is_not_compared():
    """Serbian is written in two: a judge that chose the other one says nothing about the server."""
    heard = score("Dobar dan svima", "добар дан свима", "sr")
    assert (heard.wer, heard.edits) == (None, 0)
    assert score("Dobar dan svima", "dobar dan", "sr").wer == 1 / 3


def test_the_corpus_rate_is_total_edits_over_total_words():
    scores = [
        score("alpha beta gamma delta echo foxtrot golf hotel", "alpha beta gamma delta echo foxtrot golf hotel"),
        score("alpha beta", "x"),
        score("alpha beta gamma", "", forced="failed"),
        score("alpha beta gamma delta", "alpha beta y z"),
    ]
    corpus = score_corpus("base", scores)
    assert corpus.judge == "base"
    assert (corpus.edits, corpus.words, corpus.utterances) == (7, 17, 4)
    assert corpus.wer == 7 / 17
    assert corpus.wer_mean == pytest.approx((0 + 1 + 1 + 0.5) / 4)
    assert corpus.wer_median == 0.75
    assert corpus.above_50 == 2  # one half itself is not above it
    assert corpus.forced == 1
    assert corpus.cer == sum(s.character_edits for s in scores) / sum(s.reference_characters for s in scores)


def test_no_utterances_are_none_not_zero():
    corpus = score_corpus("tiny.en", [])
    assert (corpus.wer, corpus.cer, corpus.wer_mean, corpus.wer_median, corpus.above_50) == (None,) * 5
    assert (corpus.utterances, corpus.edits, corpus.words) == (0, 0, 0)


@settings(max_examples=150)
@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(["en", "zh", "fr"]))
def test_counts_agree_with_each_other_for_any_text(reference, hypothesis, language):
    result = score(reference, hypothesis, language)
    assert result.reference_words == len(result.reference_normal.split())
    assert (result.wer is None) == (result.reference_words == 0)
    if result.wer is not None:
        heard_words = len(result.hypothesis_normal.split())
        assert result.reference_words - result.deletions + result.insertions == heard_words
        assert result.edits <= max(result.reference_words, heard_words)


# --- the alignment of two texts, word by word


def operations(text, heard, language="en", forced=None):
    return [tuple(one) for one in alignment(score_utterance("r", text, heard, language, forced))]


def test_every_kind_of_operation_is_told_with_its_words():
    assert operations("the cat sat on the warm mat", "the bat sat on warm mat today") == [
        ("equal", "the", "the"),
        ("substitute", "cat", "bat"),
        ("equal", "sat on", "sat on"),
        ("delete", "the", ""),
        ("equal", "warm mat", "warm mat"),
        ("insert", "", "today"),
    ]
    assert operations("good morning", "", forced="empty") == [("delete", "good morning", "")]
    assert operations("...", "you") == [("insert", "", "you")]
    assert operations("...", "") == []
    assert operations("你好", "你们好", "zh") == [("equal", "你", "你"), ("insert", "", "们"), ("equal", "好", "好")]


@settings(max_examples=60)
@given(st.text(max_size=25), st.text(max_size=25))
def test_both_sides_come_back_whole_and_the_edits_agree(text, heard):
    score = score_utterance("r", text, heard, "en")
    found = alignment(score)
    json.dumps(found)
    assert " ".join(one.reference for one in found if one.reference) == score.reference_normal
    assert " ".join(one.heard for one in found if one.heard) == score.hypothesis_normal
    if score.reference_words:
        assert sum(len(one.reference.split()) for one in found if one.kind == "delete") == score.deletions
        assert sum(len(one.heard.split()) for one in found if one.kind == "insert") == score.insertions
