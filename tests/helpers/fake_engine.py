"""An EngineLike on a thread of its own that speaks sine tones, with faults to order."""

from __future__ import annotations

import asyncio
import json
import math
import queue
import struct
import threading
from collections.abc import Callable
from types import SimpleNamespace

from omni_bench.errors import EngineError
from reference_impl.engine_api import (
    AudioChunk,
    Capabilities,
    EngineDead,
    EngineLike,
    EngineStats,
    Event,
    Failed,
    Finished,
    QueueFull,
    RequestRejected,
    SpeechRequest,
)

FRAME_SAMPLES = 1920
SAMPLE_RATE_HZ = 24000


def tone(seed: int, chunk: int, frames: int = 1) -> bytes:
    """The deterministic chunk number ``chunk`` of a request with ``seed``."""
    pitch_hz = 200 + seed % 300
    first = chunk * frames * FRAME_SAMPLES
    angles = (2 * math.pi * pitch_hz * (first + i) / SAMPLE_RATE_HZ for i in range(frames * FRAME_SAMPLES))
    return b"".join(struct.pack("<h", round(8000 * math.sin(a))) for a in angles)


class FakeEngine(EngineLike):
    """Speaks ``chunks`` one-frame chunks a request.

    ``gate``: when given, each event but the first waits for one ``release()``. ``fail_after``:
    chunks before :class:`Failed`. ``refuse``: an exception for ``submit``. ``silent_death``:
    the thread ends without a word after the first chunk. ``codes``: what the clean end tells.
    """

    model_name = "tiny"
    voices = ("alba", "bruno")
    sample_rate_hz = SAMPLE_RATE_HZ

    def __init__(
        self, chunks=3, gated=False, fail_after=None, refuse=None, silent_death=False, hang_first=False, codes=None
    ):
        self.chunks, self.fail_after, self.refuse, self.silent_death = chunks, fail_after, refuse, silent_death
        self.hang_first = hang_first
        self.codes = codes
        self.profiled = False
        self.requests: list[SpeechRequest] = []
        self.cancelled: list[str] = []
        self.cancel_seen = threading.Event()
        self.submit_seen = threading.Event()
        self._gate = threading.Semaphore(0) if gated else None
        self._jobs: queue.Queue[tuple[SpeechRequest, Callable[[Event], None]] | None] = queue.Queue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def profile(self, on: bool) -> None:
        if not on and not self.profiled:
            raise EngineError("no trace is being taken")
        self.profiled = on

    def release(self) -> None:
        assert self._gate is not None
        self._gate.release()

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        if self.refuse is not None:
            raise self.refuse
        if self._stopping.is_set() or not self._thread.is_alive():
            raise EngineDead("the engine has stopped")
        self.requests.append(request)
        self._jobs.put((request, on_event))
        self.submit_seen.set()

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)
        self.cancel_seen.set()

    def stats(self) -> EngineStats:
        return EngineStats(
            alive=self._thread.is_alive() and not self._stopping.is_set(),
            running=0,
            waiting=self._jobs.qsize(),
            requests_total=len(self.requests),
            finished_stop_total=5,
            finished_length_total=1,
            cancelled_total=len(self.cancelled),
            failed_total=2,
            frames_total=77,
            steps_total=40,
            step_seconds_total=1.5,
            code2wav_seconds_total=0.5,
            prefill_seconds_total=0.25,
        )

    def describe(self) -> dict:
        return {"device": "cpu", "device_name": "fake"}

    def stop(self) -> None:
        self._stopping.set()
        self._jobs.put(None)
        if self._gate is not None:
            self._gate.release(1000)
        self._thread.join(5)

    def expected(self, seed: int) -> bytes:
        return b"".join(tone(seed, i) for i in range(self.chunks))

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            request, on_event = job
            if not self._speak(request, on_event):
                return

    def _speak(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> bool:
        """False ends the thread."""
        for index in range(self.chunks):
            if self._gate is not None and (index or self.hang_first):
                self._gate.acquire()
            if self._stopping.is_set():
                on_event(Failed("the engine was stopped"))
                return False
            if request.request_id in self.cancelled:
                on_event(Finished("cancelled", index, 7))
                return True
            if index == self.fail_after:
                on_event(Failed("a tensor went missing"))
                return True
            on_event(AudioChunk(tone(request.seed, index), 1))
            if self.silent_death:
                return False
        if self.fail_after == self.chunks:
            on_event(Failed("a tensor went missing"))
        else:
            on_event(Finished("stop", self.chunks, 7, self.codes))
        return True


def facts_of_engine(capabilities: Capabilities = Capabilities()) -> SimpleNamespace:  # noqa: B008
    """What the parsers of requests read of an engine."""
    return SimpleNamespace(
        model_name="tiny", voices=("alba", "bruno"), sample_rate_hz=SAMPLE_RATE_HZ, capabilities=capabilities
    )


REFUSALS = {
    "queue_full": QueueFull("256 requests are waiting"),
    "dead": EngineDead("the engine has stopped"),
    "rejected": RequestRejected("input holds nothing to speak", "input"),
    "unexpected": ValueError("secret detail"),
}


async def ask_and_never_read(client, engine: FakeEngine, path: str, body: dict, monkeypatch) -> None:
    """Ask for far more audio than the socket's buffers hold, read none of it, and wait until that is broken off."""

    def flood(self, request, on_event):
        for _ in range(40):
            on_event(AudioChunk(bytes(2**20), 273))
        return True

    monkeypatch.setattr("reference_impl.http.stream_response.WRITE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(type(engine), "_speak", flood)
    _, writer = await asyncio.open_connection(client.host, client.port, limit=1024)
    data = json.dumps(body).encode()
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    assert await asyncio.to_thread(engine.cancel_seen.wait, 20)
    writer.close()
