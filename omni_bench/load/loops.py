"""The closed loop, in which a slot sends its next request when its last one ends, and the open loop, in which requests
start when the schedule says, whether or not those before them have ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from omni_bench.records.plan import PlannedRequest
from omni_bench.records.timeline import Timeline

STOP_CHECK_S = 0.1  # how soon a wait for a request that is due later notices that it must stop
SPIN_NS = 1_200_000  # the selector's timeout has a resolution of 1 ms, and rounds up


@dataclass(frozen=True)
class LoopResult:
    """``timelines`` in the order in which the requests ended; ``unsent``: those left when ``should_stop`` held."""

    timelines: tuple[Timeline, ...]
    unsent: tuple[PlannedRequest, ...]
    window_start_ns: int
    window_end_ns: int
    peak_in_flight: int


async def run_closed_loop(
    planned: Iterable[PlannedRequest],
    concurrency: int,
    send: Callable[[PlannedRequest, int], Awaitable[Timeline]],
    *,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], int] = time.perf_counter_ns,
    start_ns: int | None = None,
) -> LoopResult:
    """Keep exactly ``concurrency`` requests in flight until ``planned`` is used up, which other processes may draw on.

    ``send(request, scheduled_ns)`` does one request. ``scheduled_ns`` is the moment its slot
    became free: when the slot's previous request ended, or the level's start. So the time
    that the client itself needs between two requests shows as queue time. ``should_stop`` is
    asked before each request. ``start_ns``: when the level starts by ``clock``, None for now.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency={concurrency}; must be at least 1")
    pending = iter(planned)
    timelines: list[Timeline] = []
    in_flight = peak_in_flight = 0
    window_start_ns = clock() if start_ns is None else start_ns
    await _until(window_start_ns, should_stop, clock)

    async def slot() -> None:
        nonlocal in_flight, peak_in_flight
        free_since_ns = window_start_ns
        while not should_stop() and (request := next(pending, None)) is not None:
            in_flight += 1
            peak_in_flight = max(peak_in_flight, in_flight)
            try:
                timeline = await send(request, free_since_ns)
            finally:
                in_flight -= 1
            timelines.append(timeline)
            free_since_ns = timeline.finished_ns

    async with asyncio.TaskGroup() as slots:
        for _ in range(concurrency):
            slots.create_task(slot())
    return LoopResult(
        timelines=tuple(timelines),
        unsent=tuple(pending),
        window_start_ns=window_start_ns,
        window_end_ns=clock(),
        peak_in_flight=peak_in_flight,
    )


async def run_open_loop(
    planned: Sequence[PlannedRequest],
    max_in_flight: int,
    send: Callable[[PlannedRequest, int], Awaitable[Timeline]],
    *,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], int] = time.perf_counter_ns,
    spin_ns: int = SPIN_NS,
    start_ns: int | None = None,
) -> LoopResult:
    """Start each request at the level's start plus its ``scheduled_offset_ns``.

    ``send(request, scheduled_ns)`` does one request; ``scheduled_ns`` is that moment, which a slow server, a late
    request before it or a late client cannot move: what a request waits beyond it is its queue time. While
    ``max_in_flight`` requests are in flight the next one waits for the first of them to end, and those after it
    wait behind it, each with its own ``scheduled_ns``. ``should_stop`` is asked before each request, and
    while waiting. In the last ``spin_ns`` before a request is due the loop polls instead of sleeping,
    because a sleep would end up to a millisecond late. ``start_ns``: the level's start by ``clock``, None for now.

    Raises ValueError for a request without an offset, offsets out of order, or ``max_in_flight`` below 1.
    """
    offsets = [request.scheduled_offset_ns for request in planned]
    if max_in_flight < 1:
        raise ValueError(f"max_in_flight={max_in_flight}; must be at least 1")
    if None in offsets or offsets != sorted(offsets):  # type: ignore[type-var]
        raise ValueError("every request of an open loop needs an offset, in order")
    timelines: list[Timeline] = []
    in_flight = peak_in_flight = sent = 0
    ended = asyncio.Event()
    start_ns = clock() if start_ns is None else start_ns

    async def one(request: PlannedRequest, scheduled_ns: int) -> None:
        nonlocal in_flight
        try:
            timelines.append(await send(request, scheduled_ns))
        finally:
            in_flight -= 1
            ended.set()

    async with asyncio.TaskGroup() as requests:
        for request in planned:
            scheduled_ns = start_ns + (request.scheduled_offset_ns or 0)
            await _until(scheduled_ns, should_stop, clock, spin_ns)
            while in_flight >= max_in_flight:
                ended.clear()
                await ended.wait()
            if should_stop():
                break
            in_flight += 1
            sent += 1
            peak_in_flight = max(peak_in_flight, in_flight)
            requests.create_task(one(request, scheduled_ns))
            await asyncio.sleep(0)  # it starts now, also when the next one is due already
    return LoopResult(
        timelines=tuple(timelines),
        unsent=tuple(planned[sent:]),
        window_start_ns=start_ns,
        window_end_ns=clock(),
        peak_in_flight=peak_in_flight,
    )


async def _until(
    due_ns: int, should_stop: Callable[[], bool], clock: Callable[[], int], spin_ns: int = SPIN_NS
) -> None:
    """Wait for ``due_ns``, or until ``should_stop`` holds."""
    while (left_ns := due_ns - clock()) > 0 and not should_stop():
        await asyncio.sleep(min(max(left_ns - spin_ns, 0) / 1e9, STOP_CHECK_S))
