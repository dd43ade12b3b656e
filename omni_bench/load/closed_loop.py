"""The closed loop: a fixed number of slots, each of which sends its next request when its last one ends."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from omni_bench.records.plan import PlannedRequest
from omni_bench.records.timeline import Timeline


@dataclass(frozen=True)
class ClosedLoopResult:
    """``timelines`` in the order in which the requests ended; ``unsent``: those left when ``should_stop`` held."""

    timelines: tuple[Timeline, ...]
    unsent: tuple[PlannedRequest, ...]
    window_start_ns: int
    window_end_ns: int
    peak_in_flight: int


async def run_closed_loop(
    planned: Sequence[PlannedRequest],
    concurrency: int,
    send: Callable[[PlannedRequest, int], Awaitable[Timeline]],
    *,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> ClosedLoopResult:
    """Keep exactly ``concurrency`` requests in flight until ``planned`` is used up.

    ``send(request, scheduled_ns)`` does one request. ``scheduled_ns`` is the moment its slot
    became free: when the slot's previous request ended, or the level's start. So the time
    that the client itself needs between two requests shows as queue time. ``should_stop`` is
    asked before each request.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency={concurrency}; must be at least 1")
    pending = deque(planned)
    timelines: list[Timeline] = []
    in_flight = peak_in_flight = 0
    window_start_ns = clock()

    async def slot() -> None:
        nonlocal in_flight, peak_in_flight
        free_since_ns = window_start_ns
        while pending and not should_stop():
            request = pending.popleft()
            in_flight += 1
            peak_in_flight = max(peak_in_flight, in_flight)
            try:
                timeline = await send(request, free_since_ns)
            finally:
                in_flight -= 1
            timelines.append(timeline)
            free_since_ns = timeline.finished_ns

    async with asyncio.TaskGroup() as slots:
        for _ in range(min(concurrency, len(pending))):
            slots.create_task(slot())
    return ClosedLoopResult(
        timelines=tuple(timelines),
        unsent=tuple(pending),
        window_start_ns=window_start_ns,
        window_end_ns=clock(),
        peak_in_flight=peak_in_flight,
    )
