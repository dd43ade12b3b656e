"""May these runs be compared at all?"""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.compare.keys import Difference, differences, shown
from omni_bench.compare.views import RunView
from omni_bench.errors import ComparabilityError
from omni_bench.levels import Level, level_value


def check_comparable(before: Sequence[RunView], after: Sequence[RunView], *, force: bool = False) -> list[Difference]:
    """The keys that differ, [] if the runs may be compared. Run i of one arm belongs to run i of the other.

    Raises ComparabilityError for arms of different sizes or without runs, copies of one run in an arm, runs without a
    common level, and, unless ``force``, for unequal keys; the message lists each with both values.
    """
    if len(before) != len(after) or not before:
        raise ComparabilityError(
            f"before has {len(before)} runs, after has {len(after)}; runs are compared in pairs, in order: "
            "give as many of each, at least one"
        )
    for name, arm in (("before", before), ("after", after)):
        _refuse_copies(name, arm)
    if not common_concurrencies(before, after):
        listed = [
            [level if isinstance(level, int) else str(level) for level in sorted(_levels_of(arm), key=level_value)]
            for arm in (before, after)
        ]
        searched = any(run.facts.highest_rate is not None for run in (*before, *after))
        only = " (of a rate search, only rates that hold are compared)" if searched else ""
        raise ComparabilityError(
            f"the runs have no concurrency level in common: before {listed[0]}, after {listed[1]}{only}"
        )
    found = _unequal_keys(before, after)
    if found and not force:
        listed = "\n".join(f"  {one.name}: {shown(one.before)} | {shown(one.after)}" for one in found)
        raise ComparabilityError(
            f"the runs cannot be compared: {len(found)} comparability key(s) differ (before | after):\n{listed}\n"
            "make both with the same prompts, load, client, judge and hardware, or look all the same with --force"
        )
    return found


def _levels_of(arm: Sequence[RunView]) -> set[Level]:
    return {level.concurrency for run in arm for level in run.levels}


def common_concurrencies(before: Sequence[RunView], after: Sequence[RunView]) -> tuple[Level, ...]:
    """Levels that every run has."""
    levels = [{level.concurrency for level in run.levels} for run in (*before, *after)]
    return tuple(sorted(set.intersection(*levels)))


def _unequal_keys(before: Sequence[RunView], after: Sequence[RunView]) -> list[Difference]:
    found: dict[str, Difference] = {}
    for pair, (first, second) in enumerate(zip(before, after, strict=True), start=1):
        for one in differences(first.keys, second.keys) + differences(first.order, second.order):
            found.setdefault(one.name, one)
        for name, arm, run in (("before", before, first), ("after", after, second)):
            if pair == 1:
                continue
            for one in differences(arm[0].keys, run.keys):
                if one.name not in found:
                    label = f"{one.name} within {name} (runs 1 and {pair})"
                    found.setdefault(label, Difference(label, one.before, one.after))
            for one in differences(_own(arm[0]), _own(run)):
                label = f"{one.name} within {name} (runs 1 and {pair})"
                found.setdefault(label, Difference(label, one.before, one.after))
    return list(found.values())


def _own(run: RunView) -> dict[str, object]:
    """What all runs of one arm share, though the arms may differ in it; a server's counters are none of it."""
    settings = {name: value for name, value in run.settings.items() if not name.startswith("server.")}
    return settings | {name: run.versions.get(name) for name in ("target.version", "target.commit")}


def _refuse_copies(name: str, arm: Sequence[RunView]) -> None:
    for index, run in enumerate(arm):
        for other in arm[:index]:
            if run.started_utc == other.started_utc and run.levels == other.levels:
                raise ComparabilityError(f"{name}: {run.source} is a copy of {other.source}; a run counts once")
