"""What is said about a study: a line while it goes on, and notes beside its comparison."""

from __future__ import annotations

from dataclasses import replace

from omni_bench.compare.ab.arms import StudyArm, same_server
from omni_bench.compare.ab.order import BEFORE, RunRecord, RunState
from omni_bench.compare.ab.pace import Pace, about
from omni_bench.compare.ab.state import StudyState
from omni_bench.compare.ab.words import Restart
from omni_bench.compare.compare import no_tail_text
from omni_bench.compare.headline import says_nothing
from omni_bench.compare.markdown import primary_line
from omni_bench.compare.result import Comparison
from omni_bench.compare.stats.verdicts import ALPHA, FULL_PAIRS
from omni_bench.load.closed_plan import requests_in_level
from omni_bench.metrics.measured_level import TAIL_MIN_REQUESTS
from omni_bench.records.config import CLOSED_LOOP, OPEN_LOOP


def opening(state: StudyState, pace: Pace) -> list[str]:
    """What is about to happen, line by line, and how long it will take."""
    plan = state.plan
    *earlier, last = plan.looks
    pairs = f"{', '.join(map(str, earlier))}{' or ' if earlier else ''}{last} pair{'s' if last > 1 else ''}"
    until = ", until a look can tell" if earlier else ""
    advisory = f" (advisory: fewer than {FULL_PAIRS})" if last < FULL_PAIRS else ""
    lines = [f"{pairs}{until}{advisory}; ABBA from {state.start} (seed={state.seed})"]
    lines.append(_estimate(state, pace))
    lines += [f"{arm.name:>6}: {arm.title}" for arm in state.arms]
    notes = (_kept(state), _fell_back(state), _no_fresh_server(state.arms), _same(state.arms), *few_for_a_tail(state))
    return lines + [note for note in notes if note]


def few_for_a_tail(state: StudyState) -> list[str]:
    """That no level will have enough requests to judge their tail by, as far as it is known before the first run."""
    load = state.arms[0].config.load
    if load.kind == CLOSED_LOOP:
        most = max((requests_in_level(load, level) for level in load.concurrency), default=TAIL_MIN_REQUESTS)
    else:
        most = TAIL_MIN_REQUESTS if load.kind != OPEN_LOOP or load.duration_s is not None else load.requests_per_level
    return [no_tail_text("TTFP tail")] if most < TAIL_MIN_REQUESTS else []


def _estimate(state: StudyState, pace: Pace) -> str:
    """``6 to 16 runs, about 9 min to about 24 min``."""
    done = sum(one.state is RunState.DONE for one in state.records)
    runs = [left for pairs in state.plan.looks if (left := 2 * pairs - done) > 0]
    if not runs:
        return "no run is left"
    ends = list(dict.fromkeys((runs[0], runs[-1])))
    text = f"{' to '.join(map(str, ends))} run{'' if ends == [1] else 's'}"
    times = [about(left_s) for one in ends if (left_s := pace.left_s(one)) is not None]
    return f"{text}, {' to '.join(times)}" if times else f"{text}; how long they take is known after the first"


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
        f"Interleaved ABBA from {state.start} (seed={state.seed}){_servers(state)}.",
        *(note for note in (_kept(state), _fell_back(state), _no_fresh_server(state.arms), _same(state.arms)) if note),
        *_judged(state),
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
            f"spends a one-sided error of {ALPHA / (state.plan.earlier_looks + 1):.3g} beside the 0.05 of those before."
        )
    if state.resumed:
        listed = ", ".join(str(number) for number in state.resumed)
        notes.append(f"The study was interrupted and resumed before run {listed}.")
    return tuple(notes)


def stopped_text(state: StudyState, pairs: int, broken: bool) -> str:
    """A sentence for a study that came to no end: ``broken`` for one whose after is, so that more pairs are no use."""
    reason = "as after is broken: more pairs would not make it right" if broken else "as a pair came to nothing twice"
    return f"The study stopped after {pairs} of {state.plan.pairs} pairs, {reason}."


def _servers(state: StudyState) -> str:
    fresh = not _ran_kept(state) and all(arm.fresh for arm in state.arms)
    return ", a fresh server for every run" if fresh else ""


def _ran_kept(state: StudyState) -> bool:
    """Whether servers are kept alive, or were before that proved impossible."""
    return state.kept or any(record.in_turns for record in state.records)


def _kept(state: StudyState) -> str | None:
    """How restart=pair and restart=never measure, and what they leave out."""
    if not _ran_kept(state):
        return None
    pair = state.restart is Restart.PAIR
    often = "each pair of runs" if pair else "all runs (and again after each interruption)"
    starts = "" if pair else "how much one start differs from the next, "
    return (
        f"restart={state.restart}: the servers were started once for {often} and stayed alive side by side, with one "
        "of them under load at a time. The levels of a pair alternated between them, so that a drift of the machine "
        f"falls on both alike. Not covered by the intervals: {starts}what a server keeps from level to level and from "
        "run to run (warmth, caches, memory that leaks), and the memory and cores that its idle neighbour takes."
    )


def _fell_back(state: StudyState) -> str | None:
    found = state.fallback
    if found is None:
        return None
    since = "every run" if not _ran_kept(state) else f"every run from run {found.run} on"
    return (
        f"restart={state.restart} was not possible ({found.code}): {found.text}. As with restart=run, {since} had the "
        "machine alone, with a fresh server."
    )


def _judged(state: StudyState) -> list[str]:
    """Where the runs were judged, if they were."""
    beside = [
        one for one in state.records if one.judged_on is not None and one.state in (RunState.DONE, RunState.INVALID)
    ]
    if not beside:
        judge = state.arms[0].config.asr.kind
        return [] if judge == "none" else ["Each run was judged in place, while nothing was measured."]
    cores = max(one.judged_on or 0 for one in beside)
    return [
        f"{len(beside)} runs were judged beside later ones, at the lowest priority on {cores} core{'s' * (cores > 1)} "
        "that neither the servers nor the client had (judging=in_place does it between them). Not excluded: what that "
        "takes of the machine's memory bandwidth, caches and clock."
    ]


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
