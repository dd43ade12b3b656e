"""A reverse proxy that injects one fault into the speech requests that pass through it, and nothing else.

What is not hit passes as it came: status, headers (but for those of one connection), and the
body chunk by chunk as the server cut it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

import aiohttp
from aiohttp import web
from yarl import URL

from omni_bench.errors import TargetError
from omni_bench.load.clients.responses import parse_content_type
from omni_bench.load.clients.session import READ_BUFFER_BYTES, WebSocket, without_second_tries
from omni_bench.load.clients.units import Codec, Units, units_of
from omni_bench.load.clients.urls import server_root
from omni_bench.load.clients.wire_form import WireForm
from omni_bench.targets.chaos_proxy.catalogue import STALL_S, RelayedAnswer, StreamCutError, WireFault
from omni_bench.targets.chaos_proxy.passing import (
    CONNECT_TIMEOUT_S,
    MADE_ANEW,
    MAX_BODY_BYTES,
    bad_gateway,
    error_response,
    form_of_answer,
    forms_of_request,
    hang_up,
    is_chunked,
    request_id,
    to_pass_on,
)
from omni_bench.targets.chaos_proxy.sockets import relay
from omni_bench.targets.chaos_proxy.swap import StreamSwap

log = logging.getLogger("omni_bench.targets.chaos_proxy")

CHUNK_HOLD_S = 0.02  # how long to wait for the rest of a chunk that has started to arrive
CHUNK_HOLD_BYTES = 1024 * 1024
CONNECTIONS_TIMEOUT_S = 1.0
KEEPALIVE_TIMEOUT_S = 3600.0  # a load client's pool may rest between two levels
BACKLOG = 1024  # a load client opens its whole pool at once
DEFAULT_SAMPLE_RATE_HZ = 24_000


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
        self._swaps: dict[str, StreamSwap] = {}  # by wire form: each says the end of its audio in its own way
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
            ws_response_class=WebSocket,
        ) as self._session:
            without_second_tries(self._session)  # a failure of the server behind is not to be hidden
            yield
            for swap in self._swaps.values():
                await swap.stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        forms = forms_of_request(request)
        if not forms:
            return await self._forward(request, forms)
        self._speech_requests += 1
        hit = self._fault.hits(self._speech_requests)
        self._in_flight += 1
        try:
            if self._fault.crashes:
                hit = self._in_flight >= self._fault.min_concurrency
                if hit:
                    self._say_hit(request)
                    self._on_crash()
            elif self._fault.status is not None and hit:
                await request.read()  # what is unread would be taken for the next request
                self._say_hit(request)
                return error_response(self._fault.status, f"injected fault: {self._fault.name}", "injected")
            if forms[0].is_socket:
                return await self._relay(request, forms[0], hit and self._fits(request, forms[0]))
            return await self._forward(request, forms if hit else [])
        finally:
            self._in_flight -= 1

    async def _relay(self, request: web.Request, form: WireForm, hit: bool) -> web.StreamResponse:
        """A WebSocket."""
        assert self._session is not None and form.codec is not None
        codec = form.codec()

        def broken(units: Units) -> Units:
            return self._broken(request, form, codec, units, DEFAULT_SAMPLE_RATE_HZ) if hit else units

        swaps = hit and self._fault.swaps
        return await relay(request, self._session, self._upstream, codec, broken, one_answer=swaps)

    async def _forward(self, request: web.Request, forms: Sequence[WireForm]) -> web.StreamResponse:
        """Any other request; the fault hits the answer if that is of one of ``forms``."""
        body = await request.read()  # a client that sends more than MAX_BODY_BYTES gets a 413
        assert self._session is not None
        path = request.rel_url.raw_path_qs
        if not path.startswith("/"):
            return error_response(400, f"{path[:80]!r} is not a path", "invalid_path")
        try:
            answer = await self._session.request(
                request.method,
                URL(self._upstream + path, encoded=True),
                data=body if request.body_exists else None,
                headers=to_pass_on(request.headers, MADE_ANEW),
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            return bad_gateway(request, error)
        form = form_of_answer(forms, answer)
        hit = form is not None and self._fits(request, form)
        still_read = False
        try:
            response = await self._answer(request, answer, form if hit else None)
            still_read = hit and self._fault.swaps  # for the other one of a pair
        finally:
            if not still_read:
                answer.close()  # nothing to close after a clean end
        return response

    async def _answer(
        self, request: web.Request, answer: aiohttp.ClientResponse, form: WireForm | None
    ) -> web.StreamResponse:
        """Pass an answer on, broken if it is of a wire form that is to be."""
        chunks = chunks_of(answer)
        changed = form is not None and not self._fault.crashes
        if changed:
            chunks = self._changed(request, answer, form, chunks)
        response = web.StreamResponse(
            status=answer.status, reason=answer.reason, headers=to_pass_on(answer.headers, frozenset())
        )
        if changed:
            response.headers.pop("Content-Length", None)
        if is_chunked(answer) and request.version >= aiohttp.HttpVersion11:
            response.enable_chunked_encoding()
        await response.prepare(request)
        async with aclosing(chunks):
            try:
                async for chunk in chunks:
                    await response.write(chunk)
                await response.write_eof()
            except StreamCutError:
                hang_up(request)
            except (aiohttp.ClientError, OSError) as error:
                log.warning("%s: broken off: %s", request_id(request), error)
                hang_up(request)
        return response

    async def _changed(
        self, request: web.Request, answer: aiohttp.ClientResponse, form: WireForm, chunks: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """The body as the fault has it."""
        assert form.codec is not None
        codec = form.codec()
        stated_hz = parse_content_type(answer.headers.get("Content-Type", ""))[1]
        rate_hz = stated_hz if stated_hz is not None else DEFAULT_SAMPLE_RATE_HZ
        async with aclosing(self._broken(request, form, codec, units_of(codec, chunks), rate_hz)) as units:
            async for unit in units:
                yield unit.wire

    def _broken(self, request: web.Request, form: WireForm, codec: Codec, units: Units, rate_hz: int) -> Units:
        """The units of an answer as the fault has it."""
        if self._fault.swaps:  # says itself who is hit
            return self._swaps.setdefault(form.name, StreamSwap()).exchange(units, request_id(request))
        if self._fault.damage is None:
            return units
        self._say_hit(request)
        return self._fault.damage(units, RelayedAnswer(codec, self._stall_s, rate_hz))

    def _fits(self, request: web.Request, form: WireForm) -> bool:
        if not self._fault.fits(form.name):
            log.warning(
                "%s: not injected: %s is no fault of %s: %s",
                request_id(request),
                self._fault.name,
                form.name,
                self._fault.why,
            )
            return False
        return True

    def _say_hit(self, request: web.Request) -> None:
        log.warning("FAULT INJECTED at the wire: %s: request %s", self._fault.name, request_id(request))


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
        if not is_chunked(answer):
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
