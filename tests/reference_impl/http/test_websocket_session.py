"""The WebSocket form over a real socket, with an engine that speaks sine tones."""

from __future__ import annotations

import asyncio
import json
import logging

import aiohttp
import fake_engine as fake
import numpy as np
import pytest
from aiohttp import WSMsgType

import reference_impl.http.websocket_session as socket_module
from reference_impl.http.app import SERVICE
from reference_impl.http.framing import wav_header

STREAM = "/v1/audio/speech/stream"
CONFIG = {"type": "session.config", "model": "tiny", "voice": "alba", "seed": 5, "stream_audio": True}
DONE = {"type": "input.done"}


def text(words):
    return {"type": "input.text", "text": words}


@pytest.fixture
async def connect(start_app):
    """``await connect(engine options, headers=...)`` -> (socket, engine, client)."""
    sockets = []

    async def _connect(engine=None, headers=None, **options):
        client, engine = await start_app(engine, **options)
        socket = await client.ws_connect(STREAM, headers=headers or {})
        sockets.append(socket)
        return socket, engine, client

    yield _connect
    for socket in sockets:
        await socket.close()


async def send(socket, *messages):
    for message in messages:
        await socket.send_json(message)


async def receive(socket, until="session.done"):
    """[JSON of a text message, or the bytes of a run of binary ones] to the first of type ``until``."""
    got = []
    while True:
        message = await asyncio.wait_for(socket.receive(), 20)
        if message.type == WSMsgType.BINARY:
            if got and isinstance(got[-1], bytes):
                got[-1] += message.data
            else:
                got.append(message.data)
            continue
        assert message.type == WSMsgType.TEXT, message
        got.append(json.loads(message.data))
        if got[-1]["type"] == until:
            return got


async def error_of(socket, code=1008):
    """The error, behind which the connection is closed with ``code``."""
    *_, error = await receive(socket, "error")
    assert error["message"] == error["error"]["message"]
    closing = await asyncio.wait_for(socket.receive(), 20)
    assert (closing.type, closing.data) == (WSMsgType.CLOSE, code)
    return error


async def test_one_utterance(connect):
    socket, engine, _ = await connect()
    await send(socket, CONFIG, text("Hello there."), DONE)
    start, audio, done, end = await receive(socket)
    assert start == {
        "type": "audio.start",
        "utterance_index": 0,
        "sentence_index": 0,
        "sentence_text": "Hello there.",
        "format": "pcm",
        "sample_rate": 24000,
        "channels": 1,
        "seed": 5,
    }
    assert audio == engine.expected(5)
    assert (done["type"], done["sentence_index"], done["total_bytes"]) == ("audio.done", 0, len(audio))
    assert done["usage"] == {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    assert end == {"type": "session.done", "utterance_index": 0, "total_sentences": 1}
    assert [job.text for job in engine.requests] == ["Hello there."] and engine.cancelled == []


async def test_samples_come_as_the_engine_emits_them(connect):
    socket, engine, _ = await connect(gated=True)
    await send(socket, CONFIG, text("Hello."), DONE)
    assert (await socket.receive_json())["type"] == "audio.start"
    for index in range(3):  # a frame each, and none before the engine made it
        assert await socket.receive_bytes() == fake.tone(5, index)
        engine.release()
    assert (await socket.receive_json())["type"] == "audio.done"


async def test_a_wav_has_its_header_with_the_first_samples(connect):
    socket, _, _ = await connect()
    await send(socket, {**CONFIG, "response_format": "wav"}, text("Hello."), DONE)
    assert (await socket.receive_json())["format"] == "wav"
    assert await socket.receive_bytes() == wav_header(24000, None) + fake.tone(5, 0)
    assert await socket.receive_bytes() == fake.tone(5, 1)


async def test_text_comes_in_pieces_and_is_spoken_whole(connect):
    socket, engine, _ = await connect()
    await send(socket, CONFIG, text("Hel"), text("lo. And"), text(" bye."), DONE)
    assert [m["type"] for m in await receive(socket) if isinstance(m, dict)] == [
        "audio.start",
        "audio.done",
        "session.done",
    ]
    assert [job.text for job in engine.requests] == ["Hello. And bye."]


async def test_sentences_are_spoken_as_they_are_complete(connect):
    socket, engine, _ = await connect()
    await send(socket, {**CONFIG, "split_granularity": "sentence"}, text("One. Two. Thr"))
    for index, said in enumerate(("One.", "Two.")):  # before the input is done
        start, audio, _ = await receive(socket, "audio.done")
        assert (start["sentence_text"], start["sentence_index"]) == (said, index)
        assert audio == engine.expected(5 + index)
    await send(socket, text("ee."), DONE)
    start, audio, _, end = await receive(socket)
    assert (start["sentence_text"], start["seed"], end["total_sentences"]) == ("Three.", 7, 3)
    assert audio == engine.expected(7)


async def test_the_connection_stays_for_more_and_for_another_voice(connect):
    socket, engine, _ = await connect()
    await send(socket, CONFIG, text("One."), DONE, DONE, {**CONFIG, "voice": "bruno"}, text("Two."), DONE)
    ends = [(await receive(socket))[-1] for _ in range(3)]
    assert [(end["utterance_index"], end["total_sentences"]) for end in ends] == [(0, 1), (1, 0), (2, 1)]
    assert [(job.text, job.voice) for job in engine.requests] == [("One.", "alba"), ("Two.", "bruno")]
    await send(socket, {"type": "session.close"})
    closing = await socket.receive()
    assert (closing.type, closing.data) == (WSMsgType.CLOSE, 1000)


async def test_an_utterance_without_audio_still_begins_and_ends(connect):
    socket, _, _ = await connect(chunks=0)
    await send(socket, CONFIG, text("Hello."), DONE)
    start, done, end = await receive(socket)
    assert (start["type"], done["total_bytes"], end["total_sentences"]) == ("audio.start", 0, 1)


async def test_the_request_id_is_the_engines_and_opens_the_codes(connect):
    codes = np.arange(3 * 16, dtype=np.int16).reshape(3, 16)
    socket, engine, client = await connect(headers={"x-request-id": "ws-1"}, codes=codes)
    split = {**CONFIG, "split_granularity": "sentence"}
    await send(socket, split, text("One. Two."), DONE)
    await receive(socket)
    assert [job.request_id.split(".")[0] for job in engine.requests] == ["ws-1"] * 2
    assert len({job.request_id for job in engine.requests}) == 2
    answer = await (await client.get("/v1/audio/speech/ws-1/codes")).json()
    assert answer["codes"] == np.concatenate([codes, codes]).tolist()
    await send(socket, text("Three."), DONE)
    await receive(socket)
    answer = await (await client.get("/v1/audio/speech/ws-1/codes")).json()
    assert answer["codes"] == codes.tolist()


async def test_the_request_id_is_told_in_the_handshake(start_app):
    client, _ = await start_app()
    url = client.make_url(STREAM)
    async with aiohttp.ClientSession() as session:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        headers |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "x-request-id": "ws-2"}
        response = await session.get(url, headers=headers)
        assert (response.status, response.headers["x-request-id"]) == (101, "ws-2")
        response.close()


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([text("Hello.")], "the first message must be session.config"),
        ([DONE], "the first message must be session.config"),
        ([{**CONFIG, "voice": "alloy"}], "valid: alba, bruno"),
        ([{**CONFIG, "split_granularity": "word"}, text("Hello."), DONE], "valid: none, sentence, clause"),
        ([CONFIG, {"type": "input.text"}], "text is missing"),
        ([CONFIG, {"type": "response.create"}], "valid: session.config"),
        ([CONFIG, text("a" * 4097)], "at most 4096"),
    ],
)
async def test_a_wrong_message_is_said_and_ends_the_session(connect, messages, words):
    socket, engine, _ = await connect()
    await send(socket, *messages)
    error = await error_of(socket)
    assert words in error["message"] and error["error"]["type"] == "invalid_request_error"
    assert engine.requests == []


async def test_what_was_asked_before_a_wrong_message_is_spoken(connect):
    socket, engine, _ = await connect()
    await send(socket, CONFIG, text("Hello."), DONE, {"type": "nonsense"})
    assert (await receive(socket))[1] == engine.expected(5)
    await error_of(socket)


async def test_binary_and_broken_messages(connect):
    socket, _, _ = await connect()
    await socket.send_bytes(b"\0\1")
    assert "must be JSON text" in (await error_of(socket))["message"]
    socket, _, _ = await connect()
    await socket.send_str("{")
    assert (await error_of(socket))["error"]["code"] == "invalid_json"


async def test_refusals_of_the_engine(connect):
    for name, code, close in (
        ("queue_full", "queue_full", 1008),
        ("rejected", "rejected", 1008),
        ("dead", "engine_dead", 1011),
    ):
        socket, _, _ = await connect(refuse=fake.REFUSALS[name])
        await send(socket, CONFIG, text("Hello."), DONE)
        assert (await error_of(socket, close))["error"]["code"] == code


async def test_an_unexpected_error_is_logged_and_not_told(connect, caplog):
    socket, _, _ = await connect(refuse=fake.REFUSALS["unexpected"])
    await send(socket, CONFIG, text("Hello."), DONE)
    error = await error_of(socket, 1011)
    assert error["error"]["code"] == "internal" and "secret" not in error["message"]
    assert "secret detail" in caplog.text


@pytest.mark.parametrize("fail_after", [0, 2])
async def test_a_failure_of_an_utterance_says_whether_some_of_it_came(connect, fail_after):
    socket, _, _ = await connect(fail_after=fail_after)
    await send(socket, CONFIG, text("Hello."), DONE)
    error = await error_of(socket, 1011)
    assert (error["message"], error["error"]["code"]) == ("a tensor went missing", "generation_failed")
    assert (error.get("partial_audio"), error.get("action")) == ((True, "discard") if fail_after else (None, None))
    assert error["error"].get("partial_audio") == error.get("partial_audio")


@pytest.mark.parametrize("how", ["close", "drop"])
async def test_a_client_that_leaves_frees_its_place(connect, how):
    socket, engine, client = await connect(gated=True)
    await send(socket, CONFIG, text("Hello."), DONE, text("More."), DONE)
    await socket.receive_json()
    if how == "close":
        await socket.close()
    else:
        socket._response.connection.transport.abort()
    assert await asyncio.to_thread(engine.cancel_seen.wait, 10)
    assert engine.cancelled == [engine.requests[0].request_id]
    for _ in range(200):
        metrics = await (await client.get("/metrics")).text()
        if "omni_reference_http_requests_in_flight 1.0" in metrics:  # the scrape's own
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("the connection is still served")


@pytest.mark.parametrize("answered,status", [(True, 101), (False, 499)])
async def test_a_client_that_goes_is_counted_by_whether_it_had_its_answer(connect, answered, status):
    socket, _, client = await connect(gated=not answered)
    await send(socket, CONFIG, text("Hello."), DONE)
    if answered:
        await receive(socket)
    else:
        await socket.receive_json()
    socket._response.connection.transport.abort()
    counted = f'omni_reference_http_requests_total{{method="GET",route="{STREAM}",status="{status}"}} 1.0'
    for _ in range(200):
        if counted in (metrics := await (await client.get("/metrics")).text()):
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail(metrics)


async def test_a_client_that_closes_while_nothing_is_spoken(connect):
    socket, engine, _ = await connect()
    await send(socket, CONFIG)
    await socket.close()
    assert socket.close_code in (1000, 1001) and engine.requests == []


async def test_a_client_that_says_nothing_is_closed(connect, monkeypatch):
    monkeypatch.setattr(socket_module, "IDLE_TIMEOUT_S", 0.05)
    socket, _, _ = await connect()
    assert (await error_of(socket))["error"]["code"] == "timeout"


async def test_a_message_that_is_too_large_closes(connect, monkeypatch):
    monkeypatch.setattr("reference_impl.http.app.MAX_BODY_BYTES", 1000)
    socket, engine, _ = await connect()
    await socket.send_str("x" * 2000)
    closing = await asyncio.wait_for(socket.receive(), 20)
    assert (closing.type, closing.data) == (WSMsgType.CLOSE, 1009)
    assert engine.requests == []


async def test_compression_is_not_agreed_to(start_app):
    client, _ = await start_app()
    socket = await client.ws_connect(STREAM, compress=15)
    assert socket.compress == 0
    await socket.close()


async def test_a_request_that_is_no_handshake(start_app):
    client, _ = await start_app()
    response = await client.get(STREAM)
    assert response.status == 426 and response.headers["Upgrade"] == "websocket"
    assert (await response.json())["error"]["code"] == "upgrade_required"


async def test_while_the_engine_loads(start_app):
    client, _ = await start_app()
    client.app[SERVICE].status = "loading"
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await client.ws_connect(STREAM)
    assert caught.value.status == 503


async def test_a_server_that_stops_says_so(connect):
    socket, engine, client = await connect(gated=True)
    await send(socket, CONFIG, text("Hello."), DONE)
    await socket.receive_json()
    client.app[SERVICE].status = "stopping"
    engine.stop()
    error = await error_of(socket, 1011)
    assert error["error"]["code"] == "engine_dead"


async def test_ignored_fields_are_told_once(connect, caplog):
    caplog.set_level(logging.WARNING)
    socket, _, _ = await connect()
    await send(socket, {**CONFIG, "ref_audio": "data:audio/wav;base64,UklGRg==", "task_type": "Base"})
    await send(socket, text("One."), DONE, text("Two."), DONE)
    for _ in range(2):
        await receive(socket)
    told = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert len(told) == 1 and told[0].startswith("ref_audio")


async def test_a_client_that_reads_nothing_is_broken_off(connect, monkeypatch, caplog):
    monkeypatch.setattr("reference_impl.http.stream_response.WRITE_TIMEOUT_S", 0.1)
    socket, engine, _ = await connect()
    monkeypatch.setattr(type(engine), "_speak", flood)
    socket._response.connection.transport.pause_reading()
    await send(socket, CONFIG, text("Hello."), DONE)
    assert await asyncio.to_thread(engine.cancel_seen.wait, 20)
    assert "does not read" in caplog.text
    socket._response.connection.transport.abort()


def flood(self, request, on_event):
    """Far more audio than the socket's buffers hold, and no end."""
    from reference_impl.engine_api import AudioChunk

    for _ in range(40):
        on_event(AudioChunk(bytes(2**20), 273))
    return True
