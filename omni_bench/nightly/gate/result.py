"""What the gate says about a night."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omni_bench.nightly.history.database import Baseline, HistoryAlarm
from omni_bench.nightly.history.records import StoredRun
from omni_bench.records.invalid_reason import InvalidReason

TOLERANCE_NIGHTS = 5
"""An estimated onset moves as nights come in, and metrics of one change are found on different nights: onsets that
are no further apart are those of one change, unless it has become worse by another 5 %."""


class GateOutcome(StrEnum):
    """The verdict on a night."""

    PASS = "PASS"
    REGRESSION = "REGRESSION"
    INCONCLUSIVE = "INCONCLUSIVE"
    UNCONFIRMED = "NOT CONFIRMED YET"
    HARD_FAILURE = "HARD FAILURE"
    INVALID = "INVALID MEASUREMENT"


EXIT_CODES = {
    GateOutcome.PASS: 0,
    GateOutcome.REGRESSION: 1,
    GateOutcome.INCONCLUSIVE: 2,
    GateOutcome.UNCONFIRMED: 2,
    GateOutcome.HARD_FAILURE: 3,
    GateOutcome.INVALID: 3,
}
"""A hard failure (broken audio, failed requests, cross-talk, parity) exits with 3, not 1: 1 is a claim about
speed, and a night whose audio is broken makes none, however fast it was. What tells it from a failed measurement
(a late client, an interrupted run) is ``outcome`` in gate.json, and junit.xml, where it is a failure and the other an
error."""


class Status(StrEnum):
    """What is said about one metric at one load."""

    PASS = "PASS"
    REGRESSION = "REGRESSION"
    KNOWN = "KNOWN CHANGE"
    NOT_REPRODUCED = "NOT REPRODUCED"
    UNCONFIRMED = "NOT CONFIRMED YET"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Expected:
    """What tonight was expected to be: geometric mean of the segment's nights (of shares of requests: their mean), and
    the ends of the interval.

    In the metric's unit; a ratio to the pinned run of the night where ``GateResult.pinned`` is set.
    """

    nights: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Onset:
    """Where a change began. ``last_good``: the night before it, None if there is none; ``runs``: since, tonight last.

    ``is_new``: alarmed tonight; else it was alarmed before, and nothing accepts it.
    """

    first_bad: StoredRun
    last_good: StoredRun | None
    runs: tuple[StoredRun, ...]
    is_new: bool

    @property
    def nights(self) -> int:
        """Since, tonight too."""
        return len(self.runs)

    @property
    def commits(self) -> tuple[str | None, str | None]:
        """Between which it came."""
        return (self.last_good.commit if self.last_good is not None else None, self.first_bad.commit)


@dataclass(frozen=True)
class Change:
    """One change with all series that it is seen in; ``onset``: the earliest of theirs."""

    onset: Onset
    series: tuple[SeriesResult, ...]


@dataclass(frozen=True)
class NextStep:
    """What a person can do now: in words, and as a command to type, "" where there is none."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class SeriesResult:
    """One gated metric at one load. ``change``: tonight against the segment's mean, as a fraction; None unknown.

    ``reason``: why the status, in words. ``against_baseline``: tonight against the baseline, as a fraction.
    ``onset``: where a change began, alarmed tonight or open; None unless there is one. ``second_change``: that of the
    second run, where it was asked.
    """

    metric: str
    load: str
    status: Status
    reason: str
    value: float | None
    expected: Expected | None
    change: float | None
    against_baseline: float | None = None
    onset: Onset | None = None
    alarm: HistoryAlarm | None = None
    second_change: float | None = None

    @property
    def commits(self) -> tuple[str | None, str | None] | None:
        """Between which a change came; None unless there is one."""
        return None if self.onset is None else self.onset.commits

    @property
    def name(self) -> str:
        """``rtf, c = 16``."""
        return f"{self.metric}, {self.load}"


def _nights(one: SeriesResult) -> int:
    return one.onset.nights if one.onset is not None else 0


@dataclass(frozen=True)
class IntegrityCase:
    """Whether the run, or one load of it, may be judged at all.

    ``failures``: broken audio, failed requests, cross-talk, parity, WER or CER. ``errors``: what kept it from being
    measured.
    """

    name: str
    failures: tuple[InvalidReason, ...] = ()
    errors: tuple[InvalidReason, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it may be judged."""
        return not self.failures and not self.errors


@dataclass(frozen=True)
class GateResult:
    """The verdict. ``nights``: valid nights before this one. ``replaced``: the second run stands for the night.

    ``pinned``: the reference run of the same night. ``rerun``: the second run. ``notes``: what a reader should know.
    ``next_steps``: what to do. ``until_accepted``: an open change is a regression every night.
    """

    run: StoredRun
    outcome: GateOutcome
    integrity: tuple[IntegrityCase, ...]
    series: tuple[SeriesResult, ...]
    nights: int
    notes: tuple[str, ...] = ()
    baseline: Baseline | None = None
    pinned: StoredRun | None = None
    rerun: StoredRun | None = None
    replaced: bool = False
    next_steps: tuple[NextStep, ...] = ()
    until_accepted: bool = False

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes of tonight and the open ones; onsets that are near one another are those of one change."""
        found: list[list[SeriesResult]] = []
        for one in sorted((one for one in self.series if one.onset is not None), key=_nights, reverse=True):
            if found and _nights(found[-1][0]) - _nights(one) <= TOLERANCE_NIGHTS:
                found[-1].append(one)
            else:
                found.append([one])
        return tuple(Change(series[0].onset, tuple(series)) for series in found if series[0].onset is not None)

    @property
    def open_changes(self) -> tuple[Change, ...]:
        """Those that were alarmed before and that no baseline accepts."""
        return tuple(one for one in self.changes if not one.onset.is_new)

    @property
    def exit_code(self) -> int:
        """0 pass, 1 regression, 2 inconclusive, 3 hard failure or no measurement."""
        return EXIT_CODES[self.outcome]

    @property
    def alarms(self) -> tuple[HistoryAlarm, ...]:
        """What is alarmed tonight, and what joins an earlier alarm."""
        return tuple(one.alarm for one in self.series if one.alarm is not None)

    def with_status(self, *statuses: Status) -> list[SeriesResult]:
        """The series of these statuses."""
        return [one for one in self.series if one.status in statuses]
