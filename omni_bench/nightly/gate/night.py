"""One night at the gate: into the history, judged by it, and the judgement kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from omni_bench.compare.keys import as_known_now, differences, shown
from omni_bench.compare.stats.nightly import MIN_NIGHTS
from omni_bench.errors import ComparabilityError, ConfigError
from omni_bench.nightly.gate.judge_night import evaluate
from omni_bench.nightly.gate.judge_series import Evidence
from omni_bench.nightly.gate.result import GateOutcome, GateResult, Status
from omni_bench.nightly.history.database import Baseline, History, HistoryAlarm
from omni_bench.nightly.history.records import StoredRun
from omni_bench.nightly.history.trend import first_night, order_of
from omni_bench.records.config import RATE_SEARCH

MAX_LISTED = 8
SAME_NIGHT = timedelta(hours=24)
MISSED, FORGOTTEN = timedelta(hours=36), timedelta(days=14)
"""A series without a night for so long has missed one; after a fortnight nobody waits for it any more."""


def gate_night(
    history: History,
    tonight: StoredRun,
    *,
    rerun: StoredRun | None = None,
    run_again: Callable[[], StoredRun] | None = None,
    pinned: StoredRun | None = None,
    until_accepted: bool = False,
) -> GateResult:
    """Add the night, judge it, and record the verdict. Judging a night again replaces its verdict and
    counts its second run again.

    ``rerun``: a second run of tonight that is there already; ``run_again`` makes one, called only if something is
    acute. ``pinned``: the reference build's run of the same night. ``until_accepted``: a night with an open change is
    a regression, until a baseline accepts it. Raises ConfigError for an advisory night
    and runs that cannot have these roles, ComparabilityError for a pinned run made otherwise, StoreError.
    """
    if tonight.advisory:
        raise ConfigError(f"{tonight.source} cannot be gated: {tonight.advisory}; see it with omni-bench history show")
    if tonight.keys.get("load.kind") == RATE_SEARCH:
        raise ConfigError(
            f"{tonight.source} cannot be gated: a rate search tries other rates every night; gate load=open_loop at "
            "rates that do not move"
        )
    _check_rerun(tonight, rerun)
    _check_pinned(tonight, pinned)
    history.add(tonight)
    if pinned is not None:
        history.add(pinned)
    before = history.nights(tonight.series, until=tonight)
    evidence = _evidence(history, tonight, before, pinned)
    last = before[-1] if before else None
    result = evaluate(tonight, evidence, night_before=last, rerun=rerun)
    notes = [*_late(history, tonight), *_missing(history, tonight)]
    if len(before) < MIN_NIGHTS:
        notes += [*_made_otherwise(history, tonight), *_renamed(history, tonight)]
    if rerun is None and result.with_status(Status.UNCONFIRMED):
        rerun = history.rerun(tonight)
        if run_again is not None and (rerun is None or not rerun.valid):
            rerun = run_again()
            _check_rerun(tonight, rerun)
        if rerun is not None:
            result = evaluate(tonight, evidence, night_before=last, rerun=rerun)
    result = replace(result, notes=(*result.notes, *notes), until_accepted=until_accepted)
    passes = result.outcome in (GateOutcome.PASS, GateOutcome.INCONCLUSIVE)
    if until_accepted and result.open_changes and passes:
        result = replace(result, outcome=GateOutcome.REGRESSION)
    if rerun is not None:
        history.add(rerun)
    alarms = [alarm for alarm in result.alarms if alarm.kind != "acute" or _is_regression(result, alarm)]
    history.record_verdict(
        tonight,
        result.outcome,
        result.exit_code,
        alarms or _accepted(history, tonight, evidence.baseline),
        pinned=pinned,
        rerun=rerun,
        replaced=result.replaced,
    )
    return result


def _accepted(history: History, tonight: StoredRun, baseline: Baseline | None) -> list[HistoryAlarm]:
    """What tonight alarmed before a baseline accepted it: judged again, it is normal, and was an alarm all the same."""
    since = first_night(baseline)
    own = [alarm for alarm in history.alarms(tonight.series) if alarm.raised_by == tonight.run_id]
    return [alarm for alarm in own if since is not None and order_of(history.run(alarm.onset_run)) <= since]


def _is_regression(result: GateResult, alarm: object) -> bool:
    return any(one.alarm is alarm and one.status is Status.REGRESSION for one in result.series)


def _evidence(history: History, tonight: StoredRun, before: list[StoredRun], pinned: StoredRun | None) -> Evidence:
    baseline = history.baseline(tonight.series)
    nights = [night for night in before if night.valid]
    if baseline is not None:
        first = first_night(baseline)
        nights = [night for night in nights if first is None or order_of(night) >= first]
    pins = None
    if pinned is not None:
        build = _build(pinned, pinned)
        pins = {night: run for night, run in history.pinned(tonight.series).items() if _build(run, pinned) == build}
        pins[tonight.run_id] = pinned
    return Evidence(nights, history.alarms(tonight.series, until=tonight), baseline, pins)


def _made_otherwise(history: History, tonight: StoredRun) -> tuple[str, ...]:
    """Why a young series does not go on an older one of the same scenario: in what their nights were made otherwise."""
    others = [
        nights[-1]
        for series in history.series(tonight.scenario)
        if series != tonight.series and (nights := history.nights(series, until=tonight))
    ]
    if not others:
        return ()
    last = max(others, key=order_of)
    then = {"target": last.target} | as_known_now(last.keys, tonight.keys)
    found = differences(then, {"target": tonight.target} | tonight.keys)
    if not found:
        return ()
    more = f"; and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    return (
        f"a young series, as tonight was made otherwise than {last.source} of {last.started_utc or 'an unknown date'} "
        f"(then | now): {_listed(found[:MAX_LISTED])}{more}",
    )


def _renamed(history: History, tonight: StoredRun) -> list[str]:
    """Series that differ from a young one in the scenario's name alone."""
    now = _when(tonight)
    found = []
    for last, nights in history.newest():
        then = _when(last)
        stopped = now is not None and then is not None and now - then > SAME_NIGHT / 2
        alike = last.target == tonight.target and not differences(as_known_now(last.keys, tonight.keys), tonight.keys)
        if stopped and last.scenario != tonight.scenario and alike:
            found.append(
                f"a young series, and scenario {last.scenario} differs from {tonight.scenario} in its name alone (its "
                f"{nights} nights end on {last.date}): if it was renamed, its history does not go on under this name"
            )
    return found[:MAX_LISTED]


def _missing(history: History, tonight: StoredRun) -> list[str]:
    """Series that had nights lately and have none any more."""
    now = _when(tonight)
    found = []
    for last, nights in history.newest():
        then = _when(last)
        other = last.series != tonight.series and last.scenario != tonight.scenario
        if other and nights > 1 and now and then and MISSED < now - then <= FORGOTTEN:
            found.append(f"no night of {last.scenario} ({last.target}, series {last.series}) since {last.date}")
    return found[:MAX_LISTED]


def _late(history: History, tonight: StoredRun) -> list[str]:
    """That the history has nights after this one."""
    later = [night for night in history.nights(tonight.series) if order_of(night) > order_of(tonight)]
    if not later:
        return []
    nights = f"{len(later)} night{'' if len(later) == 1 else 's'}"
    return [
        f"this night is dated {tonight.date}, before {nights} of the history (the last of {later[-1].date}); it is "
        "judged by those before it"
    ]


def _when(run: StoredRun) -> datetime | None:
    return None if run.started_utc is None else datetime.fromisoformat(run.started_utc)


def _build(run: StoredRun, now: StoredRun) -> tuple[object, ...]:
    """What makes two pinned runs those of one build; ``now``: tonight's, which may know more settings."""
    settings = as_known_now(run.settings, now.settings)
    fixed = {name: value for name, value in settings.items() if not name.startswith("server.")}
    return (run.target, run.commit, run.versions.get("target.version"), repr(sorted(fixed.items(), key=lambda i: i[0])))


def _check_rerun(tonight: StoredRun, rerun: StoredRun | None) -> None:
    if rerun is None:
        return
    if rerun.run_id == tonight.run_id:
        raise ConfigError(f"{rerun.source} is the run that is judged; a second run has to be another one")
    _same_keys(tonight, rerun, "the second run")
    if rerun.settings != tonight.settings or rerun.commit != tonight.commit:
        found = differences(tonight.settings | {"commit": tonight.commit}, rerun.settings | {"commit": rerun.commit})
        found = [one for one in found if not one.name.startswith("server.")]
        if found:
            raise ComparabilityError(f"the second run is of something else: {_listed(found)}")


def _check_pinned(tonight: StoredRun, pinned: StoredRun | None) -> None:
    if pinned is None:
        return
    if pinned.run_id == tonight.run_id:
        raise ConfigError(f"{pinned.source} is the run that is judged; the pinned run has to be another one")
    _same_keys(tonight, pinned, "the pinned run")
    if not pinned.valid:
        raise ConfigError(
            f"the pinned run {pinned.source} is invalid: {'; '.join(map(str, pinned.reasons)) or 'no reason given'}"
        )
    if tonight.started_utc and pinned.started_utc:
        apart = datetime.fromisoformat(tonight.started_utc) - datetime.fromisoformat(pinned.started_utc)
        if abs(apart) > SAME_NIGHT:
            raise ConfigError(
                f"the pinned run {pinned.source} of {pinned.started_utc} is not of the same night as "
                f"{tonight.source} of {tonight.started_utc} (24 h at most)"
            )


def _same_keys(tonight: StoredRun, other: StoredRun, what: str) -> None:
    found = differences(tonight.keys, other.keys)
    if tonight.scenario != other.scenario or found:
        raise ComparabilityError(
            f"{what} {other.source} cannot stand beside {tonight.source}: "
            + (_listed(found) or f"scenario: {tonight.scenario} | {other.scenario}")
        )


def _listed(found) -> str:
    return "; ".join(f"{one.name}: {shown(one.before)} | {shown(one.after)}" for one in found)
