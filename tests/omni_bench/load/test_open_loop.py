"""The open loop on a virtual clock: requests start when they are due, whatever the answers do."""

import asyncio

import pytest
from virtual_time import answered, run_in_virtual_time

from omni_bench.load.loops import run_open_loop
from omni_bench.records.plan import PlannedRequest

MS = 1_000_000


def planned(number, at_ms):
    offset_ns = None if at_ms is None else round(at_ms * MS)
    return PlannedRequest(f"r5-{number:04d}", f"p{number}", {}, None, False, offset_ns)


def drive(at_ms, takes_ms, max_in_flight=100, stop_when=None):
    """Run a schedule in virtual time; request i takes takes_ms(i). Returns the result and the order of the starts."""
    order = []

    def make(clock):
        async def send(request, scheduled_ns):
            started_ns = clock()
            order.append(request.request_id)
            await asyncio.sleep(takes_ms(int(request.request_id[-4:])) / 1e3)
            return answered(request, scheduled_ns, started_ns, clock())

        return run_open_loop(
            [planned(number, at) for number, at in enumerate(at_ms)],
            max_in_flight,
            send,
            should_stop=lambda: stop_when is not None and stop_when(clock() / MS),
            clock=clock,
            spin_ns=0,
        )

    return run_in_virtual_time(make), order


def by_id(result):
    return {one.request_id: one for one in result.timelines}


def test_requests_start_when_they_are_due():
    result, _ = drive([0, 10, 10, 250], lambda number: 5)
    starts = [by_id(result)[f"r5-{number:04d}"].started_ns / MS for number in range(4)]
    assert starts == pytest.approx([0, 10, 10, 250], abs=0.001)
    assert result.unsent == () and result.peak_in_flight == 2


def test_a_slow_answer_moves_no_later_start():
    at_ms = [10 * number for number in range(200)]
    result, _ = drive(at_ms, lambda number: 5000 if number == 3 else 1)
    for number, at in enumerate(at_ms):
        one = by_id(result)[f"r5-{number:04d}"]
        assert one.scheduled_ns == at * MS
        assert one.started_ns == pytest.approx(at * MS, abs=1000)


def test_errors_of_the_sleep_do_not_add_up():
    result, _ = drive([7.3 * number for number in range(5000)], lambda number: 1)
    late = [one.started_ns - one.scheduled_ns for one in result.timelines]
    assert max(late) < 1000 and len(late) == 5000


def test_the_cap_makes_requests_wait_in_order_and_the_schedule_shows_it():
    result, order = drive([0, 1, 2, 3, 500], lambda number: 100, max_in_flight=2)
    found = by_id(result)
    assert order == sorted(order) and result.peak_in_flight == 2
    assert [found[f"r5-{number:04d}"].scheduled_ns / MS for number in range(5)] == [0, 1, 2, 3, 500]
    starts = [found[f"r5-{number:04d}"].started_ns / MS for number in range(5)]
    assert starts == pytest.approx([0, 1, 100, 101, 500], abs=0.01)


def test_a_stop_is_noticed_while_waiting_for_a_request_that_is_due_much_later():
    ended_ms = []
    result, order = drive([0, 3_600_000], lambda number: 1, stop_when=lambda at_ms: at_ms > 300)
    ended_ms.append(result.window_end_ns / MS)
    assert order == ["r5-0000"] and [one.request_id for one in result.unsent] == ["r5-0001"]
    assert ended_ms[0] < 500


def test_a_stop_while_the_cap_is_reached_sends_nothing_more():
    result, order = drive([0, 1, 2], lambda number: 200, max_in_flight=1, stop_when=lambda at_ms: at_ms > 50)
    assert len(order) == 1 and len(result.unsent) == 2 and len(result.timelines) == 1


def test_an_error_of_the_sender_ends_the_level():
    async def broken(request, scheduled_ns):
        raise RuntimeError("boom")

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        asyncio.run(run_open_loop([planned(0, 0), planned(1, 0)], 1, broken))


@pytest.mark.parametrize(("at_ms", "cap"), [([None], 1), ([5, 4], 1), ([0], 0)])
def test_what_is_no_open_loop_is_refused(at_ms, cap):
    async def never(request, scheduled_ns):
        raise AssertionError("sent")

    with pytest.raises(ValueError, match=r"offset|max_in_flight"):
        asyncio.run(run_open_loop([planned(number, at) for number, at in enumerate(at_ms)], cap, never))


def test_real_time_starts_are_never_early():
    async def send(request, scheduled_ns):
        import time

        started_ns = time.perf_counter_ns()
        await asyncio.sleep(0)
        return answered(request, scheduled_ns, started_ns, time.perf_counter_ns())

    result = asyncio.run(run_open_loop([planned(number, 3.3 * number) for number in range(20)], 20, send))
    assert all(one.started_ns >= one.scheduled_ns for one in result.timelines)
