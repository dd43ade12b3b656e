"""What a person can do about a verdict: between which commits, how to confirm it, how to accept it. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.gate.rerun import repeatable_words
from omni_bench.nightly.gate.result import Change, GateOutcome, GateResult, NextStep
from omni_bench.nightly.history.records import StoredRun
from omni_bench.records.invalid_reason import next_steps as steps_of

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_OWN_SERVER = ("target.url=", "target.command=", "target=")


def advise(
    result: GateResult, *, run: str, database: str | None = None, evidence: Sequence[str] = (), repository: str = ""
) -> tuple[NextStep, ...]:
    """The steps, most urgent first.

    ``run``, ``database``: as they were typed. ``evidence``: files of the night to look at. ``repository``: the address
    of the project's pages, "" if it is not known.
    """
    return tuple(_steps(result, run, [] if database is None else ["--db", database], evidence, repository))


def _steps(
    result: GateResult, run: str, where: list[str], evidence: Sequence[str], repository: str
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
        yield NextStep(
            "accept it, if it is intended", _typed("history", *where, "baseline", "set", run, "--note", "WHY")
        )
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
    since = f"since {_date(oldest.first_bad)} ({nights})"
    if len(changes) == 1:
        return f"1 change is open {since}, and no baseline accepts it"
    return f"{len(changes)} changes are open {since}, and no baseline accepts them"


def _night(run: StoredRun) -> str:
    commit = run.commit[:12] if run.commit else "unknown commit"
    return f"{_date(run)} {commit} ({run.source})"


def _date(run: StoredRun) -> str:
    return (run.started_utc or "undated")[:10]


def _compare_link(change: Change, repository: str) -> str | None:
    good, bad = change.onset.commits
    if not repository or not good or not bad or good == bad or not all(map(_COMMIT.fullmatch, (good, bad))):
        return None
    return f"{repository}/compare/{good}...{bad}"


def _confirm(change: Change, run: StoredRun) -> NextStep:
    good, bad = change.onset.commits
    words = repeatable_words(run.command)
    if good is not None and good == bad:
        return NextStep(
            f"the commit is the same on both nights ({good[:12]}): look for what changed outside of it (the machine, "
            "its driver, settings, packages)"
        )
    if good is None or bad is None or words is None:
        return NextStep("confirm it: run both builds with omni-bench ab; their commits, or the command, are not known")
    if run.target.startswith("reference") and _COMMIT.fullmatch(good) and _COMMIT.fullmatch(bad):
        return NextStep("confirm it", _typed("ab", *words, f"before=git:{good[:12]}", f"after=git:{bad[:12]}"))
    shared = [word for word in words if not word.startswith(_OWN_SERVER)]
    return NextStep(
        f"confirm it, with {good[:12]} served at port 8091 and {bad[:12]} at 8092",
        _typed("ab", *shared, "before=http://127.0.0.1:8091", "after=http://127.0.0.1:8092"),
    )


def _typed(*words: str) -> str:
    return shlex.join(["omni-bench", *words])
