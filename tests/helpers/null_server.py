"""A speech server that does no work: audio at a fixed pace; also ``python null_server.py FIRST_MS INTERVAL_MS ...``.

As a program it prints its port once it listens, and ends when its stdin ends, so that it cannot outlive its parent.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import math
import sys
import time
from dataclasses import astuple, dataclass

from aiohttp import web

from omni_bench.subprocesses import start


@dataclass(frozen=True)
class Pace:
    """First chunk ``first_ms`` after the request is read, then one each ``interval_ms``; each holds ``chunk_ms``."""

    first_ms: float = 50.0
    interval_ms: float = 50.0
    chunk_ms: float = 200.0
    chunks: int = 10
    sample_rate_hz: int = 24_000


def tone(samples: int, sample_rate_hz: int) -> bytes:
    """``samples`` samples of an audible sine, s16le mono."""
    step = 2 * math.pi * 220.0 / sample_rate_hz
    return array.array("h", (round(8192 * math.sin(step * i)) for i in range(samples))).tobytes()


class NullServer:
    """The request handlers; override :meth:`stream` to misbehave. ``sent_ns``: when each request's chunks were sent."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.chunk = tone(round(pace.chunk_ms / 1e3 * pace.sample_rate_hz), pace.sample_rate_hz)
        self.sent_ns: dict[str, list[int]] = {}

    def application(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)  # requests may carry reference audio
        app.add_routes([web.post("/v1/audio/speech", self.speech), web.get("/health", self.health)])
        return app

    async def health(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok"})

    async def speech(self, request: web.Request) -> web.StreamResponse:
        return await self.stream(request, await request.read())

    async def stream(self, request: web.Request, body: bytes) -> web.StreamResponse:
        received_ns = time.perf_counter_ns()
        sent_ns = self.sent_ns.setdefault(request.headers.get("x-request-id", ""), [])
        response = web.StreamResponse(headers={"Content-Type": f"audio/pcm; rate={self.pace.sample_rate_hz}"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # a client that hangs up needs no more audio
            for index in range(self.pace.chunks):
                due_ns = received_ns + round((self.pace.first_ms + index * self.pace.interval_ms) * 1e6)
                await asyncio.sleep(max(0.0, (due_ns - time.perf_counter_ns()) / 1e9))
                sent_ns.append(time.perf_counter_ns())
                await response.write(self.chunk)
        return response


def stream_of(*parts, content_type="audio/pcm", cut=False, pause_s=0.0):
    """A chunked stream of ``parts``, with a pause before each; ``cut``: the connection is dropped at the end."""

    async def handler(request, server):
        response = web.StreamResponse(headers={"Content-Type": content_type})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for part in parts:
            await asyncio.sleep(pause_s)
            await response.write(part)
        if cut:
            await asyncio.sleep(0.02)
            request.transport.abort()
        return response

    return handler


@contextlib.asynccontextmanager
async def serving(server: NullServer):
    """Serve inside this event loop; yields the port."""
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def null_server_process(pace: Pace):
    """The server in a process of its own; yields the process and its base URL."""
    process = start([sys.executable, __file__, *map(str, astuple(pace))])
    try:
        yield process, f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


async def serve_until_orphaned(pace: Pace) -> None:
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with serving(NullServer(pace)) as port:
        print(port, flush=True)
        await stdin.read()


if __name__ == "__main__":
    values = sys.argv[1:]
    asyncio.run(serve_until_orphaned(Pace(*map(float, values[:3]), *map(int, values[3:]))))
