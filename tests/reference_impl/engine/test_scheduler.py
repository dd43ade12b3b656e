"""Who waits, and when prompts are prefilled."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from reference_impl.engine.chunking import ChunkSchedule
from reference_impl.engine.request_state import RequestState
from reference_impl.engine.scheduler import (
    PREFILL_POSITIONS_PER_STEP,
    PREFILLS_PER_STEP,
    PrefillGate,
    Scheduler,
    WaitingQueue,
)
from reference_impl.engine_api import QueueFull, SpeechRequest
from reference_impl.settings import ServerSettings

SLOTS = 32
PROMPT = 40


def frames_with_prefill(
    gate: PrefillGate, frames: int, running: int, waiting: int, positions: int = PROMPT
) -> list[int]:
    """The frames, of ``frames`` with the same counts, before which prompts were prefilled."""
    prefilled = []
    for frame in range(frames):
        candidates = min(waiting, SLOTS - running)
        if gate.is_open(running, [positions] * candidates) and candidates:
            gate.prefilled()
            prefilled.append(frame)
    return prefilled


@pytest.mark.parametrize(("every", "expected"), [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 2, 4]), (4, [0, 4])])
def test_a_busy_batch_prefills_every_few_frames(every, expected):
    assert frames_with_prefill(PrefillGate(every, SLOTS, batches_prefill=True), 6, running=30, waiting=1) == expected


def test_who_comes_long_after_the_last_prompt_does_not_wait():
    gate = PrefillGate(4, SLOTS, batches_prefill=True)
    assert frames_with_prefill(gate, 9, running=30, waiting=0) == []
    assert frames_with_prefill(gate, 1, running=30, waiting=1) == [0]


@pytest.mark.parametrize(
    ("batches_prefill", "running", "waiting", "positions"),
    [
        (False, 30, 1, PROMPT),  # prefilled one by one, waiting gains nothing
        (True, SLOTS // 2, 1, PROMPT),  # half of the slots are free
        (True, SLOTS - PREFILLS_PER_STEP, PREFILLS_PER_STEP, PROMPT),  # a full call
        (True, 30, 2, PREFILL_POSITIONS_PER_STEP // 2),  # the same of long prompts, as those of cloned voices
        (True, 30, 1, PREFILL_POSITIONS_PER_STEP + 100),
    ],
)
def test_nobody_waits_where_it_gains_nothing(batches_prefill, running, waiting, positions):
    assert frames_with_prefill(PrefillGate(4, SLOTS, batches_prefill), 4, running, waiting, positions) == [0, 1, 2, 3]


def test_a_long_queue_before_few_free_slots_is_no_whole_call():
    assert frames_with_prefill(PrefillGate(4, SLOTS, batches_prefill=True), 8, running=31, waiting=200) == [0, 4]


def test_however_long_the_gate_a_batch_that_runs_empty_fills_again():
    gate = PrefillGate(10**9, SLOTS, batches_prefill=True)
    assert frames_with_prefill(gate, 1, running=0, waiting=1) == [0]
    assert frames_with_prefill(gate, 100, running=17, waiting=1) == []
    assert frames_with_prefill(gate, 1, running=16, waiting=1) == [0]


def request(name: str, positions: int = PROMPT) -> RequestState:
    segment = SimpleNamespace(length=positions, text_tokens=1)
    asked = SpeechRequest(name, "Hello.", "heart", seed=0)
    return RequestState(asked, lambda event: None, [segment], 10, ChunkSchedule(1, 8, 0.08))


def queue_of(*requests: RequestState, slots: int = 2, **settings: int) -> WaitingQueue:
    queue = WaitingQueue(ServerSettings(max_batch=slots, **settings), batches_prefill=True)
    for one in requests:
        queue.add(one, 0)
    return queue


def test_free_slots_do_not_count_as_places_in_the_queue():
    first, second, third, fourth = map(request, "abcd")
    queue = queue_of(first, second, third, max_queue=1)
    with pytest.raises(QueueFull, match="3 requests are waiting; max_queue is 1"):
        queue.add(fourth, 0)
    assert [queue.pop(), queue.pop()] == [first, second]
    with pytest.raises(QueueFull):
        queue.add(fourth, 2)
    queue.add(fourth, 1)
    assert queue.clear() == [third, fourth] and not queue


def test_who_is_taken_out_leaves_the_order_of_the_others():
    first, second, third = map(request, "abc")
    queue = queue_of(first, second, third)
    assert queue.remove("b") == [second]
    assert queue.remove("b") == []
    assert (queue.pop(), queue.pop(), len(queue)) == (first, third, 0)


@pytest.mark.parametrize(
    ("running", "positions", "fits"),
    [
        (0, 0, True),
        (1, PREFILL_POSITIONS_PER_STEP - PROMPT, True),
        (1, PREFILL_POSITIONS_PER_STEP - PROMPT + 1, False),
        (2, 0, False),  # no slot
    ],
)
def test_the_oldest_needs_a_slot_and_its_share_of_the_positions(running, positions, fits):
    assert queue_of(request("a")).fits(running, positions) is fits
    assert not queue_of().fits(running, positions)


def test_one_prompt_alone_may_be_longer_than_the_limit():
    assert queue_of(request("a", 3 * PREFILL_POSITIONS_PER_STEP)).fits(1, 0)


def test_the_gate_counts_from_the_last_prefill_not_from_when_one_could_have_been():
    queue = queue_of(*map(request, "ab"), join_every_frames=3)
    assert queue.may_prefill(2), "and yet nothing is prefilled: there was no stream, say"
    assert queue.may_prefill(2)
    queue.pop()
    assert [queue.may_prefill(2) for _ in range(4)] == [False, False, True, True]


def test_prompts_without_a_slot_make_no_full_call():
    queue = queue_of(*(request(str(i), 300) for i in range(4)), slots=8, join_every_frames=3)
    queue.pop()
    assert [queue.may_prefill(7), queue.may_prefill(6)] == [False, True]


def test_a_slot_that_is_taken_is_no_place_in_the_queue():
    batch = SimpleNamespace(batches_prefill=False)
    scheduler = Scheduler(batch, ServerSettings(max_batch=2, max_queue=1), threading.Condition())
    scheduler.running += [request("a"), request("b")]
    scheduler.add(request("c"))
    with pytest.raises(QueueFull, match="1 requests are waiting; max_queue is 1"):
        scheduler.add(request("d"))
