"""The engine's events of one request, handed to the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

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

ENGINE_CHECK_S = 5.0  # how often a request without events checks that the engine is still alive


class EventStream:
    """The engine's events of one request, handed from its thread to the event loop.

    They come from its thread or, if it has a process of its own (``remote/client.py``), in the event loop
    already. Use as ``async with``: leaving it before the last event cancels the request. ``on_finished``
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
        self._check: asyncio.TimerHandle | None = None

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
        self._schedule_check()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._check is not None:
            self._check.cancel()
        if not self._ended:
            self._engine.cancel(self._request.request_id)

    def _on_event(self, event: Event) -> None:
        if threading.get_ident() == self._thread:
            self._events.put_nowait(event)
            return
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:
            if not self._loop.is_closed():  # closed: the server has stopped
                raise

    def _schedule_check(self) -> None:
        # one timer a request: a deadline around every wait for an event would cost as much as the wait
        self._check = self._loop.call_later(ENGINE_CHECK_S, self._check_engine)

    def _check_engine(self) -> None:
        """Fail the request if the engine has ended without an event."""
        if self._engine.stats().alive or not self._events.empty():
            self._schedule_check()
        else:
            self._events.put_nowait(Failed("the engine has ended"))

    async def next(self) -> Event:
        """The next event; a :class:`Failed` if the engine ended without one."""
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
