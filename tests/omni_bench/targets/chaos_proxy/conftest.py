"""A server whose every request has audio of its own, and the proxy before it, both inside the test's event loop."""

import asyncio
import contextlib
import zlib

import numpy as np
import pytest
from aiohttp import web
from sent import send

from omni_bench.load.clients.abort import AbortSwitch
from omni_bench.load.clients.session import WireOptions, open_session
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from omni_bench.targets.chaos_proxy.proxy import ChaosProxy
from omni_bench.targets.chaos_proxy.proxy import serving as serving_proxy
from omni_bench.targets.null_server import NullServer, Pace, serving

RATE_HZ = 24_000
CHUNKS = (960, 7680, 7680, 3840)  # bytes of each HTTP chunk: 0.42 s in all
OPTIONS = WireOptions(
    sample_rate_hz=RATE_HZ, request_timeout_s=20.0, connect_timeout_s=5.0, max_audio_s=10.0, stall_timeout_s=10.0
)


def audio_of(request_id):
    """The chunks of one request: noise of its own, audible, no two chunks the same."""
    noise = np.random.default_rng(zlib.crc32(request_id.encode()))
    return [noise.integers(-8000, 8000, size // 2, dtype=np.int16).astype("<i2").tobytes() for size in CHUNKS]


def speech_of(request_id):
    return b"".join(audio_of(request_id))


class Upstream(NullServer):
    """Streams :func:`audio_of`, or what ``handler(request, server)`` says; ``gate`` holds it up after two chunks."""

    def __init__(self, handler=None):
        super().__init__(Pace())
        self.handler = handler
        self.gate = asyncio.Event()
        self.gate.set()
        self.headers, self.bodies = [], []
        self.in_flight = 0
        self.cancelled = []

    def application(self):
        app = super().application()
        app.router.add_get("/v1/audio/speech/{id}/codes", self.codes)
        app.router.add_route("*", "/echo{path:.*}", self.echo)
        return app

    async def stream(self, request, body):
        request_id = request.headers.get("x-request-id", "")
        self.headers.append(request.headers)
        self.bodies.append(body)
        if self.handler is not None:
            return await self.handler(request, self)
        self.in_flight += 1
        try:
            response = web.StreamResponse(headers={"Content-Type": f"audio/pcm; rate={RATE_HZ}", "x-seed": "7"})
            response.headers["x-request-id"] = request_id
            response.enable_chunked_encoding()
            await response.prepare(request)
            for index, chunk in enumerate(audio_of(request_id)):
                while index == 2 and not self.gate.is_set():
                    await asyncio.sleep(0.005)
                    if request.transport is None:
                        raise ConnectionResetError("the client has left")
                await response.write(chunk)
                await asyncio.sleep(0.01)
            return response
        except (asyncio.CancelledError, ConnectionError):
            self.cancelled.append(request_id)
            raise
        finally:
            self.in_flight -= 1

    async def codes(self, request):
        return web.json_response({"id": request.match_info["id"]}, headers={"x-codes": "1"})

    async def echo(self, request):
        body = await request.read()
        seen = {
            "method": request.method,
            "path": request.rel_url.raw_path_qs,
            "headers": [[name, value] for name, value in request.headers.items()],
            "body": body.decode("latin-1"),
        }
        headers = [("x-many", "one"), ("x-many", "two"), ("Server", "upstream/1")]
        return web.json_response(seen, status=418, reason="Short and stout", headers=headers)


class Bench:
    """A proxy before an upstream server, and the client of the harness before the proxy."""

    def __init__(self, upstream, port, crashes):
        self.upstream = upstream
        self.base_url = f"http://127.0.0.1:{port}"
        self.crashes = crashes

    async def ask(self, request_id="c1-0000", *, options=OPTIONS, session=None, abort=None):
        """(timeline, audio) of one request."""
        async with contextlib.AsyncExitStack() as stack:
            if session is None:
                session = await stack.enter_async_context(open_session(options))
            body = b'{"input": "Hi, you."}'
            how = {"request_id": request_id, "payload": body, "abort": abort or AbortSwitch()}
            timeline, reads = await send(session, self.base_url, options, **how)
        return timeline, b"".join(reads)


@pytest.fixture
def bench():
    """``async with bench(fault_name) as Bench``."""

    @contextlib.asynccontextmanager
    async def build(fault, upstream=None, stall_s=30.0):
        upstream = upstream or Upstream()
        crashes = []
        async with serving(upstream) as port:
            proxy = ChaosProxy(
                f"http://127.0.0.1:{port}/v1/",
                WIRE_FAULTS[fault],
                on_crash=lambda: crashes.append(upstream.in_flight),
                stall_s=stall_s,
            )
            async with serving_proxy(proxy, "127.0.0.1", 0) as (_, proxy_port):
                yield Bench(upstream, proxy_port, crashes)

    return build


@pytest.fixture
def make_upstream():
    return Upstream


@pytest.fixture
def speech():
    """``speech(request_id)``: the audio that the server has for it; ``speech.chunks`` the same in its chunks."""
    speech_of.chunks = audio_of
    return speech_of


@pytest.fixture
def options():
    return OPTIONS
