"""Slots: never shared by requests in flight at the same time, and no more than needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omni_bench.report.cross_talk_plot import slots_of

times = st.tuples(st.integers(0, 40), st.integers(1, 20)).map(lambda pair: (pair[0], sum(pair)))


def test_a_freed_slot_is_taken_again_the_lowest_first():
    assert slots_of({"a": (0, 10), "b": (1, 5), "c": (5, 8), "d": (6, 9), "e": (10, 12)}) == {
        "a": 0,
        "b": 1,
        "c": 1,
        "d": 2,
        "e": 0,
    }


def test_nothing_in_flight():
    assert slots_of({}) == {}


@given(st.lists(times, max_size=15))
def test_no_two_in_flight_share_one_and_none_is_wasted(intervals):
    in_flight = {f"r{i}": interval for i, interval in enumerate(intervals)}
    slots = slots_of(in_flight)
    peak = 0
    for name, (start, _) in in_flight.items():
        together = [other for other, (s, e) in in_flight.items() if s <= start < e]
        assert len({slots[other] for other in together}) == len(together)
        peak = max(peak, len(together))
        assert name in together
    assert max(slots.values(), default=-1) + 1 == peak
