"""An independent client, the ``openai`` package, against the server on a real port."""

from __future__ import annotations

import base64
import io
import json
import wave

import fake_engine as fake
import pytest
from aiohttp import web

from reference_impl.http.app import create_app


@pytest.fixture(scope="module")
def openai():
    """The library. Imported at the top it would take a second of every process that collects the tests."""
    import openai

    return openai


@pytest.fixture
async def speech(openai):
    """(client, engine): AsyncOpenAI pointed at a server on a free port of 127.0.0.1."""
    engine = fake.FakeEngine(chunks=5)
    runner = web.AppRunner(create_app(engine))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as client:
        yield client, engine
    engine.stop()
    await runner.cleanup()


async def test_streamed_pcm(speech):
    client, engine = speech
    async with client.audio.speech.with_streaming_response.create(
        model="tiny",
        voice="alba",
        input="Hello there.",
        response_format="pcm",
        extra_body={"stream": True, "stream_format": "audio", "seed": 11},
    ) as response:
        chunks = [chunk async for chunk in response.iter_bytes()]
    assert response.headers["content-type"] == "audio/pcm"
    assert b"".join(chunks) == engine.expected(11)


async def test_whole_wav(speech):
    client, engine = speech
    response = await client.audio.speech.create(
        model="tiny", voice="bruno", input="Hello there.", response_format="wav", extra_body={"seed": 12}
    )
    with wave.open(io.BytesIO(response.content)) as reader:
        assert reader.getframerate() == 24000
        assert reader.readframes(10**6) == engine.expected(12)


async def test_server_sent_events(speech):
    client, engine = speech
    async with client.audio.speech.with_streaming_response.create(
        model="tiny", voice="alba", input="Hello there.", response_format="pcm", stream_format="sse",
        extra_body={"seed": 13},
    ) as response:  # fmt: skip
        lines = [line async for line in response.iter_lines()]
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == engine.expected(13)
    assert events[-1]["type"] == "speech.audio.done" and events[-1]["usage"]["total_tokens"] > 0


async def test_models(speech):
    client, _ = speech
    assert [model.id async for model in client.models.list()] == ["tiny"]


async def test_errors_have_the_shape_the_package_expects(speech, openai):
    client, _ = speech
    with pytest.raises(openai.BadRequestError) as caught:
        await client.audio.speech.create(model="tts-1", voice="alba", input="Hello.")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
