"""Throughput over the whole level and over its steady part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import make_timeline

from omni_bench.metrics.throughput import Throughput, audio_between, steady_window, throughput

MS = 10**6
BASE = 5_000_000_000
SECOND = 24_000


def in_ms(window):
    return None if window is None else tuple((at - BASE) / MS for at in window)


def test_whole_window_by_hand():
    timelines = [
        make_timeline("a", started=0, ended=1000, chunks=[(500, SECOND)]),
        make_timeline("b", started=500, ended=4000, chunks=[(600, SECOND), (3000, SECOND)]),
        make_timeline("c", started=100, ended=9000, failed="timeout", chunks=[(600, 5 * SECOND)]),
    ]
    rates = throughput(timelines, concurrency=9)
    assert rates == Throughput(audio_per_s=3 / 4, audio_per_s_steady=None, requests_per_s=2 / 4)


def test_the_window_begins_with_the_first_request_even_if_that_one_fails():
    timelines = [
        make_timeline("a", started=0, ended=500, failed="http_status"),
        make_timeline("b", started=1000, ended=2000, chunks=[(1500, SECOND)]),
    ]
    assert throughput(timelines, 9).audio_per_s == 0.5


def test_audio_that_failed_a_check_is_no_output_but_its_time_was_spent():
    timelines = [
        make_timeline("a", started=0, ended=1000, chunks=[(500, SECOND)]),
        make_timeline("noise", started=0, ended=4000, chunks=[(600, 60 * SECOND)]),
    ]
    rates = throughput(timelines, 2, faulty={"noise"})
    assert rates.audio_per_s == rates.requests_per_s == 1 / 4
    assert throughput(timelines, 2, faulty={"a", "noise"}).audio_per_s is None
    slots = [make_timeline(str(i), started=0, ended=1000, chunks=[(500, SECOND)]) for i in range(2)]
    assert throughput(slots, 2, faulty={"0"}).audio_per_s_steady == 1.0


def test_nothing_successful_is_no_rate():
    none = Throughput(audio_per_s=None, audio_per_s_steady=None, requests_per_s=None)
    assert throughput([], 1) == none
    assert throughput([make_timeline(failed="connect")], 1) == none


def test_steady_window_of_two_slots():
    """Slots: a 0-1000, c 1001-2000, e 2001-3500 and b 0-1500, d 1501-2500; two are in flight from 0 to 2500."""
    timelines = [
        make_timeline("a", 0, 1000, [(900, SECOND)]),
        make_timeline("b", 0, 1500, [(1400, SECOND)]),
        make_timeline("c", 1001, 2000, [(1900, SECOND)]),
        make_timeline("d", 1501, 2500, [(2500, SECOND)]),
        make_timeline("e", 2001, 3500, [(2400, SECOND), (3400, SECOND)]),
    ]
    assert in_ms(steady_window(timelines, 2)) == (0, 2500)
    rates = throughput(timelines, 2)
    assert rates.audio_per_s_steady == pytest.approx(5 / 2.5)
    assert rates.audio_per_s == pytest.approx(6 / 3.5)


def test_never_reached():
    timelines = [make_timeline("a", 0, 1000), make_timeline("b", 1000, 2000)]
    assert steady_window(timelines, 2) is None
    assert in_ms(steady_window(timelines, 1)) == (0, 2000)


def test_one_wave_that_ends_with_its_shortest_request_is_too_short():
    timelines = [make_timeline(str(i), 0, 500 + 100 * i) for i in range(4)]
    assert steady_window(timelines, 4) is None


def test_a_level_that_is_mostly_not_full_is_not_steady():
    timelines = [make_timeline("a", 0, 1000), make_timeline("b", 0, 5000), make_timeline("c", 4000, 5000)]
    assert steady_window(timelines, 2) is None


def test_a_failed_request_is_in_flight_but_its_audio_does_not_count():
    timelines = [
        make_timeline("a", 0, 1000, [(500, SECOND)]),
        make_timeline("b", 0, 1000, [(500, SECOND)], failed="timeout"),
    ]
    assert throughput(timelines, 2).audio_per_s_steady == 1.0


def test_requests_that_were_never_sent_do_not_disturb():
    timelines = [make_timeline("a", 0, 1000), make_timeline("z", 500, 500, failed="cancelled")]
    assert in_ms(steady_window(timelines, 1)) == (0, 1000)


def test_audio_between_is_open_at_the_start_and_closed_at_the_end():
    timeline = make_timeline(chunks=[(10, SECOND), (20, 2 * SECOND), (30, 4 * SECOND)])
    assert audio_between(timeline, BASE + 10 * MS, BASE + 20 * MS) == 2.0
    assert audio_between(timeline, None, BASE + 20 * MS) == 3.0
    assert audio_between(timeline, BASE + 10 * MS, None) == 6.0


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 3)), min_size=1, max_size=30), st.integers(1, 6))
def test_a_closed_loop_is_steady_until_its_first_slot_runs_out(requests, slots):
    """Requests of given durations (and client gaps) run by a closed loop: full from 0 to the first idle slot."""
    free = [0] * slots
    timelines = []
    for number, (duration, gap) in enumerate(requests):
        slot = min(range(slots), key=lambda index: free[index])
        start = free[slot] + (gap if free[slot] else 0)
        timelines.append(make_timeline(str(number), start, start + duration))
        free[slot] = start + duration
    window = in_ms(steady_window(timelines, slots))
    if len(requests) < slots:
        assert window is None
    elif window is not None:
        assert window[0] == 0
        assert window[1] <= max(free)
        if all(gap == 0 for _, gap in requests):
            assert window[1] == min(free)
