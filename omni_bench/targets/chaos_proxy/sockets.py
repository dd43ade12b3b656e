"""A WebSocket through the proxy: messages of the client pass, those of the server as the fault has them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web
from yarl import URL

from omni_bench.load.clients.units import Codec, Units, Wire, units_of
from omni_bench.targets.chaos_proxy.catalogue import StreamCutError
from omni_bench.targets.chaos_proxy.passing import (
    MADE_ANEW,
    MAX_BODY_BYTES,
    bad_gateway,
    error_response,
    hang_up,
    request_id,
    to_pass_on,
)

log = logging.getLogger("omni_bench.targets.chaos_proxy")

CLOSE_TIMEOUT_S = 1.0
_NOT_CODES_TO_SEND = (None, 1005, 1006, 1015)  # RFC 6455, section 7.4.1


async def relay(
    request: web.Request,
    session: aiohttp.ClientSession,
    upstream: str,
    codec: Codec,
    broken: Callable[[Units], Units],
    *,
    one_answer: bool,
) -> web.StreamResponse:
    """Connect the client with the server behind until either closes; ``broken`` is what the fault makes of an answer.

    ``codec``: takes the answer apart. ``one_answer``: the session ends with the first one, and the server is still
    read, for the other one of a pair, when the client has left. A handshake that the server refuses is refused with
    the same status.
    """
    try:
        server = await session.ws_connect(
            URL(upstream + request.rel_url.raw_path_qs, encoded=True),
            headers=to_pass_on(request.headers, MADE_ANEW),
            max_msg_size=MAX_BODY_BYTES,
        )
    except aiohttp.WSServerHandshakeError as refusal:
        status = refusal.status if refusal.status >= 400 else 502
        return error_response(status, f"the server behind agrees to no WebSocket: {refusal.message}", "no_websocket")
    except (aiohttp.ClientError, OSError) as error:
        return bad_gateway(request, error)
    client = web.WebSocketResponse(timeout=CLOSE_TIMEOUT_S, max_msg_size=MAX_BODY_BYTES, compress=False)
    client.headers.extend(to_pass_on(getattr(server, "upgrade_headers", {}), frozenset()))
    over = asyncio.Event()
    units = _noting_the_last(units_of(codec, _messages(server, over, one_answer)), over)
    tasks: list[asyncio.Task[None]] = []
    try:
        await client.prepare(request)
        tasks.append(asyncio.create_task(_up(client, server)))
        tasks.append(asyncio.create_task(_down(request, client, broken(units), server)))
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not (one_answer and tasks):
            await _close(server)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    return client


async def _up(client: web.WebSocketResponse, server: aiohttp.ClientWebSocketResponse) -> None:
    """Pass the client's messages on until it closes or leaves."""
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):
        async for message in client:
            if message.type is WSMsgType.TEXT:
                await server.send_str(message.data)
            elif message.type is WSMsgType.BINARY:
                await server.send_bytes(message.data)


async def _down(
    request: web.Request, client: web.WebSocketResponse, units: Units, server: aiohttp.ClientWebSocketResponse
) -> None:
    """Send the units of an answer, then close as the server did, or break off as it did."""
    try:
        async with aclosing(units):
            async for unit in units:
                if isinstance(unit.wire, str):
                    await client.send_str(unit.wire)
                else:
                    await client.send_bytes(unit.wire)
    except StreamCutError:
        hang_up(request)
        return
    except (aiohttp.ClientError, OSError) as error:
        log.warning("%s: broken off: %s", request_id(request), error)
        hang_up(request)
        return
    code = server.close_code
    await client.close(code=WSCloseCode.OK if code in _NOT_CODES_TO_SEND else code)


async def _noting_the_last(units: Units, over: asyncio.Event) -> Units:
    """``units`` as they are; ``over`` is set with the last one of an answer."""
    async with aclosing(units):
        async for unit in units:
            if unit.last:
                over.set()
            yield unit


async def _messages(
    server: aiohttp.ClientWebSocketResponse, over: asyncio.Event, one_answer: bool
) -> AsyncIterator[Wire]:
    """What the server sends until it closes. Raises ClientConnectionError if it breaks off."""
    try:
        while not (one_answer and over.is_set()):
            message = await server.receive()
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                yield message.data
            elif message.type is WSMsgType.CLOSE:
                return
            elif server.close_code in (None, WSCloseCode.ABNORMAL_CLOSURE) or message.type is WSMsgType.ERROR:
                raise aiohttp.ClientConnectionError(f"the WebSocket of the server broke: {message.data}")
            else:
                return
    finally:
        if one_answer:
            await _close(server)


async def _close(server: aiohttp.ClientWebSocketResponse) -> None:
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await server.close()
