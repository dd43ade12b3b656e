"""A speech server that does no work: audio at a fixed pace, to measure what the client itself adds.

``python -m omni_bench.load.null_server --port 0 --first-ms 50 ...`` prints
``{"port": N}`` once it listens; :class:`NullServerProcess` does that from Python. It speaks
POST /v1/audio/speech (raw pcm), GET /health, and GET /records: what it did and when, by
request id, so that the client's figures can be compared with the server's own.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import contextlib
import json
import math
import select
import sys
import time
from collections import OrderedDict
from dataclasses import asdict, dataclass

from aiohttp import web

from omni_bench.errors import TargetError
from omni_bench.subprocesses import start_module

BODY_LIMIT_BYTES = 64 * 1024 * 1024  # requests may carry reference audio
RECORDS_KEPT = 10_000
START_TIMEOUT_S = 60.0
TONE_HZ = 220.0
TONE_LEVEL = 0.25


@dataclass(frozen=True)
class Pace:
    """First chunk ``first_ms`` after the request is read, then one each ``interval_ms``; each holds ``chunk_ms``."""

    first_ms: float = 50.0
    interval_ms: float = 50.0
    chunk_ms: float = 200.0
    chunks: int = 10
    sample_rate_hz: int = 24_000


@dataclass
class ServedRecord:
    """Times of one request by the server's ``perf_counter_ns``: body read, first chunk written, last written."""

    received_ns: int
    first_sent_ns: int | None = None
    last_sent_ns: int | None = None


def tone(samples: int, sample_rate_hz: int) -> bytes:
    """``samples`` samples of an audible sine, s16le mono."""
    scale, step = TONE_LEVEL * 32767, 2 * math.pi * TONE_HZ / sample_rate_hz
    values = array.array("h", (round(scale * math.sin(step * i)) for i in range(samples)))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


class NullServer:
    """The request handlers. Override :meth:`stream` to misbehave (tests do)."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.chunk = tone(round(pace.chunk_ms / 1e3 * pace.sample_rate_hz), pace.sample_rate_hz)
        self.records: OrderedDict[str, ServedRecord] = OrderedDict()

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=BODY_LIMIT_BYTES)
        app.router.add_post("/v1/audio/speech", self.speech)
        app.router.add_get("/health", self.health)
        app.router.add_get("/records", self.get_records)
        return app

    async def health(self, request: web.Request) -> web.StreamResponse:
        """GET /health."""
        return web.json_response({"status": "ok"})

    async def get_records(self, request: web.Request) -> web.StreamResponse:
        """GET /records: {request id: {received_ns, first_sent_ns, last_sent_ns}} of the latest requests."""
        return web.json_response({request_id: asdict(record) for request_id, record in self.records.items()})

    async def speech(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/audio/speech."""
        body = await request.read()
        record = ServedRecord(received_ns=time.perf_counter_ns())
        self.records[request.headers.get("x-request-id", "")] = record
        while len(self.records) > RECORDS_KEPT:
            self.records.popitem(last=False)
        return await self.stream(request, body, record)

    async def stream(self, request: web.Request, body: bytes, record: ServedRecord) -> web.StreamResponse:
        """Answer with the paced chunks."""
        response = web.StreamResponse(headers={"Content-Type": f"audio/pcm; rate={self.pace.sample_rate_hz}"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # a client that hangs up needs no more audio
            for index in range(self.pace.chunks):
                due_ns = record.received_ns + round((self.pace.first_ms + index * self.pace.interval_ms) * 1e6)
                await asyncio.sleep(max(0.0, (due_ns - time.perf_counter_ns()) / 1e9))
                record.last_sent_ns = time.perf_counter_ns()
                if record.first_sent_ns is None:
                    record.first_sent_ns = record.last_sent_ns
                await response.write(self.chunk)
        return response


@contextlib.asynccontextmanager
async def serving(server: NullServer, host: str = "127.0.0.1", port: int = 0):
    """Serve inside this event loop; yields the port."""
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class NullServerProcess:
    """The server in a process of its own, as a context manager; ``base_url`` once entered.

    Raises TargetError when it does not come up.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.base_url = ""

    def __enter__(self) -> NullServerProcess:
        options = [f"--{name.replace('_', '-')}={value}" for name, value in asdict(self._pace).items()]
        self.process = start_module("omni_bench.load.null_server", *options)
        try:
            ready, _, _ = select.select([self.process.stdout], [], [], START_TIMEOUT_S)
            line = self.process.stdout.readline() if ready else b""
            if not line:
                raise TargetError(f"the null server did not start: {self._pace}")
            self.base_url = f"http://127.0.0.1:{json.loads(line)['port']}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.kill()
        self.process.communicate()


async def _serve_until_orphaned(pace: Pace, port: int) -> None:
    """Serve until stdin ends, so that the server cannot outlive the process that started it."""
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    async with serving(NullServer(pace), port=port) as bound_port:
        print(json.dumps({"port": bound_port}), flush=True)
        await stdin.read()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A paced server that does no work; ends when its stdin ends.")
    parser.add_argument("--port", type=int, default=0, help="0: a free port")
    defaults = Pace()
    for name, value in asdict(defaults).items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(value), default=value, help=f"default {value}")
    values = vars(parser.parse_args())
    port = values.pop("port")
    asyncio.run(_serve_until_orphaned(Pace(**values), port))


if __name__ == "__main__":
    main()
