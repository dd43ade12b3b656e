"""The verdict on a whole night. Pure: nothing is read, written or run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omni_bench.compare.keys import as_known_now, differences, shown
from omni_bench.compare.stats.nightly import MIN_NIGHTS
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.measured_level import TAIL_MIN_REQUESTS
from omni_bench.metrics.metric import WithLength
from omni_bench.nightly.gate.integrity import check_integrity, failed, not_measured
from omni_bench.nightly.gate.judge_series import Evidence, judge_series
from omni_bench.nightly.gate.result import GateOutcome, GateResult, IntegrityCase, SeriesResult, Status
from omni_bench.nightly.history.records import StoredRun
from omni_bench.nightly.history.rows import in_place
from omni_bench.nightly.history.series import equally_long, gated_of, loads
from omni_bench.report.format import change_text

MAX_LISTED = 8


def evaluate(
    tonight: StoredRun,
    evidence: Evidence,
    *,
    night_before: StoredRun | None = None,
    rerun: StoredRun | None = None,
) -> GateResult:
    """Integrity, then each gated metric at each load. ``night_before``: the last night, valid or not.

    ``rerun``: a second run of the same night, on a fresh server. A series that was acute in the first is a
    regression if it is in the second too. If none is, the first night was a spike, and the second run replaces it in
    the history.
    """
    cases = check_integrity(tonight, night_before)
    pinned = None if evidence.pinned is None else evidence.pinned.get(tonight.run_id)
    base = GateResult(
        run=tonight,
        outcome=GateOutcome.PASS,
        integrity=cases,
        series=(),
        nights=len(evidence.nights),
        notes=_notes(tonight, evidence),
        baseline=evidence.baseline,
        pinned=pinned,
        rerun=rerun,
    )
    broken = _broken(cases)
    if broken is not None:
        return replace(base, outcome=broken)
    series = _judged(tonight, evidence)
    base = replace(base, notes=(*base.notes, *_tails_not_judged(tonight, series)))
    acute = [one for one in series if one.status is Status.UNCONFIRMED]
    if rerun is None or not acute:
        unused = ("the second run was not needed: nothing is acute",) if rerun is not None else ()
        return replace(base, series=series, outcome=_outcome(series), notes=(*base.notes, *unused))
    again_cases = tuple(replace(case, name=f"second run: {case.name}") for case in check_integrity(rerun, None))
    broken = _broken(again_cases)
    if broken is not None:
        return replace(base, integrity=(*cases, *again_cases), outcome=broken, series=series)
    second = in_place(tonight, rerun)
    again = {(one.metric, one.load): one for one in _judged(second, evidence)}
    reproduced = [one for one in acute if _is_acute(again.get((one.metric, one.load)))]
    if reproduced:
        series = tuple(_confirmed(one, again) for one in series)
        return replace(base, series=series, outcome=_outcome(series))
    spikes = {(one.metric, one.load): one for one in acute}
    series = tuple(_spike(one, spikes.get((one.metric, one.load))) for one in again.values())
    note = "not reproduced: the second run stands for this night in the history"
    return replace(base, series=series, outcome=_outcome(series), replaced=True, notes=(*base.notes, note))


def _broken(cases: Sequence[IntegrityCase]) -> GateOutcome | None:
    if failed(cases):
        return GateOutcome.HARD_FAILURE
    return GateOutcome.INVALID if not_measured(cases) else None


def _judged(tonight: StoredRun, evidence: Evidence) -> tuple[SeriesResult, ...]:
    found = []
    for load in loads([*evidence.nights[-1:], tonight]):
        by_fit = _lengths_differ(tonight, evidence, load)
        for metric in gated_of(tonight, by_fit=by_fit):
            one = judge_series(metric, load, tonight, evidence)
            if METRICS[metric].with_length is WithLength.INSTEAD:
                guard = "length guard: the audio is not as long as in the nights before, so the fit is judged"
                one = replace(one, reason=f"{one.reason} ({guard})")
            if not METRICS[metric].tail or one.status is not Status.INCONCLUSIVE:
                found.append(one)
    return tuple(found)


def _tails_not_judged(tonight: StoredRun, series: Sequence[SeriesResult]) -> list[str]:
    """A tail without a value or a history is said, and decides nothing: the medians are judged without it."""
    judged = {(one.metric, one.load) for one in series}
    by_fit = {one.load for one in series if METRICS[one.metric].with_length is WithLength.INSTEAD}
    notes = []
    for metric in (METRICS[name] for name in gated_of(tonight) if METRICS[name].tail):
        left_out = [level for level in tonight.levels if (metric.name, level.load) not in judged]
        biased = by_fit if metric.with_length is WithLength.BIASED else set()
        longer = [level.load for level in left_out if level.load in biased]
        new = [level.load for level in left_out if level.value(metric.name) is not None and level.load not in biased]
        few = [level.load for level in left_out if level.requests < TAIL_MIN_REQUESTS and not metric.points]
        if longer:
            why = "the audio is not as long as in the nights before"
            notes.append(f"{metric.short}: not judged at {', '.join(longer)}: {why}")
        if few:
            needs = f"a level needs at least {TAIL_MIN_REQUESTS} requests (load.requests_per_level)"
            notes.append(f"{metric.short}: not judged at {', '.join(few)}: {needs}")
        if new and series:  # without a history nothing is judged, and that is said already
            why = f"fewer than {MIN_NIGHTS} nights since the last change have it"
            notes.append(f"{metric.short}: not judged yet at {', '.join(new)}: {why}")
    return notes


def _lengths_differ(tonight: StoredRun, evidence: Evidence, load: str) -> bool:
    """Whether there are MIN_NIGHTS nights, but fewer of them have audio of tonight's length."""
    level = tonight.level(load)
    if level is None:
        return False
    levels = [other for night in evidence.nights if (other := night.level(load)) is not None]
    alike = sum(equally_long(other, level) for other in levels)
    return len(levels) >= MIN_NIGHTS > alike


def _is_acute(one: SeriesResult | None) -> bool:
    return one is not None and one.status is Status.UNCONFIRMED


def _confirmed(one: SeriesResult, again: dict[tuple[str, str], SeriesResult]) -> SeriesResult:
    if one.status is not Status.UNCONFIRMED:
        return one
    second = again.get((one.metric, one.load))
    change = None if second is None else second.change
    said = _second_run(one, change)
    if _is_acute(second):
        return replace(
            one, status=Status.REGRESSION, reason=f"{one.reason}; reproduced by {said}", second_change=change
        )
    text = f"{one.reason}; not in {said}"
    return replace(one, status=Status.NOT_REPRODUCED, reason=text, alarm=None, onset=None, second_change=change)


def _spike(one: SeriesResult, first: SeriesResult | None) -> SeriesResult:
    if first is None or one.status is not Status.PASS:
        return one
    text = f"first run {first.reason}; not in {_second_run(one, one.change)}"
    return replace(one, status=Status.NOT_REPRODUCED, reason=text, second_change=one.change)


def _second_run(one: SeriesResult, change: float | None) -> str:
    return f"the second run ({change_text(METRICS[one.metric], change)})"


def _outcome(series: Sequence[SeriesResult]) -> GateOutcome:
    statuses = {one.status for one in series}
    if Status.REGRESSION in statuses:
        return GateOutcome.REGRESSION
    if Status.UNCONFIRMED in statuses:
        return GateOutcome.UNCONFIRMED
    if not series or Status.INCONCLUSIVE in statuses:
        return GateOutcome.INCONCLUSIVE
    return GateOutcome.PASS


def _notes(tonight: StoredRun, evidence: Evidence) -> tuple[str, ...]:
    notes = []
    if tonight.versions.get("omni-bench.dirty"):
        notes.append("the run was made with uncommitted changes, so that its commit does not tell what was measured")
    if evidence.nights:
        before = as_known_now(evidence.nights[-1].settings, tonight.settings)
        changed = differences(before, tonight.settings)
        listed = ", ".join(f"{one.name}: {shown(one.before)} → {shown(one.after)}" for one in changed[:MAX_LISTED])
        more = f" and {len(changed) - MAX_LISTED} more" if len(changed) > MAX_LISTED else ""
        if changed:
            notes.append(f"the target's configuration is not that of the night before: {listed}{more}")
    return tuple(notes)
