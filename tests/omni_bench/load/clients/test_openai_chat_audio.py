"""Chats with text and audio: both dialects, the tokens by the server's count, and what ends a stream badly."""

from __future__ import annotations

import base64
import json
import struct

import pytest

from omni_bench.errors import ConfigError
from omni_bench.load.clients import exchange
from omni_bench.load.clients.decoder import AudioPart, TextPart, WireFailure
from omni_bench.load.clients.openai_chat_audio import ChatChunks, build_body
from omni_bench.load.clients.session import WireOptions
from omni_bench.records.config import ClientConfig
from omni_bench.records.prompt import Prompt

OPTIONS = WireOptions(sample_rate_hz=24_000, request_timeout_s=20.0, connect_timeout_s=5.0, max_audio_s=1.0)
PROMPT = Prompt("p", "What is new?", None, None, "en")
DONE = b"data: [DONE]\n\n"


def sse(value):
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta=None, modality=None, choices=None, **more):
    choice = {"index": 0, "delta": delta or {}, **more.pop("choice", {})}
    head = {"id": "chatcmpl-7", **({"modality": modality} if modality else {})}
    return sse({**head, "choices": [choice] if choices is None else choices, **more})


def text(content, **more):
    return chunk({"content": content}, "text", **more)


def b64(pcm):
    return base64.b64encode(pcm).decode()


def wav(pcm, rate=24_000, size=None):
    form = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    size = len(pcm) if size is None else size
    head = b"RIFF" + struct.pack("<I", size + 36) + b"WAVEfmt \x10\0\0\0" + form
    return head + b"data" + struct.pack("<I", size) + pcm


def audio(pcm, **metadata):
    return chunk({"content": b64(wav(pcm))}, "audio", choice={"audio_metadata": metadata} if metadata else {})


def usage(tokens, modality=None, **details):
    counts = {"prompt_tokens": 4, "completion_tokens": tokens}
    return chunk(choices=[], modality=modality, usage={**counts, "completion_tokens_details": details or None})


def decode(*stream):
    decoder = ChatChunks(OPTIONS)
    parts = []
    for data in stream:
        parts += decoder.feed(data, True)
    return [*parts, *decoder.end()], decoder


def failure(*stream):
    with pytest.raises(WireFailure) as caught:
        decode(*stream)
    return caught.value.error


# --- the body


def test_the_body_of_a_chat():
    client = ClientConfig(kind="openai_chat_audio", model="m", modalities=["text", "audio"], voice="alba")
    assert build_body(PROMPT, client, seed=3) == {
        "model": "m",
        "messages": [{"role": "user", "content": "What is new?"}],
        "modalities": ["text", "audio"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": 3,
        "voice": "alba",
    }


def test_the_body_of_a_chat_has_what_is_configured_and_the_extra_body_last():
    extra = {"messages": [{"role": "system", "content": "Be brief."}], "temperature": 0}
    configured = {"max_new_tokens": 9, "language": "en", "task_type": "Base", "extra_body": extra}
    client = ClientConfig(kind="openai_chat_audio", modalities=["text"], **configured)
    body = build_body(PROMPT, client, seed=None)
    assert (body["max_tokens"], body["language"], body["task_type"]) == (9, "en", "Base") and "seed" not in body
    assert body["messages"] == extra["messages"] and body["temperature"] == 0
    with pytest.raises(ConfigError, match=r"client\.extra_body"):
        build_body(PROMPT, ClientConfig(kind="openai_chat_audio", extra_body={"x": float("nan")}), None)


# --- streams that end well


def test_a_text_and_its_audio():
    role = chunk({"role": "assistant", "content": ""}, "text")
    parts, decoder = decode(
        role, text("Hel"), audio(b"ab"), text("lo"), audio(b"cdef", format="wav", sample_rate_hz=24_000), usage(2), DONE
    )
    assert parts == [TextPart("Hel"), AudioPart(b"ab"), TextPart("lo"), AudioPart(b"cdef")]
    assert (decoder.sample_rate_hz, decoder.server_id, decoder.completion_tokens) == (24_000, "chatcmpl-7", 2)


def test_openais_dialect():
    def said(**of_audio):
        return chunk({"audio": {"id": "audio_1", **of_audio}})

    stream = [said(transcript="Hel"), said(data=b64(b"ab")), said(transcript="lo", data=b64(b"cd")), said(expires_at=1)]
    parts, decoder = decode(*stream, DONE)
    assert parts == [TextPart("Hel"), AudioPart(b"ab"), AudioPart(b"cd"), TextPart("lo")]
    assert decoder.sample_rate_hz == 24_000 and decoder.completion_tokens is None


def test_a_transcript_beside_a_text_is_not_a_second_text():
    stream = [text("Hello"), chunk({"audio": {"data": b64(b"ab"), "transcript": "Hello"}})]
    assert decode(*stream, DONE)[0] == [TextPart("Hello"), AudioPart(b"ab")]


def test_a_header_is_no_audio_however_small_the_first_chunks_are():
    whole = wav(b"abcd", rate=16_000)
    for size in (1, 5, 11, 43):
        small = [whole[at : at + size] for at in range(0, len(whole), size)]
        parts, decoder = decode(*(chunk({"content": b64(one)}, "audio") for one in small), DONE)
        assert b"".join(part.pcm for part in parts) == b"abcd" and decoder.sample_rate_hz == 16_000, size
    parts, _ = decode(chunk({"content": b64(b"RIF")}, "audio"), DONE)
    assert [part.pcm for part in parts] == [b"RIF"], "what was held back is there at the end"


def test_a_text_alone_has_no_rate():
    parts, decoder = decode(chunk({"content": "Hi"}), chunk(choice={"finish_reason": "stop"}), usage(1), DONE)
    assert parts == [TextPart("Hi")] and decoder.sample_rate_hz is None


def test_the_rate_of_the_metadata_is_that_of_bare_samples():
    delta = {"audio": {"data": b64(b"ab")}}
    metadata = {"format": "pcm16", "sample_rate_hz": 16_000, "channels": 1, "frame_count": 1}
    assert decode(chunk(delta, "audio", choice={"audio_metadata": metadata}), DONE)[1].sample_rate_hz == 16_000


@pytest.mark.parametrize(
    ("chunks", "tokens"),
    [
        ([usage(9)], 9),
        ([usage(29, audio_tokens=20)], 9),
        ([usage(29, audio_tokens=20, text_tokens=9)], 9),
        ([usage(9, audio_tokens=20, text_tokens=9)], 9),  # some do not count the audio in
        ([usage(5, audio_tokens=20)], 0),
        ([usage(3), usage(9)], 9),  # it grows with every chunk
        ([usage(9, modality="text"), usage(500, modality="audio")], 9),
        ([chunk({"reasoning_content": "Hm"}), usage(9)], None),  # of which how many are of the reply is not said
        ([chunk({"reasoning": "Hm"}), usage(9, reasoning_tokens=4)], 5),
        ([chunk({"reasoning_content": "Hm"}), usage(29, audio_tokens=20, reasoning_tokens=4)], 5),
        ([usage(9, reasoning_tokens=0)], 9),
        ([chunk(usage=None)], None),
        ([chunk(usage={"prompt_tokens": 3})], None),
    ],
)
def test_tokens_are_those_of_the_text(chunks, tokens):
    assert decode(text("Hi"), *chunks, DONE)[1].completion_tokens == tokens


def test_tokens_of_each_delta_where_the_server_says_so():
    stream = [
        text("Hi", choice={"token_ids": [1, 2]}),
        text("", choice={"token_ids": [3]}),  # half of the next character
        text("é", choice={"token_ids": [4]}),
    ]
    assert decode(*stream, DONE)[0] == [TextPart("Hi", 2), TextPart("é", 2)]


def test_other_choices_are_not_the_answer():
    both = [{"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}}]
    assert decode(chunk(choices=both), DONE)[0] == [TextPart("a")]


# --- streams that do not


FAILURES = [
    ([], "disconnected", "without [DONE]"),
    ([text("Hi"), audio(b"ab"), usage(1)], "disconnected", "without [DONE]"),
    ([text("Hi"), DONE, text("more")], "content_type", "text after [DONE]"),
    ([text("Hi"), DONE, audio(b"ab")], "content_type", "audio after [DONE]"),
    ([text("Hi"), audio(b"ab"), sse({"error": {"message": "boom"}})], "in_band_error", "boom"),
    ([sse({"error": {"message": "boom"}}), DONE], "in_band_error", "boom"),
    ([sse({"object": "error", "message": "boom", "code": 400}), DONE], "in_band_error", "boom"),
    ([text("Hi", choice={"finish_reason": "abort"}), DONE], "in_band_error", "'abort'"),
    ([chunk({"content": "x"}, "image"), DONE], "content_type", "modality 'image'"),
    ([chunk({"content": 7}, "text"), DONE], "content_type", "delta.content is not a string but int"),
    ([chunk({"content": "%"}, "audio"), DONE], "content_type", "delta.content is not base64"),
    ([chunk({"content": b64(wav(b"ab", size=8))}, "audio"), DONE], "disconnected", "6 did not come"),
    ([chunk({"audio": {"data": 7}}), DONE], "content_type", "delta.audio.data is not a string of base64 but int"),
    ([chunk({"audio": [1]}), DONE], "content_type", "delta.audio of a chunk is not an object but list"),
    ([chunk(choices="x"), DONE], "content_type", "choices of a chunk is not a list but str"),
    ([chunk(choices=[7]), DONE], "content_type", "an entry of choices of a chunk is not an object but int"),
    ([chunk(choices=[{"delta": 7}]), DONE], "content_type", "delta of a chunk is not an object but int"),
    ([audio(b"ab", channels=2), DONE], "content_type", "2 channels"),
    ([audio(b"ab", format="opus"), DONE], "content_type", "format 'opus'"),
    ([audio(b"ab", sample_rate_hz=8000), DONE], "content_type", "24000 Hz after 8000 Hz"),
    ([chunk(usage=7), DONE], "content_type", "usage of a chunk is not an object but int"),
    ([usage(-1), DONE], "content_type", "completion_tokens is -1"),
    ([usage(True), DONE], "content_type", "completion_tokens is True"),
    ([usage(10**9), DONE], "content_type", "completion_tokens is 1000000000"),
    ([b"data: [done]\n\n"], "content_type", "is not JSON"),
]


@pytest.mark.parametrize(("stream", "kind", "message"), FAILURES)
def test_streams_that_break_the_rules(stream, kind, message):
    error = failure(*stream)
    assert (error.kind, message in error.message) == (kind, True), error
    assert failure(b"".join(stream)) == error


async def test_a_text_without_end_is_cut_off(send, raw_server, monkeypatch):
    monkeypatch.setattr(exchange, "MAX_TEXT_CHARS", 10)
    stream = text("12345") * 3 + DONE
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(stream)
    async with raw_server(head + stream) as port:
        timeline, _ = await send(port, kind="openai_chat_audio")
    assert timeline.error.kind == "too_large" and "10 characters" in timeline.error.message
