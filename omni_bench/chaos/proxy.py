"""A reverse proxy that injects one fault into the speech requests that pass through it, and nothing else.

What is not hit passes as it came: status, headers (but for those of one connection), and the
body chunk by chunk as the server cut it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from omni_bench.chaos.catalogue import CRASH_IN_FLIGHT, WireFault
from omni_bench.chaos.streams import STALL_S, StreamCutError, transform
from omni_bench.chaos.swap import StreamSwap
from omni_bench.clients.payload import parse_content_type
from omni_bench.clients.pool import READ_BUFFER_BYTES
from omni_bench.clients.urls import server_root
from omni_bench.errors import TargetError

log = logging.getLogger("omni_bench.chaos")

SPEECH_PATH = "/v1/audio/speech"
MAX_BODY_BYTES = 64 * 1024 * 1024  # requests may carry reference audio
CONNECT_TIMEOUT_S = 10.0
CHUNK_HOLD_S = 0.02  # how long the rest of a chunk that has begun to arrive is waited for
CHUNK_HOLD_BYTES = 1024 * 1024
CONNECTIONS_TIMEOUT_S = 1.0
KEEPALIVE_TIMEOUT_S = 3600.0  # a load client's pool may rest between two levels
BACKLOG = 1024  # a load client opens its whole pool at once
DEFAULT_SAMPLE_RATE_HZ = 24_000
# RFC 9110, section 7.6.1: what belongs to one connection. Lengths and codings are made anew.
_OF_ONE_CONNECTION = frozenset(
    ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
)
_MADE_ANEW = frozenset(("host", "content-length", "expect"))


class ChaosProxy:
    """The handlers. ``on_crash`` is called when the server is to die: it should not return.

    ``stall_s``: how long a stalled stream is silent.
    """

    def __init__(
        self, upstream: str, fault: WireFault, *, on_crash: Callable[[], None], stall_s: float = STALL_S
    ) -> None:
        self._upstream = server_root(upstream)
        self._fault = fault
        self._on_crash = on_crash
        self._stall_s = stall_s
        self._swap = StreamSwap()
        self._session: aiohttp.ClientSession | None = None
        self._speech_requests = 0
        self._in_flight = 0

    def application(self) -> web.Application:
        """The aiohttp application: every method and path goes to the upstream server."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.cleanup_ctx.append(self._resources)
        return app

    async def _resources(self, _: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=READ_BUFFER_BYTES,
        ) as self._session:
            yield
            await self._swap.stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST" or request.path != SPEECH_PATH:
            return await self._forward(request, hit=False)
        self._speech_requests += 1
        hit = self._fault.hits(self._speech_requests)
        self._in_flight += 1
        try:
            if self._fault.name == "crash_at_c3":
                hit = self._in_flight >= CRASH_IN_FLIGHT
                if hit:
                    self._say_hit(request)
                    self._on_crash()
            elif self._fault.name == "http_500" and hit:
                await request.read()  # what is unread would be taken for the next request
                self._say_hit(request)
                return _error(500, "injected fault: http_500", "injected")
            return await self._forward(request, hit)
        finally:
            self._in_flight -= 1

    async def _forward(self, request: web.Request, hit: bool) -> web.StreamResponse:
        body = await request.read()  # a client that sends more than MAX_BODY_BYTES gets a 413
        assert self._session is not None
        path = request.rel_url.raw_path_qs
        if not path.startswith("/"):
            return _error(400, f"{path[:80]!r} is not a path", "invalid_path")
        try:
            answer = await self._session.request(
                request.method,
                URL(self._upstream + path, encoded=True),
                data=body if request.body_exists else None,
                headers=_to_pass_on(request.headers, _MADE_ANEW),
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            log.warning("%s %s: the server behind does not answer: %s", request.method, path[:80], error)
            message = f"the server behind the proxy of injected faults does not answer: {error}"
            return _error(502, message, "bad_gateway")
        hit = hit and _is_audio(answer)
        still_read = False
        try:
            response = await self._answer(request, answer, hit)
            still_read = hit and self._fault.name == "swap_streams"  # for the other one of a pair
        finally:
            if not still_read:
                answer.close()  # nothing to close after a clean end
        return response

    async def _answer(self, request: web.Request, answer: aiohttp.ClientResponse, hit: bool) -> web.StreamResponse:
        chunks, changed = chunks_of(answer), False
        if hit:
            changed = self._fault.name != "crash_at_c3"
            chunks = self._broken(request, answer, chunks)
        response = web.StreamResponse(
            status=answer.status, reason=answer.reason, headers=_to_pass_on(answer.headers, frozenset())
        )
        if changed:
            response.headers.pop("Content-Length", None)
        if _is_chunked(answer) and request.version >= aiohttp.HttpVersion11:
            response.enable_chunked_encoding()
        await response.prepare(request)
        async with aclosing(chunks):
            try:
                async for chunk in chunks:
                    await response.write(chunk)
                await response.write_eof()
            except StreamCutError:
                _hang_up(request)
            except (aiohttp.ClientError, OSError) as error:
                log.warning("%s: broken off: %s", _request_id(request), error)
                _hang_up(request)
        return response

    def _broken(
        self, request: web.Request, answer: aiohttp.ClientResponse, chunks: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """The stream as the fault has it."""
        if self._fault.name == "swap_streams":  # says itself who is hit
            return self._swap.exchange(chunks, _request_id(request))
        if self._fault.name == "crash_at_c3":
            return chunks
        self._say_hit(request)
        stated_hz = parse_content_type(answer.headers.get("Content-Type", ""))[1]
        rate_hz = stated_hz if stated_hz is not None else DEFAULT_SAMPLE_RATE_HZ
        return transform(self._fault.name, stall_s=self._stall_s, sample_rate_hz=rate_hz)(chunks)

    def _say_hit(self, request: web.Request) -> None:
        log.warning("FAULT INJECTED at the wire: %s: request %s", self._fault.name, _request_id(request))


@asynccontextmanager
async def serving(proxy: ChaosProxy, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """Serve inside this event loop; yields the address. Raises TargetError if it cannot be bound.

    A client that hangs up takes its request to the server behind with it.
    """
    runner = web.AppRunner(
        proxy.application(),
        access_log=None,
        handler_cancellation=True,
        keepalive_timeout=KEEPALIVE_TIMEOUT_S,
        shutdown_timeout=CONNECTIONS_TIMEOUT_S,
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
        except OSError as error:
            raise TargetError(f"cannot listen on --host {host}, --port {port}: {error.strerror or error}") from None
        yield runner.addresses[0][:2]
    finally:
        await runner.cleanup()


async def chunks_of(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body of ``answer``, one item an HTTP chunk, or a read where it does not come in chunks.

    A chunk is passed on once it is complete; of one that takes longer than 20 ms, or is larger
    than a MiB, what has arrived. Raises aiohttp.ClientError when the server breaks off.
    The connection is given back, or closed where that is not the end of the body, when the generator ends.
    """
    try:
        if not _is_chunked(answer):
            while data := await answer.content.readany():
                yield data
            return
        parts: list[bytes] = []
        while True:
            try:
                async with asyncio.timeout(CHUNK_HOLD_S if parts else None):
                    data, complete = await answer.content.readchunk()
            except TimeoutError:
                data, complete = b"", True
            else:
                if not data and not complete:
                    break
            if data:
                parts.append(data)
            if parts and (complete or sum(map(len, parts)) >= CHUNK_HOLD_BYTES):
                yield b"".join(parts)
                parts.clear()
        if parts:
            yield b"".join(parts)
    finally:
        answer.close()


def _hang_up(request: web.Request) -> None:
    """Send what was written, then close without the end of the stream."""
    if request.transport is not None:
        request.transport.close()


def _error(status: int, message: str, code: str) -> web.Response:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return web.json_response({"error": {"message": message, "type": kind, "code": code}}, status=status)


def _to_pass_on(headers: CIMultiDict[str], without: frozenset[str]) -> CIMultiDict[str]:
    """Headers for the other side: all but those of one connection, those it lists, and ``without``."""
    listed = {name.strip().lower() for value in headers.getall("Connection", []) for name in value.split(",")}
    left_out = _OF_ONE_CONNECTION | listed | without
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in left_out)


def _is_chunked(answer: aiohttp.ClientResponse) -> bool:
    return "chunked" in answer.headers.get("Transfer-Encoding", "").lower()


def _is_audio(answer: aiohttp.ClientResponse) -> bool:
    """A stream of samples: an error, or events with audio inside, are not this proxy's to damage."""
    mime = answer.content_type
    return answer.status == 200 and (mime.startswith("audio/") or mime == "application/octet-stream")


def _request_id(request: web.Request) -> str:
    """The client's id for a log line: nothing unprintable, not endless."""
    return ascii(request.headers.get("x-request-id", "without an id"))[1:-1][:80]
