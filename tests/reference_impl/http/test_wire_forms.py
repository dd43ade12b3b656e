"""The product itself, no stand-in: every wire form of the bundled voice carries the same samples."""

from __future__ import annotations

import base64
import io
import json
import wave

import pytest
from aiohttp import WSMsgType

from reference_impl.build import build_engine
from reference_impl.settings import ServerSettings

TEXT = "Nice to meet you. How are you?"
ASK = {"model": "tiny", "voice": "heart", "seed": 5, "max_new_tokens": 30}
SPEECH = {**ASK, "input": TEXT, "response_format": "pcm"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def engine():
    # where chunks are cut depends on the clock otherwise, and with it the rounding of a sample
    built = build_engine(ServerSettings(max_batch=2, device="cpu", threads=1, deterministic=True))
    yield built
    built.stop()


@pytest.fixture
async def client(engine, start_app):
    # the engine outlives this server: its stop is not the server's to call
    class Borrowed:
        def __getattr__(self, name):
            return (lambda: None) if name == "stop" else getattr(engine, name)

    opened, _ = await start_app(Borrowed(), chat_token_ms=2.0)
    return opened


@pytest.fixture
async def expected(client):
    """The samples of the file that is not streamed."""
    return await (await client.post("/v1/audio/speech", json=SPEECH)).read()


async def test_the_voice_is_heard(expected):
    assert len(expected) % 3840 == 0 and max(memoryview(expected).cast("h")) > 1000


async def test_raw_streams(client, expected):
    stream = {**SPEECH, "stream_format": "audio"}
    assert await (await client.post("/v1/audio/speech", json=stream)).read() == expected
    wav = await (await client.post("/v1/audio/speech", json={**stream, "response_format": "wav"})).read()
    assert wav[:4] == b"RIFF" and wav[44:] == expected


async def test_events(client, expected):
    body = await (await client.post("/v1/audio/speech", json={**SPEECH, "stream": True})).text()
    *deltas, done = [json.loads(part.removeprefix("data: ")) for part in body.split("\n\n") if part]
    assert b"".join(base64.b64decode(event["audio"]) for event in deltas) == expected and len(deltas) > 2
    assert done["usage"]["output_tokens"] == len(expected) // 3840


async def test_the_websocket(client, expected):
    async with client.ws_connect("/v1/audio/speech/stream") as socket:
        await socket.send_json({"type": "session.config", **ASK})
        for piece in ("Nice to meet", " you. How", " are you?"):
            await socket.send_json({"type": "input.text", "text": piece})
        await socket.send_json({"type": "input.done"})
        audio, done = b"", False
        while not done:
            message = await socket.receive()
            if message.type == WSMsgType.BINARY:
                audio += message.data
            else:
                done = message.json()["type"] == "session.done"
        assert audio == expected


async def test_a_chat(client, expected):
    chat = {**ASK, "messages": [{"role": "user", "content": TEXT}], "stream": True}
    body = await (await client.post("/v1/chat/completions", json=chat)).text()
    *chunks, end = [part.removeprefix("data: ") for part in body.split("\n\n") if part]
    assert end == "[DONE]"
    text, audio = "", b""
    for chunk in map(json.loads, chunks):
        content = chunk["choices"][0]["delta"].get("content", "")
        if chunk["modality"] == "text":
            text += content
        elif content:
            with wave.open(io.BytesIO(base64.b64decode(content))) as reader:
                audio += reader.readframes(10**6)
    assert (text, audio) == (TEXT, expected)
