"""Records what the reference server says in each wire form, byte by byte, for the tests of the clients.

    python scripts/record_wire_forms.py [FOLDER]      # default: tests/data/wire

The server is the real one; its engine is a stand-in that speaks a few milliseconds of a rising tone, so that
a recording is small enough to be replayed at every split position. FOLDER gets one ``NAME.http`` a form,
all that came over the connection from the status line on, and ``expected.json``: what was spoken and written,
as the engine and the text know it. No client and no decoder of this project takes part.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from reference_impl.engine_api import AudioChunk, EngineLike, EngineStats, Event, Failed, Finished, SpeechRequest
from reference_impl.http.app import create_app

TEXT = "Hi, Zoë! Two sentences."
RATE_HZ = 24_000
CHUNK_SAMPLES = (240, 481, 333)
CHUNK_PAUSE_S = 0.004
TOKEN_MS = 1.0
SPEECH, SOCKET, CHAT = "/v1/audio/speech", "/v1/audio/speech/stream", "/v1/chat/completions"
CLOSE_FRAME = b"\x88\x02"  # its first bytes; the code follows
DEFAULT_FOLDER = Path(__file__).parents[1] / "tests" / "data" / "wire"


def chunks_pcm() -> list[bytes]:
    """What the stand-in speaks, chunk by chunk; no two samples near each other are equal."""
    samples = [(37 * number * number + 101 * number) % 20_011 - 10_000 for number in range(sum(CHUNK_SAMPLES))]
    pcm = struct.pack(f"<{len(samples)}h", *samples)
    ends = [2 * sum(CHUNK_SAMPLES[: number + 1]) for number in range(len(CHUNK_SAMPLES))]
    return [pcm[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


class ToneEngine(EngineLike):
    """Speaks :func:`chunks_pcm` whatever it is asked for. ``fails``: it breaks down after its first chunk."""

    model_name, voices, sample_rate_hz = "tiny", ("alba",), RATE_HZ

    def __init__(self, fails: bool = False) -> None:
        self._fails = fails

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """Say it from a thread of its own, in time and in order."""
        chunks = chunks_pcm()
        events: list[Event] = [AudioChunk(pcm, frames=1) for pcm in chunks]
        events.append(Finished("stop", frames=len(chunks), prompt_tokens=7))
        if self._fails:
            events[1:] = [Failed("the engine stumbled")]

        def speak() -> None:
            for event in events:
                time.sleep(CHUNK_PAUSE_S)
                on_event(event)

        threading.Thread(target=speak, daemon=True).start()

    def cancel(self, request_id: str) -> None:
        """Nothing goes on for long enough to be stopped."""

    def stop(self) -> None:
        """Nothing runs."""

    def stats(self) -> EngineStats:
        """Alive, and that is all."""
        return EngineStats(True, *(0,) * 12)


@dataclass(frozen=True)
class Form:
    """One recording. ``kind``: of the client that reads it; ``error``: how that must end, None if well."""

    kind: str
    path: str
    body: dict[str, Any]
    audio: bool = True
    text: bool = False
    error: str | None = None
    messages: tuple[dict[str, Any], ...] = field(default=())


def _chat(modalities: list[str], **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": TEXT}]
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    return {"model": "tiny", "messages": messages, "modalities": modalities, **streamed, **more}


def _speech(**more: Any) -> dict[str, Any]:
    return {"model": "tiny", "input": TEXT, "seed": 1, **more}


def _socket(**more: Any) -> tuple[dict[str, Any], ...]:
    config = {"type": "session.config", "model": "tiny", "seed": 1, "stream_audio": True, **more}
    return (config, {"type": "input.text", "text": TEXT}, {"type": "input.done"}, {"type": "session.close"})


RAW, EVENTS = {"stream": True, "stream_format": "audio"}, {"stream": True, "stream_format": "sse"}
FORMS = {
    "speech_pcm": Form("openai_speech", SPEECH, _speech(response_format="pcm", **RAW)),
    "speech_wav": Form("openai_speech_wav", SPEECH, _speech(response_format="wav", **RAW)),
    "speech_wav_file": Form("openai_speech_wav", SPEECH, _speech(response_format="wav", stream=False)),
    "speech_sse": Form("openai_speech_sse", SPEECH, _speech(response_format="pcm", **EVENTS)),
    "speech_sse_wav": Form("openai_speech_sse", SPEECH, _speech(response_format="wav", **EVENTS)),
    "speech_sse_error": Form(
        "openai_speech_sse", SPEECH, _speech(response_format="pcm", **EVENTS), error="in_band_error"
    ),
    "chat": Form("openai_chat_audio", CHAT, _chat(["text", "audio"]), text=True),
    "chat_openai": Form(
        "openai_chat_audio",
        CHAT,
        _chat(["text", "audio"], audio={"format": "pcm16"}, audio_field="audio"),
        text=True,
    ),
    "chat_text": Form("openai_chat_audio", CHAT, _chat(["text"]), audio=False, text=True),
    "chat_error": Form("openai_chat_audio", CHAT, _chat(["text", "audio"]), text=True, error="in_band_error"),
    "socket_pcm": Form("openai_speech_ws", SOCKET, {}, messages=_socket(response_format="pcm")),
    "socket_wav": Form("openai_speech_ws", SOCKET, {}, messages=_socket(response_format="wav")),
    "socket_error": Form("openai_speech_ws", SOCKET, {}, error="in_band_error", messages=_socket()),
}


async def record(form: Form) -> bytes:
    """All bytes that the server sends for ``form``."""
    runner = web.AppRunner(create_app(ToneEngine(form.error is not None), chat_token_ms=TOKEN_MS), shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(_handshake(form) if form.messages else _post(form))
        head = await reader.readuntil(b"\r\n\r\n")
        for message in form.messages:
            writer.write(_masked_text(json.dumps(message)))
        rest = b""
        async with asyncio.timeout(30):
            while not (form.messages and rest[-4:-2] == CLOSE_FRAME) and (data := await reader.read(65_536)):
                rest += data
        writer.close()
        return head + rest
    finally:
        await runner.cleanup()


def _post(form: Form) -> bytes:
    body = json.dumps(form.body).encode()
    lines = [
        f"POST {form.path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "x-request-id: recorded",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _handshake(form: Form) -> bytes:
    key = base64.b64encode(bytes(range(16))).decode()
    lines = [
        f"GET {form.path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        "x-request-id: recorded",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _masked_text(text: str) -> bytes:
    """A text frame as RFC 6455 wants it of clients: masked, here with zeros."""
    data = text.encode()
    return b"\x81" + struct.pack(">BH", 0x80 | 126, len(data)) + bytes(4) + data


def expected() -> dict[str, Any]:
    """What each recording holds, from the engine and the text alone."""
    chunks = chunks_pcm()
    facts = {}
    for name, form in FORMS.items():
        spoken = chunks[: 1 if form.error else len(chunks)] if form.audio else []
        facts[name] = {
            "kind": form.kind,
            "error": form.error,
            "samples": sum(map(len, spoken)) // 2,
            "chunk_samples": [len(pcm) // 2 for pcm in spoken],
            "text": TEXT if form.text else None,
        }
    return {"sample_rate_hz": RATE_HZ, "pcm": base64.b64encode(b"".join(chunks)).decode(), "forms": facts}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, form in FORMS.items():
        data = asyncio.run(record(form))
        (folder / f"{name}.http").write_bytes(data)
        print(f"{name}: {len(data)} bytes")
    text = json.dumps(expected(), indent=1, ensure_ascii=False) + "\n"
    (folder / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
