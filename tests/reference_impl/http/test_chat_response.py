"""The chat form over a real socket, with an engine that speaks sine tones."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import wave

import fake_engine as fake
import numpy as np
import pytest

from reference_impl.engine_api import Capabilities
from reference_impl.http.app import SERVICE, create_app

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "Hello there. Good bye."}
BODY = {"model": "tiny", "messages": [USER], "voice": "alba", "seed": 5}
STREAM = {**BODY, "stream": True}


def chunks_of(text):
    """The JSON of every event; the last must be [DONE]."""
    *parts, last, end = text.split("\n\n")
    assert (last, end) == ("data: [DONE]", "")
    return [json.loads(part.removeprefix("data: ")) for part in parts]


async def chat(client, body, **options):
    response = await client.post(CHAT, json=body, **options)
    assert (response.status, response.content_type) == (200, "text/event-stream")
    return chunks_of(await response.text())


def deltas(chunks, modality):
    return [c["choices"][0] for c in chunks if c.get("modality") == modality and c["choices"]]


def samples(file, rate_hz=24000):
    with wave.open(io.BytesIO(base64.b64decode(file))) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (rate_hz, 1, 2)
        return reader.readframes(10**7)


async def error_of(response, status, **wanted):
    assert response.status == status and response.headers["x-request-id"]
    error = (await response.json())["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert {key: error[key] for key in wanted} == wanted
    return error["message"]


async def test_text_and_its_speech_come_in_one_stream(start_app):
    client, engine = await start_app()
    chunks = await chat(client, STREAM)
    first, *text = deltas(chunks, "text")
    assert first["delta"] == {"role": "assistant", "content": ""}
    assert [one["delta"]["content"] for one in text] == ["Hello", " there", ".", " Good", " bye", "."]
    *audio, last = deltas(chunks, "audio")
    assert b"".join(samples(one["delta"]["content"]) for one in audio) == engine.expected(5)
    for one in audio:  # every chunk is a file of its own, and says what is in it
        metadata = {"format": "wav", "sample_rate_hz": 24000, "frame_count": 1920, "channels": 1}
        assert one["audio_metadata"] == metadata and len(samples(one["delta"]["content"])) == 2 * 1920
    assert (last["delta"], last["finish_reason"]) == ({}, "stop")
    assert chunks[-1]["metrics"] == {"num_tokens_in": 6, "num_tokens_out": 6}
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert {(c["object"], c["model"]) for c in chunks} == {("chat.completion.chunk", "tiny")}
    assert len({(c["id"], c["created"]) for c in chunks}) == 1
    assert all("usage" not in c for c in chunks)


async def test_the_role_is_no_token_before_the_first(start_app):
    """It comes with the first token and not before, in one read: clients that count it measure the same."""
    client, _ = await start_app(chat_token_ms=50.0)
    response = await client.post(CHAT, json=STREAM)
    first = await response.content.readany()
    assert b'"role":"assistant"' in first and b'"content":"Hello"' in first
    await response.read()


async def test_text_goes_out_while_the_engine_still_works(start_app):
    client, engine = await start_app(gated=True, hang_first=True)
    response = await client.post(CHAT, json=STREAM)
    head = b""
    while b'" bye"' not in head:  # nothing is spoken before the first release
        head += await response.content.readany()
    assert b'"modality":"audio"' not in head
    for _ in range(3):
        engine.release()
    assert chunks_of((head + await response.read()).decode())[-1]["choices"][0]["finish_reason"] == "stop"


async def test_speech_goes_out_while_text_is_still_written(start_app):
    client, engine = await start_app(chat_token_ms=20.0)
    chunks = await chat(client, {**STREAM, "messages": [{"role": "user", "content": "Hi. " + "word " * 30}]})
    kinds = [c["modality"] for c in chunks]
    assert kinds.index("audio") < len(kinds) - 1 - kinds[::-1].index("text")
    assert b"".join(samples(one["delta"]["content"]) for one in deltas(chunks, "audio")[:-1]) == engine.expected(5)


async def test_usage_is_told_when_asked_for(start_app):
    client, _ = await start_app()
    *_, last = await chat(client, {**STREAM, "stream_options": {"include_usage": True}})
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 6,
        "completion_tokens": 6,
        "total_tokens": 12,
        "completion_tokens_details": {"text_tokens": 6, "audio_tokens": 3},
    }


async def test_text_alone_needs_no_engine_request(start_app):
    client, engine = await start_app()
    chunks = await chat(client, {**STREAM, "modalities": ["text"], "stream_options": {"include_usage": True}})
    assert {c["modality"] for c in chunks} == {"text"} and engine.requests == []
    assert "".join(one["delta"].get("content", "") for one in deltas(chunks, "text")) == USER["content"]
    assert deltas(chunks, "text")[-1]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["completion_tokens_details"] == {"text_tokens": 6, "audio_tokens": 0}


async def test_speech_alone_shows_no_text(start_app):
    client, engine = await start_app()
    chunks = await chat(client, {**STREAM, "modalities": ["audio"]})
    assert {c["modality"] for c in chunks} == {"audio"}
    first, *audio, last = deltas(chunks, "audio")
    assert first["delta"] == {"role": "assistant", "content": ""} and last["finish_reason"] == "stop"
    assert b"".join(samples(one["delta"]["content"]) for one in audio) == engine.expected(5)


@pytest.mark.parametrize(("audio_format", "is_file"), [("wav", True), ("pcm16", False), ("pcm", False)])
async def test_audio_in_a_field_of_its_own(start_app, audio_format, is_file):
    client, engine = await start_app()
    chunks = await chat(client, {**STREAM, "audio_field": "audio", "audio": {"voice": "alba", "format": audio_format}})
    audio = deltas(chunks, "audio")[:-1]
    assert all(set(one["delta"]) == {"audio"} for one in audio)
    data = [one["delta"]["audio"]["data"] for one in audio]
    assert b"".join(samples(d) if is_file else base64.b64decode(d) for d in data) == engine.expected(5)
    assert {one["audio_metadata"]["format"] for one in audio} == {audio_format}
    assert len({one["delta"]["audio"]["id"] for one in audio}) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_limit_of_tokens_is_a_reason_to_finish(start_app, stream):
    client, engine = await start_app()
    response = await client.post(CHAT, json={**BODY, "stream": stream, "max_tokens": 3})
    text = await response.text()
    choice = (chunks_of(text)[-1] if stream else json.loads(text))["choices"][0]
    assert choice["finish_reason"] == "length"
    assert engine.requests[0].text == "Hello there."


async def test_everything_at_once(start_app):
    client, engine = await start_app()
    response = await client.post(CHAT, json=BODY, headers={"x-request-id": "abc"})
    answer = await response.json()
    assert (response.headers["x-request-id"], response.headers["x-seed"]) == ("abc", "5")
    assert (answer["object"], answer["id"], answer["model"]) == ("chat.completion", "chatcmpl-abc", "tiny")
    (choice,) = answer["choices"]
    message = choice["message"]
    assert (message["role"], message["content"], choice["finish_reason"]) == ("assistant", USER["content"], "stop")
    assert samples(message["audio"]["data"]) == engine.expected(5)
    assert message["audio"]["transcript"] == USER["content"]
    assert message["audio"]["expires_at"] > answer["created"]
    assert answer["usage"]["completion_tokens_details"] == {"text_tokens": 6, "audio_tokens": 3}


async def test_everything_at_once_of_one_modality(start_app):
    client, engine = await start_app()
    message = (await (await client.post(CHAT, json={**BODY, "modalities": ["text"]})).json())["choices"][0]["message"]
    assert message == {"role": "assistant", "content": USER["content"]} and engine.requests == []
    message = (await (await client.post(CHAT, json={**BODY, "modalities": ["audio"]})).json())["choices"][0]["message"]
    assert message["content"] is None and samples(message["audio"]["data"]) == engine.expected(5)


async def test_the_request_id_is_the_engines_and_opens_the_codes(start_app):
    codes = np.arange(3 * 16, dtype=np.int16).reshape(3, 16)
    client, engine = await start_app(codes=codes)
    response = await client.post(CHAT, json=STREAM, headers={"x-request-id": "chat-7"})
    chunks = chunks_of(await response.text())
    assert response.headers["x-request-id"] == "chat-7" and {c["id"] for c in chunks} == {"chatcmpl-chat-7"}
    assert engine.requests[0].request_id.startswith("chat-7.")
    answer = await (await client.get("/v1/audio/speech/chat-7/codes")).json()
    assert answer["codes"] == codes.tolist()


@pytest.mark.parametrize("stream", [True, False])
async def test_refusals_have_the_status_they_have_in_the_speech_form(start_app, stream):
    client, engine = await start_app()
    body = {**BODY, "stream": stream}
    engine.refuse = fake.REFUSALS["queue_full"]
    response = await client.post(CHAT, json=body)
    await error_of(response, 429, code="queue_full", type="rate_limit_error")
    assert response.headers["Retry-After"] == "1"
    engine.refuse = fake.REFUSALS["rejected"]
    await error_of(await client.post(CHAT, json=body), 400, param="messages", code="rejected")
    engine.refuse = fake.REFUSALS["dead"]
    await error_of(await client.post(CHAT, json=body), 503, code="engine_dead")
    engine.refuse = fake.REFUSALS["unexpected"]
    assert "secret" not in await error_of(await client.post(CHAT, json=body), 500, code="internal")
    await error_of(await client.post(CHAT, json={**body, "voice": "alloy"}), 400, param="voice")
    await error_of(await client.post(CHAT, data=b"{"), 400, code="invalid_json")


async def test_a_dead_engine_answers_no_text_either(start_app):
    client, engine = await start_app()
    engine.stop()
    await error_of(await client.post(CHAT, json={**STREAM, "modalities": ["text"]}), 503, code="engine_dead")


async def test_while_the_engine_loads(start_app):
    client, _ = await start_app()
    client.app[SERVICE].status = "loading"
    await error_of(await client.post(CHAT, json=STREAM), 503, code="loading")


@pytest.mark.parametrize("fail_after", [0, 2, 3])
async def test_a_failure_of_the_speech_is_an_error_in_the_stream(start_app, fail_after):
    client, _ = await start_app(fail_after=fail_after)
    *chunks, last = await chat(client, STREAM)
    assert len(deltas(chunks, "audio")) == fail_after
    assert set(last) == {"error"}
    assert (last["error"]["message"], last["error"]["code"]) == ("a tensor went missing", "generation_failed")


async def test_a_failure_of_what_is_not_streamed_is_a_500(start_app):
    client, _ = await start_app(fail_after=2)
    await error_of(await client.post(CHAT, json=BODY), 500, code="generation_failed")


async def test_an_engine_that_dies_within_a_stream(start_app, monkeypatch):
    monkeypatch.setattr("reference_impl.http.event_stream.ENGINE_CHECK_S", 0.05)
    client, _ = await start_app(silent_death=True)
    assert (await chat(client, STREAM))[-1]["error"]["code"] == "engine_dead"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_place(start_app, stream):
    client, engine = await start_app(gated=True, hang_first=True)
    posting = asyncio.create_task(client.post(CHAT, json={**BODY, "stream": stream}))
    assert await asyncio.to_thread(engine.submit_seen.wait, 10)
    if stream:
        (await posting).close()
    else:
        posting.cancel()
    assert await asyncio.to_thread(engine.cancel_seen.wait, 10)
    assert engine.cancelled == [engine.requests[0].request_id]
    assert 'route="/v1/chat/completions",status="499"' in await (await client.get("/metrics")).text()


async def test_a_finished_request_is_not_cancelled(start_app):
    client, engine = await start_app()
    await chat(client, STREAM)
    await (await client.post(CHAT, json=BODY)).read()
    assert engine.cancelled == []
    metrics = await (await client.get("/metrics")).text()
    assert "omni_reference_request_duration_seconds_count 2.0" in metrics
    assert "omni_reference_time_to_first_packet_seconds_count 2.0" in metrics
    assert "omni_reference_audio_duration_seconds_sum 0.48" in metrics


async def test_a_client_that_reads_nothing_is_broken_off(start_app, monkeypatch, caplog):
    client, engine = await start_app(chunks=3000)
    await fake.ask_and_never_read(client, engine, "/v1/chat/completions", STREAM, monkeypatch)
    assert "does not read" in caplog.text


async def test_what_vllm_bench_sends_beside_a_chat_is_taken(start_app, caplog):
    """The fields of its Seed-TTS data set, for a voice that does not clone: taken, ignored, said once."""
    caplog.set_level(logging.WARNING)
    client, engine = await start_app()
    extra = {
        "ref_audio": "data:audio/wav;base64,UklGRg==",
        "ref_text": "Hi.",
        "task_type": "Base",
        "language": "English",
        "max_new_tokens": 2048,
        "max_completion_tokens": 2048,
        "temperature": 0.0,
    }
    system = {"role": "system", "content": [{"type": "text", "text": "You are a speech engine."}]}
    user = {"role": "user", "content": [{"type": "text", "text": "Hello there."}]}
    body = {"model": "tiny", "messages": [system, user], "stream": True, **extra}
    for _ in range(2):
        chunks = await chat(client, body)
        assert len(deltas(chunks, "audio")) == 4
    told = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert len(told) == 2 and told[0].startswith("ref_audio") and told[1].startswith("ref_text")
    assert engine.requests[0].reference_audio is None


async def test_an_engine_that_clones_gets_the_recording(start_app):
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(24000)
        writer.writeframes(np.arange(-12000, 12000, dtype="<i2").tobytes())
    engine = fake.FakeEngine()
    engine.capabilities = Capabilities(clones=True)
    client, _ = await start_app(engine)
    await chat(client, {**STREAM, "ref_audio": base64.b64encode(file.getvalue()).decode(), "ref_text": "Hi."})
    assert len(engine.requests[0].reference_audio) == 24000 and engine.requests[0].reference_text == "Hi."


async def test_the_openai_package_reads_both_forms(start_app):
    import openai  # at the top it would take a second of every process that collects the tests

    client, engine = await start_app()
    url = str(client.make_url("/v1"))
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as package:
        ask = {
            "model": "tiny",
            "messages": [USER],
            "modalities": ["text", "audio"],
            "audio": {"voice": "alba", "format": "pcm16"},
            "seed": 5,
        }
        stream = await package.chat.completions.create(
            **ask, stream=True, stream_options={"include_usage": True}, extra_body={"audio_field": "audio"}
        )
        text, audio, usage = "", b"", None
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                spoken = choice.delta.to_dict().get("audio")  # typed in newer versions of the package only
                audio += base64.b64decode(spoken["data"]) if spoken else b""
        assert (text, audio) == (USER["content"], engine.expected(5))
        assert (usage.completion_tokens, usage.completion_tokens_details.audio_tokens) == (6, 3)
        whole = await package.chat.completions.create(**ask)
        assert base64.b64decode(whole.choices[0].message.audio.data) == engine.expected(5)
        assert whole.choices[0].message.content == USER["content"]
        with pytest.raises(openai.BadRequestError) as caught:
            await package.chat.completions.create(model="gpt-4o", messages=[USER])
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("pace", [-1.0, float("nan"), 10_001.0])
def test_a_pace_out_of_range_is_refused(pace):
    from omni_bench.errors import ConfigError

    with pytest.raises(ConfigError, match=r"chat_token_ms=.*: 0 to 10000 ms"):
        create_app(chat_token_ms=pace)
