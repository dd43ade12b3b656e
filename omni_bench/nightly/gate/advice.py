"""What a person can do about a verdict: between which commits, how to confirm it, how to accept it. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from omni_bench.compare.keys import Difference, as_known_now, differences, shown
from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.gate.rerun import repeatable_words
from omni_bench.nightly.gate.result import Change, GateOutcome, GateResult, NextStep
from omni_bench.nightly.history.records import StoredRun
from omni_bench.records.invalid_reason import next_steps as steps_of

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS_OF_HYDRA = ("null", "true", "false", "nan", "inf")
_SETTABLE = ("reference.", "target.")
_OWN_SERVER = ("target.url=", "target.command=", "target=")


def advise(
    result: GateResult,
    *,
    run: str,
    database: str | None = None,
    evidence: Sequence[str] = (),
    repository: str = "",
    is_there: Callable[[str], bool] = bool,
) -> tuple[NextStep, ...]:
    """The steps, most urgent first.

    ``run``, ``database``: as they were typed. ``evidence``: files of the night to look at. ``repository``: the address
    of the project's pages, "" if it is not known.
    ``is_there``: whether the run of an earlier night still is where it was.
    """
    return tuple(_steps(result, run, [] if database is None else ["--db", database], evidence, repository, is_there))


def _steps(
    result: GateResult,
    run: str,
    where: list[str],
    evidence: Sequence[str],
    repository: str,
    is_there: Callable[[str], bool],
) -> Iterator[NextStep]:
    if result.outcome is GateOutcome.UNCONFIRMED:
        again = _typed("gate", run, *where, "--rerun")
        yield NextStep("run it again on a fresh server (or give a second run: --reproduced-by RUN)", again)
    for change in result.changes:
        yield NextStep(onset_line(change))
        if (link := _compare_link(change, repository)) is not None:
            yield NextStep(f"what was committed in between: {link}")
        yield _confirm(change, result.run)
    if result.changes:
        nights = result.changes[-1].onset.runs  # the newest change: what is measured now
        before = [night.source for night in nights[:-1] if is_there(night.source)]
        left_out = len(nights) - 1 - len(before)
        note = f" ({left_out} of its nights are no longer where they were)" if left_out else ""
        accept = _typed("history", *where, "baseline", "set", *before, run, "--note", "WHY")
        yield NextStep(f"accept it, if it is intended{note}", accept)
    reasons = [reason for case in result.integrity for reason in (*case.failures, *case.errors)]
    yield from (NextStep(step) for step in steps_of(reasons))
    if evidence and (reasons or result.changes):
        yield NextStep(f"look at: {', '.join(evidence)}")


def onset_line(change: Change) -> str:
    """``last good 2026-11-12 `abc` (runs/12), first bad 2026-11-13 `def` (runs/13), ...: RTF at c = 4``."""
    onset = change.onset
    good = "last good: none in this history" if onset.last_good is None else f"last good {_night(onset.last_good)}"
    metrics = ", ".join(dict.fromkeys(METRICS[one.metric].short for one in change.series))
    names = f"{metrics} at {', '.join(dict.fromkeys(one.load for one in change.series))}"
    nights = f", {onset.nights} nights with tonight" if onset.nights > 1 else ""
    return f"{good}; first bad {_night(onset.first_bad)}{nights}: {names}"


def since_text(changes: Sequence[Change]) -> str:
    """``1 change is open since 2026-11-13 (5 nights) that no baseline accepts``; empty without any."""
    if not changes:
        return ""
    oldest = changes[0].onset
    nights = f"{oldest.nights} night{'' if oldest.nights == 1 else 's'}"
    since = f"since {oldest.first_bad.date} ({nights})"
    if len(changes) == 1:
        return f"1 change is open {since}, and no baseline accepts it"
    return f"{len(changes)} changes are open {since}, and no baseline accepts them"


def _night(run: StoredRun) -> str:
    commit = run.commit[:12] if run.commit else "unknown commit"
    return f"{run.date} {commit} ({run.source})"


def _compare_link(change: Change, repository: str) -> str | None:
    good, bad = change.onset.commits
    if not repository or not good or not bad or good == bad or not all(map(_COMMIT.fullmatch, (good, bad))):
        return None
    return f"{repository}/compare/{good}...{bad}"


def _confirm(change: Change, run: StoredRun) -> NextStep:
    good, bad = change.onset.commits
    words = repeatable_words(run.command)
    changed = _changed_settings(change)
    if good is not None and good == bad and not changed:
        return NextStep(
            f"the commit is the same on both nights ({good[:12]}): look for what changed outside of it (the machine, "
            "its driver, settings, packages)"
        )
    if good is None or bad is None or words is None:
        return NextStep("confirm it: run both builds with omni-bench ab; their commits, or the command, are not known")
    are_commits = _COMMIT.fullmatch(good) and _COMMIT.fullmatch(bad)
    if run.target.startswith("reference") and (are_commits or good == bad):
        names = {one.name for one in changed}
        shared = [word for word in words if word.partition("=")[0].lstrip("+~") not in names]
        refs = [] if good == bad else [f"before=git:{good[:12]}", f"after=git:{bad[:12]}"]
        before = [f"before.{one.name}={_hydra_value(one.before)}" for one in changed]
        after = [f"after.{one.name}={_hydra_value(one.after)}" for one in changed]
        return NextStep("confirm it", _typed("ab", *shared, *refs, *before, *after))
    shared = [word for word in words if not word.startswith(_OWN_SERVER)]
    settings = "; ".join(f"{one.name}: {shown(one.before)} | {shown(one.after)}" for one in changed)
    return NextStep(
        f"confirm it, with {good[:12]} served at port 8091 and {bad[:12]} at 8092"
        + (f", each with its own settings (then | now: {settings})" if settings else ""),
        _typed("ab", *shared, "before=http://127.0.0.1:8091", "after=http://127.0.0.1:8092"),
    )


def _changed_settings(change: Change) -> list[Difference]:
    """Settings of the target that the first bad night has otherwise than the last good one."""
    good, bad = change.onset.last_good, change.onset.first_bad
    if good is None:
        return []
    found = differences(as_known_now(good.settings, bad.settings), bad.settings)
    return [one for one in found if one.name.startswith(_SETTABLE)]


def _hydra_value(value: object) -> str:
    """A stored value as Hydra reads it back."""
    plain = isinstance(value, str) and _WORD.fullmatch(value) and value.lower() not in _WORDS_OF_HYDRA
    return str(value) if plain else json.dumps(value, separators=(",", ":"))


def _typed(*words: str) -> str:
    return shlex.join(["omni-bench", *words])
