"""One speech request from the engine's events to the client's socket."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from aiohttp.http import HttpVersion11

from omni_bench.errors import EngineError
from reference_impl.engine_api import (
    AudioChunk,
    EngineDead,
    EngineLike,
    Event,
    Failed,
    Finished,
    QueueFull,
    RequestRejected,
    SpeechRequest,
)
from reference_impl.http.errors import ApiError, bad_request, unavailable
from reference_impl.http.framing import (
    CONTENT_TYPES,
    SAMPLE_WIDTH_BYTES,
    Framer,
    RawFramer,
    SseFramer,
    audio_file,
    usage,
)
from reference_impl.http.metrics import ServerMetrics
from reference_impl.http.speech_request import SpeechCall

log = logging.getLogger("reference_impl.http.server")

# A client that reads nothing for this long has its stream broken off.
WRITE_TIMEOUT_S = 120.0
# What the transport's buffer (64 KiB until it asks for a pause) takes with the framing of a chunk and the headers.
SMALL_WRITE_BYTES = 48 * 2**10
# How often a request that hears nothing looks whether the engine still lives.
ENGINE_CHECK_S = 5.0


class EventStream:
    """The engine's events of one request, handed from its thread to the event loop.

    An engine in a process of its own (``remote_engine.py``) speaks in the event loop already.

    Use as ``async with``: leaving it before the last event cancels the request. ``on_finished``
    is called with the clean end before :meth:`next` returns it.
    """

    def __init__(
        self, engine: EngineLike, request: SpeechRequest, on_finished: Callable[[Finished], None] | None = None
    ):
        self._engine = engine
        self._request = request
        self._on_finished = on_finished
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._ended = False
        self._looking: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> EventStream:
        """Submit. Raises ApiError: 400, 429 or 503."""
        try:
            await self._engine.submit_async(self._request, self._on_event)
        except RequestRejected as error:
            raise bad_request(str(error), error.param, "rejected") from None
        except QueueFull as error:
            raise ApiError(429, str(error), code="queue_full", headers={"Retry-After": "1"}) from None
        except EngineDead as error:
            raise unavailable(str(error), "engine_dead") from None
        self._look_again()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if not self._ended:
            self._engine.cancel(self._request.request_id)

    def _on_event(self, event: Event) -> None:
        if threading.get_ident() == self._thread:
            self._events.put_nowait(event)
            return
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:
            if not self._loop.is_closed():  # closed: the server has gone, nobody listens
                raise

    def _look_again(self) -> None:
        # one timer a request: a deadline around every wait for an event would cost as much as the wait
        self._looking = self._loop.call_later(ENGINE_CHECK_S, self._look)

    def _look(self) -> None:
        """An engine that has ended without saying so fails the request."""
        if self._engine.stats().alive or not self._events.empty():
            self._look_again()
        else:
            self._events.put_nowait(Failed("the engine has ended"))

    async def next(self) -> Event:
        """The next event; a :class:`Failed` if the engine ended without saying so."""
        event = await self._events.get()
        self._ended = not isinstance(event, AudioChunk)
        if isinstance(event, Finished) and event.reason == "cancelled":
            event = Failed("the engine cancelled the request")
        if isinstance(event, Finished) and self._on_finished is not None:
            self._on_finished(event)
        return event

    def error(self, failed: Failed) -> ApiError:
        """The answer to a failure, as long as one can be given."""
        if not self._engine.stats().alive:
            return unavailable(failed.message, "engine_dead")
        return ApiError(500, failed.message, code="generation_failed")


class SpeechStream(web.StreamResponse):
    """A streamed answer; ``broken_off`` tells that it did not come to its end.

    Its headers go with its first bytes: they are prepared when the first audio is there, and a packet
    of their own would wake the client for nothing. (aiohttp before 3.12 does not know the attribute.)
    """

    _send_headers_immediately = False
    broken_off = False


@dataclass(frozen=True)
class Delivery:
    """Answers one request. ``started_s`` is ``time.perf_counter()`` at its headers."""

    request: web.Request
    call: SpeechCall
    headers: dict[str, str]
    sample_rate_hz: int
    metrics: ServerMetrics
    started_s: float

    async def run(self, events: EventStream) -> web.StreamResponse:
        """Wait for the first event, so that an early failure still gets a status, then deliver."""
        first = await events.next()
        if isinstance(first, Failed):
            raise events.error(first)
        return await (self._file(events, first) if self.call.delivery == "file" else self._stream(events, first))

    async def _file(self, events: EventStream, event: Event) -> web.Response:
        parts = []
        while isinstance(event, AudioChunk):
            parts.append(event.pcm)
            event = await events.next()
        if isinstance(event, Failed):
            raise events.error(event)
        pcm = b"".join(parts)
        tokens = {f"x-{name.replace('_', '-')}": str(count) for name, count in usage(event).items()}
        self.metrics.time_to_first_packet.observe(self._elapsed_s())
        self._finished(len(pcm))
        return web.Response(
            body=audio_file(pcm, self.call.response_format, self.sample_rate_hz),
            content_type=CONTENT_TYPES[self.call.response_format],
            headers={**self.headers, **tokens},
        )

    async def _stream(self, events: EventStream, event: Event) -> web.StreamResponse:
        make = RawFramer if self.call.delivery == "audio" else SseFramer
        framer: Framer = make(self.call.response_format, self.sample_rate_hz)
        response = SpeechStream(headers={**self.headers, "Cache-Control": "no-cache"})
        response.content_type = framer.content_type
        await response.prepare(self.request)
        try:
            await self._write_events(events, event, framer, response)
        except ConnectionError:
            raise  # the client has gone
        except (EngineError, TimeoutError) as error:
            log.warning(
                "%s: stream broken off: %s", self.headers["x-request-id"], str(error) or "the client does not read"
            )
            self._break_off(response)
        except Exception:
            log.exception("%s: stream broken off", self.headers["x-request-id"])
            self._break_off(response)
        return response

    def _break_off(self, response: SpeechStream) -> None:
        response.broken_off = True
        break_off(self.request)

    async def _write_events(
        self, events: EventStream, event: Event, framer: Framer, response: web.StreamResponse
    ) -> None:
        pcm_bytes = 0
        while isinstance(event, AudioChunk):
            await self._write(response, framer.audio(event.pcm))
            if not pcm_bytes:
                self.metrics.time_to_first_packet.observe(self._elapsed_s())
            pcm_bytes += len(event.pcm)
            event = await events.next()
        if isinstance(event, Failed):
            in_band = framer.failure(events.error(event).body()["error"])
            if in_band is None:
                raise EngineError(event.message)
            await self._write(response, in_band)
        else:
            await self._write(response, framer.done(event))
            self._finished(pcm_bytes)
        await response.write_eof()

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        if not data:
            return
        transport = self.request.transport
        if transport is not None and len(data) < SMALL_WRITE_BYTES and not transport.get_write_buffer_size():
            # what the socket does not take at once fits into the transport's buffer: nothing to wait for
            await response.write(data)
            return
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await response.write(data)

    def _finished(self, pcm_bytes: int) -> None:
        self.metrics.request_duration.observe(self._elapsed_s())
        self.metrics.audio_duration.observe(pcm_bytes / SAMPLE_WIDTH_BYTES / self.sample_rate_hz)

    def _elapsed_s(self) -> float:
        return time.perf_counter() - self.started_s


def break_off(request: web.Request) -> None:
    """Close the connection so that the client cannot take what it got for the whole.

    With HTTP/1.1 the missing last chunk tells; an HTTP/1.0 body ends where the connection
    does, so there the connection is reset.
    """
    transport = request.transport
    if transport is None:
        return
    if request.version < HttpVersion11:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
