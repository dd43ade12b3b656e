"""Chunk sizes against a simulated listener: no pause while the server is faster than real time."""

from __future__ import annotations

import random

import pytest

from reference_impl.engine.chunking import ChunkSchedule

FRAME_S = 0.08
STEADY = 8


def listen(schedule: ChunkSchedule, steps_s: list[float], decode_s=lambda frames: 0.004 + 0.004 * frames):
    """(sizes of the chunks, seconds of silence between them) for frames that take ``steps_s`` each.

    Code2Wav decodes one chunk after another, beside the steps; the listener plays from the first on.
    """
    now, free_at, waiting = 0.0, 0.0, 0
    sizes, arrivals, deliveries = [], [], []
    for index, step in enumerate(steps_s):
        now += step
        while deliveries and deliveries[0] <= now:
            schedule.delivered(deliveries.pop(0))
        waiting += 1
        last = index == len(steps_s) - 1
        if schedule.is_due(waiting, now) or last:
            schedule.cut(waiting, now)
            free_at = max(now, free_at) + decode_s(waiting)
            arrivals.append(free_at)
            deliveries.append(free_at)
            sizes.append(waiting)
            waiting = 0
    played_until, silence = arrivals[0], 0.0
    for size, at in zip(sizes, arrivals, strict=True):
        silence += max(0.0, at - played_until)
        played_until = max(played_until, at) + size * FRAME_S
    return sizes, silence


def schedule(growth="buffered", first=1, steady=STEADY) -> ChunkSchedule:
    return ChunkSchedule(first, steady, FRAME_S, growth)


@pytest.mark.parametrize("rtf", [0.03, 0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("first", [1, 2, 4])
def test_no_pause_while_faster_than_real_time(rtf, first):
    sizes, silence = listen(schedule(first=first), [rtf * FRAME_S] * 400)
    assert silence == 0
    assert (sizes[0], sum(sizes)) == (first, 400)
    assert max(sizes) <= STEADY


@pytest.mark.parametrize("rtf", [0.55, 0.7, 0.9])
def test_doubling_pauses_where_the_pace_is_no_faster_than_half(rtf):
    """The equality with zero above must be able to fail."""
    assert listen(schedule("double"), [rtf * FRAME_S] * 100)[1] > 0


def test_slow_decoding_is_counted_in():
    sizes, silence = listen(schedule(), [0.6 * FRAME_S] * 200, decode_s=lambda frames: 0.01 + 0.02 * frames)
    assert silence == 0
    assert max(sizes) > 1


@pytest.mark.parametrize(("rtf", "within"), [(0.05, 2), (0.3, 6), (0.6, 20), (0.8, 60)])
def test_the_steady_size_is_reached_the_sooner_the_faster(rtf, within):
    sizes, _ = listen(schedule(), [rtf * FRAME_S] * 400)
    assert sizes.index(STEADY) <= within
    assert all(size == STEADY for size in sizes[sizes.index(STEADY) : -1])


def test_at_the_edge_chunks_stay_as_small_as_the_first():
    assert set(listen(schedule(), [0.99 * FRAME_S] * 60)[0]) == {1}


def test_uneven_steps_within_what_was_seen_do_not_pause():
    numbers = random.Random(3)
    steps = [FRAME_S * numbers.uniform(0.45, 0.65) for _ in range(300)]
    assert listen(schedule(), steps)[1] == 0


@pytest.mark.parametrize("rtf", [1.0, 1.5, 2.0])
def test_slower_than_real_time_it_doubles_for_the_throughput(rtf):
    steps = [rtf * FRAME_S] * 100
    sizes, _ = listen(schedule(), steps)
    assert sizes == listen(schedule("double"), steps)[0]
    assert sizes[:4] == [1, 2, 4, 8]


def test_a_listener_who_already_waits_gets_larger_chunks_again():
    """One long step (a neighbour's prompt, say) empties the store; from then on the chunks double."""
    steps = [0.9 * FRAME_S] * 10 + [1.0] + [0.9 * FRAME_S] * 40
    sizes, silence = listen(schedule(), steps)
    assert silence > 0
    assert STEADY in sizes


def test_first_equal_to_steady_is_one_size():
    assert listen(schedule(first=8), [0.3 * FRAME_S] * 24)[0] == [8, 8, 8]


def test_a_delivery_that_nobody_waits_for_changes_nothing():
    one = schedule()
    one.delivered(0.0)
    assert one.is_due(1, 0.1)


def test_nothing_leaves_before_the_first_chunk_is_heard():
    one = schedule()
    assert one.is_due(1, 0.0)
    one.cut(1, 0.0)
    assert [one.is_due(waiting, 10.0 * waiting) for waiting in (1, 7, 8)] == [False, False, True]
