"""What is said about a study: a line while it goes on, and notes beside its comparison."""

from __future__ import annotations

from dataclasses import replace

from omni_bench.compare.ab.arms import StudyArm, same_server
from omni_bench.compare.ab.order import BEFORE, RunRecord, RunState
from omni_bench.compare.ab.pace import Pace, about
from omni_bench.compare.ab.state import StudyState
from omni_bench.compare.headline import says_nothing
from omni_bench.compare.markdown import primary_line
from omni_bench.compare.result import Comparison
from omni_bench.compare.stats.verdicts import FULL_PAIRS


def opening(state: StudyState, pace: Pace) -> list[str]:
    """What is about to happen, line by line, and how long it will take."""
    plan = state.plan
    extended = f", extended once to {plan.extended} if inconclusive" if plan.extended is not None else ""
    advisory = f" (advisory: fewer than {FULL_PAIRS})" if plan.pairs < FULL_PAIRS else ""
    pairs = f"{plan.pairs} pair{'s' if plan.pairs > 1 else ''}"
    lines = [f"{pairs}{advisory}{extended}; ABBA from {state.start} (seed={state.seed})"]
    lines.append(_estimate(state, pace))
    lines += [f"{arm.name:>6}: {arm.title}" for arm in state.arms]
    return lines + [note for note in (_no_fresh_server(state.arms), _same(state.arms)) if note]


def _estimate(state: StudyState, pace: Pace) -> str:
    """``10 runs (16 if extended), about 9 min (14 min)``."""
    done = sum(one.state is RunState.DONE for one in state.records)
    runs = 2 * state.plan.pairs - done
    most = None if state.plan.extended is None else 2 * state.plan.extended - done
    text = f"{runs} run{'' if runs == 1 else 's'}" + (f" ({most} if extended)" if most else "")
    left_s = pace.left_s(runs)
    if left_s is None:
        return f"{text}; how long they take is known after the first"
    longest_s = pace.left_s(most) if most else None
    return f"{text}, {about(left_s)}" + (f" (extended {about(longest_s)})" if longest_s is not None else "")


def run_line(record: RunRecord, wanted: int) -> str:
    """``run 3, pair 2/5, after: done``."""
    reason = f": {record.reasons[0]}" if record.reasons else ""
    again = " (repeated)" if record.attempt > 1 else ""
    return f"run {record.number}, pair {record.pair}/{wanted}{again}, {record.arm}: {record.state}{reason}"


def look_line(comparison: Comparison, pairs: int) -> str:
    """The estimates and intervals so far. No verdicts: looking at them at will would make false ones of chance."""
    told = (primary for primary in comparison.primaries if not says_nothing(primary))
    lines = [primary_line(replace(primary, verdict=None)) for primary in told]
    return f"after {pairs} pair{'s' if pairs > 1 else ''}: {'; '.join(lines)}"


def study_notes(state: StudyState) -> tuple[str, ...]:
    """How the runs were made, and what is unusual about them."""
    notes = [
        f"Interleaved ABBA from {state.start} (seed={state.seed}), a fresh server for every run."
        if all(arm.fresh for arm in state.arms)
        else f"Interleaved ABBA from {state.start} (seed={state.seed}).",
        *(note for note in (_no_fresh_server(state.arms), _same(state.arms)) if note),
    ]
    for record in state.records:
        if record.state in (RunState.INVALID, RunState.FAILED):
            reason = f": {record.reasons[0]}" if record.reasons else ""
            attempt = f", attempt {record.attempt}" if record.attempt > 1 else ""
            notes.append(f"Run {record.folder} (pair {record.pair}{attempt}) is {record.state}{reason}.")
    if state.extended_from:
        asked = ", then to ".join(str(pairs) for pairs in (*state.extended_from[1:], state.plan.pairs))
        notes.append(
            f"Extended on request from {state.extended_from[0]} to {asked} pairs, after the result was seen: this look "
            f"is at a one-sided error of {state.plan.alpha:.3g}."
        )
    if state.resumed:
        listed = ", ".join(str(number) for number in state.resumed)
        notes.append(f"The study was interrupted and resumed before run {listed}.")
    return tuple(notes)


def _no_fresh_server(arms: tuple[StudyArm, StudyArm]) -> str | None:
    names = [arm.name for arm in arms if not arm.fresh]
    if not names:
        return None
    who = names[0] if len(names) == 1 else "both arms"
    return (
        f"No fresh servers: {who} {'is a server' if len(names) == 1 else 'are servers'} that ran already, so that all "
        "its runs share one start; the interval does not cover how much one start differs from the next."
    )


def _same(arms: tuple[StudyArm, StudyArm]) -> str | None:
    if not same_server(*arms):
        return None
    return f"An A/A study: {BEFORE} and after are the same server, so that any difference is chance."
