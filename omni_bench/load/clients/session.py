"""The HTTP session of the load worker: keep-alive connections that are open before the clock starts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from omni_bench.load.clients.responses import ERROR_BODY_LIMIT_BYTES, describe_body
from omni_bench.records.api_key import ApiKey

REFUSAL_TIMEOUT_S = 5.0  # how long the text of a refused WebSocket is waited for
READ_BUFFER_BYTES = 1024 * 1024  # a read returns all that has arrived, whatever the chunking
WARM_LIMIT_BYTES = 1024 * 1024
"""Of an answer that only opens a connection; one that goes on has its connection closed."""
IDLE_S = 0.5
"""How long a connection may have been idle and still be used: longer than between two requests of a slot, and shorter
than any server waits before it closes one (the usual 5 s of uvicorn, 1 s and 2 s of others), which may be just now."""


@dataclass(frozen=True)
class WireOptions:
    """What the wire client needs of the client's configuration; plain values, so that it travels as JSON.

    ``content_types``: those of an answer that are taken beside the wire form's own, in lower case. ``reuse``: whether
    the server keeps connections for a next request.
    """

    sample_rate_hz: int
    request_timeout_s: float
    connect_timeout_s: float
    max_audio_s: float
    stall_timeout_s: float = 20.0
    content_types: tuple[str, ...] = ()
    reuse: bool = True


class WebSocket(aiohttp.ClientWebSocketResponse):
    """A WebSocket that remembers the headers with which the server agreed to it."""

    def __init__(
        self, reader: Any, writer: Any, protocol: Any, response: aiohttp.ClientResponse, *more: Any, **named: Any
    ):
        super().__init__(reader, writer, protocol, response, *more, **named)
        self.upgrade_headers = response.headers


def open_session(
    options: WireOptions, api_key: ApiKey | None = None, *, reuse: bool = True, idle_s: float = IDLE_S
) -> aiohttp.ClientSession:
    """A session without limits, cookies, proxies or decompression of its own. Close it after use.

    ``reuse``: connections are used again, as by the next request of a slot. An open loop has no slots: its connections
    would lie idle, hold a thread each in servers that have one a connection, and be closed by others just as a request
    comes. There every request makes its own, as independent users do, within its TTFP; so it does wherever
    ``options.reuse`` does not hold. ``idle_s``: see :data:`IDLE_S`.

    The deadline of a whole request is not aiohttp's but the caller's, so that an abort can end it.
    """
    headers = {"Accept-Encoding": "identity", **(api_key.headers if api_key else {})}
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=idle_s)
        if reuse and options.reuse
        else aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=options.connect_timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=headers,
        auto_decompress=False,
        read_bufsize=READ_BUFFER_BYTES,
        ws_response_class=WebSocket,
        raise_for_status=_say_why_no_socket,
        trace_configs=[_tracing()],
    )
    return without_second_tries(session)


class SendNotes(Protocol):
    """What a request given as ``trace_request_ctx`` is told while it is sent."""

    def connecting(self) -> None:
        """A new connection is about to be made for it."""

    def reusing(self) -> None:
        """It has a connection that was used before."""

    def writing(self) -> None:
        """Some of it is about to be written: headers, which wait for a body if there is one, or a part of the body."""


def _tracing() -> aiohttp.TraceConfig:
    """Tells the ``trace_request_ctx`` of a request, :class:`SendNotes`, if it has one."""

    def telling(what: Callable[[SendNotes], None]) -> Callable[[Any, Any, Any], Awaitable[None]]:
        async def tell(_: Any, trace: Any, __: Any) -> None:
            if trace.trace_request_ctx is not None:
                what(trace.trace_request_ctx)

        return tell

    config = aiohttp.TraceConfig()
    config.on_connection_create_start.append(telling(lambda notes: notes.connecting()))
    config.on_connection_reuseconn.append(telling(lambda notes: notes.reusing()))
    config.on_request_headers_sent.append(telling(lambda notes: notes.writing()))
    config.on_request_chunk_sent.append(telling(lambda notes: notes.writing()))
    return config


async def _say_why_no_socket(response: aiohttp.ClientResponse) -> None:
    """Where a WebSocket is refused, put what the server says into the error; aiohttp would throw it away."""
    if response.status == 101 or "Upgrade" not in response.request_info.headers:
        return
    body = bytearray()
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(REFUSAL_TIMEOUT_S):
            while len(body) < ERROR_BODY_LIMIT_BYTES and (data := await response.content.readany()):
                body += data
    raise aiohttp.WSServerHandshakeError(
        response.request_info,
        response.history,
        status=response.status,
        message=describe_body(bytes(body)),
        headers=response.headers,
    )


def without_second_tries(session: aiohttp.ClientSession) -> aiohttp.ClientSession:
    """``session``, which sends nothing twice: aiohttp repeats a GET, and so the handshake of a WebSocket, by itself.

    A server that drops the connection would pass for one that is slow. There is no public switch; aiohttp's own test
    client uses this one, from 3.11 on. Raises AttributeError if there is none.
    """
    if session._retry_connection:  # without the attribute, setting it would do nothing and say nothing
        session._retry_connection = False
    return session


async def warm_pool(session: aiohttp.ClientSession, url: str, n: int) -> int:
    """Open ``n`` keep-alive connections by ``n`` concurrent GETs of ``url``; returns how many were answered.

    All are started before any can finish, so that each needs a connection of its own. A
    request that fails is only not counted: the load that follows meets the same failure
    and reports it by name. It has no deadline of its own: give it one.
    """

    async def get() -> bool:
        try:
            async with session.get(url, allow_redirects=False) as response:
                read_bytes = 0
                while data := await response.content.readany():
                    read_bytes += len(data)
                    if read_bytes > WARM_LIMIT_BYTES:
                        response.close()
                        return False
        except (aiohttp.ClientError, OSError):  # a connect timeout is a ClientError
            return False
        return True

    return sum(await asyncio.gather(*(get() for _ in range(n))))
