"""In which order the runs of a study and their levels go, and which is next. Pure: what was run comes as records."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

BEFORE, AFTER = "before", "after"
ARMS = (BEFORE, AFTER)
MAX_ATTEMPTS = 2


class RunState(StrEnum):
    """How a run of a study stands.

    ``RUNNING`` until it has been assessed, or ``MEASURED`` if it is still to be judged; ``DONE`` and ``INVALID`` left a
    run.json, ``FAILED`` came to no end (the server died), ``INTERRUPTED`` was cut short from outside and counts for
    nothing.
    """

    RUNNING = "running"
    MEASURED = "measured"
    DONE = "done"
    INVALID = "invalid"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class RunRecord:
    """One run. ``number``: over all runs of the study, from 1, as they were started; ``pair``: from 1.

    ``folder``: its name within runs/. ``reasons``: for people, why it is invalid or failed. ``content``: it is invalid
    for what the server said or did, not for the client that measured it. ``in_turns``: its levels were measured in
    turns with those of the pair's other run. ``judged_on``: cores on which it was judged beside the next run; None: it
    was judged in place.
    """

    number: int
    pair: int
    attempt: int
    arm: str
    folder: str
    state: RunState
    started_utc: str
    reasons: tuple[str, ...] = ()
    content: bool = False
    in_turns: bool = False
    judged_on: int | None = None


@dataclass(frozen=True)
class Step:
    """What goes next: runs of one pair, ``arms`` in their order, of which the first can be made alone."""

    pair: int
    attempt: int
    arms: tuple[str, ...]


@dataclass(frozen=True)
class Broken:
    """A pair that came to nothing in each of its attempts."""

    pair: int


def random_start(seed: int) -> str:
    """The arm that begins the study; the same for the same ``seed``."""
    return random.Random(seed).choice(ARMS)


def pair_order(pair: int, start: str) -> tuple[str, str]:
    """The arms of pair ``pair`` (from 1) in the order they run: ABBA, ABBA, ... with A = ``start``.

    A drift that is linear in time falls on both arms alike over every two pairs.
    """
    other = AFTER if start == BEFORE else BEFORE
    return (start, other) if pair % 2 == 1 else (other, start)


def level_order(pair: int, level: int, start: str) -> tuple[str, str]:
    """The arms in the order in which they measure ``level`` (from 0, as configured) where those of a pair alternate.

    It turns from level to level, and at each level from pair to pair as AB BA BA AB, whichever level a pair begins
    with: what drifts falls on both arms alike in each pair and at each level.
    """
    return pair_order(level + pair // 2 + 1, start)


def attempt_runs(records: Sequence[RunRecord], pair: int, attempt: int) -> dict[str, RunRecord]:
    """The runs of one attempt at a pair by arm, without interrupted ones."""
    return {
        one.arm: one
        for one in records
        if one.pair == pair and one.attempt == attempt and one.state is not RunState.INTERRUPTED
    }


def next_step(records: Sequence[RunRecord], pairs: int, start: str) -> Step | Broken | None:
    """What goes next towards ``pairs`` pairs, None if all are there.

    A pair with an invalid run is completed and then repeated once, one with a failed run is repeated at once.
    Raises ValueError while a run is still recorded as running.
    """
    for pair in range(1, pairs + 1):
        for attempt in range(1, MAX_ATTEMPTS + 1):
            runs = attempt_runs(records, pair, attempt)
            states = {one.state for one in runs.values()}
            if RunState.RUNNING in states:
                raise ValueError(f"a run of pair {pair} is still recorded as running")
            missing = [arm for arm in pair_order(pair, start) if arm not in runs]
            if missing and RunState.FAILED not in states:
                return Step(pair, attempt, tuple(missing))
            if states == {RunState.DONE}:
                break
        else:
            return Broken(pair)
    return None


def if_valid(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The records as they will be if all runs that are still to be judged are valid."""
    return [replace(one, state=RunState.DONE) if one.state is RunState.MEASURED else one for one in records]


def is_half(records: Sequence[RunRecord]) -> bool:
    """Whether the last pair has one run and waits for the other."""
    if not records:
        return False
    runs = attempt_runs(records, records[-1].pair, records[-1].attempt)
    return len(runs) == 1 and all(one.state is not RunState.FAILED for one in runs.values())


def good_pairs(records: Sequence[RunRecord]) -> list[tuple[RunRecord, RunRecord]]:
    """The pairs, (before, after) each, whose runs are both valid; in order."""
    found = []
    for pair in sorted({one.pair for one in records}):
        for attempt in range(1, MAX_ATTEMPTS + 1):
            runs = attempt_runs(records, pair, attempt)
            if len(runs) == len(ARMS) and all(one.state is RunState.DONE for one in runs.values()):
                found.append((runs[BEFORE], runs[AFTER]))
                break
    return found


def last_attempt(records: Sequence[RunRecord], pair: int) -> tuple[RunRecord, RunRecord] | None:
    """The last attempt at a pair of which both runs left a run.json; None if there is none."""
    for attempt in range(MAX_ATTEMPTS, 0, -1):
        runs = attempt_runs(records, pair, attempt)
        if len(runs) == len(ARMS) and all(one.state in (RunState.DONE, RunState.INVALID) for one in runs.values()):
            return runs[BEFORE], runs[AFTER]
    return None


def only_after_is_broken(records: Sequence[RunRecord], pair: int) -> bool:
    """Whether every attempt at a pair had a valid before, and an after that is invalid for what the server did."""
    attempts = [attempt_runs(records, pair, attempt) for attempt in range(1, MAX_ATTEMPTS + 1)]
    return all(
        len(runs) == len(ARMS)
        and runs[BEFORE].state is RunState.DONE
        and runs[AFTER].state is RunState.INVALID
        and runs[AFTER].content
        for runs in attempts
    )
