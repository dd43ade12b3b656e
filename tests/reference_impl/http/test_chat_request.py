"""Chat requests: what is taken, and what is refused."""

from __future__ import annotations

import json

import pytest
from fake_engine import facts_of_engine
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.engine_api import Capabilities
from reference_impl.http.chat_request import MAX_PROMPT_CHARS, parse_chat_call
from reference_impl.http.errors import ApiError
from reference_impl.http.speech_request import MAX_INPUT_CHARS

USER = {"role": "user", "content": "Hello there. Bye."}
CLONES = Capabilities(clones=True, task_types=("Base",))


def parse(can=Capabilities(), **fields):  # noqa: B008
    body = json.dumps({"model": "tiny", "messages": [USER], "seed": 5, **fields}).encode()
    return parse_chat_call(body, facts_of_engine(can))


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        parse(**fields)
    assert caught.value.status == 400
    return caught.value


def test_the_least_that_can_be_asked():
    call = parse()
    assert call.text == "Hello there. Bye." and len(call.tokens) == 5
    assert (call.speech.text, call.speech.voice, call.speech.seed) == ("Hello there. Bye.", "alba", 5)
    assert (call.stream, call.include_usage, call.shows_text, call.cut) == (False, False, True, False)
    assert (call.audio_format, call.audio_field, call.prompt_tokens) == ("wav", "content", 5)


@pytest.mark.parametrize(
    ("modalities", "shows_text", "speaks"),
    [(None, True, True), (["text"], True, False), (["audio"], False, True), (["audio", "text"], True, True)],
)
def test_modalities(modalities, shows_text, speaks):
    call = parse(modalities=modalities)
    assert (call.shows_text, call.speech is not None) == (shows_text, speaks)


def test_the_last_user_message_is_what_is_said_and_all_of_them_are_the_prompt():
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Not this."},
        {"role": "assistant", "content": None},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "This one."},
                {"type": "input_audio", "input_audio": {"data": "AAAA"}},
                {"type": "text", "text": "And this."},
            ],
        },
        {"role": "assistant", "content": "Nor this."},
    ]
    call = parse(messages=messages)
    assert call.text == "This one.\nAnd this."
    assert call.prompt_tokens == 3 + 3 + 0 + 6 + 3


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_limit_of_tokens_cuts_the_text_and_the_speech(name):
    call = parse(**{name: 2})
    assert (call.text, call.speech.text, call.cut) == ("Hello there", "Hello there", True)
    assert parse(**{name: 5}).cut is False


def test_the_newer_limit_counts():
    assert len(parse(max_tokens=1, max_completion_tokens=3).tokens) == 3


def test_audio_fields():
    call = parse(audio={"voice": "bruno", "format": "pcm16"}, voice="alba", audio_field="audio")
    assert (call.speech.voice, call.audio_format, call.audio_field) == ("bruno", "pcm16", "audio")
    assert parse(voice="bruno").speech.voice == parse(speaker="bruno").speech.voice == "bruno"


def test_speech_fields_beside_the_chat_are_those_of_the_speech_form():
    guides = {"ref_audio": "UklG", "ref_text": "Hi.", "task_type": "Base", "language": "English"}
    call = parse(**guides, max_new_tokens=9)
    assert call.speech.ignored == ("ref_audio", "ref_text")
    assert (call.speech.language, call.speech.max_new_tokens) == ("English", 9)
    assert parse(can=CLONES, **guides).speech.ref_audio == "UklG"


def test_what_means_something_else_in_a_chat_or_nothing_here_is_let_pass():
    others = {
        "response_format": {"type": "text"},
        "temperature": 0.3,
        "stop": ["x"],
        "ignore_eos": True,
        "user": "me",
        "metadata": {"a": 1},
        "stream_format": "anything",
        "tools": [],
        "n": 1,
    }
    assert parse(**others) == parse()


def test_streams_and_usage():
    call = parse(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": False})
    assert call.stream and call.include_usage
    assert parse(stream=True, stream_options=None).include_usage is False


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"messages": []}, "messages", "missing"),
        ({"messages": "Hello."}, "messages", "must be an array, not a string"),
        ({"messages": ["Hello."]}, "messages", "messages[0] must be an object, not a string"),
        ({"messages": [{"role": "system", "content": "Hi."}]}, "messages", "no message with the role user"),
        ({"messages": [{"role": 1, "content": "Hi."}]}, "messages[0].role", "must be a string"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "not an integer"),
        ({"messages": [{"role": "user", "content": {"a": 1}}]}, "messages[0].content", "not an object"),
        ({"messages": [{"role": "user", "content": ["Hi."]}]}, "messages", "must hold objects"),
        ({"messages": [USER, {"role": "user", "content": " \n"}]}, "messages", "no text to speak"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "no text to speak"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 4}]}]},
            "messages[0].content[].text",
            "st",
        ),
        ({"messages": [{"role": "user", "content": "a" * (MAX_INPUT_CHARS + 1)}]}, "messages", "at most 4096"),
        (
            {"messages": [{"role": "system", "content": "a" * MAX_PROMPT_CHARS}, USER]},
            "messages",
            "more than 65536 characters",
        ),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content", "surrogate"),
        ({"modalities": []}, "modalities", "an empty array is not supported; valid: text, audio"),
        ({"modalities": ["text", "video"]}, "modalities", "'video' is not supported; valid: text, audio"),
        ({"model": "gpt-4o"}, "model", "valid: tiny"),
        ({"n": 2}, "n", "valid: 1 to 1"),
        ({"max_tokens": 0}, "max_tokens", "valid: 1 to"),
        ({"stream": "yes"}, "stream", "must be a boolean"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "must be a boolean"),
        ({"audio": {"format": "mp3"}}, "audio.format", "valid: wav, pcm16, pcm"),
        ({"audio": {"voice": "alloy"}}, "voice", "valid: alba, bruno"),
        ({"modalities": ["text"], "voice": "alloy"}, "voice", "valid: alba, bruno"),
        ({"audio_field": "data"}, "audio_field", "valid: content, audio"),
        ({"speed": 2}, "speed", "unsupported"),
        ({"sample_rate": 8000}, "sample_rate", "valid: 24000"),
    ],
)
def test_bad_values_name_the_field_and_what_is_valid(fields, param, words):
    error = refusal(**fields)
    assert error.param == param and words in str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("messages", "modalities", "audio", "stream", "stream_options", "voice", "n", "max_tokens", "audio_field")


@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_any_fields_give_a_call_or_a_refusal(fields):
    body = json.dumps({"messages": [USER], **fields}).encode()
    try:
        call = parse_chat_call(body, facts_of_engine())
    except ApiError as error:
        assert error.status == 400 and str(error).isprintable()
    else:
        assert call.tokens
