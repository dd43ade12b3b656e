"""The reference server, for ``interop.py``, which notes when what happened to a request.

    python server.py --engine steady|tiny

Routes, request checks and streams are the reference server's own (``reference_impl.http.app``). The engine is
the bundled voice (``tiny``) or one without a model (``steady``): a first chunk ``--first-ms`` after the
request is in the engine, then one each ``--interval-ms``, by the clock, whatever else is in flight. It
notes of every request when its headers were read (``arrived_ns``), when the engine got it (``submitted_ns``),
when the engine gave its first chunk (``first_ns``), and the size of its body. ``GET /records`` gives and forgets them.

Prints ``{"port": PORT}`` once it serves, and ends when its stdin ends.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from aiohttp import web

from reference_impl.engine_api import AudioChunk, EngineLike, EngineStats, Event, Failed, Finished, SpeechRequest
from reference_impl.http.app import create_app

SAMPLE_RATE_HZ = 24_000
PROMPT_TOKENS = 10
RECORDS_KEPT = 4096


@dataclass(frozen=True)
class Pace:
    """When chunks come, from the moment the engine has the request, and what they hold.

    By default slower than real time, so that a player runs dry and its pauses can be compared too.
    """

    first_ms: float = 50.0
    interval_ms: float = 30.0
    chunks: int = 8
    chunk_ms: float = 25.0


class SteadyEngine(EngineLike):
    """Implements :class:`reference_impl.engine_api.EngineLike`: chunks at fixed times, no work."""

    model_name, voices, sample_rate_hz = "steady", ("tone",), SAMPLE_RATE_HZ

    def __init__(self, pace: Pace):
        self._pace = pace
        angles = 2 * np.pi * 220 / SAMPLE_RATE_HZ * np.arange(round(SAMPLE_RATE_HZ * pace.chunk_ms / 1e3))
        self._chunk = AudioChunk((8000 * np.sin(angles)).astype("<i2").tobytes(), frames=1)
        self._due: list[tuple[int, int, SpeechRequest, Callable[[Event], None], int]] = []
        self._cancelled: set[str] = set()
        self._numbers = itertools.count()
        self._wake = threading.Condition()
        self._stopping = False
        self._running = self._ended = self._requests = 0
        self._thread = threading.Thread(target=self._give, daemon=True, name="engine")
        self._thread.start()

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """See :class:`EngineLike`; nothing is refused."""
        with self._wake:
            self._running += 1
            self._requests += 1
            due_ns = time.perf_counter_ns() + round(self._pace.first_ms * 1e6)
            heapq.heappush(self._due, (due_ns, next(self._numbers), request, on_event, 1))
            self._wake.notify()

    def cancel(self, request_id: str) -> None:
        """See :class:`EngineLike`."""
        with self._wake:
            if any(entry[2].request_id == request_id for entry in self._due):
                self._cancelled.add(request_id)

    def stats(self) -> EngineStats:
        """See :class:`EngineLike`; no time is counted."""
        return EngineStats(not self._stopping, self._running, 0, self._requests, self._ended, *(0,) * 5, 0.0, 0.0, 0.0)

    def stop(self) -> None:
        """See :class:`EngineLike`."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(5)
        for _, _, _, on_event, _ in self._due:
            on_event(Failed("the engine was stopped"))

    def _give(self) -> None:
        while True:
            with self._wake:
                while not self._stopping and (not self._due or self._due[0][0] > time.perf_counter_ns()):
                    rest_s = (self._due[0][0] - time.perf_counter_ns()) / 1e9 if self._due else None
                    self._wake.wait(rest_s)
                if self._stopping:
                    return
                due_ns, _, request, on_event, chunk = heapq.heappop(self._due)
                cancelled = request.request_id in self._cancelled
                self._cancelled.discard(request.request_id)
                ends = cancelled or chunk == self._pace.chunks
                if ends:
                    self._running -= 1
                    self._ended += 1
                else:
                    next_ns = due_ns + round(self._pace.interval_ms * 1e6)
                    heapq.heappush(self._due, (next_ns, next(self._numbers), request, on_event, chunk + 1))
            on_event(self._chunk)
            if ends:
                reason = "cancelled" if cancelled else "stop"
                on_event(Finished(reason, chunk, PROMPT_TOKENS))


class Records:
    """What the server saw of each request, by the id that the client sent."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str, int]] = {}

    def note(self, request_id: str, **values: int) -> None:
        """Add facts; the first of a kind stays. The oldest requests are forgotten."""
        facts = self._by_id.setdefault(request_id, {})
        for name, value in values.items():
            facts.setdefault(name, value)
        if len(self._by_id) > RECORDS_KEPT:
            del self._by_id[next(iter(self._by_id))]

    async def answer(self, _: web.Request) -> web.Response:
        """GET /records: all of them, which are forgotten then."""
        records, self._by_id = self._by_id, {}
        return web.json_response(records)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Note when the headers of a request were there."""
        request_id = request.headers.get("x-request-id")
        if request.method == "POST" and request_id:
            self.note(request_id, arrived_ns=time.perf_counter_ns(), body_bytes=request.content_length or 0)
        return await handler(request)


class NotingEngine:
    """An engine whose requests are written down; everything else is the engine's own."""

    def __init__(self, engine: EngineLike, records: Records):
        self._engine, self._records = engine, records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def submit_async(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """See :class:`EngineLike`."""
        name = request.request_id.rpartition(".")[0]  # the server appends its own number to the client's id
        self._records.note(name, submitted_ns=time.perf_counter_ns())

        def noted(event: Event) -> None:
            if isinstance(event, AudioChunk):
                self._records.note(name, first_ns=time.perf_counter_ns())
            on_event(event)

        await self._engine.submit_async(request, noted)


def make_engine(kind: str, pace: Pace) -> EngineLike:
    """The engine of a kind."""
    if kind == "steady":
        return SteadyEngine(pace)
    from reference_impl.build import build_engine
    from reference_impl.settings import ServerSettings

    return build_engine(ServerSettings(device="cpu"))


async def serve(engine: EngineLike) -> None:
    """Serve until stdin ends."""
    records = Records()
    app = create_app(NotingEngine(engine, records))
    app.middlewares.insert(0, records.middleware)
    app.router.add_get("/records", records.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        stdin = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
        print(json.dumps({"port": runner.addresses[0][1]}), flush=True)
        await stdin.read()
    finally:
        engine.stop()
        await runner.cleanup()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="The reference server, which notes times; ends when its stdin ends.")
    parser.add_argument("--engine", choices=("steady", "tiny"), default="steady")
    defaults = Pace()
    for name, value in vars(defaults).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, help=f"default {value}")
    values = vars(parser.parse_args())
    kind = values.pop("engine")
    asyncio.run(serve(make_engine(kind, Pace(**values))))


if __name__ == "__main__":
    main()
