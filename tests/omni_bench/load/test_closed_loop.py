"""The closed loop keeps its slots full, and its bookkeeping is exact on a virtual clock."""

import asyncio
import heapq
from itertools import count

import pytest

from omni_bench.load.loops import run_closed_loop
from omni_bench.records.plan import PlannedRequest
from omni_bench.records.timeline import Timeline


class VirtualTime:
    """A clock that jumps to the next wake-up once everybody sleeps."""

    def __init__(self):
        self.now = 0
        self.sleepers = []
        self.order = count()

    def clock(self):
        return self.now

    async def sleep(self, duration):
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self.sleepers, (self.now + duration, next(self.order), future))
        await future

    async def drive(self):
        while True:
            for _ in range(5):
                await asyncio.sleep(0)
            if self.sleepers:
                self.now, _, future = heapq.heappop(self.sleepers)
                future.set_result(None)


def plan(number):
    return [PlannedRequest(f"r{i}", f"p{i}", {}, None, False, None) for i in range(number)]


def timeline(request, scheduled_ns, started_ns, ended_ns):
    return Timeline(
        request.request_id, request.prompt_id, 1, None, scheduled_ns, started_ns,
        None, None, None, ended_ns, None, (), (), 24_000, 2, 200, None,
    )  # fmt: skip


async def run(durations, concurrency, should_stop=lambda: False, client_delay=0):
    """Requests that take ``durations``; ``client_delay``: between a slot's turn and the send."""
    time = VirtualTime()
    levels = []
    in_flight = 0

    async def send(request, scheduled_ns):
        nonlocal in_flight
        in_flight += 1
        levels.append(in_flight)
        if client_delay:
            await time.sleep(client_delay)
        started = time.now
        await time.sleep(durations[int(request.request_id[1:])])
        in_flight -= 1
        return timeline(request, scheduled_ns, started, time.now)

    driver = asyncio.create_task(time.drive())
    try:
        result = await run_closed_loop(
            plan(len(durations)), concurrency, send, should_stop=should_stop, clock=time.clock
        )
    finally:
        driver.cancel()
    return result, max(levels, default=0)


async def test_two_slots_on_a_virtual_clock():
    result, peak = await run([10, 30, 5, 5, 5], concurrency=2)
    by_id = {t.request_id: (t.scheduled_ns, t.started_ns, t.ended_ns) for t in result.timelines}
    assert by_id == {"r0": (0, 0, 10), "r1": (0, 0, 30), "r2": (10, 10, 15), "r3": (15, 15, 20), "r4": (20, 20, 25)}
    assert [t.request_id for t in result.timelines] == ["r0", "r2", "r3", "r4", "r1"]
    assert (result.window_start_ns, result.window_end_ns) == (0, 30)
    assert result.peak_in_flight == peak == 2
    assert result.unsent == ()


async def test_the_clients_own_delay_shows_as_queue_time():
    result, _ = await run([10, 10, 10], concurrency=1, client_delay=3)
    assert [t.started_ns - t.scheduled_ns for t in result.timelines] == [3, 3, 3]
    assert [t.scheduled_ns for t in result.timelines] == [0, 13, 26]


@pytest.mark.parametrize(("requests", "concurrency", "peak"), [(3, 8, 3), (8, 8, 8), (40, 7, 7), (0, 4, 0)])
async def test_the_target_concurrency_is_reached_and_never_passed(requests, concurrency, peak):
    result, seen = await run([7 + i % 5 for i in range(requests)], concurrency)
    assert result.peak_in_flight == seen == peak
    assert len(result.timelines) == requests


async def test_a_stop_leaves_the_rest_unsent_and_lets_what_is_in_flight_end():
    calls = count()
    result, _ = await run([10, 20, 5, 5], concurrency=2, should_stop=lambda: next(calls) >= 2)
    assert sorted(t.request_id for t in result.timelines) == ["r0", "r1"]
    assert [request.request_id for request in result.unsent] == ["r2", "r3"]


async def test_no_slots_is_an_error():
    with pytest.raises(ValueError, match="concurrency=0"):
        await run([1], concurrency=0)
