"""Connections are open before the load, and the load uses them."""

import asyncio
import socket

import pytest

from omni_bench.clients.abort import AbortSwitch
from omni_bench.clients.exchange import Call
from omni_bench.clients.openai_speech import send
from omni_bench.clients.pool import open_session, warm_pool
from omni_bench.load.null_server import serving
from omni_bench.load.plan import PlannedRequest


@pytest.mark.parametrize("n", [1, 8, 32])
async def test_the_load_uses_the_connections_that_were_opened(scripted_server, options, n):
    server = scripted_server()
    async with serving(server) as port, open_session(options) as session:
        base = f"http://127.0.0.1:{port}"
        assert await warm_pool(session, f"{base}/health", n) == n
        opened = set(server.peers)
        assert len(opened) == n

        async def one(number):
            planned = PlannedRequest(f"r{number}", "p", {}, None, False, None)
            return await send(
                Call(
                    session,
                    f"{base}/v1/audio/speech",
                    planned,
                    b"{}",
                    concurrency=n,
                    scheduled_ns=0,
                    options=options,
                    abort=AbortSwitch(),
                )
            )

        results = await asyncio.gather(*(one(number) for number in range(n)))
    assert all(timeline.ok for timeline, _ in results)
    assert set(server.peers) == opened


async def test_a_missing_health_path_still_opens_connections(scripted_server, options):
    async with serving(scripted_server()) as port, open_session(options) as session:
        assert await warm_pool(session, f"http://127.0.0.1:{port}/nothing-here", 3) == 3


async def test_a_server_that_is_not_there_opens_nothing_and_raises_nothing(options):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with open_session(options) as session:
            assert await warm_pool(session, f"http://127.0.0.1:{unused.getsockname()[1]}/health", 3) == 0


async def test_the_key_is_sent_as_a_bearer_token(scripted_server, options):
    server = scripted_server()
    async with serving(server) as port, open_session(options, api_key="secret") as session:
        planned = PlannedRequest("r", "p", {}, None, False, None)
        url = f"http://127.0.0.1:{port}/v1/audio/speech"
        await send(
            Call(session, url, planned, b"{}", concurrency=1, scheduled_ns=0, options=options, abort=AbortSwitch())
        )
    assert server.headers[0]["Authorization"] == "Bearer secret"
