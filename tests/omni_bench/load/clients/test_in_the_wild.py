"""Answers of servers as they are found (public reports): each is read, or refused in words that say what came."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import socket
import struct
from dataclasses import replace
from itertools import count

import aiohttp
import pytest
from aiohttp import WSServerHandshakeError, web
from aiohttp.test_utils import TestServer
from sent import send

from omni_bench.load.clients import exchange
from omni_bench.load.clients.decoder import WireFailure
from omni_bench.load.clients.openai_speech_ws import SpeechMessages
from omni_bench.load.clients.responses import container_of, describe_body, parse_content_type, stated_rate
from omni_bench.load.clients.session import IDLE_S, WireOptions, open_session
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.targets.null_server import serving

OPTIONS = WireOptions(sample_rate_hz=24_000, request_timeout_s=20.0, connect_timeout_s=5.0, max_audio_s=300.0)
PCM = struct.pack("<8h", 1, -2, 300, -400, 5000, -6000, 7, 8)
PCM64 = base64.b64encode(PCM).decode()


def wav(pcm, size):
    form = struct.pack("<HHIIHH", 1, 1, 24_000, 48_000, 2, 16)
    return b"RIFF" + struct.pack("<I", size) + b"WAVEfmt \x10\0\0\0" + form + b"data" + struct.pack("<I", size) + pcm


def events(*values):
    return b"".join(b"data: " + (json.dumps(v) if isinstance(v, dict) else v).encode() + b"\n\n" for v in values)


def decode(kind, body, options=OPTIONS, stated_rate_hz=None):
    """(samples, rate, whether it is stated) of a body that comes byte by byte."""
    decoder = FORMS[kind].decoder(options, stated_rate_hz)
    parts = [part for at in range(len(body)) for part in decoder.feed(body[at : at + 1], True)] + list(decoder.end())
    return b"".join(part.pcm for part in parts if hasattr(part, "pcm")), decoder.sample_rate_hz, decoder.states_rate


def refusal(kind, body):
    with pytest.raises(WireFailure) as caught:
        decode(kind, body)
    return caught.value.error.kind, caught.value.error.message


# --- sizes and rates


@pytest.mark.parametrize("size", [2_000_000_000, 0x7FFFFFFF, 0, 300 * 48_000 + 2, len(PCM)])
@pytest.mark.parametrize("kind", ["openai_speech_wav", "openai_speech_sse", "sglang_omni_speech"])
def test_a_wav_whose_size_is_a_placeholder_is_measured(kind, size):
    body = wav(PCM, size)
    coded = base64.b64encode(body).decode()
    if kind == "openai_speech_sse":
        body = events({"type": "speech.audio.delta", "audio": coded}, {"type": "speech.audio.done"})
    elif kind == "sglang_omni_speech":
        body = events({"object": "audio.speech.chunk", "audio": {"data": coded, "format": "wav"}}, "[DONE]")
    assert decode(kind, body) == (PCM, 24_000, True)


def test_so_is_one_in_messages():
    decoder = SpeechMessages(OPTIONS)
    messages = ['{"type": "audio.start", "format": "wav"}', wav(PCM, 2_000_000_000), '{"type": "audio.done"}']
    parts = [part for one in [*messages, '{"type": "session.done"}'] for part in decoder.feed(one)]
    assert b"".join(part.pcm for part in parts) == PCM and decoder.states_rate


def test_a_size_that_can_be_true_is_believed():
    assert refusal("openai_speech_wav", wav(PCM, 100 * 48_000))[0] == "disconnected"


@pytest.mark.parametrize(
    ("headers", "rate_hz"),
    [
        ({"X-Audio-Sample-Rate": "44100"}, 44_100),
        ({"x-sample-rate": " 16000 Hz"}, 16_000),
        ({"Content-Type": "audio/pcm; rate=44100"}, 44_100),
        ({"Content-Type": 'audio/pcm; channels=1; RATE="22050"', "Sample-Rate": "22050"}, 22_050),
        ({"X-Audio-Samplerate": "48000"}, 48_000),
        ({"x_samplerate": "16000.0"}, 16_000),
        ({"x-sample-rate": "22.05 kHz"}, 22_050),
        ({"x-sample-rate": "48k"}, 48_000),
        ({"Audio-Rate": "8000", "X-PCM-Sample-Rate": "8000"}, 8_000),
        ({"X-Sample-Rate": "fast"}, None),
        ({"X-Sample-Rate": "16000.5", "X-Frame-Rate": "12500", "X-RateLimit": "60000"}, None),
        ({}, None),
    ],
)
def test_the_rate_is_read_wherever_servers_state_it(headers, rate_hz):
    from multidict import CIMultiDict

    assert stated_rate(CIMultiDict(headers)) == (rate_hz, None)
    assert decode("openai_speech", PCM, stated_rate_hz=rate_hz) == (PCM, rate_hz or 24_000, rate_hz is not None)


def test_headers_that_contradict_each_other_are_named():
    rate_hz, problem = stated_rate({"X-Sample-Rate": "16000", "Content-Type": "audio/pcm; rate=24000"})
    assert rate_hz is None and "X-Sample-Rate 16000 Hz, Content-Type 24000 Hz" in problem


WITH_RATE = {  # events of each form that state a rate somewhere, and the end
    "openai_speech_sse": (
        lambda rate: {"type": "speech.audio.start", "format": {"sampleRate": rate}},
        {"type": "speech.audio.delta", "audio": PCM64},
        {"type": "speech.audio.done"},
    ),
    "sglang_omni_speech": (
        lambda rate: {"object": "audio.speech.start", "sample_rate_hz": rate},
        {"object": "audio.speech.chunk", "audio": {"data": PCM64}},
        "[DONE]",
    ),
    "openai_chat_audio": (
        lambda rate: {"choices": [{"delta": {"audio": {"data": PCM64, "sample_rate": rate}}}]},
        {"choices": [{"delta": {"audio": {"data": PCM64}}}]},
        "[DONE]",
    ),
}


@pytest.mark.parametrize("kind", WITH_RATE)
@pytest.mark.parametrize("rate", [16_000, 16_000.0, "16000"])
def test_a_rate_in_any_event_counts_and_must_be_that_of_the_headers(kind, rate):
    first, *rest = WITH_RATE[kind]
    body = events(first(rate), *rest)
    assert decode(kind, body)[1:] == (16_000, True) == decode(kind, body, stated_rate_hz=16_000)[1:]
    with pytest.raises(WireFailure, match="16000 Hz after 24000 Hz of a header"):
        decode(kind, body, stated_rate_hz=24_000)
    assert decode(kind, events({"type": "hello", "input_audio": {"sample_rate": 8000}}, *rest))[1] == 24_000


async def test_so_must_that_of_a_handshake():
    decoder = SpeechMessages(OPTIONS, 24_000)
    with pytest.raises(WireFailure, match="16000 Hz after 24000 Hz of a header"):
        list(decoder.feed('{"type": "audio.start", "sample_rate": "16000"}'))
    app = web.Application()

    async def agree(request):
        socket = web.WebSocketResponse()
        socket.headers.update({"X-Sample-Rate": "16000", "X-Audio-Rate": "8000"})
        await socket.prepare(request)
        await socket.receive()
        return socket

    app.router.add_get("/v1/audio/speech/stream", agree)
    async with TestServer(app) as server, open_session(OPTIONS) as session:
        timeline, _ = await speak(server.port, session, kind="openai_speech_ws")
    assert "X-Sample-Rate 16000 Hz, X-Audio-Rate 8000 Hz" in timeline.error.message


# --- events


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (b'event: error\ndata: {"code": "CUDA_OOM", "msg": "out of memory"}\n\n', "out of memory"),
        (events({"type": "response.failed", "response": {"error": {"message": "engine dead"}}}), "engine dead"),
        (events({"type": "synthesis_failed", "stage": 2}), '"stage": 2'),
        (events({"type": "status", "response": {"error": "boom"}}), "boom"),
    ],
)
@pytest.mark.parametrize("kind", WITH_RATE)
def test_an_error_counts_whatever_it_is_called(kind, more, words):
    _, audio, end = WITH_RATE[kind]
    found, message = refusal(kind, events(audio) + more + events(end))
    assert found == "in_band_error" and words in message
    if more.startswith(b"data: "):
        with pytest.raises(WireFailure, match="the server says: ") as caught:
            list(SpeechMessages(OPTIONS).feed(more[6:].decode()))
        assert words in caught.value.error.message


@pytest.mark.parametrize("kind", WITH_RATE)
def test_what_comes_after_the_end_is_passed_over_unless_it_is_audio(kind):
    _, audio, end = WITH_RATE[kind]
    last = events(end, end, {"type": "usage", "n": 3}, "[DONE]", "[DONE]")
    assert decode(kind, b"data: \n\ndata\n\n" + events(audio) + last)[0] == PCM, "and so is an event without data"
    assert refusal(kind, events(audio, end, audio))[0] == "content_type"
    decoder = FORMS[kind].decoder(OPTIONS, None)
    assert list(decoder.feed(events(audio) + last, True)) and decoder.unknown_events == "'usage' (1)"


def test_a_kind_may_stand_in_its_own_field():
    audio = b"event: speech.audio.delta\n" + events({"audio": PCM64})
    assert decode("openai_speech_sse", audio + b"event: speech.audio.done\n" + events({}))[0] == PCM
    assert "'audio.part' (1)" in refusal("openai_speech_sse", audio.replace(b"speech.audio.delta", b"audio.part"))[1]


def test_sglang_omnis_own_events_are_read():
    def chunk(audio, reason=None):
        return {"id": "speech-1", "object": "audio.speech.chunk", "audio": audio, "finish_reason": reason}

    audio = {"data": PCM64, "format": "pcm", "mime_type": "audio/pcm", "sample_rate": 16_000}
    body = events(chunk(audio), chunk(audio), chunk(None, "stop"), "[DONE]")
    assert decode("sglang_omni_speech", body) == (PCM + PCM, 16_000, True)
    assert refusal("sglang_omni_speech", events(chunk(audio), chunk(None, "abort")))[0] == "in_band_error"


@pytest.mark.parametrize(
    ("kind", "end"), [("openai_speech_sse", {"type": "speech.audio.done"}), ("openai_chat_audio", "[DONE]")]
)
def test_events_of_another_dialect_are_named(kind, end):
    strange = {"object": "audio.speech.chunk", "audio": {"data": PCM64}}
    for body, failure in ((events(strange, strange, end), "content_type"), (events(strange, strange), "disconnected")):
        assert refusal(kind, body)[0] == failure
        assert "'audio.speech.chunk' (2)" in refusal(kind, body)[1]


@pytest.mark.parametrize("kind", ["openai_speech_sse", "openai_chat_audio", "sglang_omni_speech"])
@pytest.mark.parametrize(
    ("body", "failure", "words"),
    [
        (b"", "disconnected", "nothing came"),
        (b'{"error": {"message": "engine is dead", "code": 500}}', "in_band_error", "engine is dead"),
        (b'{"object":"error","message":"engine is dead"}', "disconnected", '"engine is dead"'),
        (b": ping\n\n<html><body>504 Gateway</body></html>", "disconnected", "<html><body>504 Gateway</body></html>"),
        (b"event: error\ndata: upstream timed out\n\n", "in_band_error", "upstream timed out"),
    ],
)
def test_what_comes_in_place_of_events_is_shown(kind, body, failure, words):
    found, message = refusal(kind, body)
    assert found == failure and words in message


# --- bodies and types


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"ID3\x04\0\0", "an MP3"),
        (b"\xff\xf3\x84\xc4" + bytes(188) + b"\xff\xf3\x84\xc4" + bytes(188), "an MP3"),
        (b"OggS\0\x02", "Ogg (Opus or Vorbis)"),
        (b"fLaC\0", "FLAC"),
        (wav(PCM, 16), "a WAV"),
        (b"\0\0\0\x20ftypM4A ", "MP4"),
        (b"\xff\xf1\x50\x80\x01\x1f\xfc\0\xff\xf1\x50\x80\x01\x1f\xfc\0", "AAC"),
        (b"RF64\xff\xff\xff\xffWAVEds64", "RF64 (a WAV of 64-bit sizes)"),
        (b"riff\x2e\x91\xcf\x11\xa5\xd6", "W64"),
        (b"caff\0\x01", "CAF"),
        (b"NIST_1A\n   1024", "NIST SPHERE"),
        (bytes(70) + (b"\xff\xf3\x84\xc4" + bytes(188)) * 7, "an MP3, from the middle of a frame on"),
        (bytes(70) + (b"\xff\xf1\x50\x80\x01\x1f\xfc\0") * 7, "AAC, from the middle of a frame on"),
        (bytes(70) + (b"\xff\xf3\x84\xc4" + bytes(188)) * 4, None),  # by chance
        (PCM, None),
        (b"\xff\xf3" * 500, None),  # quiet samples, and no frames
    ],
)
def test_a_coded_file_is_known_by_its_first_bytes(data, what):
    assert container_of(data) == what


@pytest.mark.parametrize(
    ("kind", "end"),
    [("openai_speech_sse", b'{"type": "speech.audio.done"}'), ("openai_chat_audio", b"[DONE]")],
)
def test_a_last_event_without_the_end_of_its_line_counts(kind, end):
    delta = {"choices": [{"delta": {"audio": {"data": PCM64}}}], "type": "speech.audio.delta", "audio": PCM64}
    assert decode(kind, events(delta) + b"data: " + end)[0] == PCM
    assert refusal(kind, events(delta) + b"data: " + end[:-2])[0] == "disconnected"


PAGE, WORDS = b"<html><body>502 Bad Gateway</body></html>", b'\n{"usage": {"total_tokens": 60}}\n'


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("openai_speech", PAGE, "text instead of the samples: <html><body>502 Bad Gateway"),
        ("openai_speech", PCM + WORDS, 'text behind the samples: {"usage": {"total_tokens": 60}}'),
        ("openai_speech_wav", wav(PCM, 0) + WORDS, 'text behind the samples: {"usage"'),
        ("openai_speech", PCM + wav(PCM, 0), "a WAV header within the samples"),
        ("openai_speech_wav", wav(PCM, 0) * 2, "a WAV header within the samples"),
    ],
)
def test_what_is_no_audio_within_a_body_is_named(kind, body, words):
    failure, message = refusal(kind, body)
    assert failure == "content_type" and words in message


@pytest.mark.parametrize("samples", [b"  " * 40, b"ab" * 40, PCM + b"Bad Gateway", PCM + b"\0" + PAGE + b"\0"])
def test_samples_that_only_look_like_text_are_samples(samples):
    assert decode("openai_speech", samples)[0] == samples


def test_text_in_a_chunk_behind_a_wav_of_known_size_is_no_failure():
    chunk = b"iXML" + struct.pack("<I", len(PAGE) + 1) + PAGE + b" "
    assert decode("openai_speech_wav", wav(PCM, len(PCM)) + chunk)[0] == PCM


@pytest.mark.parametrize("constant", ["NaN", "-Infinity"])
def test_statistics_that_json_cannot_hold_cost_themselves_alone(constant):
    done = b'data: {"type": "speech.audio.done", "stats": {"rtf": %s}}\n\n' % constant.encode()
    assert decode("openai_speech_sse", events({"type": "speech.audio.delta", "audio": PCM64}) + done)[0] == PCM
    decoder = SpeechMessages(OPTIONS)
    messages = ['{"type": "audio.start"}', PCM, f'{{"type": "audio.done", "rtf": {constant}}}']
    assert [part.pcm for one in messages for part in decoder.feed(one)] == [PCM]


def test_what_is_shown_of_a_body_is_text_or_a_glimpse():
    assert describe_body(b"<h1>Bad</h1>") == "<h1>Bad</h1>"
    assert describe_body("Zu früh".encode()) == "Zu früh"
    assert describe_body(b"ID3\x04" + bytes(range(128, 256))) == (
        "132 bytes of an MP3, beginning with 49 44 33 04 80 81 82 83 84 85 86 87 88 89 8a 8b"
    )
    assert len(describe_body(bytes(range(256)) * 50)) < 120


EVIL_TYPES = [
    "audio/pcm; rate*=1",
    "audio/pcm; x*0*=2; x*9999=3",
    "audio/pcm; a*=''",
    'audio/pcm; "=;;=',
    ";",
    "\udcff;=",
]


@pytest.mark.parametrize("value", EVIL_TYPES)
def test_no_content_type_raises(value):
    assert parse_content_type(value)[0] in ("audio/pcm", "", "\udcff", " ", "?")


@pytest.mark.parametrize("kind", [name for name, form in FORMS.items() if form.path == "/v1/audio/speech"])
@pytest.mark.parametrize("value", EVIL_TYPES[:4])
async def test_a_hostile_content_type_ends_its_own_request_at_most(ask, kind, value):
    async def handler(request, server):
        return web.Response(body=PCM, headers={"Content-Type": value})

    timeline, _ = await ask(handler, kind=kind)
    assert timeline.ok if kind == "openai_speech" else timeline.error.kind == "content_type"


async def test_a_mislabelled_answer_shows_no_binary(ask):
    async def handler(request, server):
        return web.Response(body=bytes(range(256)) * 40, content_type="audio/mpeg")

    timeline, _ = await ask(handler)
    assert timeline.error.message.endswith("beginning with 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f")


async def test_a_redirect_says_where_to(ask):
    async def handler(request, server):
        return web.Response(status=308, headers={"Location": "https://api.example/v1/audio/speech"})

    timeline, _ = await ask(handler)
    assert "HTTP 308 to https://api.example/v1/audio/speech; set target.url" in timeline.error.message


async def test_a_refusal_says_what_its_headers_say(ask):
    async def handler(request, server):
        return web.Response(status=429, text="slow down", headers={"Retry-After": "7"})

    timeline, _ = await ask(handler)
    assert timeline.error.message == "HTTP 429 (Retry-After: 7): slow down"


async def test_no_other_address_helps_against_a_slash_behind_the_path(ask):
    async def handler(request, server):
        return web.Response(status=308, headers={"Location": f"{request.path}/"})

    timeline, _ = await ask(handler)
    assert (
        "/v1/audio/speech is fixed: the server, or the proxy before it, must take it without" in timeline.error.message
    )
    assert "target.url" not in timeline.error.message


async def test_what_is_said_where_a_web_socket_is_refused_is_kept():
    async def handler(request):
        return web.json_response({"error": {"message": "no such voice"}}, status=401)

    app = web.Application()
    app.router.add_get("/", handler)
    async with TestServer(app) as server, open_session(OPTIONS) as session:
        with pytest.raises(WSServerHandshakeError) as caught:
            await session.ws_connect(server.make_url("/"))
    assert (caught.value.status, caught.value.message) == (401, "no such voice")


async def test_an_answer_is_bounded_in_its_pieces(ask, monkeypatch):
    monkeypatch.setattr(exchange, "MIN_PARTS", 1000)

    async def handler(request, server):
        response = web.StreamResponse(headers={"Content-Type": "audio/pcm"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for _ in range(40):
            await response.write(b"A")
            request.transport.write(b"1\r\nA\r\n" * 100)
        return response

    options = WireOptions(24_000, 20.0, 5.0, max_audio_s=1.0)
    timeline, audio = await ask(handler, options=options)
    assert timeline.error.kind == "too_large" and len(audio) == 1000
    assert timeline.error.message == "more than 1000 pieces of audio or text"


async def test_a_timeout_says_what_came(ask, raw_server, send):
    async def unknown(request, server):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(events({"type": "odd"}, {"type": "speech.audio.delta", "audio": PCM64}))
        await asyncio.sleep(5)
        return response

    short = WireOptions(24_000, 0.3, 5.0, max_audio_s=1.0)
    timeline, _ = await ask(unknown, options=short, kind="openai_speech_sse")
    assert timeline.error.message.endswith("what came: 16 B of audio; of unknown kinds 'odd' (1)")
    async with raw_server(b"HTTP/1.1 200 OK\r\nX-A: ", then_wait=True) as port:
        timeline, _ = await send(port, options=short)
    assert timeline.error.message.endswith("what came: no headers of an answer, or none that ended")


@pytest.mark.parametrize("mime", ["binary/octet-stream", "application/x-octet-stream", "application/octet-stream"])
async def test_bytes_of_no_further_name_are_samples(ask, mime):
    async def handler(request, server):
        return web.Response(body=PCM, content_type=mime)

    timeline, audio = await ask(handler)
    assert timeline.ok and b"".join(audio) == PCM


@pytest.mark.parametrize("mime", ["text/plain", "application/json", "application/x-ndjson", "video/mp4", "text/html"])
async def test_another_type_is_refused_with_the_switch_unless_it_is_a_page(ask, mime):
    async def handler(request, server):
        return web.Response(body=PCM, content_type=mime)

    timeline, _ = await ask(handler)
    assert timeline.error.kind == "content_type"
    assert (f"client.content_types=[{mime}]" in timeline.error.message) == (mime != "text/html")


# --- ids, shortages and idle connections


NUMBERS = count()


async def speak(port, session, prefix="", kind="openai_speech"):
    name = f"c1-{next(NUMBERS):04d}"
    return await send(session, f"http://127.0.0.1:{port}", OPTIONS, kind=kind, request_id=name, id_prefix=prefix)


async def test_the_id_on_the_wire_is_not_the_stored_one(scripted_server):
    server = scripted_server()
    async with serving(server) as port, open_session(OPTIONS) as session:
        timeline, _ = await speak(port, session, "a1b2-")
    assert server.headers[0]["x-request-id"] == timeline.wire_id == f"a1b2-{timeline.request_id}"


async def test_a_shortage_of_the_client_is_the_clients(monkeypatch):
    def none_left(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    async with open_session(OPTIONS) as session:
        monkeypatch.setattr(socket, "socket", none_left)
        timeline, _ = await speak(9, session)
    assert timeline.error.kind == "client_shortage" and "Too many open files" in timeline.error.message


@pytest.mark.parametrize("shortage", [MemoryError(), OSError(errno.ENOBUFS, "No buffer space available")])
async def test_so_is_one_in_the_middle_of_an_answer(shortage, ask, monkeypatch):
    """As aiohttp raises it: inside of an error that blames the body (ClientPayloadError ... MemoryError())."""

    def take(*_):
        try:
            raise shortage
        except (MemoryError, OSError) as cause:
            raise aiohttp.ClientPayloadError(f"Response payload is not completed: {cause!r}") from cause

    monkeypatch.setattr(exchange.Record, "take", take)
    assert (await ask())[0].error.kind == "client_shortage"


async def test_a_reused_connection_that_was_closed_is_said_to_be_one():
    async def twice(reader, writer):
        for answer in (b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nContent-Length: 2\r\n\r\nab", b""):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(twice, "127.0.0.1", 0)
    async with server, open_session(OPTIONS) as session:
        first, second = [(await speak(server.sockets[0].getsockname()[1], session))[0] for _ in range(2)]
    assert first.ok and second.error.kind == "disconnected"
    assert "a reused connection was closed by the server before it answered" in second.error.message


async def test_no_connection_is_used_that_a_server_may_be_closing(scripted_server, monkeypatch):
    """One that was idle for long is not used again; an open loop uses none again (NeMo-Gym 1555, kserve 5446)."""
    server = scripted_server()
    async with serving(server) as port:
        unkept = replace(OPTIONS, reuse=False)
        for options, reuse, connections in ((OPTIONS, True, 1), (OPTIONS, False, 2), (unkept, True, 2)):
            server.peers.clear()
            async with open_session(options, reuse=reuse) as session:
                assert all([(await speak(port, session))[0].ok for _ in range(2)])
            assert len(set(server.peers)) == connections
    assert IDLE_S < 1.0
