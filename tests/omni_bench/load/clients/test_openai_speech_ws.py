"""Speech over a WebSocket: the messages in both directions, and every way in which a session can go wrong."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from dataclasses import replace

import pytest
from aiohttp import WSMsgType, web

from omni_bench.load.clients import openai_speech_ws
from omni_bench.load.clients.decoder import AudioPart, WireFailure
from omni_bench.load.clients.openai_speech_ws import SpeechMessages, build_body, encode_messages
from omni_bench.load.clients.session import WireOptions
from omni_bench.records.config import ClientConfig
from omni_bench.records.prompt import Prompt
from reference_impl.http.framing import wav_header

OPTIONS = WireOptions(sample_rate_hz=24_000, request_timeout_s=20.0, connect_timeout_s=5.0, max_audio_s=1.0)
PROMPT = Prompt("p", "Two\nlines.", None, None, "en")


def message(kind, **fields):
    return json.dumps({"type": kind, **fields})


START, END, OVER = message("audio.start", format="pcm"), message("audio.done"), message("session.done")


# --- what is sent


def test_the_messages_of_a_request():
    client = ClientConfig(kind="openai_speech_ws", voice="alba", extra_body={"split_granularity": "sentence"})
    lines = encode_messages(build_body(PROMPT, client, seed=3)).split(b"\n")
    config, text, done = map(json.loads, lines)
    assert config == {
        "type": "session.config",
        "model": "tiny",
        "voice": "alba",
        "seed": 3,
        "response_format": "pcm",
        "stream_audio": True,
        "split_granularity": "sentence",
    }
    assert text == {"type": "input.text", "text": "Two\nlines."} and done == {"type": "input.done"}


# --- the decoder


def decode(*messages):
    decoder = SpeechMessages(OPTIONS)
    parts = [part for one in messages for part in decoder.feed(one)]
    return [part.pcm for part in parts if isinstance(part, AudioPart)], decoder


def test_sentences_one_after_another():
    pcm, decoder = decode(START, b"ab", b"", b"cd", END, START, b"ef", END, OVER)
    assert pcm == [b"ab", b"cd", b"ef"] and decoder.done and decoder.sample_rate_hz == 24_000


def test_the_rate_and_the_id_that_are_stated():
    start = message("audio.start", format="pcm", sample_rate=16_000, channels=1, request_id="r-9")
    _, decoder = decode(start, b"ab", END, OVER)
    assert (decoder.sample_rate_hz, decoder.server_id) == (16_000, "r-9")


def test_audio_as_text_beside_the_times_of_words():
    chunk = message("audio.chunk", audio_b64=base64.b64encode(b"ab").decode(), timestamps=None)
    last = message("audio.chunk", audio_b64="", timestamps=[])
    assert decode(START, chunk, last, END, OVER)[0] == [b"ab"]


def test_a_header_is_no_audio_however_small_the_first_messages_are():
    whole = wav_header(16_000, None) + b"abcd"
    for size in (1, 5, 11, 43):
        small = [whole[at : at + size] for at in range(0, len(whole), size)]
        for before in ([], [message("audio.start"), b"bare", END]):
            pcm, decoder = decode(*before, message("audio.start"), *small, END, OVER)
            assert b"".join(pcm).removeprefix(b"bare") == b"abcd" and decoder.sample_rate_hz == 16_000, size
    assert decode(START, b"RI", END, START, b"RIFF", END, OVER)[0] == [b"RI", b"RIFF"]


def test_types_it_does_not_know_are_skipped():
    assert decode(message("session.created"), START, message("metrics", x=1), b"ab", END, OVER)[0] == [b"ab"]


FAILURES = [
    ([b"ab"], "content_type", "outside of audio.start"),
    ([START, b"ab", END, b"cd"], "content_type", "outside of audio.start"),
    ([START, START], "content_type", "has not ended"),
    ([END], "content_type", "without audio.start"),
    ([START, b"ab", OVER], "disconnected", "before audio.done"),
    ([OVER, OVER], "content_type", "after session.done"),
    ([OVER, b"ab"], "content_type", "after session.done"),
    ([message("error", message="boom")], "in_band_error", "boom"),
    ([message("error", error={"message": "boom"}, message="other")], "in_band_error", "boom"),
    ([message("error")], "in_band_error", '{"type": "error"}'),
    ([START, b"ab", message("audio.done", error=True)], "in_band_error", "failed"),
    ([message("audio.start", format="mp3"), b"ab"], "content_type", "format 'mp3'"),
    ([message("audio.start", channels=2)], "content_type", "2 channels"),
    ([message("audio.start", sample_rate=1)], "content_type", "sample rate of '1'"),
    ([START, message("audio.chunk", audio_b64="%")], "content_type", "not base64"),
    ([START, message("audio.chunk")], "content_type", "but NoneType"),
    (["{"], "content_type", "is not JSON"),
    (["[]"], "content_type", "is not a JSON object"),
    ([START, b"ab", message("audio.done", total_bytes=4)], "disconnected", "states 4 bytes of audio, 2 came"),
    (["[" * 100_000], "content_type", "is not JSON"),
]


@pytest.mark.parametrize(("messages", "kind", "expected"), FAILURES)
def test_messages_that_break_the_rules(messages, kind, expected):
    with pytest.raises(WireFailure, match=expected) as caught:
        decode(*messages)
    assert caught.value.error.kind == kind


# --- the whole client


@pytest.fixture
def talk(send):
    """``await talk(script)``: one request to a server that runs ``script(socket)`` after input.done."""

    async def talk_to(script, options=OPTIONS, payload=b'{"type": "input.done"}', **headers):
        seen = {}

        async def handler(request):
            seen["headers"], seen["messages"] = request.headers, []
            socket = web.WebSocketResponse(timeout=0.1)
            socket.headers.update(headers)
            await socket.prepare(request)
            async for one in socket:
                seen["messages"].append(one.data)
                if one.type is WSMsgType.TEXT and "input.done" in one.data:
                    with contextlib.suppress(ConnectionError):
                        await script(socket)
                    break
            seen["closed"] = socket.close_code
            return socket

        app = web.Application()
        app.router.add_get("/v1/audio/speech/stream", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            timeline, audio = await send(
                runner.addresses[0][1], kind="openai_speech_ws", options=options, payload=payload
            )
        finally:
            await runner.cleanup()
        return timeline, audio, seen

    return talk_to


async def says(socket, *messages):
    for one in messages:
        await (socket.send_bytes(one) if isinstance(one, bytes) else socket.send_str(one))


async def test_a_session(talk):
    async def script(socket):
        await says(socket, START, b"abcd")
        await asyncio.sleep(0.01)
        await says(socket, b"ef", END, OVER)
        await socket.receive()  # the client closes: it needs nothing more

    payload = encode_messages(build_body(PROMPT, ClientConfig(kind="openai_speech_ws"), 1))
    timeline, audio, seen = await talk(script, payload=payload, **{"x-request-id": "srv-1"})
    assert timeline.ok, timeline.error
    assert audio == [b"abcd", b"ef"] and timeline.chunk_bytes == (4, 2) and timeline.chunk_ends == ()
    assert (timeline.http_status, timeline.sample_rate_hz, timeline.server_request_id) == (101, 24_000, "srv-1")
    times = [timeline.started_ns, timeline.headers_ns, timeline.first_byte_ns, *timeline.chunk_arrived_ns]
    assert times == sorted(times) and timeline.ended_ns >= times[-1]
    assert seen["headers"]["x-request-id"] == "c1-0000"
    assert [json.loads(one)["type"] for one in seen["messages"]] == ["session.config", "input.text", "input.done"]


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        (1000, "disconnected", "closed with code 1000 (why) before session.done"),
        (1011, "disconnected", "closed with code 1011 (why)"),
        (1009, "disconnected", "closed with code 1009 (why)"),
        (4000, "disconnected", "closed with code 4000 (why)"),
    ],
)
async def test_a_close_before_the_end(talk, code, kind, expected):
    async def script(socket):
        await says(socket, START, b"ab")
        await socket.close(code=code, message=b"why")

    timeline, audio, _ = await talk(script)
    assert timeline.error.kind == kind and expected in timeline.error.message
    assert audio == [b"ab"]


async def test_a_connection_that_breaks(talk):
    async def script(socket):
        await says(socket, START, b"ab")
        socket._req.transport.abort()

    timeline, audio, _ = await talk(script)
    assert timeline.error.kind == "disconnected" and audio == [b"ab"]


async def test_an_error_after_audio(talk):
    async def script(socket):
        await says(socket, START, b"ab", message("error", message="boom"))
        await socket.receive()

    timeline, audio, seen = await talk(script)
    assert timeline.error.kind == "in_band_error" and timeline.error.message == "the server says: boom"
    assert audio == [b"ab"] and seen["closed"] == 1000


async def test_a_message_beyond_the_bound(talk):
    async def script(socket):
        await says(socket, START, bytes(200_000))

    timeline, _, _ = await talk(script)
    assert timeline.error.kind == "too_large"


async def test_more_audio_than_allowed(talk):
    async def script(socket):
        await says(socket, START, *[bytes(10_000)] * 20)

    timeline, audio, _ = await talk(script)
    assert timeline.error.kind == "too_large" and sum(map(len, audio)) == 50_000


async def test_a_pause_beyond_the_bound(talk):
    async def script(socket):
        await says(socket, START, b"ab")
        await socket.receive()

    timeline, audio, _ = await talk(script, options=replace(OPTIONS, stall_timeout_s=0.2))
    assert timeline.error.kind == "timeout" and audio == [b"ab"]


async def test_a_server_without_the_form(ask):
    timeline, _ = await ask(kind="openai_speech_ws")
    assert timeline.error.kind == "http_status" and timeline.http_status == 404
    assert timeline.error.message.startswith("HTTP 404")


async def test_a_server_that_is_not_there(send, unused_tcp_port):
    timeline, _ = await send(unused_tcp_port, kind="openai_speech_ws")
    assert timeline.error.kind == "connect" and timeline.headers_ns is None


async def test_a_handshake_that_is_dropped_is_a_failure_and_not_tried_again(send):
    seen = []

    async def drop(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    server = await asyncio.start_server(drop, "127.0.0.1", 0)
    async with server:
        timeline, _ = await send(server.sockets[0].getsockname()[1], kind="openai_speech_ws")
    assert timeline.error.kind == "disconnected" and len(seen) == 1


async def test_a_failure_is_stamped_before_the_close_which_a_server_may_let_wait(talk, monkeypatch):
    closing_ns = []
    real_close = openai_speech_ws._close

    async def close(socket):
        closing_ns.append(time.perf_counter_ns())
        await real_close(socket)

    monkeypatch.setattr(openai_speech_ws, "_close", close)
    monkeypatch.setattr(openai_speech_ws, "CLOSE_TIMEOUT_S", 0.05)

    async def script(socket):
        await says(socket, "{")
        await asyncio.sleep(1)  # it reads nothing, so that it does not answer the close

    timeline, _, _ = await talk(script)
    assert timeline.error.kind == "content_type" and timeline.failed_ns <= closing_ns[0]


async def test_a_deadline_during_the_close_does_not_undo_a_clean_end(talk, monkeypatch):
    closing = asyncio.Event()

    async def close(socket):
        closing.set()
        await asyncio.sleep(30)

    monkeypatch.setattr(openai_speech_ws, "_close", close)

    async def script(socket):
        await says(socket, START, b"ab", END, OVER)
        await closing.wait()

    timeline, audio, _ = await talk(script, options=replace(OPTIONS, request_timeout_s=0.5))
    assert timeline.ok and timeline.failed_ns is None and audio == [b"ab"]
