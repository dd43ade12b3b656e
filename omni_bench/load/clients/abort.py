"""One switch that ends every request in flight: an interrupted run, or a server that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from omni_bench.records.timeline import RequestError


@dataclass(frozen=True)
class AbortReason:
    """What requests are recorded as: those ``in_flight`` when the switch trips, and those ``unsent``."""

    in_flight: RequestError
    unsent: RequestError


class AbortSwitch:
    """Deadlines that can all be made to expire at once.

    Built on :func:`asyncio.timeout`, so that a request ends by the same path as at its own
    deadline and no task is ever cancelled from outside. Use it from one event loop only.
    """

    def __init__(self) -> None:
        self._reason: AbortReason | None = None
        self._active: set[asyncio.Timeout] = set()

    @property
    def reason(self) -> AbortReason | None:
        """Why the switch was tripped, or None while it is not."""
        return self._reason

    def trip(self, reason: AbortReason) -> None:
        """End all requests in flight now and those that start later at once. The first reason stays."""
        if self._reason is not None:
            return
        self._reason = reason
        now = asyncio.get_running_loop().time()
        for timeout in self._active:
            if not timeout.expired():
                timeout.reschedule(now)

    @asynccontextmanager
    async def deadline(self, seconds: float) -> AsyncIterator[None]:
        """Raise TimeoutError after ``seconds``, or as soon as the switch trips."""
        async with asyncio.timeout(0 if self._reason is not None else seconds) as timeout:
            self._active.add(timeout)
            try:
                yield
            finally:
                self._active.discard(timeout)
