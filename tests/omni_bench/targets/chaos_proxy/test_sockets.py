"""A WebSocket through the proxy: both directions, every way to end, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from omni_bench.targets.chaos_proxy.proxy import ChaosProxy
from omni_bench.targets.chaos_proxy.proxy import serving as serving_proxy
from omni_bench.targets.probe import free_port

STREAM = "/v1/audio/speech/stream"


@contextlib.asynccontextmanager
async def connected(script, fault="http_500", headers=None, hit=False):
    """A socket to a server that runs ``script(socket, request)``, through the proxy, and what the server notes."""
    notes = []

    async def handler(request):
        socket = web.WebSocketResponse(timeout=0.1, max_msg_size=0)
        socket.headers["x-seed"] = "7"
        await socket.prepare(request)
        try:
            await script(socket, request, notes)
        finally:
            notes.append(("closed", socket.close_code))
        return socket

    app = web.Application()
    app.router.add_get(STREAM, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    proxy = ChaosProxy(url, WIRE_FAULTS[fault], on_crash=lambda: None, stall_s=30.0)
    try:
        async with serving_proxy(proxy, "127.0.0.1", 0) as (_, port), aiohttp.ClientSession() as session:
            address = f"http://127.0.0.1:{port}{STREAM}"
            if not hit:  # of those that hit every second one, the second is not
                with contextlib.suppress(aiohttp.WSServerHandshakeError):
                    await session.ws_connect(address)
            async with session.ws_connect(address + "?x=%26", headers=headers or {}) as socket:
                yield socket, notes
    finally:
        await runner.cleanup()


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


async def test_messages_of_both_sides_pass_and_the_connection_stays():
    async def script(socket, request, notes):
        notes.append((request.headers["x-request-id"], request.headers["Authorization"], request.rel_url.raw_path_qs))
        async for message in socket:
            notes.append(message.data)
            await socket.send_str('{"type":  "session.done"}')
            await socket.send_bytes(b"\x01\x02")

    headers = {"x-request-id": "c1-7", "Authorization": "Bearer key"}
    async with connected(script, headers=headers) as (socket, notes):
        assert socket._response.headers["x-seed"] == "7"
        for sent in ("one", b"two", "x" * 300_000):
            await (socket.send_str(sent) if isinstance(sent, str) else socket.send_bytes(sent))
            assert await socket.receive_str() == '{"type":  "session.done"}', "as it came"
            assert await socket.receive_bytes() == b"\x01\x02"
        await socket.close()
        await until(lambda: notes[-1][0] == "closed")
    assert notes == [("c1-7", "Bearer key", STREAM + "?x=%26"), "one", b"two", "x" * 300_000, ("closed", 1000)]


@pytest.mark.parametrize("code", [1000, 1011, 4001])
async def test_the_server_closes_and_its_code_passes(code):
    async def script(socket, request, notes):
        await socket.send_str("last")
        await socket.close(code=code)

    async with connected(script) as (socket, _):
        assert await socket.receive_str() == "last"
        closing = await socket.receive()
        assert (closing.type, closing.data) == (WSMsgType.CLOSE, code)


@pytest.mark.parametrize("fault", ["http_500", "swap_streams", "crash_at_c3", "slow_drip"])
async def test_a_server_that_breaks_off_is_broken_off(fault):
    async def script(socket, request, notes):
        await socket.send_bytes(b"\x01")
        await asyncio.sleep(0.02)
        request.transport.abort()

    async with connected(script, fault) as (socket, _):
        assert await socket.receive_bytes() == b"\x01"
        end = await socket.receive()
        assert end.type in (WSMsgType.CLOSED, WSMsgType.ERROR) and socket.close_code in (1006, None)


@pytest.mark.parametrize("fault", ["stall", "swap_streams", "drop_chunk"])
async def test_a_client_that_leaves_takes_its_session_with_it(fault):
    async def script(socket, request, notes):
        for _ in range(3):
            await socket.send_bytes(b"\x01\x02")
        async for _ in socket:
            pass

    async with connected(script, fault, hit=True) as (socket, notes):
        assert await socket.receive_bytes() == b"\x01\x02"
        await socket.close()
        await until(lambda: notes)
    assert notes[0][0] == "closed"


@pytest.mark.parametrize("status", [404, 429])
async def test_a_handshake_that_is_refused(status):
    async def refuse(request):
        return web.json_response({"error": {"message": "no"}}, status=status)

    app = web.Application()
    app.router.add_get(STREAM, refuse)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        assert await status_through_proxy(runner.addresses[0][1]) == status
    finally:
        await runner.cleanup()


async def test_a_server_that_is_not_there():
    assert await status_through_proxy(free_port("127.0.0.1")) == 502


async def status_through_proxy(port):
    proxy = ChaosProxy(f"http://127.0.0.1:{port}", WIRE_FAULTS["cut"], on_crash=lambda: None)
    async with serving_proxy(proxy, "127.0.0.1", 0) as (_, proxy_port), aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await session.ws_connect(f"http://127.0.0.1:{proxy_port}{STREAM}")
    return refusal.value.status
