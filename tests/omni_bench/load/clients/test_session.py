"""Connections are open before the load, and the load uses them."""

import asyncio
import socket
import time

import aiohttp
import pytest
from sent import send

from omni_bench.load.clients.session import open_session, warm_pool
from omni_bench.records.api_key import ApiKey
from omni_bench.targets.null_server import Pace, null_server_process, serving


@pytest.mark.parametrize("n", [1, 8, 32])
async def test_the_load_uses_the_connections_that_were_opened(scripted_server, options, n):
    server = scripted_server()
    async with serving(server) as port, open_session(options) as session:
        base = f"http://127.0.0.1:{port}"
        assert await warm_pool(session, f"{base}/health", n) == n
        opened = set(server.peers)
        assert len(opened) == n

        async def one(number):
            return await send(session, base, options, request_id=f"r{number}", concurrency=n)

        results = await asyncio.gather(*(one(number) for number in range(n)))
    assert all(timeline.ok for timeline, _ in results)
    assert set(server.peers) == opened


async def test_a_request_starts_when_it_is_written(options):
    """Not when the client began to build it, whatever it does in between: here, nothing for 300 ms."""
    with null_server_process(Pace(first_ms=5, chunk_ms=20, chunks=1)) as (_, base):
        async with open_session(options) as session:
            await warm_pool(session, f"{base}/health", 1)
            asked = asyncio.ensure_future(send(session, base, options, request_id="r"))
            asyncio.get_running_loop().call_soon(time.sleep, 0.3)
            timeline, _ = await asked
            async with session.get(f"{base}/sent") as response:
                sent_ns = (await response.json())["r"]
    assert 5e6 < sent_ns[0] - timeline.started_ns < 150e6


async def test_a_missing_health_path_still_opens_connections(scripted_server, options):
    async with serving(scripted_server()) as port, open_session(options) as session:
        assert await warm_pool(session, f"http://127.0.0.1:{port}/nothing-here", 3) == 3


async def test_a_server_that_is_not_there_opens_nothing_and_raises_nothing(options):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with open_session(options) as session:
            assert await warm_pool(session, f"http://127.0.0.1:{unused.getsockname()[1]}/health", 3) == 0


@pytest.mark.parametrize(("header", "sent"), [("authorization", "Bearer secret"), ("xi-api-key", "secret")])
async def test_the_key_is_sent_as_a_bearer_token_or_in_a_header_of_its_own(scripted_server, options, header, sent):
    server = scripted_server()
    async with serving(server) as port, open_session(options, ApiKey("secret", header)) as session:
        await send(session, f"http://127.0.0.1:{port}", options)
    assert server.headers[0][header] == sent and ("Authorization" in server.headers[0]) == (header == "authorization")


async def test_a_dropped_connection_is_not_tried_again(options):
    asked = []

    async def answer_once(reader, writer):
        """Every connection answers its first request and hangs up at the second one."""
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        asked.append(writer.get_extra_info("peername"))
        writer.close()

    server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/health"
    async with server, open_session(options) as session:
        assert await warm_pool(session, url, 1) == 1
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.get(url)
    assert len(asked) == 1
