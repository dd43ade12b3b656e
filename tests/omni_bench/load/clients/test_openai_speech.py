"""The wire client against servers that behave and servers that do not."""

import asyncio
import base64
import json
import socket
from dataclasses import replace

import pytest
from aiohttp import web
from streams import stream_of

from omni_bench.errors import ConfigError, DatasetError
from omni_bench.load.clients.abort import AbortReason, AbortSwitch
from omni_bench.load.clients.openai_speech import build_body
from omni_bench.load.clients.speech_body import BODY_LIMIT_BYTES, REFERENCE_AUDIO_LIMIT_BYTES
from omni_bench.records.config import ClientConfig
from omni_bench.records.prompt import Prompt
from omni_bench.records.timeline import ERROR_KINDS, RequestError
from omni_bench.targets.null_server import serving, tone

PROMPT = Prompt(id="p0", text="Hello there.", ref_text=None, ref_audio=None, language="en")


def answer(body=b"", status=200, content_type="audio/pcm", headers=None):
    async def handler(request, server):
        return web.Response(body=body, status=status, headers={"Content-Type": content_type, **(headers or {})})

    return handler


# --- the body


def test_body_has_the_wire_fields_and_leaves_out_what_is_not_configured():
    assert build_body(PROMPT, ClientConfig(kind="openai_speech"), seed=3) == {
        "model": "tiny",
        "input": "Hello there.",
        "response_format": "pcm",
        "stream": True,
        "stream_format": "audio",
        "seed": 3,
    }


def test_body_carries_configured_fields_and_extra_body_wins():
    client = ClientConfig(
        kind="openai_speech",
        voice="b",
        task_type="Base",
        language="English",
        max_new_tokens=99,
        extra_body={"seed": 1, "extra_params": {"temperature": 0.5}},
    )
    body = build_body(PROMPT, client, seed=None)
    assert (body["voice"], body["task_type"], body["language"], body["max_new_tokens"]) == ("b", "Base", "English", 99)
    assert body["seed"] == 1
    assert body["extra_params"] == {"temperature": 0.5}


def test_body_sends_the_reference_as_a_data_url(tmp_path):
    wav = tmp_path / "ref.WAV"
    wav.write_bytes(b"RIFF\x00\xffdata")
    prompt = replace(PROMPT, ref_text="ref", ref_audio=wav)
    body = build_body(prompt, ClientConfig(kind="openai_speech", send_reference=True), seed=0)
    head, data = body["ref_audio"].split(",")
    assert head == "data:audio/wav;base64"
    assert base64.b64decode(data) == b"RIFF\x00\xffdata"
    assert body["ref_text"] == "ref"


@pytest.mark.parametrize("lacking", ["ref_audio", "ref_text"])
def test_a_prompt_without_reference_is_a_dataset_error(tmp_path, lacking):
    prompt = replace(PROMPT, **{**{"ref_audio": tmp_path / "x.wav", "ref_text": "x"}, lacking: None})
    with pytest.raises(DatasetError, match=f"'p0' has no {lacking}"):
        build_body(prompt, ClientConfig(kind="openai_speech", send_reference=True), seed=0)


def test_a_missing_reference_file_is_a_dataset_error(tmp_path):
    prompt = replace(PROMPT, ref_text="ref", ref_audio=tmp_path / "gone.wav")
    with pytest.raises(DatasetError, match=r"gone\.wav"):
        build_body(prompt, ClientConfig(kind="openai_speech", send_reference=True), seed=0)


def test_a_reference_at_the_bound_still_fits_a_body_of_32_mib_and_a_larger_one_is_an_error(tmp_path):
    wav = tmp_path / "ref.wav"
    wav.write_bytes(bytes(REFERENCE_AUDIO_LIMIT_BYTES))
    prompt = replace(PROMPT, ref_text="ref", ref_audio=wav)
    client = ClientConfig(kind="openai_speech", send_reference=True)
    assert len(json.dumps(build_body(prompt, client, seed=0))) < BODY_LIMIT_BYTES == 32 * 2**20
    wav.write_bytes(bytes(REFERENCE_AUDIO_LIMIT_BYTES + 1))
    with pytest.raises(DatasetError, match=f"has {REFERENCE_AUDIO_LIMIT_BYTES + 1} bytes"):
        build_body(prompt, client, seed=0)


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_an_extra_body_that_is_not_json_is_a_config_error(value):
    with pytest.raises(ConfigError, match=r"client\.extra_body"):
        build_body(PROMPT, ClientConfig(kind="openai_speech", extra_body={"x": value}), seed=0)


# --- streams that end well


async def test_a_paced_stream_gives_every_byte_and_ordered_times(scripted_server, send):
    server = scripted_server()
    async with serving(server) as port:
        timeline, audio = await send(port)
    assert timeline.ok and timeline.error is None and timeline.failed_ns is None
    assert b"".join(audio) == server.chunk * 4
    assert timeline.chunk_bytes == tuple(len(data) for data in audio)
    times = [timeline.started_ns, timeline.headers_ns, *timeline.chunk_arrived_ns, timeline.ended_ns]
    assert times == sorted(times)
    assert timeline.first_byte_ns == timeline.first_audio_ns == timeline.chunk_arrived_ns[0]
    assert (timeline.request_id, timeline.prompt_id, timeline.seed, timeline.concurrency) == ("c1-0000", "p0", 7, 1)
    assert (timeline.scheduled_ns, timeline.http_status, timeline.sample_rate_hz) == (1, 200, 24_000)


async def test_the_first_audio_is_seen_when_it_comes_not_when_the_stream_ends(scripted_server, send):
    """The server waits for the client to have read the first chunk before it sends the second."""
    released = asyncio.Event()

    async def handler(request, server):
        response = web.StreamResponse(headers={"Content-Type": "audio/pcm"})
        await response.prepare(request)
        await response.write(b"ab")
        await released.wait()
        await response.write(b"cdef")
        return response

    ticks = iter(range(100))

    def clock():  # 0: called, 1: connecting, 2: headers, 3: the first read
        now = next(ticks)
        if now == 3:
            released.set()
        return now

    async with serving(scripted_server(handler)) as port:
        timeline, audio = await send(port, clock=clock, scheduled_ns=0)
    assert audio == [b"ab", b"cdef"]
    assert (timeline.started_ns, timeline.headers_ns, timeline.chunk_arrived_ns, timeline.ended_ns) == (1, 2, (3, 4), 5)


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nContent-Length: 6\r\n\r\n"


@pytest.mark.parametrize(
    ("writes", "reads", "ends"),
    [
        # one chunk in two packets, then another; one packet with two chunks; an end that comes by itself
        ([CHUNKED, b"4\r\nab", b"cd\r\n", b"2\r\nef\r\n0\r\n\r\n"], [b"ab", b"cd", b"ef"], (False, True, True)),
        ([CHUNKED, b"2\r\nab\r\n4\r\ncdef\r\n0\r\n\r\n"], [b"ab", b"cdef"], ()),
        ([CHUNKED, b"6\r\nabcdef", b"\r\n0\r\n\r\n"], [b"abcdef"], ()),
        ([LENGTH, b"ab", b"cdef"], [b"ab", b"cdef"], ()),
    ],
)
async def test_reads_know_where_the_servers_chunks_end(send, writes, reads, ends):
    """The server writes its next packet when the client has read the last one."""
    seen = asyncio.Queue()

    async def handle(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        for data in writes:
            writer.write(data)
            await writer.drain()
            if data is not writes[-1]:
                await seen.get()
        await reader.read()
        writer.close()

    def clock():  # started, headers, each read, the end: the started one is before the first packet
        if clock.calls > 0:
            seen.put_nowait(None)
        clock.calls += 1
        return clock.calls

    clock.calls = 0
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        timeline, audio = await send(server.sockets[0].getsockname()[1], clock=clock)
    assert timeline.ok, timeline.error
    assert audio == reads and timeline.chunk_bytes == tuple(map(len, reads))
    assert timeline.chunk_ends == ends


async def test_a_stream_that_is_cut_within_a_chunk_keeps_what_came(raw_server, send):
    async with raw_server(CHUNKED + b"2\r\nab\r\n4\r\ncd") as port:
        timeline, audio = await send(port)
    check_failed(timeline, "disconnected")
    assert b"".join(audio) == b"abcd"[: timeline.audio_bytes] and timeline.chunk_ends in ((True, False), ())


async def test_the_request_carries_its_id_its_body_and_no_compression(scripted_server, send):
    server = scripted_server()
    async with serving(server) as port:
        await send(port, payload=b'{"input": "x"}')
    assert server.bodies == [b'{"input": "x"}']
    (headers,) = server.headers
    assert headers["x-request-id"] == "c1-0000"
    assert headers["Content-Type"] == "application/json"
    assert headers["Accept-Encoding"] == "identity"
    assert "Authorization" not in headers


@pytest.mark.parametrize(
    ("content_type", "rate_hz"),
    [
        ("audio/pcm", 24_000),
        ("Audio/PCM; rate=16000; channels=1", 16_000),
        ("audio/pcm;rate=8000", 8_000),
        ('audio/pcm; rate="48000"', 48_000),
        ("application/octet-stream", 24_000),
    ],
)
async def test_audio_content_types_and_their_sample_rate(ask, content_type, rate_hz):
    timeline, _ = await ask(answer(b"\x01\x02" * 50, content_type=content_type))
    assert timeline.ok
    assert timeline.sample_rate_hz == rate_hz


async def test_odd_bytes_are_kept_for_the_validity_checks(ask):
    timeline, audio = await ask(stream_of(b"abc", b"de", pause_s=0.02))
    assert timeline.ok
    assert timeline.audio_bytes == 5
    assert sum(timeline.chunk_samples) == 2
    assert b"".join(audio) == b"abcde"


async def test_an_empty_200_is_a_clean_end_without_audio(ask):
    timeline, audio = await ask(answer(b""))
    assert timeline.ok and audio == []
    assert timeline.first_audio_ns is None and timeline.first_byte_ns is None


async def test_a_close_delimited_body_is_a_clean_end(raw_server, send):
    async with raw_server(b"HTTP/1.0 200 OK\r\nContent-Type: audio/pcm\r\n\r\nabcd") as port:
        timeline, audio = await send(port)
    assert timeline.ok and b"".join(audio) == b"abcd"


# --- failures


def check_failed(timeline, kind):
    assert kind in ERROR_KINDS
    assert timeline.error is not None and timeline.error.kind == kind, timeline.error
    assert not timeline.ok and timeline.ended_ns is None
    assert timeline.failed_ns >= timeline.started_ns
    assert len(timeline.error.message) <= 520
    return timeline.error.message


async def test_less_than_the_content_length_is_disconnected(raw_server, send):
    async with raw_server(b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nContent-Length: 10\r\n\r\nabcd") as port:
        check_failed((await send(port))[0], "disconnected")


@pytest.mark.parametrize("reply", [b"", b"hello, who is this?\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Ty"])
async def test_a_reply_that_is_not_http_is_disconnected(raw_server, send, reply):
    async with raw_server(reply) as port:
        check_failed((await send(port))[0], "disconnected")


async def test_a_refused_connection(send):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        timeline, audio = await send(unused.getsockname()[1])
    check_failed(timeline, "connect")
    assert audio == [] and timeline.headers_ns is None and timeline.http_status is None


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        (b'{"error": {"message": "voice  unknown", "type": "x"}}', "application/json", "HTTP 500: voice unknown"),
        (b'{"error": "boom"}', "application/json", "HTTP 500: boom"),
        (b'{"detail": "Not ready"}', "application/json", "HTTP 500: Not ready"),
        (b'{"detail": [{"loc": ["body"]}]}', "application/json", 'HTTP 500: [{"loc": ["body"]}]'),
        (b"<h1>\x00Bad\xff</h1>", "text/html", "HTTP 500: <h1> Bad\ufffd</h1>"),
        (b"", "text/plain", "HTTP 500: (empty body)"),
    ],
)
async def test_an_http_error_carries_the_servers_message(ask, body, content_type, message):
    timeline, _ = await ask(answer(body, status=500, content_type=content_type))
    assert check_failed(timeline, "http_status") == message
    assert timeline.http_status == 500 and timeline.first_audio_ns is None


@pytest.mark.parametrize("status", [201, 204, 302, 400, 429, 503])
async def test_any_status_but_200_fails(ask, status):
    timeline, _ = await ask(answer(status=status, headers={"Location": "/v1/audio/speech"}))
    check_failed(timeline, "http_status")
    assert timeline.http_status == status


async def test_an_endless_error_body_is_bounded(ask):
    async def handler(request, server):
        response = web.StreamResponse(status=500)
        await response.prepare(request)
        while True:
            await response.write(b"no " * 10_000)

    check_failed((await ask(handler))[0], "http_status")


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (answer(b'{"error": {"message": "boom"}}', content_type="application/json"), "boom"),
        (answer(b'event: x\ndata: {"error": {"message": "boom"}}\n\n', content_type="text/event-stream"), "boom"),
        (answer(b'{"error": {"message": "boom"}}', content_type="audio/pcm"), "boom"),
        (stream_of(tone(4800, 24_000), b'{"error": {"message": "boom"}}\n'), "boom"),
        (stream_of(tone(48_000, 24_000) + b'{ "detail": "bo', b'om"}', pause_s=0.02), "boom"),
    ],
)
async def test_an_error_in_a_200_response(ask, handler, message):
    timeline, _ = await ask(handler)
    assert check_failed(timeline, "in_band_error").endswith(message)
    assert timeline.http_status == 200


async def test_an_error_instead_of_audio_is_not_first_audio(ask):
    timeline, audio = await ask(answer(b'{"error": {"message": "boom"}}', content_type="audio/pcm"))
    assert audio == [] and timeline.first_audio_ns is None and timeline.chunk_bytes == ()
    assert timeline.first_byte_ns is not None


async def test_audio_that_only_contains_the_opening_of_an_error_object_is_audio(ask):
    timeline, _ = await ask(answer(b"\x00\x01" * 100 + b'{"error":' + b"\xff\xfe" * 100))
    assert timeline.ok


@pytest.mark.parametrize(
    "handler",
    [
        answer(b'{"data": 1}', content_type="application/json"),
        answer(b"data: {}\n\n", content_type="text/event-stream"),
        answer(b"abcd", content_type="audio/wav"),
        answer(b"abcd", content_type="audio/mpeg"),
        answer(b"abcd", content_type="audio/pcm; rate=0"),
        answer(b"abcd", content_type="audio/pcm; rate=fast"),
        answer(b"abcd", content_type="audio/pcm; rate=" + "9" * 5000),
        answer(b"abcd", content_type="audio/pcm; rate=24000; channels=2"),
        answer(b"abcd", content_type="audio/L16; rate=24000; channels=1"),  # big-endian by RFC 2586
        answer(b"abcd", headers={"Content-Encoding": "gzip"}),
        answer(b"RIFF\xff\xff\xff\xffWAVEfmt " + bytes(400)),
        stream_of(b"RIFF\xff", b"\xff\xff\xffWAVE" + bytes(400), pause_s=0.02),
    ],
)
async def test_content_that_was_not_asked_for(ask, handler):
    check_failed((await ask(handler))[0], "content_type")


async def test_an_endless_stream_is_cut_at_the_bound_and_closed(ask, options):
    closed = asyncio.Event()

    async def handler(request, server):
        response = web.StreamResponse(headers={"Content-Type": "audio/pcm"})
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(48_000))
        except ConnectionError:
            closed.set()
            raise

    timeline, audio = await ask(handler, options=replace(options, max_audio_s=5.0))
    check_failed(timeline, "too_large")
    bound_bytes = 5 * 48_000
    assert bound_bytes < sum(map(len, audio)) <= bound_bytes + 4 * 2**20
    await asyncio.wait_for(closed.wait(), timeout=20)


@pytest.mark.parametrize("after", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nContent-Length: 9\r\n\r\nab"])
async def test_the_deadline_covers_waiting_for_headers_and_for_audio(raw_server, send, options, after):
    async with raw_server(after, then_wait=True) as port:
        timeline, audio = await send(port, options=replace(options, request_timeout_s=0.2))
    assert "0.2 s" in check_failed(timeline, "timeout")
    assert timeline.failed_ns - timeline.started_ns >= 0.2e9
    assert b"".join(audio) == after[-2:]


REASON = AbortReason(in_flight=RequestError("disconnected", "died"), unsent=RequestError("connect", "unsent"))


async def test_an_abort_ends_a_request_in_flight(raw_server, send):
    abort = AbortSwitch()
    async with raw_server(b"", then_wait=True) as port:
        asyncio.get_running_loop().call_later(0.05, abort.trip, REASON)
        timeline, _ = await send(port, abort=abort)
    assert check_failed(timeline, "disconnected") == "died"


async def test_an_abort_holds_for_later_requests_and_the_first_reason_stays(scripted_server, send):
    abort = AbortSwitch()
    abort.trip(REASON)
    abort.trip(AbortReason(RequestError("timeout", "other"), RequestError("timeout", "other")))
    async with serving(scripted_server()) as port:
        timeline, _ = await send(port, abort=abort)
    assert check_failed(timeline, "disconnected") == "died"


async def test_no_byte_arrives_before_it_was_sent(scripted_server, send):
    server = scripted_server()
    async with serving(server) as port:
        timeline, audio = await send(port)
    sent_ns = server.sent_ns["c1-0000"]  # both clocks are CLOCK_MONOTONIC of this machine
    assert timeline.ok and b"".join(audio) == server.chunk * len(sent_ns)
    assert timeline.started_ns <= sent_ns[0] <= timeline.first_audio_ns and sent_ns[-1] <= timeline.ended_ns


async def test_cancelling_the_task_is_not_swallowed(raw_server, send):
    async with raw_server(b"", then_wait=True) as port:
        task = asyncio.create_task(send(port))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_pause_beyond_the_bound_is_a_timeout_that_says_so(ask, options):
    pausing = stream_of(bytes(960), bytes(960), pause_s=5.0)
    timeline, audio = await ask(pausing, options=replace(options, stall_timeout_s=0.2))
    check_failed(timeline, "timeout")
    assert timeline.error.message == "no audio or text for client.stall_timeout_s=0.2 s after 960 B of audio"
    assert audio == [bytes(960)] and timeline.first_audio_ns == timeline.chunk_arrived_ns[0]


async def test_the_bound_on_pauses_begins_with_the_first_audio_and_anew_with_every_read(ask, options):
    parts = [bytes([number]) * 960 for number in range(1, 9)]

    async def slow_to_begin(request, server):
        await asyncio.sleep(1.1)
        return await stream_of(*parts, pause_s=0.2)(request, server)

    timeline, audio = await ask(slow_to_begin, options=replace(options, stall_timeout_s=1.0))
    assert timeline.ok and b"".join(audio) == b"".join(parts)


WAV_FORM = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0" + bytes(16)


@pytest.mark.parametrize(
    ("parts", "samples"),
    [
        ([WAV_FORM + b"data\xff\xff\xff\xff", b"abcd"], b"abcd"),
        ([WAV_FORM[:3], WAV_FORM[3:] + b"da", b"ta\xff\xff\xff\xffab", b"cd"], b"abcd"),
        ([WAV_FORM + b"LIST\x03\0\0\0xyz\0data\x04\0\0\0", b"abcd"], b"abcd"),  # chunks are padded to even length
        ([WAV_FORM + b"data\xff\xff\xff\xffab", b"cd"], b"abcd"),
        ([WAV_FORM], b""),
        ([WAV_FORM + b"data\xff\xff\xff\xff"], b""),
    ],
)
async def test_a_wav_header_is_no_audio(ask, parts, samples):
    timeline, audio = await ask(stream_of(*parts, pause_s=0.05))
    check_failed(timeline, "content_type")
    assert b"".join(audio) == samples and timeline.audio_bytes == len(samples)
    assert timeline.first_byte_ns is not None
    if samples:
        assert timeline.first_audio_ns >= timeline.first_byte_ns
        if parts[-1] == samples:  # the header came by itself
            assert timeline.first_audio_ns > timeline.first_byte_ns
    else:
        assert timeline.first_audio_ns is None and timeline.chunk_bytes == ()
