"""Speech as events: what they hold, what ends them, and what must not be in them."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from dataclasses import replace

import pytest
from aiohttp import web

from omni_bench.load.clients.decoder import AudioPart, WireFailure
from omni_bench.load.clients.openai_speech_sse import SpeechEvents, build_body
from omni_bench.load.clients.session import WireOptions
from omni_bench.records.config import ClientConfig
from omni_bench.records.prompt import Prompt

OPTIONS = WireOptions(sample_rate_hz=24_000, request_timeout_s=20.0, connect_timeout_s=5.0, max_audio_s=1.0)


def event(**fields):
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(pcm, **more):
    return event(type="speech.audio.delta", audio=base64.b64encode(pcm).decode(), **more)


def wav(pcm, size=0xFFFFFFFF, rate=24_000):
    form = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    return b"RIFF" + struct.pack("<I", size) + b"WAVEfmt \x10\0\0\0" + form + b"data" + struct.pack("<I", size) + pcm


DONE = event(type="speech.audio.done", usage={"input_tokens": 3, "output_tokens": 9})


def decode(*stream):
    decoder = SpeechEvents(OPTIONS)
    parts = []
    for data in stream:
        parts += decoder.feed(data, True)
    parts += decoder.end()
    assert all(isinstance(part, AudioPart) and part.ends_chunk for part in parts)
    return [part.pcm for part in parts], decoder


def failure(*stream):
    with pytest.raises(WireFailure) as caught:
        decode(*stream)
    return caught.value.error


def test_the_body_asks_for_events():
    body = build_body(Prompt("p", "Hi.", None, None, "en"), ClientConfig(kind="openai_speech_sse"), 3)
    form = ("input", "response_format", "stream", "stream_format")
    assert [body[name] for name in form] == ["Hi.", "pcm", True, "sse"]


@pytest.mark.parametrize(
    "stream",
    [
        [delta(b"ab"), delta(b"cd"), DONE],
        [delta(b"ab") + delta(b"cd") + DONE],
        [delta(b"ab"), delta(b""), delta(b"cd"), DONE + b"data: [DONE]\n\n"],
        [delta(b"ab"), event(type="speech.audio.timestamps", words=[]), delta(b"cd"), DONE + b": bye\n\n"],
        [delta(b"ab", response_format="pcm", sample_rate=24_000), delta(b"cd"), DONE],
        [delta(wav(b"ab"), response_format="wav"), delta(b"cd", response_format="wav"), DONE],
        [delta(wav(b"ab", size=2)), delta(wav(b"cd", size=2)), DONE],
        [b": ping\r\n\r\n" + (delta(b"ab") + delta(b"cd") + DONE).replace(b"\n", b"\r\n")],
        [delta(b"ab").replace(b', "audio"', b'\ndata: , "audio"'), delta(b"cd"), DONE],  # an event of two lines
    ],
)
def test_streams_that_end_well(stream):
    pcm, decoder = decode(*stream)
    assert pcm == [b"ab", b"cd"] and decoder.sample_rate_hz == 24_000


def test_the_rate_is_the_stated_one():
    assert decode(delta(wav(b"ab", rate=16_000)), DONE)[1].sample_rate_hz == 16_000
    assert decode(delta(b"ab", sample_rate=8_000), DONE)[1].sample_rate_hz == 8_000
    assert SpeechEvents(OPTIONS, 44_100).sample_rate_hz == 44_100


@pytest.mark.parametrize("named", [{}, {"response_format": "wav"}])
def test_a_header_is_no_audio_however_small_the_first_events_are(named):
    whole = wav(b"abcd", rate=16_000)
    for size in (1, 5, 11, 43):
        first = [delta(whole[at : at + size], **named) for at in range(0, 44, size)]
        pcm, decoder = decode(*first, delta(whole[len(first) * size :], **named), DONE)
        assert b"".join(pcm) == b"abcd" and decoder.sample_rate_hz == 16_000, size


def test_samples_that_begin_like_a_header_are_all_there_at_the_end():
    assert decode(delta(b"RI"), DONE)[0] == [b"RI"]
    assert decode(delta(b"R"), delta(b"I"), delta(b"xx"), delta(b"R"), DONE)[0] == [b"RIxx", b"R"]


FAILURES = [
    ([], "disconnected", "without speech.audio.done"),
    ([delta(b"ab")], "disconnected", "without speech.audio.done"),
    ([delta(b"ab"), b"data: [DONE]\n\n"], "disconnected", "ends with [DONE], without speech.audio.done"),
    ([b'data: {"object": "audio.speech.chunk"}\n\n', b"data: [DONE]\n\n"], "content_type", "'audio.speech.chunk' (1)"),
    ([delta(b"ab"), DONE, delta(b"cd")], "content_type", "after speech.audio.done"),
    ([delta(b"ab"), event(type="speech.audio.error", error={"message": "boom"})], "in_band_error", "boom"),
    ([event(type="speech.audio.error", message="boom")], "in_band_error", "boom"),
    ([event(type="speech.audio.error")], "in_band_error", '{"type": "speech.audio.error"}'),
    ([event(type="error", message="boom", code="x")], "in_band_error", "boom"),
    ([event(error={"message": "boom"})], "in_band_error", "boom"),
    ([event(error="boom")], "in_band_error", "boom"),
    ([event(detail="boom")], "in_band_error", "boom"),
    ([event(object="error", message="boom")], "in_band_error", "boom"),
    ([delta(b"ab"), DONE, event(error="boom")], "in_band_error", "boom"),
    ([event(type="speech.audio.delta", audio="%%%")], "content_type", "is not base64"),
    ([event(type="speech.audio.delta", audio="YWI")], "content_type", "is not base64"),  # its padding is missing
    ([event(type="speech.audio.delta", audio="YW\nI=")], "content_type", "is not base64"),
    ([event(type="speech.audio.delta", audio="YWé=")], "content_type", "is not base64"),
    ([event(type="speech.audio.delta", audio=[1])], "content_type", "is not a string of base64 but list"),
    ([event(type="speech.audio.delta")], "content_type", "but NoneType"),
    ([delta(b"ab", response_format="mp3")], "content_type", "format 'mp3'"),
    ([delta(b"ab", response_format=7)], "content_type", "format of type int"),
    ([delta(b"ab", sample_rate="x")], "content_type", "sample rate of 'x'"),
    ([delta(b"ab", sample_rate=8000), delta(b"ab", sample_rate=24_000)], "content_type", "24000 Hz after 8000 Hz"),
    ([delta(wav(b"ab", size=9)), DONE], "disconnected", "announces 9 bytes"),
    ([b"data: {\n\n"], "content_type", "is not JSON"),
    ([b"data: 7\n\n"], "content_type", "is not a JSON object"),
    ([b"data: null\n\n"], "content_type", "is not a JSON object"),
    ([b"data: " + b"[" * 100_000 + b"\n\n"], "content_type", "is not JSON"),
    ([b"data: " + b'{"a":' * 20_000 + b"\n\n"], "content_type", "is not JSON"),
    ([b'data: {"x": ' + b"9" * 5000 + b"}\n\n"], "content_type", "is not JSON"),
    ([b"data: \xff\n\n"], "content_type", "not UTF-8"),
    ([b"data: " + b"x" * 200_000], "too_large", "an event of the stream is longer than"),
]


@pytest.mark.parametrize(("stream", "kind", "message"), FAILURES)
def test_streams_that_do_not(stream, kind, message):
    error = failure(*stream)
    assert error.kind == kind and message in error.message and len(error.message) <= 520
    whole = b"".join(stream)
    again = failure(*(whole[at : at + 997] for at in range(0, len(whole), 997)))
    assert again == error


async def test_audio_before_an_error_is_kept(send, raw_server):
    stream = delta(b"abcd") + delta(b"ef") + event(type="speech.audio.error", error={"message": "boom"})
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(stream)
    async with raw_server(head + stream) as port:
        timeline, audio = await send(port, kind="openai_speech_sse")
    assert timeline.error.kind == "in_band_error" and timeline.error.message.endswith("boom")
    assert audio == [b"abcd", b"ef"] and timeline.chunk_bytes == (4, 2) and timeline.chunk_ends == ()


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b'{"error": {"message": "boom"}}', "application/json", "in_band_error"),
        (b'{"audio": "YWI="}', "application/json", "content_type"),
        (b"abcd", "audio/pcm", "content_type"),
        (b"", "text/event-stream", "disconnected"),
    ],
)
async def test_other_answers_than_events(ask, body, content_type, kind):
    async def handler(request, server):
        return web.Response(body=body, headers={"Content-Type": content_type})

    timeline, _ = await ask(handler, kind="openai_speech_sse")
    assert timeline.error.kind == kind, timeline.error


async def test_a_pause_between_events_is_a_timeout_whatever_keeps_the_connection_alive(ask, options):
    async def handler(request, server):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(delta(bytes(960)))
        while True:
            await response.write(b": keep-alive\n\n")
            await asyncio.sleep(0.05)

    timeline, _ = await ask(handler, kind="openai_speech_sse", options=replace(options, stall_timeout_s=0.3))
    assert timeline.error.kind == "timeout" and "after 960 B of audio" in timeline.error.message
