"""Slots and requests: who is in which slot, and whose a frame is."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from reference_impl.engine.chunking import ChunkSchedule
from reference_impl.engine.request_state import RequestState
from reference_impl.engine.scheduler import Scheduler
from reference_impl.engine_api import SpeechRequest
from reference_impl.settings import ServerSettings


class CountedBatch:
    """A batch whose frames say the step and the slot; with overlap, two steps are under way as in the real one."""

    batches_prefill = False

    def __init__(self, overlaps_steps=False):
        self.overlaps_steps, self.steps, self.under_way, self.count = overlaps_steps, 0, [], 0
        self.moved: dict[int, int] = {}

    def _frame(self):
        self.steps += 1
        return np.array([[10 * self.steps + slot] * 17 for slot in range(self.count)])

    def step(self):
        assert not self.overlaps_steps
        return self._frame()

    def launch_step(self):
        assert self.overlaps_steps and len(self.under_way) < 2
        self.under_way.append(self._frame())

    def collect_step(self):
        return self.under_way.pop(0)

    def free_slots(self, slots):
        self.count -= len(slots)
        return self.moved


def scheduler_of(names, overlaps_steps=False):
    batch = CountedBatch(overlaps_steps)
    scheduler = Scheduler(batch, ServerSettings(max_batch=4), threading.Condition())
    for name in names:
        add(scheduler, batch, name)
    return scheduler, batch


def add(scheduler, batch, name):
    asked = SpeechRequest(name, "Hello.", "heart", seed=0)
    segments = [SimpleNamespace(length=5, text_tokens=1)] * 2
    request = RequestState(
        asked, lambda event: None, segments, 10, ChunkSchedule(1, 8, 0.08), slot=len(scheduler.running)
    )
    scheduler.add(request)
    assert scheduler.run_next() is request
    batch.count += 1
    return request


def heard(scheduler):
    return [(request.request.request_id, int(codes[0])) for request, codes in scheduler.next_frames()]


def test_each_request_gets_the_frame_of_its_slot():
    scheduler, _ = scheduler_of("abc")
    assert heard(scheduler) == [("a", 10), ("b", 11), ("c", 12)]
    assert (len(scheduler.running), scheduler.busy) == (3, True)


@pytest.mark.parametrize(
    ("leaving", "moved", "left"), [("d", {}, "abc"), ("b", {1: 3}, "adc"), ("bd", {1: 2}, "ac"), ("abcd", {}, "")]
)
def test_the_request_that_moves_into_a_freed_slot_gets_its_number(leaving, moved, left):
    scheduler, batch = scheduler_of("abcd")
    batch.moved = moved
    scheduler.free([request for request in scheduler.running if request.request.request_id in leaving])
    assert "".join(request.request.request_id for request in scheduler.running) == left
    assert [request.slot for request in scheduler.running] == list(range(len(left)))
    assert scheduler.busy is bool(left)


def test_an_overlapped_step_is_heard_one_call_later_and_the_last_one_is_collected():
    scheduler, batch = scheduler_of("ab", overlaps_steps=True)
    assert heard(scheduler) == []
    add(scheduler, batch, "c")  # it is in the step that is launched now, not in the one that is collected
    assert heard(scheduler) == [("a", 10), ("b", 11)]
    assert heard(scheduler) == [("a", 20), ("b", 21), ("c", 22)]
    for request in scheduler.running:
        request.finish_reason = "stop"
    scheduler.free(list(scheduler.running))
    assert (len(scheduler.running), scheduler.busy) == (0, True), "a step is under way"
    assert heard(scheduler) == []
    assert not scheduler.busy and not batch.under_way


def test_what_an_overlapped_step_did_for_a_request_that_had_gone_on_is_dropped():
    scheduler, batch = scheduler_of("abc", overlaps_steps=True)
    heard(scheduler)
    (first, second, third) = scheduler.running
    first.finish_reason = "stop"
    second.segment += 1  # and its next prompt is prefilled behind the step under way
    assert heard(scheduler) == [("c", 12)]
    batch.moved = {0: 2}
    scheduler.free([first])
    assert [(third.slot, second.slot)] == [(0, 1)]
    # launched with three slots, before the move: c's frame is still the third
    assert heard(scheduler) == [("b", 21), ("c", 22)]
    assert heard(scheduler) == [("c", 30), ("b", 31)]


def test_clearing_returns_who_was_running_and_who_waited():
    scheduler, _ = scheduler_of("abc")
    scheduler.waiting.add(scheduler.running.pop(), 2)
    assert [request.request.request_id for request in scheduler.clear()] == ["a", "b", "c"]
    assert not scheduler.busy and scheduler.clear() == []
