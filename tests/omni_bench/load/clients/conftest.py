"""Servers for the wire client: a scriptable HTTP one and a raw TCP one, both inside the test's event loop."""

import asyncio
import contextlib

import pytest
from aiohttp import web

from omni_bench.load.clients.abort import AbortSwitch
from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.session import WireOptions, open_session
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.records.plan import PlannedRequest
from omni_bench.targets.null_server import NullServer, Pace, serving

OPTIONS = WireOptions(sample_rate_hz=24_000, request_timeout_s=20.0, connect_timeout_s=5.0, max_audio_s=10.0)


class ScriptedServer(NullServer):
    """Answers with ``handler(request, server)`` if one is given, else with the paced chunks."""

    def __init__(self, handler=None, pace=None):
        super().__init__(pace or Pace(first_ms=5, interval_ms=5, chunk_ms=20, chunks=4))
        self.handler = handler
        self.bodies = []
        self.headers = []
        self.peers = []

    async def health(self, request):
        self.peers.append(request.transport.get_extra_info("peername"))
        return await super().health(request)

    async def stream(self, request: web.Request, body: bytes):
        self.bodies.append(body)
        self.headers.append(request.headers)
        self.peers.append(request.transport.get_extra_info("peername"))
        if self.handler is not None:
            return await self.handler(request, self)
        return await super().stream(request, body)


def planned_request(request_id="c1-0000"):
    return PlannedRequest(
        request_id=request_id, prompt_id="p0", body={"input": "hi"}, seed=7, warmup=False, scheduled_offset_ns=None
    )


@pytest.fixture
def send():
    """``await send(port)`` -> (timeline, audio reads) of one request to 127.0.0.1."""

    async def send_one(port, options=OPTIONS, abort=None, payload=b'{"input": "hi"}', kind="openai_speech"):
        async with open_session(options) as session:
            return await FORMS[kind].send(
                RequestContext(
                    session,
                    FORMS[kind].url(f"http://127.0.0.1:{port}"),
                    planned_request(),
                    payload,
                    concurrency=1,
                    scheduled_ns=1,
                    options=options,
                    abort=abort or AbortSwitch(),
                )
            )

    return send_one


@pytest.fixture
def ask(send):
    """``await ask(handler)`` -> (timeline, audio reads) of one request to a server that answers with ``handler``."""

    async def ask_one(handler=None, **how):
        async with serving(ScriptedServer(handler)) as port:
            return await send(port, **how)

    return ask_one


@pytest.fixture
def scripted_server():
    return ScriptedServer


@pytest.fixture
def raw_server():
    """``async with raw_server(bytes) as port``: a TCP server that reads a request, answers with bytes, and closes."""

    @contextlib.asynccontextmanager
    async def serve(answer, then_wait=False):
        async def handle(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
                if then_wait:
                    await reader.read()
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]

    return serve


@pytest.fixture
def options():
    return OPTIONS
