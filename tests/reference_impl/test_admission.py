"""When prompts may be read."""

from __future__ import annotations

import pytest

from reference_impl.admission import PREFILLS_PER_STEP, JoinPace

ROWS = 32


def frames_with_prompts(pace: JoinPace, frames: int, running: int, waiting: int) -> list[int]:
    """The frames, of so many with the same counts, before which somebody joined."""
    joined = []
    for frame in range(frames):
        if pace.may_join(running, waiting) and waiting and running < ROWS:
            pace.joined()
            joined.append(frame)
    return joined


@pytest.mark.parametrize(("every", "expected"), [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 2, 4]), (4, [0, 4])])
def test_a_busy_batch_reads_prompts_every_so_many_frames(every, expected):
    assert frames_with_prompts(JoinPace(every, ROWS, gathers=True), 6, running=30, waiting=1) == expected


def test_who_comes_long_after_the_last_prompt_does_not_wait():
    pace = JoinPace(4, ROWS, gathers=True)
    assert frames_with_prompts(pace, 9, running=30, waiting=0) == []
    assert frames_with_prompts(pace, 1, running=30, waiting=1) == [0]


@pytest.mark.parametrize(
    ("gathers", "running", "waiting"),
    [
        (False, 30, 1),  # read one by one, waiting gains nothing
        (True, ROWS // 2, 1),  # half of the rows are free
        (True, ROWS - PREFILLS_PER_STEP, PREFILLS_PER_STEP),  # a whole call's worth
    ],
)
def test_nobody_waits_where_it_gains_nothing(gathers, running, waiting):
    assert frames_with_prompts(JoinPace(4, ROWS, gathers), 4, running, waiting) == [0, 1, 2, 3]


def test_a_long_queue_before_few_free_rows_is_no_whole_call():
    assert frames_with_prompts(JoinPace(4, ROWS, gathers=True), 8, running=31, waiting=200) == [0, 4]
