"""Two clocks, one of them far away: how well is the offset known?"""

import random

import pytest

from omni_bench.load.clocks import Offset, bound_ns, measure, shifted
from omni_bench.load.events import LevelDone, RequestFinished, read_event, write_message
from omni_bench.load.ray_engine import Node, NodeWorker
from omni_bench.load.ray_node import Said
from omni_bench.records.recording import unsent_timeline
from omni_bench.records.timeline import RequestError


class Far:
    """A clock ``ahead_ns`` of ours, behind a network that is slower in one direction than in the other."""

    def __init__(self, ahead_ns, seed):
        self.now_ns, self.ahead_ns, self.draw = 10**15, ahead_ns, random.Random(seed)

    def ask(self):
        self.now_ns += self.draw.randrange(100_000, 5_000_000)
        there_ns = self.now_ns + self.ahead_ns
        self.now_ns += self.draw.randrange(10_000, 50_000)
        return there_ns


@pytest.mark.parametrize("seed", range(20))
def test_the_truth_is_within_the_error(seed):
    far = Far(-7_654_321_987, seed)
    found = measure(far.ask, lambda: far.now_ns)
    assert abs(found.offset_ns - far.ahead_ns) <= found.error_ns < 2_600_000
    one = measure(Far(0, seed).ask, iter((10**15, 10**15 + 40_000)).__next__, pings=1)
    assert one.error_ns == 20_000


def test_the_shortest_round_trip_is_taken():
    clock = iter((0, 1000, 2000, 2011, 3000, 3500))
    answers = iter((700, 2505, 3400))
    assert measure(lambda: next(answers), lambda: next(clock), pings=3) == Offset(2505 - 2005, 6)


def test_drift_and_a_clock_wrongly_taken_for_ours_show_in_the_bound():
    assert bound_ns(500, [Offset(500, 6)]) == 6
    assert bound_ns(500, [Offset(500, 6), Offset(540, 9)]) == 49
    assert bound_ns(0, [Offset(10**9, 6)]) == 10**9 + 6


def test_stamps_move_and_spans_do_not(make_plan):
    (planned, *_) = make_plan(1, 1, 0).measured
    before = unsent_timeline(planned, 1, RequestError("connect", "no"), 50)
    after = shifted(before, -20)
    assert (after.scheduled_ns, after.started_ns, after.failed_ns, after.ended_ns) == (30, 30, 30, None)
    assert after.first_lag_ns == before.first_lag_ns and after.seed == before.seed


def test_what_a_far_node_says_is_put_on_our_clock_and_what_it_is_told_on_its_own(make_plan, tmp_path):
    node, told = object.__new__(Node), []
    node.offset_ns, node.tell = 1000, lambda *words: told.append(words)
    NodeWorker(node, 3).send({"start_ns": 5})
    assert told == [("send", 3, {"start_ns": 1005})]
    (planned, *_) = make_plan(1, 1, 0).measured
    finished = RequestFinished(unsent_timeline(planned, 1, RequestError("connect", "no"), 1050), spooled=True)
    heard = [
        read_event(node._received(Said(3, write_message(event), audio), tmp_path))
        for event, audio in ((finished, b"pcm"), (LevelDone(1, 1001, 1002, None), None))
    ]
    assert (heard[0].timeline.started_ns, heard[1].window_start_ns, heard[1].window_end_ns) == (50, 1, 2)
    assert (tmp_path / f"{planned.request_id}.pcm").read_bytes() == b"pcm"
