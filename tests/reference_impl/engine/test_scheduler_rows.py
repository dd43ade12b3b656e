"""Rows and requests: who is where, and whose a frame is."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from reference_impl.engine.chunking import ChunkSchedule
from reference_impl.engine.request_state import Running
from reference_impl.engine.scheduler import Rows
from reference_impl.engine_api import SpeechRequest


class CountedBatch:
    """A batch whose frames say the step and the row; those ahead keep two under way, as the real ones do."""

    def __init__(self, ahead=False):
        self.ahead, self.steps, self.under_way, self.count = ahead, 0, [], 0
        self.moved: dict[int, int] = {}

    def _frame(self):
        self.steps += 1
        return np.array([[10 * self.steps + row] * 17 for row in range(self.count)])

    def step(self):
        assert not self.ahead
        return self._frame()

    def launch(self):
        assert self.ahead and len(self.under_way) < 2
        self.under_way.append(self._frame())

    def collect(self):
        return self.under_way.pop(0)

    def leave_all(self, rows):
        self.count -= len(rows)
        return self.moved


def rows_of(names, ahead=False):
    batch = CountedBatch(ahead)
    rows = Rows(batch, threading.Condition())
    for name in names:
        add(rows, batch, name)
    return rows, batch


def add(rows, batch, name):
    asked = SpeechRequest(name, "Hello.", "heart", seed=0)
    segments = [SimpleNamespace(length=5, text_tokens=1)] * 2
    request = Running(asked, lambda event: None, segments, 10, ChunkSchedule(1, 8, 0.08), row=len(rows))
    rows.add(request)
    batch.count += 1
    return request


def heard(rows):
    return [(request.request.request_id, int(codes[0])) for request, codes in rows.next_frames()]


def test_each_request_gets_the_frame_of_its_row():
    rows, _ = rows_of("abc")
    assert heard(rows) == [("a", 10), ("b", 11), ("c", 12)]
    assert (len(rows), rows.busy) == (3, True)


@pytest.mark.parametrize(
    ("leaving", "moved", "left"),
    [
        ("d", {}, "abc"),
        ("b", {1: 3}, "adc"),
        ("bd", {1: 2}, "ac"),
        ("abcd", {}, ""),
    ],
)
def test_who_takes_the_place_of_one_that_left_is_renumbered(leaving, moved, left):
    rows, batch = rows_of("abcd")
    batch.moved = moved
    rows.leave([request for request in rows.requests if request.request.request_id in leaving])
    assert "".join(request.request.request_id for request in rows.requests) == left
    assert [request.row for request in rows.requests] == list(range(len(left)))
    assert rows.busy is bool(left)


def test_a_step_ahead_is_heard_one_call_later_and_the_last_one_is_fetched():
    rows, batch = rows_of("ab", ahead=True)
    assert heard(rows) == []
    add(rows, batch, "c")  # it is in the step that is launched now, not in the one that lands
    assert heard(rows) == [("a", 10), ("b", 11)]
    assert heard(rows) == [("a", 20), ("b", 21), ("c", 22)]
    for request in rows.requests:
        request.finish_reason = "stop"
    rows.leave(list(rows.requests))
    assert (len(rows), rows.busy) == (0, True), "a step is under way"
    assert heard(rows) == []
    assert not rows.busy and not batch.under_way


def test_what_a_step_ahead_did_for_a_request_that_had_gone_on_is_dropped():
    rows, batch = rows_of("abc", ahead=True)
    heard(rows)
    (first, second, third) = rows.requests
    first.finish_reason = "stop"
    second.segment += 1  # and its next prompt is read behind the step under way
    assert heard(rows) == [("c", 12)]
    batch.moved = {0: 2}
    rows.leave([first])
    assert [(third.row, second.row)] == [(0, 1)]
    # launched with three rows, before the move: c's frame is still the third
    assert heard(rows) == [("b", 21), ("c", 22)]
    assert heard(rows) == [("c", 30), ("b", 31)]


def test_clearing_says_who_was_running():
    rows, _ = rows_of("ab")
    assert [request.request.request_id for request in rows.clear()] == ["a", "b"]
    assert not rows.busy and rows.clear() == []
