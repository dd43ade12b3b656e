"""An engine without a model that keeps a card's time, for ``http_overhead.py``.

Two threads as in the real one. The engine's admits requests and makes a step for all of them:
``host_ms`` of Python, then a wait without the interpreter lock until ``step_ms`` have passed, as for
a card. A step that could not get the lock in time is longer than ``step_ms``. Code2Wav's takes all
chunks that are due, works ``host_ms / 2`` of Python, waits for its share of the card, and gives them
out one after the other. Which frames leave together is decided by the real ``ChunkSchedule``.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from reference_impl.engine.chunking import ChunkSchedule
from reference_impl.engine_api import AudioChunk, EngineLike, EngineStats, Event, Failed, Finished, SpeechRequest

SAMPLE_RATE_HZ, FRAME_SAMPLES, FRAME_S = 24_000, 1920, 0.08
PREFILLS_PER_STEP = 8


@dataclass(frozen=True)
class EnginePace:
    """What the engine takes: wall time of a step and of a Code2Wav call, and Python within a step (milliseconds)."""

    step_ms: float = 4.0
    host_ms: float = 1.0
    prefill_ms: float = 1.0
    code2wav_ms: float = 1.5
    slots: int = 32
    frames: int = 100
    first_chunk_frames: int = 1
    chunk_frames: int = 8


@dataclass(eq=False)
class Speaking:
    """One request."""

    request: SpeechRequest
    on_event: Callable[[Event], None]
    schedule: ChunkSchedule
    frames: int
    made: int = 0
    sent: int = 0


@dataclass
class Records:
    """What the engine itself saw: ``perf_counter_ns`` of submission and first chunk by request, and steps."""

    first_ns: dict[str, tuple[int, int]] = field(default_factory=dict)
    step_ms: list[float] = field(default_factory=list)
    frames: int = 0


def frames_of(request: SpeechRequest, pace: EnginePace) -> int:
    """Lengths differ, from 0.6 to 1.4 times the mean, so that requests do not all end in the same step."""
    return round(pace.frames * (0.6 + 0.1 * (request.seed * 5 % 9)))


def python_work(ms: float) -> None:
    """Compute under the interpreter lock for ``ms`` of this thread's own processor time."""
    until = time.thread_time_ns() + int(ms * 1e6)
    while time.thread_time_ns() < until:
        sum(range(50))


def wait_until(end_s: float) -> None:
    """Sleep without the lock, as in a wait for a card."""
    rest_s = end_s - time.perf_counter()
    if rest_s > 0:
        time.sleep(rest_s)


class PacedEngine(EngineLike):
    """Implements :class:`reference_impl.engine_api.EngineLike`; writes its records to ``records_path`` at the end."""

    model_name, voices, sample_rate_hz = "paced", ("tone",), SAMPLE_RATE_HZ

    def __init__(self, pace: EnginePace, records_path: Path | None = None):
        self._pace, self._records_path = pace, records_path
        self.records = Records()
        angles = 2 * np.pi * 220 / SAMPLE_RATE_HZ * np.arange(FRAME_SAMPLES * pace.chunk_frames)
        self._tone = (8000 * np.sin(angles)).astype("<i2")
        self._waiting: deque[Speaking] = deque()
        self._running: list[Speaking] = []
        self._cancelled: set[str] = set()
        self._due: list[tuple[Speaking, int, Finished | None]] = []
        self._wake = threading.Condition()
        self._stopping = False
        self._requests = self._steps = self._ended = 0
        self._threads = [
            threading.Thread(target=work, daemon=True, name=name)
            for name, work in (("engine", self._step_all), ("code2wav", self._decode_all))
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """See :class:`EngineLike`; nothing is refused."""
        now_ns = time.perf_counter_ns()
        schedule = ChunkSchedule(self._pace.first_chunk_frames, self._pace.chunk_frames, FRAME_S)
        with self._wake:
            self._requests += 1
            # the server appends its own number to the client's id
            self.records.first_ns[request.request_id.rpartition(".")[0]] = (now_ns, 0)
            self._waiting.append(Speaking(request, on_event, schedule, frames_of(request, self._pace)))
            self._wake.notify_all()

    def cancel(self, request_id: str) -> None:
        """See :class:`EngineLike`."""
        self._cancelled.add(request_id)

    def stats(self) -> EngineStats:
        """See :class:`EngineLike`; no time is counted."""
        counts = (self._requests, self._ended, 0, 0, 0, self.records.frames, self._steps)
        return EngineStats(not self._stopping, len(self._running), len(self._waiting), *counts, 0.0, 0.0, 0.0)

    def describe(self) -> dict[str, Any]:
        """For /health."""
        return {"device": "none", "device_name": "paced"}

    def stop(self) -> None:
        """See :class:`EngineLike`."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        for thread in self._threads:
            thread.join(5)
        for speaking in (*self._running, *self._waiting):
            speaking.on_event(Failed("the engine was stopped"))
        if self._records_path is not None:
            self._records_path.write_text(json.dumps(vars(self.records)), encoding="utf-8")

    def _step_all(self) -> None:
        pace = self._pace
        while True:
            with self._wake:
                while not (self._waiting or self._running or self._stopping):
                    self._wake.wait()
                if self._stopping:
                    return
                admitted = min(len(self._waiting), pace.slots - len(self._running), PREFILLS_PER_STEP)
                self._running += [self._waiting.popleft() for _ in range(admitted)]
            for _ in range(admitted):
                began_s = time.perf_counter()
                python_work(pace.prefill_ms / 2)
                wait_until(began_s + pace.prefill_ms / 1e3)
            began_s = time.perf_counter()
            python_work(pace.host_ms)
            wait_until(began_s + pace.step_ms / 1e3)
            self._frame()
            self.records.step_ms.append((time.perf_counter() - began_s) * 1e3)

    def _frame(self) -> None:
        """A frame for every running request."""
        self._steps += 1
        self.records.frames += len(self._running)
        due, left = [], []
        for speaking in self._running:
            speaking.made += 1
            waiting = speaking.made - speaking.sent
            ended = speaking.made == speaking.frames or speaking.request.request_id in self._cancelled
            if ended or speaking.schedule.is_due(waiting):
                speaking.schedule.cut(waiting)
                speaking.sent = speaking.made
                end = Finished("stop", speaking.made, 10, np.zeros((speaking.made, 16), np.int16)) if ended else None
                due.append((speaking, waiting, end))
            if not ended:
                left.append(speaking)
        self._running = left
        with self._wake:
            self._due += due
            self._wake.notify_all()

    def _decode_all(self) -> None:
        pace = self._pace
        while True:
            with self._wake:
                while not (self._due or self._stopping):
                    self._wake.wait()
                if self._stopping:
                    return
                due, self._due = self._due, []
            began_s = time.perf_counter()
            python_work(pace.host_ms / 2)
            wait_until(began_s + pace.code2wav_ms / 1e3)
            for speaking, frames, end in due:
                chunk = AudioChunk(self._tone[: frames * FRAME_SAMPLES].tobytes(), frames)
                name = speaking.request.request_id.rpartition(".")[0]
                submitted_ns, first_ns = self.records.first_ns[name]
                if not first_ns:
                    self.records.first_ns[name] = (submitted_ns, time.perf_counter_ns())
                speaking.schedule.delivered()
                speaking.on_event(chunk)
                if end is not None:
                    self._ended += 1
                    speaking.on_event(end)
