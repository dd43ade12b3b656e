"""Speech requests: what is taken, and what is refused."""

from __future__ import annotations

import json

import pytest
from fake_engine import facts_of_engine
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.engine_api import Capabilities
from reference_impl.http.errors import ApiError
from reference_impl.http.speech_request import MAX_GUIDE_CHARS, MAX_INPUT_CHARS, parse_speech_call

TINY_VOICE = Capabilities()
CLONES = Capabilities(clones=True, task_types=("Base",), languages=("auto", "english", "en", "chinese"))
FOLLOWS = Capabilities(follows_instructions=True, task_types=("VoiceDesign",), languages=("auto", "german"))


def parse(fields=None, *, body=None, can=TINY_VOICE, **more):
    if body is None:
        body = json.dumps({"input": "Hello.", **(fields or {}), **more}).encode()
    return parse_speech_call(body, facts_of_engine(can))


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        parse(**fields)
    return caught.value


def test_defaults():
    call = parse()
    assert (call.text, call.voice, call.response_format, call.delivery) == ("Hello.", "alba", "wav", "file")
    assert (call.max_new_tokens, call.language, call.ignored) == (None, None, ())


def test_a_missing_seed_is_random_and_a_given_one_is_kept():
    assert len({parse().seed for _ in range(8)}) > 1
    assert parse(seed=0).seed == 0
    assert parse(seed=2**63 - 1).seed == 2**63 - 1


@pytest.mark.parametrize(
    ("fields", "voice"),
    [
        ({"voice": "bruno"}, "bruno"),
        ({"voice": "BRUNO"}, "bruno"),
        ({"voice": {"id": "bruno"}}, "bruno"),
        ({"speaker": "bruno"}, "bruno"),
        ({"voice": None, "speaker": "bruno"}, "bruno"),
        ({"voice": None}, "alba"),
    ],
)
def test_voice(fields, voice):
    assert parse(fields).voice == voice


@pytest.mark.parametrize(
    ("fields", "delivery"),
    [
        ({}, "file"),
        ({"stream": False}, "file"),
        ({"stream": True}, "sse"),
        ({"stream_format": "audio"}, "audio"),
        ({"stream_format": "audio", "stream": True}, "audio"),
        ({"stream_format": "audio", "stream": False}, "file"),
        ({"stream_format": "sse"}, "sse"),
        ({"stream_format": "sse", "stream": False}, "sse"),
    ],
)
def test_delivery(fields, delivery):
    assert parse(fields).delivery == delivery


@pytest.mark.parametrize(
    ("written", "language"), [("English", "English"), ("EN", "English"), ("auto", None), ("Auto", None), (None, None)]
)
def test_language(written, language):
    assert parse(language=written).language == language


def test_what_vllm_omnis_bench_sends_is_accepted():
    """Its openai-audio-speech backend sends a reference, also to a voice that does not clone."""
    call = parse(
        model="tiny",
        stream=True,
        stream_format="audio",
        response_format="pcm",
        ref_audio="data:audio/wav;base64,AAAA",
        ref_text="Hi.",
        task_type="Base",
        language="English",
        max_new_tokens=2048,
    )
    assert (call.delivery, call.response_format, call.max_new_tokens) == ("audio", "pcm", 2048)
    assert call.ignored == ("ref_audio", "ref_text")


def test_unknown_fields_and_instructions_are_ignored():
    assert parse(temperature="hot", extra_params={"a": 1}, instructions="Whisper.").ignored == ("instructions",)


def test_an_engine_that_clones_gets_the_reference():
    call = parse(can=CLONES, ref_audio="UklG", ref_text="Hi.", instructions="Sing.", task_type="base")
    assert (call.ref_audio, call.ref_text, call.instructions) == ("UklG", "Hi.", None)
    assert call.ignored == ("instructions",)


@pytest.mark.parametrize(("given", "kept"), [(True, None), (False, "Hi."), (None, "Hi.")])
def test_x_vector_only_mode_drops_the_reference_text(given, kept):
    call = parse(can=CLONES, ref_audio="UklG", ref_text="Hi.", x_vector_only_mode=given)
    assert (call.ref_audio, call.ref_text) == ("UklG", kept)


def test_an_engine_that_follows_instructions_gets_them():
    call = parse(can=FOLLOWS, ref_audio="UklG", ref_text="Hi.", instructions="Sing.", task_type="VoiceDesign")
    assert (call.ref_audio, call.ref_text, call.instructions) == (None, None, "Sing.")
    assert call.ignored == ("ref_audio", "ref_text")


def test_the_first_of_references_is_the_reference():
    call = parse(can=CLONES, references=[{"audio_path": "UklG", "text": "Hi."}, {"audio_path": "other"}])
    assert (call.ref_audio, call.ref_text) == ("UklG", "Hi.")
    call = parse(can=CLONES, ref_audio="mine", references=[{"audio_path": "UklG", "text": "Hi."}])
    assert (call.ref_audio, call.ref_text) == ("mine", None)
    assert parse(references=[{"audio_path": "UklG"}]).ignored == ("ref_audio",)
    assert parse(can=CLONES, references=[]).ref_audio is None


def test_the_tiny_voice_takes_a_designed_voice_for_its_own():
    call = parse(task_type="voicedesign", instructions="A deep voice.")
    assert (call.instructions, call.ignored) == (None, ("instructions",))


def test_an_empty_guide_is_none():
    call = parse(can=CLONES, ref_audio="", ref_text="")
    assert (call.ref_audio, call.ref_text, call.ignored) == (None, None, ())


@pytest.mark.parametrize(
    ("written", "language"), [("Chinese", "chinese"), ("EN", "English"), ("english", "English"), ("AUTO", None)]
)
def test_languages_are_the_engines(written, language):
    assert parse(can=CLONES, language=written).language == language


@pytest.mark.parametrize(
    ("can", "fields", "param", "words"),
    [
        (CLONES, {"task_type": "CustomVoice"}, "task_type", "valid: Base"),
        (FOLLOWS, {"task_type": "Base"}, "task_type", "valid: VoiceDesign"),
        (FOLLOWS, {"language": "English"}, "language", "valid: auto, german"),
        (CLONES, {"x_vector_only_mode": "yes"}, "x_vector_only_mode", "must be a boolean"),
        (CLONES, {"ref_text": "a" * (MAX_GUIDE_CHARS + 1)}, "ref_text", "4097 characters; at most 4096"),
        (FOLLOWS, {"instructions": "a" * (MAX_GUIDE_CHARS + 1)}, "instructions", "4097 characters; at most 4096"),
    ],
)
def test_what_this_engine_cannot_do_is_refused(can, fields, param, words):
    error = refusal(can=can, fields=fields)
    assert (error.status, error.param) == (400, param) and words in str(error)


def test_speed_one_is_the_only_speed():
    assert parse(speed=1) and parse(speed=1.0) and parse(speed=None)
    error = refusal(speed=1.5)
    assert error.param == "speed" and "unsupported" in str(error)


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"input": None}, "input", "missing"),
        ({"input": "  "}, "input", "empty"),
        ({"input": 5}, "input", "must be a string, not an integer"),
        ({"input": "\ud800"}, "input", "surrogate"),
        ({"input": "a" * (MAX_INPUT_CHARS + 1)}, "input", "4097 characters; at most 4096"),
        ({"model": "tts-1"}, "model", "valid: tiny"),
        ({"voice": "alloy"}, "voice", "valid: alba, bruno"),
        ({"voice": 0}, "voice", "must be a string or"),
        ({"response_format": "mp3"}, "response_format", "valid: wav, pcm"),
        ({"stream": "true"}, "stream", "must be a boolean, not a string"),
        ({"stream_format": "raw"}, "stream_format", "valid: audio, sse"),
        ({"speed": "1"}, "speed", "must be a number, not a string"),
        ({"speed": float("nan")}, "speed", "unsupported"),
        ({"seed": -1}, "seed", "valid: 0 to 9223372036854775807"),
        ({"seed": 2**63}, "seed", "valid: 0 to"),
        ({"seed": True}, "seed", "must be an integer, not a boolean"),
        ({"max_new_tokens": 0}, "max_new_tokens", "valid: 1 to 4096"),
        ({"task_type": "Song"}, "task_type", "not supported; valid: CustomVoice, VoiceDesign, Base"),
        ({"references": "UklG"}, "references", "must be an array of objects, not a string"),
        ({"references": [{"audio_path": 1}]}, "references[0].audio_path", "must be a string, not an integer"),
        ({"references": [{"text": "\ud800"}]}, "references[0].text", "surrogate"),
        ({"language": "German"}, "language", "valid: auto, english, en"),
        ({"ref_audio": {"url": "x"}}, "ref_audio", "must be a string, not an object"),
        ({"sample_rate": 8000}, "sample_rate", "valid: 24000"),
    ],
)
def test_bad_values_name_the_field_and_what_is_valid(fields, param, words):
    error = refusal(fields=fields)
    assert (error.status, error.param) == (400, param)
    assert words in str(error)


def test_an_unknown_model_has_openais_code():
    assert refusal(model="x").code == "model_not_found"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"input=hi",
        b"[" * 100_000,
        b'{"seed": ' + b"9" * 5000 + b"}",
        b"[1]",
        b'"text"',
        b"null",
    ],
)
def test_bodies_that_are_no_json_object(body):
    error = refusal(body=body)
    assert (error.status, error.code) == (400, "invalid_json")


def test_a_hostile_value_is_cut_and_escaped_in_the_message():
    message = str(refusal(voice="\x1b[31m\n" + "x" * 10_000))
    assert len(message) < 300 and message.isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
FIELDS = (
    "model input voice speaker response_format stream stream_format speed seed task_type language ref_audio ref_text "
    "max_new_tokens instructions sample_rate x_vector_only_mode"
)


@given(st.dictionaries(st.sampled_from(FIELDS.split()), JSON, max_size=4), st.sampled_from([TINY_VOICE, CLONES]))
@settings(max_examples=150)
def test_any_json_is_a_call_or_a_400(fields, can):
    try:
        call = parse(body=json.dumps({"input": "Hello.", **fields}).encode(), can=can)
    except ApiError as error:
        assert error.status == 400 and (error.param in fields or error.code == "invalid_json")
    else:
        assert call.voice in ("alba", "bruno") and 0 <= call.seed < 2**63
