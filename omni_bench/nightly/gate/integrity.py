"""Integrity first: may a night be judged at all? Whatever the speed, broken speech is a hard failure."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.nightly.gate.result import IntegrityCase
from omni_bench.nightly.history.records import StoredLevel, StoredRun

_OF_THE_CLIENT = ("the client", "client lag")
"""Beginnings of the reasons for which a level is invalid and its target is not to blame."""


def check_integrity(run: StoredRun, night_before: StoredRun | None) -> tuple[IntegrityCase, ...]:
    """One case for the run as a whole, and one a load.

    Cross-talk that chance could explain leaves a level valid and is a warning; when the night before
    has such hits at the same load too, it repeats, and that is a hard failure.
    """
    of_levels = {reason for level in run.levels for reason in level.reasons}
    own = tuple(
        reason for reason in run.reasons if not any(reason.endswith(f": {inner}") for inner in of_levels | {"invalid"})
    )
    errors = own
    if not run.levels and not own:
        errors = ("no level was measured",)
    elif not run.valid and not own and all(level.valid for level in run.levels):
        errors = ("the run says that it is invalid, without a reason",)
    warnings = tuple(f"a fault was injected on purpose: {fault}" for fault in run.faults)
    whole = IntegrityCase("run", errors=errors, warnings=warnings)
    return (whole, *(_level_case(level, night_before) for level in run.levels))


def _level_case(level: StoredLevel, night_before: StoredRun | None) -> IntegrityCase:
    failures, errors = [], []
    for reason in level.reasons:
        (errors if reason.startswith(_OF_THE_CLIENT) else failures).append(reason)
    if not level.valid and not level.reasons:
        failures.append("the level says that it is invalid, without a reason")
    # a hand-made or foreign run.json may call a level valid whose requests failed
    if level.valid and (level.failed or level.faulty):
        failures.append(f"{level.failed or 0} requests failed and {level.faulty or 0} gave invalid audio")
    warnings = []
    hits = _count(level, "cross_talk_hits")
    if hits and level.valid:
        before = night_before.level(level.load) if night_before is not None else None
        earlier = _count(before, "cross_talk_hits") if before is not None else 0
        if earlier:
            failures.append(f"cross-talk repeats: {hits} hits tonight, {earlier} the night before")
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
