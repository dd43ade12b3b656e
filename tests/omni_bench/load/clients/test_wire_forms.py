"""The registry of wire forms: where each posts to, and what it sends."""

from __future__ import annotations

import json

import pytest

from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.records.config import ClientConfig
from omni_bench.records.prompt import Prompt

PROMPT = Prompt("p", "Hi.", None, None, "en")
SPEECH = "http://h:1/v1/audio/speech"


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("openai_speech", SPEECH),
        ("openai_speech_sse", SPEECH),
        ("sglang_omni_speech", SPEECH),
        ("openai_speech_wav", SPEECH),
        ("openai_speech_ws", f"{SPEECH}/stream"),
        ("openai_chat_audio", "http://h:1/v1/chat/completions"),
    ],
)
def test_endpoints(kind, url):
    for base in ("http://h:1", "http://h:1/", "http://h:1/v1"):
        assert FORMS[kind].url(base) == url


@pytest.mark.parametrize("kind", [name for name in FORMS if name != "openai_speech_ws"])
def test_what_is_posted_is_the_body(kind):
    modalities = ["text", "audio"] if kind == "openai_chat_audio" else []
    form = FORMS[kind]
    body = form.build_body(PROMPT, ClientConfig(kind=kind, modalities=modalities), 3)
    assert json.loads(form.encode(body)) == body and not form.is_socket


@pytest.mark.parametrize("kind", FORMS)
def test_what_everybody_can_say_of_the_voice(kind, tmp_path):
    recording = tmp_path / "a b.wav"
    recording.write_bytes(b"RIFF")
    prompt = Prompt("p", "Hi.", "Said.", recording, "en", instructions="Whisper.")
    client = ClientConfig(kind=kind, voice="alba", send_reference=True, reference_form="file", instructions="Shout.")
    body = FORMS[kind].build_body(prompt, client, None)
    fields = body["session.config"] if kind == "openai_speech_ws" else body
    assert (fields["voice"], fields["ref_text"], fields["instructions"]) == ("alba", "Said.", "Whisper.")
    assert fields["ref_audio"] == f"file://{tmp_path}/a%20b.wav"
    plain = FORMS[kind].build_body(PROMPT, ClientConfig(kind=kind, instructions="Shout."), None)
    assert (plain["session.config"] if kind == "openai_speech_ws" else plain)["instructions"] == "Shout."
