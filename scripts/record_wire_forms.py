"""Records what the reference server says in each wire form, byte by byte, for the tests of the clients.

    python scripts/record_wire_forms.py [FOLDER]      # default: tests/data/wire

The server is the real one; its engine is a stand-in that speaks a few milliseconds of a rising tone, so that
a recording is small enough to be replayed at every split position. FOLDER gets one ``NAME.http`` a form,
all that came over the connection from the status line on, and ``expected.json``: what was spoken and written,
as the engine and the text know it. The requests are the ``recordings`` of each
wire form with its own body; no decoder of this project takes part.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from omni_bench.load.clients.wire_form import WireForm, WireRecording
from omni_bench.load.clients.wire_forms import BUILT_IN, RequestedModalities
from omni_bench.records.config import ClientConfig
from omni_bench.records.prompt import Prompt
from reference_impl.engine_api import AudioChunk, EngineLike, EngineStats, Event, Failed, Finished, SpeechRequest
from reference_impl.http.app import create_app

TEXT = "Hi, Zoë! Two sentences."
RATE_HZ = 24_000
CHUNK_SAMPLES = (240, 481, 333)
CHUNK_PAUSE_S = 0.004
TOKEN_MS = 1.0
CLOSE_SESSION = json.dumps({"type": "session.close"}).encode()
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
class Recorded:
    """One recording of a wire form."""

    form: WireForm
    recording: WireRecording

    @property
    def client(self) -> ClientConfig:
        """Who asks for it."""
        modalities, extra = list(self.recording.modalities), dict(self.recording.extra_body)
        return ClientConfig(kind=self.form.name, model="tiny", modalities=modalities, extra_body=extra)

    @property
    def payload(self) -> bytes:
        """What is asked."""
        return self.form.encode(self.form.build_body(Prompt("recorded", TEXT, None, None, "en"), self.client, 1))


RECORDINGS = {name: Recorded(form, recording) for form in BUILT_IN for name, recording in form.recordings.items()}


async def record(asked: Recorded) -> bytes:
    """All bytes that the server sends for ``asked``."""
    runner = web.AppRunner(
        create_app(ToneEngine(asked.recording.error is not None), chat_token_ms=TOKEN_MS), shutdown_timeout=1
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        socket = asked.form.is_socket
        writer.write(_handshake(asked.form.path) if socket else _post(asked.form.path, asked.payload))
        head = await reader.readuntil(b"\r\n\r\n")
        for message in [*asked.payload.splitlines(), CLOSE_SESSION] if socket else []:
            writer.write(_masked_text(message))
        rest = b""
        async with asyncio.timeout(30):
            while not (socket and rest[-4:-2] == CLOSE_FRAME) and (data := await reader.read(65_536)):
                rest += data
        writer.close()
        return head + rest
    finally:
        await runner.cleanup()


def _post(path: str, body: bytes) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "x-request-id: recorded",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _handshake(path: str) -> bytes:
    key = base64.b64encode(bytes(range(16))).decode()
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        "x-request-id: recorded",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _masked_text(data: bytes) -> bytes:
    """A text frame as RFC 6455 wants it of clients: masked, here with zeros."""
    return b"\x81" + struct.pack(">BH", 0x80 | 126, len(data)) + bytes(4) + data


def expected() -> dict[str, Any]:
    """What each recording holds, from the engine and the text alone."""
    chunks = chunks_pcm()
    facts = {}
    for name, asked in RECORDINGS.items():
        error, modalities = asked.recording.error, RequestedModalities.of(asked.client)
        spoken = chunks[: 1 if error else len(chunks)] if modalities.audio else []
        facts[name] = {
            "kind": asked.form.name,
            "error": error,
            "samples": sum(map(len, spoken)) // 2,
            "chunk_samples": [len(pcm) // 2 for pcm in spoken],
            "text": TEXT if modalities.text else None,
        }
    return {"sample_rate_hz": RATE_HZ, "pcm": base64.b64encode(b"".join(chunks)).decode(), "forms": facts}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, asked in RECORDINGS.items():
        data = asyncio.run(record(asked))
        (folder / f"{name}.http").write_bytes(data)
        print(f"{name}: {len(data)} bytes")
    text = json.dumps(expected(), indent=1, ensure_ascii=False) + "\n"
    (folder / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
