"""Every fault in every wire form it is a fault of, through the real clients: a detector named in advance fires."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
from aiohttp import web
from sent import send

from omni_bench.accuracy.parity.pcm import compare_pcm
from omni_bench.accuracy.signal.audio_faults import audio_faults, delivery_faults
from omni_bench.accuracy.signal.repeats import self_matches
from omni_bench.load.clients.session import WireOptions, open_session
from omni_bench.targets.chaos_proxy import catalogue
from omni_bench.targets.chaos_proxy.catalogue import DRIP_BYTES, WIRE_FAULTS, faults_of
from omni_bench.targets.chaos_proxy.proxy import ChaosProxy
from reference_impl.http.framing import wav_header

RATE_HZ = 24_000
CHUNKS = (960, 7680, 7680, 3840)  # bytes of each chunk of audio: 0.42 s in all
TEXT = ("Hi", ", ", "you", ".")
OPTIONS = WireOptions(
    sample_rate_hz=RATE_HZ, request_timeout_s=20.0, connect_timeout_s=5.0, max_audio_s=10.0, stall_timeout_s=10.0
)

IMPATIENT = replace(OPTIONS, stall_timeout_s=0.5)


def audio_of(request_id):
    """The chunks of one request: noise of its own, audible, no two chunks the same."""
    noise = np.random.default_rng(zlib.crc32(request_id.encode()))
    return [noise.integers(-8000, 8000, size // 2, dtype=np.int16).astype("<i2").tobytes() for size in CHUNKS]


def event(value, name=b""):
    return name + b"data: " + json.dumps(value).encode() + b"\n\n"


def base64_of(data):
    return base64.b64encode(data).decode()


def chat_chunk(modality, delta, **more):
    beside = {} if modality is None else {"modality": modality}
    return event({"id": "chat-1", **beside, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}]})


# --- what each server says: parts, each with whether it holds audio


def samples(request_id):
    return "audio/pcm", audio_of(request_id)


def wav_of_unknown_size(request_id):
    first, *rest = audio_of(request_id)
    return "audio/wav", [wav_header(RATE_HZ, None) + first, *rest]


def wav_of_known_size(request_id):
    """As a server writes it that has the whole file; something follows the samples."""
    first, *rest = audio_of(request_id)
    header = wav_header(RATE_HZ, sum(CHUNKS))
    return "audio/x-wav", [header[:20], header[20:] + first, *rest, b"LIST\x04\0\0\0abcd"]


def speech_events(request_id):
    name = b"event: speech.audio.delta\n"
    parts = [event({"type": "speech.audio.delta", "audio": base64_of(pcm)}, name) for pcm in audio_of(request_id)]
    return "text/event-stream", [b": hello\n\n", *parts, event({"type": "speech.audio.done", "usage": {}})]


def speech_events_of_a_wav(request_id):
    """One container over all events, CR LF, and two events in one HTTP chunk."""
    first, *rest = audio_of(request_id)
    payloads = [wav_header(RATE_HZ, None) + first, *rest]
    parts = [
        event({"type": "speech.audio.delta", "audio": base64_of(one), "response_format": "wav"}) for one in payloads
    ]
    parts = [one.replace(b"\n", b"\r\n") for one in [*parts, event({"type": "speech.audio.done"})]]
    return "text/event-stream", [parts[0] + parts[1][:30], parts[1][30:], *parts[2:-2], parts[-2] + parts[-1]]


def chat(request_id):
    """As vllm-omni: every chunk a WAV of its own, in delta.content."""
    words = [chat_chunk("text", {"content": word}) for word in TEXT]
    metadata = {"format": "wav", "sample_rate_hz": RATE_HZ, "channels": 1}
    parts = [
        chat_chunk(
            "audio",
            {"content": base64_of(wav_header(RATE_HZ, len(pcm)) + pcm)},
            audio_metadata={**metadata, "frame_count": len(pcm) // 2},
        )
        for pcm in audio_of(request_id)
    ]
    usage = event({"choices": [], "usage": {"completion_tokens": len(TEXT)}})
    last = chat_chunk("audio", {}, finish_reason="stop")
    return "text/event-stream", [*words, *parts, last, usage, b"data: [DONE]\n\n"]


def openai_chat(request_id):
    """As OpenAI: bare samples in delta.audio.data, their words beside them."""
    parts = [
        chat_chunk(None, {"audio": {"id": "a", "data": base64_of(pcm), "transcript": word}})
        for pcm, word in zip(audio_of(request_id), TEXT, strict=True)
    ]
    return "text/event-stream", [*parts, chat_chunk(None, {}, finish_reason="stop"), b"data: [DONE]\n\n"]


def chat_of_text(request_id):
    return "text/event-stream", [*(chat_chunk("text", {"content": word}) for word in TEXT), b"data: [DONE]\n\n"]


def socket(request_id):
    start = json.dumps({"type": "audio.start", "format": "pcm", "sample_rate": RATE_HZ, "channels": 1})
    return None, [start, *audio_of(request_id), '{"type": "audio.done"}', '{"type": "session.done"}']


def socket_with_words(request_id):
    """Samples as text beside the times of words, each a WAV: vllm-omni's audio.chunk."""
    parts = [
        json.dumps({"type": "audio.chunk", "audio_b64": base64_of(wav_header(RATE_HZ, len(pcm)) + pcm)})
        for pcm in audio_of(request_id)
    ]
    return None, ['{"type": "audio.start"}', *parts, '{"type": "audio.done"}', '{"type": "session.done"}']


SERVERS = {
    "openai_speech": samples,
    "openai_speech_wav": wav_of_unknown_size,
    "openai_speech_wav, whole": wav_of_known_size,
    "openai_speech_sse": speech_events,
    "openai_speech_sse, wav": speech_events_of_a_wav,
    "openai_speech_ws": socket,
    "openai_speech_ws, words": socket_with_words,
    "openai_chat_audio": chat,
    "openai_chat_audio, openai": openai_chat,
}
PAIRS = [(server, fault) for server in SERVERS for fault in faults_of(server.split(",")[0])]


class Upstream:
    """Answers POST and WebSocket with the parts of ``says``; the last ``held`` of them wait for ``gate``."""

    def __init__(self, says, held=0):
        self.says, self.held = says, held
        self.gate = asyncio.Event()
        self.in_flight = 0

    def application(self):
        app = web.Application()
        for path in ("/v1/audio/speech", "/v1/chat/completions"):
            app.router.add_post(path, self.post)
        app.router.add_get("/v1/audio/speech/stream", self.socket)
        return app

    async def parts(self, request_id):
        self.in_flight += 1
        try:
            parts = self.says(request_id)[1]
            for index, part in enumerate(parts):
                if index == len(parts) - self.held:
                    await self.gate.wait()
                yield part
                await asyncio.sleep(0)
        finally:
            self.in_flight -= 1

    async def post(self, request):
        request_id = request.headers["x-request-id"]
        response = web.StreamResponse(headers={"Content-Type": self.says(request_id)[0], "x-request-id": request_id})
        response.enable_chunked_encoding()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            async for part in self.parts(request_id):
                await response.write(part)
        return response

    async def socket(self, request):
        answer = web.WebSocketResponse(timeout=0.1)
        answer.headers["x-request-id"] = "server-7"
        await answer.prepare(request)
        assert json.loads((await answer.receive()).data) == {"type": "input.done"}
        with contextlib.suppress(ConnectionError):
            async for part in self.parts(request.headers["x-request-id"]):
                await (answer.send_str(part) if isinstance(part, str) else answer.send_bytes(part))
            async for _ in answer:
                pass
        return answer


class Bench:
    def __init__(self, form, upstream, port, runner):
        self.form, self.upstream = form, upstream
        self.base_url = f"http://127.0.0.1:{port}"
        self.runner = runner
        self.crashes = 0

    async def ask(self, request_id="c1-0000", options=OPTIONS):
        """(timeline, audio) of one request."""
        payload = b'{"type": "input.done"}' if self.form == "openai_speech_ws" else b"{}"
        async with open_session(options) as session:
            timeline, reads = await send(
                session, self.base_url, options, kind=self.form, request_id=request_id, payload=payload
            )
        assert timeline.request_id == request_id
        return timeline, b"".join(reads)


@contextlib.asynccontextmanager
async def serving(application, **how):
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, **how)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner, runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def bench(server, fault, says=None, held=0, stall_s=30.0):
    form = server.split(",")[0]
    upstream = Upstream(says or SERVERS[server], held)
    built = []

    def crash():
        built[0].crashes += 1
        for connection in list(built[0].runner.server.connections):
            connection.transport.abort()

    async with serving(upstream.application()) as (_, port):
        proxy = ChaosProxy(f"http://127.0.0.1:{port}", WIRE_FAULTS[fault], on_crash=crash, stall_s=stall_s)
        async with serving(proxy.application(), handler_cancellation=True) as (runner, proxy_port):
            built.append(Bench(form, upstream, proxy_port, runner))
            yield built[0]
            upstream.gate.set()


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


def clean(request_id="c1-0000"):
    return b"".join(audio_of(request_id))


def noticed(timeline, audio):
    """What notices: the kind of the error, reasons for which the answer is invalid, and parity with the clean one."""
    if timeline.error is not None:
        return {timeline.error.kind}
    found = set(audio_faults(audio, timeline.sample_rate_hz, "Hi, you.", "en") + delivery_faults(timeline))
    heard, expected = (np.frombuffer(one[: len(one) // 2 * 2], "<i2") for one in (audio, clean(timeline.request_id)))
    if self_matches(heard, RATE_HZ).repeats:
        found.add("repeated_audio")
    if not compare_pcm(heard, expected).equal:
        found.add("parity")
    return found


def damaged(fault, audio):
    """What is to be heard after a fault that is no error."""
    first, second, *rest = audio_of("c1-0000")
    return {
        "drop_chunk": first + b"".join(rest),
        "duplicate_chunk": first + second + second + b"".join(rest),
        "odd_bytes": clean() + b"\x01",
        "silence_on_200": bytes(len(clean())),
        "slow_drip": clean(),
    }.get(fault, audio)


TOGETHER = ("crash_at_c3", "swap_streams")


@pytest.mark.parametrize(("server", "fault"), [pair for pair in PAIRS if pair[1] not in TOGETHER])
async def test_one_request_is_broken_as_announced(server, fault, monkeypatch):
    monkeypatch.setattr(catalogue, "DRIP_PAUSE_S", 0.0)
    async with bench(server, fault) as at:
        timeline, audio = await at.ask(options=IMPATIENT if fault == "stall" else OPTIONS)
        found = noticed(timeline, audio)
        assert found & set(WIRE_FAULTS[fault].detectors), (found, timeline.error)
        assert audio == damaged(fault, audio)
        if timeline.error is None and at.form == "openai_chat_audio":
            assert timeline.reply_text == "".join(TEXT), "no fault of the audio hits the text"
        if fault == "slow_drip":
            assert timeline.chunk_bytes[:DRIP_BYTES] == (1,) * DRIP_BYTES
        if fault in ("stall", "cut", "in_band_error"):
            assert audio.startswith(b"".join(audio_of("c1-0000")[:2])), "some audio comes first"
        if fault in ("in_band_error", "http_500") and not (fault == "http_500" and at.form == "openai_speech_ws"):
            assert "injected fault" in timeline.error.message
        if WIRE_FAULTS[fault].every == 2:
            whole, audio = await at.ask("c1-0001")
            assert noticed(whole, audio) == set() and audio == clean("c1-0001")
        await until(lambda: at.upstream.in_flight == 0)


@pytest.mark.parametrize(("server", "says"), [*SERVERS.items(), ("openai_chat_audio, text", chat_of_text)])
async def test_the_third_request_in_flight_breaks_all(server, says):
    async with bench(server, "crash_at_c3", says=says, held=2) as at:
        asking = [asyncio.create_task(at.ask(f"c3-{number}")) for number in range(2)]
        await until(lambda: at.upstream.in_flight == 2)
        assert at.crashes == 0
        asking.append(asyncio.create_task(at.ask("c3-2")))
        for timeline, _ in await asyncio.gather(*asking):
            assert timeline.error is not None and timeline.error.kind in WIRE_FAULTS["crash_at_c3"].detectors
        assert at.crashes == 1


@pytest.mark.parametrize("server", SERVERS)
async def test_two_requests_get_each_others_audio(server, caplog):
    """From the second or third chunk on; the end of each, and the text of a chat, is in order."""
    parts = SERVERS[server]("c2-0000")[1]
    second = next(index for index, part in enumerate(parts) if len(part) >= CHUNKS[1])
    async with bench(server, "swap_streams", held=len(parts) - second - 1) as at:
        asking = [asyncio.create_task(at.ask(name)) for name in ("c2-0000", "c2-0001")]
        await until(lambda: any("each other" in record.getMessage() for record in caplog.records))
        at.upstream.gate.set()
        (one, heard_one), (two, heard_two) = await asyncio.gather(*asking)
        zero, other = clean("c2-0000"), clean("c2-0001")
        tail = sum(CHUNKS[2:])
        assert heard_one.endswith(other[-tail:]) and heard_two.endswith(zero[-tail:])
        assert heard_one[: CHUNKS[0]] == zero[: CHUNKS[0]] and heard_two[: CHUNKS[0]] == other[: CHUNKS[0]]
        assert sorted(heard_one + heard_two) == sorted(zero + other), "no sample is lost or made up"
        for timeline, heard in ((one, heard_one), (two, heard_two)):
            assert noticed(timeline, heard) == {"parity"}
            assert timeline.reply_text in (None, "".join(TEXT))
        alone, heard = await at.ask("c1-0000")
        assert noticed(alone, heard) == set(), "without a partner it passes unchanged"
        await until(lambda: at.upstream.in_flight == 0)


@pytest.mark.parametrize("fault", sorted({*faults_of("openai_chat_audio", audio=False)} - {*TOGETHER}))
async def test_a_chat_of_text_alone(fault):
    async with bench("openai_chat_audio", fault, says=chat_of_text) as at:
        timeline, _ = await at.ask(options=IMPATIENT if fault == "stall" else OPTIONS)
        assert timeline.error is not None and timeline.error.kind in WIRE_FAULTS[fault].detectors
        assert timeline.reply_text == (None if fault == "http_500" else "".join(TEXT)), "it breaks at its end"


# --- what is not hit, and what is no fault of a form


@pytest.mark.parametrize("server", SERVERS)
async def test_the_next_request_passes_as_it_came(server):
    async with bench(server, "http_500") as at:
        await at.ask()
        timeline, audio = await at.ask("c1-0001")
        assert audio == clean("c1-0001") and noticed(timeline, audio) == set()
        assert [2 * samples for _, samples in timeline.http_chunks] == list(CHUNKS), "chunk by chunk"
        if at.form == "openai_speech_ws":
            assert timeline.server_request_id == "server-7", "of the headers of the handshake"


@pytest.mark.parametrize("server", sorted(SERVERS.keys() - {"openai_speech"}))
async def test_what_is_no_fault_of_a_form_is_left_out_and_said(server, caplog):
    async with bench(server, "header_first") as at:
        timeline, audio = await at.ask()
        assert noticed(timeline, audio) == set()
    assert f"not injected: header_first is no fault of {server.split(',')[0]}" in caplog.text
    assert "FAULT INJECTED" not in caplog.text
