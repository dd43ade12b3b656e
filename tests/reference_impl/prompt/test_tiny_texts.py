"""What the bundled voice reads of a text: its spoken form, in pieces as long as those it was trained on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.engine_api import RequestRejected, SpeechRequest
from reference_impl.model.presets import TINY
from reference_impl.prompt.builder import PromptBuilder


@pytest.fixture(scope="module")
def prompts(tiny):
    return PromptBuilder(tiny)


def segments(prompts, text):
    return prompts.segments(SpeechRequest("r", text, "heart", seed=0))


@pytest.fixture
def read(prompts, tiny):
    """The texts of a request's segments, from their ids."""
    return lambda text: [tiny.tokenizer._tokenizer.decode(segment.text_ids) for segment in segments(prompts, text)]


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("He paid $5.", "He paid five dollars."),
        ("Dr. Lee is here", "Doctor Lee is here."),
        ("It’s   fine", "It's fine."),
        ("Wait—what?", "Wait, what?"),
    ],
)
def test_written_to_spoken(read, text, spoken):
    assert read(text) == [spoken]


def test_long_text_becomes_segments_at_sentence_ends(read, prompts):
    text = "The first sentence is about trains and boats. " * 5
    pieces = read(text)
    assert len(pieces) >= 3
    # + 1: the full stop that a piece may be given
    assert all(len(piece) <= TINY.text.max_chars + 1 for piece in pieces)
    assert " ".join(pieces).split() == text.split()
    assert [s.max_frames for s in segments(prompts, text)] == [int(1.3 * len(piece)) + 20 for piece in pieces]


@given(st.text(max_size=300))
def test_any_text_gives_segments_or_a_rejection(prompts, text):
    try:
        found = segments(prompts, text)
    except RequestRejected as error:
        assert error.param == "input"
        return
    for segment in found:
        assert segment.text_ids and all(0 <= i < TINY.talker.text_vocab_size for i in segment.text_ids)
        assert 0 < segment.max_frames <= TINY.max_frames
