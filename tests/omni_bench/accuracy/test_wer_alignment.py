"""The alignment of two texts, word by word."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.accuracy.wer import alignment, score_utterance


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
