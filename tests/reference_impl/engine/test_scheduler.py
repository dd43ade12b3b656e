"""Who waits, and when prompts may be read."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from reference_impl.engine.chunking import ChunkSchedule
from reference_impl.engine.request_state import Running
from reference_impl.engine.scheduler import PREFILL_POSITIONS_PER_STEP, PREFILLS_PER_STEP, JoinPace, WaitingLine
from reference_impl.engine_api import QueueFull, SpeechRequest
from reference_impl.settings import ServerSettings

ROWS = 32
PROMPT = 40


def frames_with_prompts(pace: JoinPace, frames: int, running: int, waiting: int, positions: int = PROMPT) -> list[int]:
    """The frames, of so many with the same counts, before which somebody joined."""
    joined = []
    for frame in range(frames):
        could_join = min(waiting, ROWS - running)
        if pace.may_join(running, [positions] * could_join) and could_join:
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
    ("gathers", "running", "waiting", "positions"),
    [
        (False, 30, 1, PROMPT),  # read one by one, waiting gains nothing
        (True, ROWS // 2, 1, PROMPT),  # half of the rows are free
        (True, ROWS - PREFILLS_PER_STEP, PREFILLS_PER_STEP, PROMPT),  # a whole call's worth
        (True, 30, 2, PREFILL_POSITIONS_PER_STEP // 2),  # the same of long prompts, as those of cloned voices
        (True, 30, 1, PREFILL_POSITIONS_PER_STEP + 100),
    ],
)
def test_nobody_waits_where_it_gains_nothing(gathers, running, waiting, positions):
    assert frames_with_prompts(JoinPace(4, ROWS, gathers), 4, running, waiting, positions) == [0, 1, 2, 3]


def test_a_long_queue_before_few_free_rows_is_no_whole_call():
    assert frames_with_prompts(JoinPace(4, ROWS, gathers=True), 8, running=31, waiting=200) == [0, 4]


def test_however_long_the_pace_a_batch_that_runs_empty_fills_again():
    pace = JoinPace(10**9, ROWS, gathers=True)
    assert frames_with_prompts(pace, 1, running=0, waiting=1) == [0]
    assert frames_with_prompts(pace, 100, running=17, waiting=1) == []
    assert frames_with_prompts(pace, 1, running=16, waiting=1) == [0]


def request(name: str, positions: int = PROMPT) -> Running:
    segment = SimpleNamespace(length=positions, text_tokens=1)
    asked = SpeechRequest(name, "Hello.", "heart", seed=0)
    return Running(asked, lambda event: None, [segment], 10, ChunkSchedule(1, 8, 0.08))


def line_of(*requests: Running, rows: int = 2, **settings: int) -> WaitingLine:
    line = WaitingLine(ServerSettings(max_batch=rows, **settings), gathers=True)
    for one in requests:
        line.add(one, 0)
    return line


def test_free_rows_do_not_count_as_places_in_the_queue():
    first, second, third, fourth = map(request, "abcd")
    line = line_of(first, second, third, max_queue=1)
    with pytest.raises(QueueFull, match="3 requests are waiting; max_queue is 1"):
        line.add(fourth, 0)
    assert [line.pop(), line.pop()] == [first, second]
    with pytest.raises(QueueFull):
        line.add(fourth, 2)
    line.add(fourth, 1)
    assert line.clear() == [third, fourth] and not line


def test_who_is_taken_out_leaves_the_order_of_the_others():
    first, second, third = map(request, "abc")
    line = line_of(first, second, third)
    assert line.remove("b") == [second]
    assert line.remove("b") == []
    assert (line.pop(), line.pop(), len(line)) == (first, third, 0)


@pytest.mark.parametrize(
    ("running", "positions", "fits"),
    [
        (0, 0, True),
        (1, PREFILL_POSITIONS_PER_STEP - PROMPT, True),
        (1, PREFILL_POSITIONS_PER_STEP - PROMPT + 1, False),
        (2, 0, False),  # no row
    ],
)
def test_the_first_in_line_needs_a_row_and_its_share_of_the_positions(running, positions, fits):
    assert line_of(request("a")).fits(running, positions) is fits
    assert not line_of().fits(running, positions)


def test_one_prompt_alone_may_be_longer_than_the_limit():
    assert line_of(request("a", 3 * PREFILL_POSITIONS_PER_STEP)).fits(1, 0)


def test_the_pace_counts_from_when_somebody_joined_not_from_when_somebody_could_have():
    line = line_of(*map(request, "ab"), join_every_frames=3)
    assert line.may_join(2), "and yet nobody joins: there was no stream, say"
    assert line.may_join(2)
    line.pop()
    assert [line.may_join(2) for _ in range(4)] == [False, False, True, True]


def test_prompts_without_a_row_to_come_make_no_whole_call():
    line = line_of(*(request(str(i), 300) for i in range(4)), rows=8, join_every_frames=3)
    line.pop()
    assert [line.may_join(7), line.may_join(6)] == [False, True]
