"""Every endpoint over a real socket, with an engine that speaks sine tones."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import threading
import wave

import aiohttp
import fake_engine as fake
import hosted_engine as hosted
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

import reference_impl.http.service as service_module
from reference_impl.engine_api import Capabilities
from reference_impl.http.app import SERVICE, create_app
from reference_impl.settings import PROFILE_VARIABLE

SPEECH = "/v1/audio/speech"
BODY = {"model": "tiny", "input": "Hello.", "voice": "alba", "seed": 5}


@pytest.fixture(params=["here", "hosted"])
async def start(request):
    """Start a server on an engine (made from keyword arguments unless given); yields (client, engine).

    The engine is in the server's hands, or behind the socket to an engine's process.
    """
    clients, engines = [], []

    async def _start(engine="make", **options):
        engine = fake.FakeEngine(**options) if engine == "make" else engine
        hosts = request.param == "hosted" and engine is not None
        client = TestClient(TestServer(create_app(await hosted.HostThread(engine).remote() if hosts else engine)))
        await client.start_server()
        clients.append(client)
        engines.append(engine)
        return client, engine

    yield _start
    for engine in engines:
        if engine is not None:
            engine.stop()
    for client in clients:
        await client.close()


async def error_of(response, status, **wanted):
    assert response.status == status
    assert response.headers["x-request-id"]
    body = await response.json()
    assert set(body) == {"error"} and set(body["error"]) == {"message", "type", "param", "code"}
    assert {key: body["error"][key] for key in wanted} == wanted
    return body["error"]["message"]


def sse_events(text):
    return [json.loads(part.removeprefix("data: ")) for part in text.split("\n\n") if part]


async def test_a_whole_wav_has_true_sizes_and_token_counts(start):
    client, engine = await start()
    response = await client.post(SPEECH, json=BODY)
    body = await response.read()
    assert response.content_type == "audio/wav"
    assert int(response.headers["Content-Length"]) == len(body)
    with wave.open(io.BytesIO(body)) as reader:
        assert reader.readframes(10**6) == engine.expected(5)
    tokens = [response.headers[f"x-{kind}-tokens"] for kind in ("input", "output", "total")]
    assert tokens == ["7", "3", "10"]


async def test_a_raw_pcm_stream_is_what_the_engine_emitted(start):
    client, engine = await start()
    response = await client.post(SPEECH, json={**BODY, "stream_format": "audio", "response_format": "pcm"})
    assert (response.status, response.content_type) == (200, "audio/pcm")
    assert "Content-Length" not in response.headers
    assert await response.read() == engine.expected(5)


async def test_chunks_arrive_as_the_engine_emits_them(start):
    client, engine = await start(gated=True)
    response = await client.post(
        SPEECH, json={**BODY, "stream": True, "stream_format": "audio", "response_format": "pcm"}
    )
    for index in range(3):  # chunk i + 1 does not exist before the release, so nothing can be held back
        assert await response.content.readexactly(3840) == fake.tone(5, index)
        engine.release()
    assert await response.read() == b""


async def test_a_raw_wav_stream_starts_with_a_header_of_unknown_size(start):
    client, engine = await start()
    response = await client.post(SPEECH, json={**BODY, "stream_format": "audio", "response_format": "wav"})
    body = await response.read()
    assert response.content_type == "audio/wav"
    assert body[:4] == b"RIFF" and body[40:44] == b"\xff" * 4
    assert body[44:] == engine.expected(5)


@pytest.mark.parametrize("response_format", ["pcm", "wav"])
async def test_sse(start, response_format):
    client, engine = await start()
    response = await client.post(SPEECH, json={**BODY, "stream": True, "response_format": response_format})
    assert response.content_type == "text/event-stream"
    *deltas, done = sse_events(await response.text())
    audio = b"".join(base64.b64decode(event["audio"]) for event in deltas)
    assert audio[44 if response_format == "wav" else 0 :] == engine.expected(5)
    assert {event["type"] for event in deltas} == {"speech.audio.delta"}
    assert done == {"type": "speech.audio.done", "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}}


async def test_the_engine_gets_what_was_asked(start):
    client, engine = await start()
    body = {**BODY, "voice": "bruno", "max_new_tokens": 9, "language": "en", "input": "One, two."}
    response = await client.post(SPEECH, json=body, headers={"x-request-id": "abc-1.Z_"})
    assert response.headers["x-request-id"] == "abc-1.Z_" and response.headers["x-seed"] == "5"
    (job,) = engine.requests
    assert (job.text, job.voice, job.seed, job.max_new_tokens) == ("One, two.", "bruno", 5, 9)
    assert job.language == "English" and job.request_id.startswith("abc-1.Z_.")


@pytest.mark.parametrize("bad", ["", "a b", "x" * 129, "<script>", "ü"])
async def test_a_client_id_that_is_not_sane_is_replaced(start, bad):
    client, _ = await start()
    response = await client.get("/health", headers={"x-request-id": bad})
    assert response.headers["x-request-id"] != bad and len(response.headers["x-request-id"]) == 32


async def test_equal_client_ids_are_told_apart(start):
    client, engine = await start()
    for _ in range(2):
        await client.post(SPEECH, json=BODY, headers={"x-request-id": "same"})
    assert len({job.request_id for job in engine.requests}) == 2


async def test_ignored_fields_are_told_once(start, caplog):
    client, _ = await start()
    for _ in range(3):
        response = await client.post(
            SPEECH, json={**BODY, "ref_audio": "http://127.0.0.1:1/x.wav", "instructions": "Sing."}
        )
        assert response.status == 200
    told = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert len(told) == 2 and told[0].startswith("ref_audio") and told[1].startswith("instructions")


async def test_what_vllm_bench_sends_for_seed_tts_is_taken(start, caplog):
    """The body of its openai-audio-speech backend, on a connection of its own, for a voice that does not clone."""
    client, engine = await start()
    body = {
        "model": "tiny",
        "input": "Hello.",
        "stream": True,
        "stream_format": "audio",
        "response_format": "pcm",
        "ref_audio": f"data:audio/wav;base64,{recording(np.arange(-12000, 12000))}",
        "ref_text": "Hi.",
        "task_type": "Base",
        "language": "English",
        "max_new_tokens": 2048,
    }
    headers = {"Connection": "close", "Authorization": "Bearer None"}
    for _ in range(2):
        response = await client.post(SPEECH, json=body, headers=headers)
        assert (response.status, response.content_type) == (200, "audio/pcm")
        assert len(await response.read()) == 3 * 3840
    job = engine.requests[0]
    assert (job.reference_audio, job.reference_text, job.language) == (None, None, "English")
    told = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert len(told) == 2 and told[0].startswith("ref_audio") and told[1].startswith("ref_text")


def recording(samples):
    """Base64 of a 24 kHz WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(24000)
        writer.writeframes(np.asarray(samples, "<i2").tobytes())
    return base64.b64encode(file.getvalue()).decode()


async def test_an_engine_that_clones_gets_decoded_samples(start, monkeypatch):
    threads = []
    decode = service_module.decode_reference

    def spy(*args):
        threads.append(threading.current_thread())
        return decode(*args)

    monkeypatch.setattr(service_module, "decode_reference", spy)
    engine = fake.FakeEngine()
    engine.capabilities = Capabilities(clones=True, follows_instructions=True, task_types=("Base",))
    client, _ = await start(engine)
    samples = np.arange(-12000, 12000)
    guides = {"ref_audio": f"data:audio/wav;base64,{recording(samples)}", "ref_text": "Hi.", "instructions": "Sing."}
    response = await client.post(SPEECH, json={**BODY, **guides, "task_type": "Base"})
    assert response.status == 200
    (job,) = engine.requests
    assert job.reference_audio.dtype == np.float32
    assert np.array_equal(job.reference_audio, (samples / 32768).astype(np.float32))
    assert (job.reference_text, job.instructions) == ("Hi.", "Sing.")
    assert threads and threading.current_thread() not in threads  # off the event loop


async def test_a_reference_by_address_is_refused_by_an_engine_that_clones(start):
    engine = fake.FakeEngine()
    engine.capabilities = Capabilities(clones=True)
    client, _ = await start(engine)
    for address in (str(client.make_url("/health")), "file:///etc/passwd", "/etc/passwd"):
        response = await client.post(SPEECH, json={**BODY, "ref_audio": address})
        await error_of(response, 400, type="invalid_request_error", param="ref_audio")
    assert engine.requests == []
    counts = await (await client.get("/metrics")).text()
    assert '"/health"' not in counts  # nobody asked for it


async def test_models_voices_health(start):
    client, _ = await start()
    models = await (await client.get("/v1/models")).json()
    assert models["object"] == "list" and [model["id"] for model in models["data"]] == ["tiny"]
    voices = await (await client.get("/v1/audio/voices")).json()
    assert voices == {"voices": ["alba", "bruno"], "uploaded_voices": []}
    response = await client.get("/health")
    health = await response.json()
    assert response.status == 200
    assert (health["status"], health["model"], health["device"]) == ("ok", "tiny", "cpu")


async def test_while_the_engine_loads(start):
    client, _ = await start(engine=None)
    response = await client.get("/health")
    assert (response.status, await response.json()) == (503, {"status": "loading"})
    for response in (await client.post(SPEECH, json=BODY), await client.get("/v1/models")):
        await error_of(response, 503, type="service_unavailable_error", code="loading")
        assert response.headers["Retry-After"] == "1"
    assert "omni_reference_engine_up 0.0" in await (await client.get("/metrics")).text()
    engine = fake.FakeEngine()
    client.app[SERVICE].set_engine(engine)
    assert (await client.get("/health")).status == 200
    engine.stop()


async def test_a_dead_engine(start):
    client, engine = await start()
    engine.stop()
    while (response := await client.get("/health")).status == 200:
        await asyncio.sleep(0.05)  # an engine's process tells it with its next report
    assert response.status == 503 and (await response.json())["status"] == "dead"
    await error_of(await client.post(SPEECH, json=BODY), 503, code="engine_dead")


async def test_refusals_of_the_engine(start):
    client, engine = await start()
    engine.refuse = fake.REFUSALS["queue_full"]
    response = await client.post(SPEECH, json=BODY)
    await error_of(response, 429, type="rate_limit_error", code="queue_full")
    assert response.headers["Retry-After"] == "1"
    engine.refuse = fake.REFUSALS["rejected"]
    await error_of(await client.post(SPEECH, json=BODY), 400, param="input", type="invalid_request_error")
    long_body = {**BODY, "input": "word " * 200}
    await error_of(await client.post(SPEECH, json=long_body), 400, param="input")


async def test_an_unexpected_error_is_logged_and_not_told(start, caplog):
    client, _ = await start(refuse=fake.REFUSALS["unexpected"])
    message = await error_of(await client.post(SPEECH, json=BODY), 500, type="server_error", code="internal")
    assert "secret" not in message
    assert "secret detail" in caplog.text


async def test_bad_requests(start):
    client, _ = await start()
    message = await error_of(await client.post(SPEECH, json={**BODY, "voice": "alloy"}), 400, param="voice")
    assert "alba, bruno" in message
    await error_of(await client.post(SPEECH, data=b"not json"), 400, code="invalid_json")
    packed = {"Content-Encoding": "gzip"}
    message = await error_of(await client.post(SPEECH, data=b"\x1f\x8b", headers=packed), 400)
    assert "Content-Encoding" in message


async def test_wrong_routes(start):
    client, _ = await start()
    message = await error_of(await client.get("/v1/nothing"), 404, code="not_found")
    assert "/v1/nothing" in message and SPEECH in message
    response = await client.get(SPEECH)
    await error_of(response, 405, code="method_not_allowed")
    assert response.headers["Allow"] == "POST"


async def test_a_body_that_is_too_large(start, monkeypatch):
    for module in ("app", "service"):
        monkeypatch.setattr(f"reference_impl.http.{module}.MAX_BODY_BYTES", 1000)
    client, engine = await start()
    await error_of(await client.post(SPEECH, data=b"x" * 1001), 413, code="body_too_large")

    async def unannounced():
        for _ in range(30):
            yield b"x" * 100

    await error_of(await client.post(SPEECH, data=unannounced()), 413, code="body_too_large")
    assert engine.requests == []
    assert (await client.post(SPEECH, json=BODY)).status == 200


async def test_a_reference_of_many_megabytes_is_taken(start):
    client, _ = await start()
    assert (await client.post(SPEECH, json={**BODY, "ref_audio": "A" * (4 * 2**20)})).status == 200


async def test_a_body_that_does_not_come(start, monkeypatch):
    monkeypatch.setattr(service_module, "BODY_TIMEOUT_S", 0.05)
    client, _ = await start()
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert (await reader.readline()).split()[1] == b"408"
    writer.close()


async def test_a_failure_before_any_audio_is_a_500(start):
    client, _ = await start(fail_after=0)
    for extra in ({}, {"stream_format": "audio"}, {"stream": True}):
        message = await error_of(await client.post(SPEECH, json={**BODY, **extra}), 500, code="generation_failed")
        assert message == "a tensor went missing"


async def test_a_failure_within_a_whole_file_is_a_500(start):
    client, _ = await start(fail_after=2)
    await error_of(await client.post(SPEECH, json=BODY), 500, code="generation_failed")


@pytest.mark.parametrize("fail_after", [1, 3])
async def test_a_failure_within_a_raw_stream_breaks_it_off(start, fail_after, caplog):
    client, engine = await start(gated=fail_after == 1, fail_after=fail_after)
    response = await client.post(SPEECH, json={**BODY, "stream_format": "audio", "response_format": "pcm"})
    assert response.status == 200
    assert await response.content.readexactly(3840)
    if fail_after == 1:
        engine.release()
    with pytest.raises(aiohttp.ClientPayloadError):
        await response.read()
    assert "a tensor went missing" in caplog.text and "Traceback" not in caplog.text
    assert 'status="500"' in await (await client.get("/metrics")).text()


async def test_a_failure_within_a_raw_stream_resets_an_http_1_0_connection(start):
    client, engine = await start(gated=True, fail_after=1)
    reader, writer = await asyncio.open_connection(client.host, client.port)
    body = json.dumps({**BODY, "stream_format": "audio", "response_format": "pcm"}).encode()
    writer.write(b"POST /v1/audio/speech HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head and b"chunked" not in head.lower()
    await reader.readexactly(3840)
    engine.release()
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_a_failure_within_sse_is_an_event(start):
    client, _ = await start(fail_after=2)
    response = await client.post(SPEECH, json={**BODY, "stream": True})
    events = sse_events(await response.text())
    assert [event["type"] for event in events] == ["speech.audio.delta"] * 2 + ["speech.audio.error"]
    assert events[2]["error"]["message"] == "a tensor went missing"


async def test_an_engine_that_dies_without_a_word(start, monkeypatch):
    monkeypatch.setattr("reference_impl.http.event_stream.ENGINE_CHECK_S", 0.05)
    client, _ = await start(silent_death=True)
    await error_of(await client.post(SPEECH, json=BODY), 503, code="engine_dead")


async def test_a_slow_engine_is_not_a_dead_one(start, monkeypatch):
    monkeypatch.setattr("reference_impl.http.event_stream.ENGINE_CHECK_S", 0.01)
    client, engine = await start(gated=True, chunks=2)
    posting = asyncio.create_task(client.post(SPEECH, json={**BODY, "response_format": "pcm"}))
    await asyncio.sleep(0.1)
    assert not posting.done()
    engine.release()
    assert await (await posting).read() == engine.expected(5)


@pytest.mark.parametrize("extra", [{}, {"stream_format": "audio"}, {"stream": True}])
async def test_a_client_that_leaves_frees_its_place(start, extra):
    client, engine = await start(gated=True, hang_first=not extra)
    if extra:
        response = await client.post(SPEECH, json={**BODY, **extra})
        response.close()
    else:
        posting = asyncio.create_task(client.post(SPEECH, json=BODY))
        assert await asyncio.to_thread(engine.submit_seen.wait, 10)
        posting.cancel()
    assert await asyncio.to_thread(engine.cancel_seen.wait, 10)
    assert engine.cancelled == [engine.requests[0].request_id]
    assert 'status="499"' in await (await client.get("/metrics")).text()


async def test_an_utterance_without_audio_is_an_empty_file(start):
    client, _ = await start(chunks=0)
    for extra, size in (
        ({"response_format": "pcm"}, 0),
        ({"response_format": "pcm", "stream_format": "audio"}, 0),
        ({"response_format": "wav"}, 44),
        ({"response_format": "wav", "stream_format": "audio"}, 44),
    ):
        response = await client.post(SPEECH, json={**BODY, **extra})
        assert (response.status, len(await response.read())) == (200, size)


async def test_a_finished_request_is_not_cancelled(start):
    client, engine = await start()
    for extra in ({}, {"stream_format": "audio"}, {"stream": True}):
        await (await client.post(SPEECH, json={**BODY, **extra})).read()
    assert engine.cancelled == []


async def test_a_client_that_reads_nothing_is_broken_off(start, monkeypatch, caplog):
    client, engine = await start(chunks=3000)
    body = {**BODY, "stream_format": "audio"}
    await fake.ask_and_never_read(client, engine, "/v1/audio/speech", body, monkeypatch)
    assert "does not read" in caplog.text


async def test_connections_are_kept(start):
    client, _ = await start()
    for extra in ({}, {"stream_format": "audio"}, {"stream": True}, {"voice": "alloy"}):
        response = await client.post(SPEECH, json={**BODY, **extra})
        await response.read()
    assert len(client.server.runner.server.connections) == 1


async def test_16_streams_at_once_each_get_their_own(start):
    client, engine = await start()

    async def one(seed):
        body = {**BODY, "seed": seed, "stream_format": "audio", "response_format": "pcm"}
        return await (await client.post(SPEECH, json=body)).read()

    bodies = await asyncio.gather(*map(one, range(16)))
    assert bodies == [engine.expected(seed) for seed in range(16)]


async def test_traces_are_for_servers_that_were_launched_with_a_folder_for_them(start, monkeypatch):
    client, engine = await start()
    monkeypatch.delenv(PROFILE_VARIABLE, raising=False)
    message = await error_of(await client.post("/start_profile"), 404, code="no_profile")
    assert PROFILE_VARIABLE in message and not engine.profiled
    monkeypatch.setenv(PROFILE_VARIABLE, "/nowhere")
    assert (await client.post("/start_profile")).status == 200 and engine.profiled
    assert (await client.post("/stop_profile")).status == 200 and not engine.profiled
    assert "no trace is being taken" in await error_of(await client.post("/stop_profile"), 500, code="no_profile")
    assert (await client.get("/start_profile")).status == 405


async def test_metrics(start):
    client, _ = await start()
    await (await client.post(SPEECH, json={**BODY, "stream_format": "audio"})).read()
    await client.get("/v1/unknown")
    await client.request("PROPFIND", "/health")
    response = await client.get("/metrics")
    text = await response.text()
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    for line in (
        "omni_reference_engine_up 1.0",
        "omni_reference_engine_frames_total 77.0",
        "omni_reference_engine_step_seconds_total 1.5",
        'omni_reference_engine_requests_ended_total{reason="length"} 1.0',
        "omni_reference_time_to_first_packet_seconds_count 1.0",
        "omni_reference_request_duration_seconds_count 1.0",
        "omni_reference_audio_duration_seconds_sum 0.24",
        'omni_reference_http_requests_total{method="POST",route="/v1/audio/speech",status="200"} 1.0',
        'omni_reference_http_requests_total{method="GET",route="other",status="404"} 1.0',
        'omni_reference_http_requests_total{method="other",route="other",status="405"} 1.0',
        "omni_reference_http_requests_in_flight 1.0",
    ):
        assert line in text.splitlines()
    families = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert all(name.startswith("omni_reference_") for name in families)


async def test_a_normal_request_logs_no_warning(start, caplog):
    caplog.set_level(logging.INFO)
    client, _ = await start()
    await (await client.post(SPEECH, json={**BODY, "stream_format": "audio"})).read()
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
