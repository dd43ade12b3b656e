"""Servers for the wire client: a scriptable HTTP one and a raw TCP one, both inside the test's event loop."""

import asyncio
import contextlib

import pytest
import sent
from aiohttp import web

from omni_bench.load.clients.session import WireOptions, open_session
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


@pytest.fixture
def send():
    """``await send(port)`` -> (timeline, audio reads) of one request to 127.0.0.1."""

    async def send_one(port, options=OPTIONS, payload=b'{"input": "hi"}', **how):
        async with open_session(options) as session:
            return await sent.send(session, f"http://127.0.0.1:{port}", options, payload=payload, **how)

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
