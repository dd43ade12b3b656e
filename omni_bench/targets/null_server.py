"""A speech server that does no work: audio at a fixed pace, and it knows when it sent it.

As a program (``python -m omni_bench.targets.null_server FIRST_MS INTERVAL_MS ...``) it prints its port once it
listens, and ends when its stdin ends, so that it cannot outlive its parent.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import math
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import astuple, dataclass

from aiohttp import web

from omni_bench.errors import TargetError
from omni_bench.subprocesses import start_module

GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Pace:
    """First chunk ``first_ms`` after the request is read, then one each ``interval_ms``; each holds ``chunk_ms``.

    ``spread_ms``: requests are delayed by up to as much, each by another part of it, so that streams which begin
    together do not send together for ever.
    """

    first_ms: float = 50.0
    interval_ms: float = 50.0
    chunk_ms: float = 200.0
    chunks: int = 10
    sample_rate_hz: int = 24_000
    spread_ms: float = 0.0


def tone(samples: int, sample_rate_hz: int) -> bytes:
    """``samples`` samples of an audible sine, s16le mono."""
    step = 2 * math.pi * 220.0 / sample_rate_hz
    return array.array("h", (round(8192 * math.sin(step * i)) for i in range(samples))).tobytes()


class NullServer:
    """The request handlers; override :meth:`stream` to misbehave.

    ``sent_ns``: when each request's chunks were about to be written, by time.perf_counter_ns (which is CLOCK_MONOTONIC,
    the same in every process of a machine). GET /sent gives it away and forgets it.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.chunk = tone(round(pace.chunk_ms / 1e3 * pace.sample_rate_hz), pace.sample_rate_hz)
        self.sent_ns: dict[str, list[int]] = {}
        self._requests = 0

    def application(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)  # requests may carry reference audio
        app.add_routes(
            [web.post("/v1/audio/speech", self.speech), web.get("/health", self.health), web.get("/sent", self.sent)]
        )
        return app

    async def sent(self, request: web.Request) -> web.StreamResponse:
        told, self.sent_ns = self.sent_ns, {}
        return web.json_response(told)

    async def health(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok"})

    async def speech(self, request: web.Request) -> web.StreamResponse:
        return await self.stream(request, await request.read())

    async def stream(self, request: web.Request, body: bytes) -> web.StreamResponse:
        self._requests += 1
        delay_ms = self.pace.first_ms + self._requests * GOLDEN % 1 * self.pace.spread_ms
        received_ns = time.perf_counter_ns()
        sent_ns = self.sent_ns.setdefault(request.headers.get("x-request-id", ""), [])
        response = web.StreamResponse(headers={"Content-Type": f"audio/pcm; rate={self.pace.sample_rate_hz}"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # a client that hangs up needs no more audio
            for index in range(self.pace.chunks):
                due_ns = received_ns + round((delay_ms + index * self.pace.interval_ms) * 1e6)
                await asyncio.sleep(max(0.0, (due_ns - time.perf_counter_ns()) / 1e9))
                sent_ns.append(time.perf_counter_ns())
                await response.write(self.chunk)
        return response


@contextlib.asynccontextmanager
async def serving(server: NullServer) -> AsyncIterator[int]:
    """Serve inside this event loop; yields the port."""
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def null_server_process(pace: Pace) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The server in a process of its own; yields the process and its base URL. Raises TargetError."""
    process = start_module("omni_bench.targets.null_server", *map(str, astuple(pace)))
    try:
        port = process.stdout.readline() if process.stdout is not None else b""
        if not port.strip().isdigit():
            raise TargetError("the null server did not start; its own words are above")
        yield process, f"http://127.0.0.1:{int(port)}"
    finally:
        process.kill()
        process.communicate()


async def _serve_until_orphaned(pace: Pace) -> None:
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with serving(NullServer(pace)) as port:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await stdin.read()


if __name__ == "__main__":
    kinds = [type(value) for value in astuple(Pace())]
    asyncio.run(_serve_until_orphaned(Pace(*(kind(text) for kind, text in zip(kinds, sys.argv[1:], strict=True)))))
