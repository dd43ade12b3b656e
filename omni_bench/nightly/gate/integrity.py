"""Integrity first: may a night be judged at all? Whatever the speed, broken speech is a hard failure."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.nightly.gate.result import IntegrityCase
from omni_bench.nightly.history.records import StoredLevel, StoredRun
from omni_bench.records.invalid_reason import Blame, Code, InvalidReason, invalid, nothing_compared


def check_integrity(run: StoredRun, night_before: StoredRun | None) -> tuple[IntegrityCase, ...]:
    """One case for the run as a whole, and one a load.

    Cross-talk that chance could explain leaves a level valid and is a warning; when the night before
    has such hits at the same load too, it repeats, and that is a hard failure.
    """
    errors = tuple(reason for reason in run.reasons if reason.level is None)
    if not run.levels and not errors:
        errors = (invalid(Code.NO_LEVELS),)
    elif not run.valid and not errors and all(level.valid for level in run.levels):
        errors = (invalid(Code.UNSTATED, what="run"),)
    warnings = tuple(f"a fault was injected on purpose: {fault}" for fault in run.faults)
    if run.stated_fault is not None:
        warnings += (run.stated_fault,)
    whole = IntegrityCase("run", errors=errors, warnings=warnings)
    return (whole, *(_level_case(level, night_before) for level in run.levels))


def _level_case(level: StoredLevel, night_before: StoredRun | None) -> IntegrityCase:
    failures: list[InvalidReason] = []
    errors: list[InvalidReason] = []
    for reason in level.reasons:
        (errors if reason.blame in (Blame.CLIENT, Blame.JUDGE) else failures).append(reason)
    if not level.valid and not level.reasons:
        failures.append(invalid(Code.UNSTATED, what="level"))
    # a hand-made or foreign run.json may call a level valid whose requests failed
    if level.valid and (level.failed or level.faulty):
        failures.append(invalid(Code.CLAIMS_VALID, failed=level.failed or 0, faulty=level.faulty or 0))
    warnings = []
    excluded = _count(level, "excluded")
    if level.valid:  # as it calls itself
        errors += nothing_compared(level.accuracy)
    if excluded and not errors:
        warnings.append(f"the judge could not compare {excluded} of {level.requests} utterances: texts without words")
    hits = _count(level, "cross_talk_hits")
    if hits and level.valid:
        before = night_before.level(level.load) if night_before is not None else None
        earlier = _count(before, "cross_talk_hits") if before is not None else 0
        if earlier:
            failures.append(invalid(Code.CROSS_TALK_REPEATS, hits=hits, before=earlier))
        else:
            warnings.append(f"cross-talk: {hits} hits, no more than chance explains; a failure if they repeat")
    mismatches = _count(level, "parity_mismatches")
    if mismatches and level.valid:
        warnings.append(f"parity: {mismatches} answers differ from those alone, within what the check allows")
    return IntegrityCase(level.load, tuple(failures), tuple(errors), tuple(warnings))


def _count(level: StoredLevel, name: str) -> int:
    return (level.accuracy or {}).get(name) or 0


def failed(cases: Sequence[IntegrityCase]) -> bool:
    """Whether anything is a hard failure."""
    return any(case.failures for case in cases)


def not_measured(cases: Sequence[IntegrityCase]) -> bool:
    """Whether anything kept the night from being measured."""
    return any(case.errors for case in cases)
