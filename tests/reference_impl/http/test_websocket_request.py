"""Messages of a WebSocket session: what is taken, and what is refused."""

from __future__ import annotations

import json

import pytest
from fake_engine import facts_of_engine
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.http.errors import ApiError
from reference_impl.http.speech_request import MAX_INPUT_CHARS, MAX_SEED
from reference_impl.http.websocket_request import (
    MAX_TEXT_CHARS,
    Close,
    Done,
    Text,
    TextBuffer,
    parse_message,
    utterance,
)


def parse(kind, **fields):
    return parse_message(json.dumps({"type": kind, **fields}), facts_of_engine())


def test_messages():
    assert parse("input.text", text="Hello.") == Text("Hello.")
    assert parse("input.text", text="") == Text("")
    assert parse("input.done") == Done()
    assert parse("session.close", reason="enough") == Close()


def test_a_configuration_has_the_fields_of_the_speech_form():
    config = parse("session.config", voice="bruno", seed=3, max_new_tokens=9, language="en", stream_audio=True)
    call = config.call
    assert (call.voice, call.seed, call.max_new_tokens, call.language) == ("bruno", 3, 9, "English")
    assert (call.response_format, config.split) == ("pcm", "none")
    assert parse("session.config", response_format="wav").call.response_format == "wav"
    assert parse("session.config", instructions="Sing.").call.ignored == ("instructions",)


def test_utterances_have_seeds_of_their_own():
    config = parse("session.config", seed=MAX_SEED)
    calls = [utterance(config, text, number) for number, text in enumerate(("One.", "Two."))]
    assert [(call.text, call.seed) for call in calls] == [("One.", MAX_SEED), ("Two.", 0)]


@pytest.mark.parametrize(
    ("message", "param", "words"),
    [
        ("{", None, "not JSON"),
        ("[]", None, "must be a JSON object"),
        ("{}", "type", "type is missing; valid: session.config, input.text"),
        ('{"type": "input.audio"}', "type", "valid: session.config, input.text, input.done, session.close"),
        ('{"type": 1}', "type", "must be a string"),
        ('{"type": "input.text"}', "text", "missing"),
        ('{"type": "input.text", "text": 5}', "text", "must be a string"),
        ('{"type": "input.text", "text": "\\ud800"}', "text", "surrogate"),
        (json.dumps({"type": "input.text", "text": "a" * (MAX_TEXT_CHARS + 1)}), "text", "at most 65536"),
        ('{"type": "session.config", "voice": "alloy"}', "voice", "valid: alba, bruno"),
        ('{"type": "session.config", "response_format": "opus"}', "response_format", "valid: wav, pcm"),
        (
            '{"type": "session.config", "split_granularity": "word"}',
            "split_granularity",
            "split_granularity 'word' is not supported; valid: none, sentence, clause",
        ),
        ('{"type": "session.config", "split_granularity": 2}', "split_granularity", "must be a string"),
        ('{"type": "session.config", "model": "tts-1"}', "model", "valid: tiny"),
    ],
)
def test_bad_messages_name_the_field_and_what_is_valid(message, param, words):
    with pytest.raises(ApiError) as caught:
        parse_message(message, facts_of_engine())
    assert caught.value.status == 400 and caught.value.param == param and words in str(caught.value)


def test_text_is_kept_together_until_it_is_whole():
    buffer = TextBuffer("none")
    assert buffer.feed("One. Two") == buffer.feed(" three. ") == []
    assert buffer.flush() == ["One. Two three."]
    assert buffer.flush() == []


def test_sentences_are_cut_where_the_next_one_begins():
    buffer = TextBuffer("sentence")
    assert buffer.feed("It costs 3.") == []
    assert buffer.feed('50. "Really') == ["It costs 3.50."]
    assert buffer.feed('?!"  Yes.') == ['"Really?!"']
    assert buffer.feed("..") == []
    assert buffer.flush() == ["Yes..."]
    assert buffer.feed("你好。再见") == ["你好。"]
    assert buffer.flush() == ["再见"]
    assert buffer.feed(" \n. ") == ["."] and buffer.flush() == []


def test_clauses_are_cut_where_the_next_one_begins():
    buffer = TextBuffer("clause")
    assert buffer.feed("Well, it costs 3,") == ["Well,"]
    assert buffer.feed("000; not 3:15: ") == ["it costs 3,000;", "not 3:15:"]
    assert buffer.feed('"So," he said. Bye') == ['"So,"', "he said."]
    assert buffer.flush() == ["Bye"]
    assert buffer.feed("大家好，欢迎来到这里、请坐。再") == ["大家好，", "欢迎来到这里、", "请坐。"]
    assert buffer.flush() == ["再"]


def test_a_sentence_is_not_cut_at_its_clauses():
    assert TextBuffer("sentence").feed("Well, it costs 3; so: be it. ") == ["Well, it costs 3; so: be it."]


def test_the_granularity_of_a_configuration():
    for split in ("none", "sentence", "clause"):
        assert parse("session.config", split_granularity=split).split == split
    assert parse("session.config", split_granularity="Clause").split == "clause"
    assert parse("session.config", split_granularity=None).split == "none"


@given(st.lists(st.text("ab.?!,;:\"' 。，", max_size=12), max_size=8), st.sampled_from(["sentence", "clause"]))
def test_no_text_is_lost_by_cutting(parts, split):
    buffer = TextBuffer(split)
    spoken = [one for part in parts for one in buffer.feed(part)] + buffer.flush()
    assert "".join("".join(spoken).split()) == "".join("".join(parts).split())


def test_an_utterance_has_a_bound():
    for split in ("none", "sentence", "clause"):
        buffer = TextBuffer(split)
        buffer.feed("a" * MAX_INPUT_CHARS)
        with pytest.raises(ApiError, match="4097 characters to speak at once; at most 4096"):
            buffer.feed("a")
    assert len(TextBuffer("sentence").feed("Word. " * 2000)) == 2000


@pytest.mark.parametrize("split", ["sentence", "clause"])
def test_a_page_of_signs_is_looked_through_once(split):
    for signs in ("!'", "!", ",'", ",", "!,"):
        with pytest.raises(ApiError, match="at most 4096"):
            TextBuffer(split).feed((signs * MAX_TEXT_CHARS)[:MAX_TEXT_CHARS])
