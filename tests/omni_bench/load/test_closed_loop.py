"""The closed loop keeps its slots full, and its bookkeeping is exact on a virtual clock."""

import asyncio
from itertools import count

import pytest
from virtual_time import answered, run_in_virtual_time

from omni_bench.load.loops import run_closed_loop
from omni_bench.records.plan import PlannedRequest


def plan(number):
    return [PlannedRequest(f"r{i}", f"p{i}", {}, None, False, None) for i in range(number)]


def run(durations_ms, concurrency, should_stop=lambda: False, client_delay_ms=0):
    """The result and the most in flight; ``client_delay_ms``: between a slot's turn and the send."""
    levels, in_flight = [], 0

    def make(clock):
        async def send(request, scheduled_ns):
            nonlocal in_flight
            in_flight += 1
            levels.append(in_flight)
            await asyncio.sleep(client_delay_ms / 1e3)
            started_ns = clock()
            await asyncio.sleep(durations_ms[int(request.request_id[1:])] / 1e3)
            in_flight -= 1
            return answered(request, scheduled_ns, started_ns, clock())

        return run_closed_loop(plan(len(durations_ms)), concurrency, send, should_stop=should_stop, clock=clock)

    return run_in_virtual_time(make), max(levels, default=0)


def ms(*times_ns):
    return tuple(round(ns / 1e6) for ns in times_ns)


def test_two_slots_on_a_virtual_clock():
    result, peak = run([10, 30, 5, 5, 5], concurrency=2)
    by_id = {t.request_id: ms(t.scheduled_ns, t.started_ns, t.ended_ns) for t in result.timelines}
    assert by_id == {"r0": (0, 0, 10), "r1": (0, 0, 30), "r2": (10, 10, 15), "r3": (15, 15, 20), "r4": (20, 20, 25)}
    assert [t.request_id for t in result.timelines] == ["r0", "r2", "r3", "r4", "r1"]
    assert ms(result.window_start_ns, result.window_end_ns) == (0, 30)
    assert result.peak_in_flight == peak == 2
    assert result.unsent == ()


def test_the_clients_own_delay_shows_as_queue_time():
    result, _ = run([10, 10, 10], concurrency=1, client_delay_ms=3)
    assert ms(*(t.started_ns - t.scheduled_ns for t in result.timelines)) == (3, 3, 3)
    assert ms(*(t.scheduled_ns for t in result.timelines)) == (0, 13, 26)


@pytest.mark.parametrize(("requests", "concurrency", "peak"), [(3, 8, 3), (8, 8, 8), (40, 7, 7), (0, 4, 0)])
def test_the_target_concurrency_is_reached_and_never_passed(requests, concurrency, peak):
    result, seen = run([7 + i % 5 for i in range(requests)], concurrency)
    assert result.peak_in_flight == seen == peak
    assert len(result.timelines) == requests


def test_a_stop_leaves_the_rest_unsent_and_lets_what_is_in_flight_end():
    calls = count()
    result, _ = run([10, 20, 5, 5], concurrency=2, should_stop=lambda: next(calls) >= 2)
    assert sorted(t.request_id for t in result.timelines) == ["r0", "r1"]
    assert [request.request_id for request in result.unsent] == ["r2", "r3"]


def test_no_slots_is_an_error():
    with pytest.raises(ValueError, match="concurrency=0"):
        run([1], concurrency=0)
