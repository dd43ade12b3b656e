"""The order of the runs, and which is next."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.compare.ab.order import (
    ARMS,
    Broken,
    RunRecord,
    RunState,
    Step,
    good_pairs,
    last_attempt,
    level_order,
    next_step,
    only_after_is_broken,
    pair_order,
    random_start,
)

STATES = [RunState.DONE, RunState.INVALID, RunState.FAILED, RunState.INTERRUPTED]


def record(number, step, state, content=False):
    arm = step.arms[0]
    return RunRecord(number, step.pair, step.attempt, arm, f"{number:02d}-{arm}", state, "", (), content)


def play(ends, pairs=5, start="before"):
    """Run until nothing is left; ``ends``: states in order, then DONE for ever."""
    records = []
    for state in itertools.chain(ends, itertools.repeat(RunState.DONE)):
        step = next_step(records, pairs, start)
        if not isinstance(step, Step):
            return records, step
        records.append(record(len(records) + 1, step, state))
        assert len(records) < 100


@given(st.integers(1, 20), st.sampled_from(ARMS))
def test_abba(pairs, start):
    order = [arm for pair in range(1, pairs + 1) for arm in pair_order(pair, start)]
    assert order[0] == start
    assert all(set(order[i : i + 2]) == set(ARMS) for i in range(0, len(order), 2)), "each pair has both arms"
    first = order[:4] * (pairs // 2 + 1)
    assert order == first[: len(order)], "ABBA, ABBA, ..."
    if pairs % 2 == 0:
        places = {arm: sum(i for i, one in enumerate(order) if one == arm) for arm in ARMS}
        assert places["before"] == places["after"], "a linear drift falls on both alike"


@given(st.integers(1, 6), st.integers(1, 5), st.sampled_from(ARMS))
def test_levels_alternate_within_a_pair_and_each_level_over_the_pairs(levels, rounds, start):
    """Each pair begins with the next level, as :func:`omni_bench.compare.ab.arms.rotated` has it."""
    pairs = range(1, 4 * rounds + 1)
    first = {(pair, level): level_order(pair, level, start)[0] for pair in pairs for level in range(levels)}
    assert first[1, 0] == start
    for pair in pairs:
        order = [(pair - 1 + turn) % levels for turn in range(levels)]
        begins = [first[pair, level] for level in order if level >= order[0]]
        assert all(one != other for one, other in itertools.pairwise(begins)), "until the levels begin anew"
    for level in range(levels):
        over = [first[pair, level] for pair in pairs]
        assert over.count("before") == over.count("after"), "what the second of a level has from the first cancels"
        places = {arm: sum(pair for pair in pairs if first[pair, level] == arm) for arm in ARMS}
        assert places["before"] == places["after"], "and a linear change of it too"


def test_the_start_is_drawn_by_the_seed():
    starts = [random_start(seed) for seed in range(200)]
    assert starts == [random_start(seed) for seed in range(200)]
    assert 60 < starts.count("before") < 140


@given(st.sampled_from(ARMS))
def test_undisturbed_runs_follow_the_order(start):
    records, end = play([], pairs=4, start=start)
    assert end is None
    assert [one.arm for one in records] == [arm for pair in (1, 2, 3, 4) for arm in pair_order(pair, start)]
    assert len(good_pairs(records)) == 4


@given(st.lists(st.sampled_from(STATES), max_size=25), st.sampled_from(ARMS))
def test_whatever_happens_it_ends_with_all_pairs_or_one_broken_twice(ends, start):
    records, end = play(ends, pairs=3, start=start)
    counted = [one for one in records if one.state is not RunState.INTERRUPTED]
    keys = [(one.pair, one.attempt, one.arm) for one in counted]
    assert len(keys) == len(set(keys)), "no run is made twice unless it was interrupted"
    assert all(one.attempt <= 2 for one in records)
    good = good_pairs(records)
    if end is None:
        assert len(good) == 3 and [before.pair for before, _ in good] == [1, 2, 3]
    else:
        assert end.pair == len(good) + 1
        assert max(one.attempt for one in records if one.pair == end.pair) == 2


def test_an_invalid_pair_is_completed_and_repeated_once():
    records, end = play([RunState.INVALID], pairs=1)
    assert end is None
    assert [(one.attempt, one.arm) for one in records] == [(1, "before"), (1, "after"), (2, "before"), (2, "after")]
    records, end = play([RunState.DONE, RunState.INVALID, RunState.INVALID], pairs=1)
    assert end == Broken(1) and len(records) == 4


def test_a_dead_server_is_not_waited_for():
    records, _ = play([RunState.FAILED], pairs=1)
    assert [(one.attempt, one.arm) for one in records] == [(1, "before"), (2, "before"), (2, "after")]
    records, end = play([RunState.FAILED, RunState.DONE, RunState.FAILED], pairs=1)
    assert end == Broken(1)
    assert last_attempt(records, 1) is None


def test_an_interrupted_run_is_made_again_and_costs_no_attempt():
    records, end = play([RunState.DONE, *[RunState.INTERRUPTED] * 5], pairs=1)
    assert end is None and {one.attempt for one in records} == {1}
    assert [one.arm for one in records] == ["before", *["after"] * 6]


def test_a_running_run_has_to_be_settled_first():
    running = record(1, Step(1, 1, ("before",)), RunState.RUNNING)
    with pytest.raises(ValueError, match="still recorded as running"):
        next_step([running], 1, "before")


def test_the_last_attempt_is_what_can_be_shown():
    records, _ = play([RunState.DONE, RunState.INVALID, RunState.FAILED], pairs=1)
    shown = last_attempt(records, 1)
    assert [one.number for one in shown] == [1, 2]


@pytest.mark.parametrize(
    "before,after,content,only_after",
    [
        (RunState.DONE, RunState.INVALID, True, True),
        (RunState.DONE, RunState.INVALID, False, False),
        (RunState.INVALID, RunState.INVALID, True, False),
        (RunState.INVALID, RunState.DONE, True, False),
    ],
)
def test_who_is_broken(before, after, content, only_after):
    records = []
    for attempt in (1, 2):
        for arm, state in (("before", before), ("after", after)):
            records.append(record(len(records) + 1, Step(1, attempt, (arm,)), state, content))
    assert only_after_is_broken(records, 1) is only_after
    assert only_after_is_broken(records[:2], 1) is False, "once is no finding"
