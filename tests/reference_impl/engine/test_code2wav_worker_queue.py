"""Whose frames are next."""

from __future__ import annotations

import numpy as np
import pytest

from reference_impl.engine.code2wav_worker import AudioJob, AudioQueue
from reference_impl.engine_api import Event, Finished

PIECE = 8


def nobody(event: Event) -> None:
    """Hears nothing."""


def job(slot: int, first: int, count: int, silent: bool = False, end: str | None = None) -> AudioJob:
    """Frames ``first`` to ``first + count - 1`` of a stream; each frame's codes are its number."""
    codes = np.repeat(np.arange(first, first + count)[:, None], 16, axis=1) if count else None
    return AudioJob(slot, nobody, codes, Finished(end, 0, 0) if end else None, silent)


def reference(slot: int, count: int) -> AudioJob:
    return job(slot, 0, count, silent=True)


def filled_in(queue: AudioQueue, *jobs: AudioJob) -> AudioQueue:
    for one in jobs:
        queue.put(one)
    return queue


def filled(*jobs: AudioJob, together: bool = False) -> AudioQueue:
    return filled_in(AudioQueue(together, PIECE), *jobs)


def begun(slots: int) -> AudioQueue:
    """Streams 0 to ``slots - 1`` whose first chunk has been taken."""
    queue = filled(*(job(slot, 0, 1) for slot in range(slots)))
    assert len(drained(queue)) == slots
    return queue


def seen(taken: list[AudioJob]) -> list[tuple[int, str, int, int]]:
    """(slot, kind, first frame, frames) of each."""
    return [
        (
            one.stream,
            "silent" if one.silent else "end" if one.codes is None else "heard",
            -1 if one.codes is None else int(one.codes[0, 0]),
            0 if one.codes is None else len(one.codes),
        )
        for one in taken
    ]


def drained(queue: AudioQueue) -> list[AudioJob]:
    taken: list[AudioJob] = []
    while queue:
        taken += queue.take()
    assert queue.take() == []
    return taken


def test_jobs_of_one_stream_stay_in_order_around_its_reference():
    queue = filled(job(0, 0, 3), reference(0, 20), job(0, 3, 4), job(0, 7, 5), job(0, 0, 0, end="stop"))
    assert seen(drained(queue)) == [
        (0, "heard", 0, 3),
        (0, "silent", 0, 8),
        (0, "silent", 8, 8),
        (0, "silent", 16, 4),
        (0, "heard", 3, 4),
        (0, "heard", 7, 5),
        (0, "end", -1, 0),
    ]


def test_running_streams_and_first_chunks_go_between_the_pieces_of_a_reference():
    queue = begun(2)
    queue.put(reference(5, 40))
    queue.put(job(5, 0, 1))
    assert seen(queue.take()) == [(5, "silent", 0, 8)]
    for slot in (0, 1):
        queue.put(job(slot, 1, 8))
    queue.put(job(6, 0, 1))
    assert seen([*queue.take(), *queue.take(), *queue.take(), *queue.take()]) == [
        (6, "heard", 0, 1),  # nobody has heard anything of it
        (0, "heard", 1, 8),
        (1, "heard", 1, 8),
        (5, "silent", 8, 8),
    ]
    queue.put(job(0, 9, 8))
    assert [one[:2] for one in seen(drained(queue))] == [(0, "heard"), *[(5, "silent")] * 3, (5, "heard")]


def test_a_chunk_waits_for_one_piece_however_many_references_there_are():
    queue = begun(1)
    for slot in range(1, 9):
        queue.put(reference(slot, 5 * PIECE))
    for chunk in range(10):
        assert queue.take()[0].silent
        queue.put(job(0, 1 + 8 * chunk, 8))
        assert seen(queue.take()) == [(0, "heard", 1 + 8 * chunk, 8)]


def test_references_are_heard_one_after_the_other_the_oldest_first():
    taken = seen(drained(filled(reference(3, 20), reference(1, 20), job(1, 0, 1), job(3, 0, 1))))
    assert [one[:2] for one in taken] == [*[(3, "silent")] * 3, (3, "heard"), *[(1, "silent")] * 3, (1, "heard")]


def test_a_reference_is_not_put_off_for_ever():
    """More and more is to be heard, and each piece waits for what was there when its turn came."""
    queue = begun(4)
    queue.put(reference(9, 3 * PIECE))
    silent_at, frame = [], 1
    for call in range(40):
        for slot in range(2):  # two new chunks a call
            queue.put(job(slot, frame + slot, 1))
        (taken,) = queue.take()
        if taken.silent:
            silent_at.append(call)
    # the first at once, the second behind the two chunks that came with its turn, the third behind many more
    assert silent_at[0] == 0 and len(silent_at) == 3


def test_the_order_of_arrival_counts_for_a_new_reference_too():
    queue = begun(2)
    for one in (job(0, 1, 8), reference(5, 8), job(1, 1, 8)):
        queue.put(one)
    assert [one[:2] for one in seen(drained(queue))] == [(0, "heard"), (5, "silent"), (1, "heard")]


def test_a_slot_that_is_used_again_is_a_stream_that_nobody_has_heard():
    queue = filled(job(0, 0, 1), job(0, 1, 1, end="stop"))
    drained(queue)
    drained(filled_in(queue, job(1, 0, 1)))
    assert [one[0] for one in seen(drained(filled_in(queue, job(1, 1, 8), job(0, 0, 1))))] == [0, 1]


@pytest.mark.parametrize("together", [False, True])
def test_who_cancels_in_the_middle_of_a_reference_leaves_nothing_to_decode(together):
    queue = filled(reference(0, 750), reference(1, 10), together=together)
    queue.take()
    filled_in(queue, job(0, 0, 1), job(0, 0, 0, end="cancelled"))
    assert [one for one in seen(drained(queue)) if one[0] == 0] == [(0, "end", -1, 0)]


def test_another_end_takes_nothing_away():
    queue = filled(reference(0, 10), job(0, 0, 4), job(0, 0, 0, end="length"))
    assert [one[1] for one in seen(drained(queue))] == ["silent", "silent", "heard", "end"]


def test_a_call_for_all_streams_takes_one_job_or_piece_of_each():
    queue = filled(reference(0, 20), job(1, 0, 3), job(0, 0, 1), job(1, 3, 4), together=True)
    calls = []
    while queue:
        calls.append([one[:2] + one[3:] for one in seen(queue.take())])
    assert calls == [
        [(0, "silent", 8), (1, "heard", 3)],
        [(0, "silent", 8), (1, "heard", 4)],
        [(0, "silent", 4)],
        [(0, "heard", 1)],
    ]
