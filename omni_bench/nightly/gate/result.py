"""What the gate says about a night."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omni_bench.nightly.history.database import Baseline, HistoryAlarm
from omni_bench.nightly.history.records import StoredRun
from omni_bench.records.invalid_reason import InvalidReason


class GateOutcome(StrEnum):
    """The verdict on a night."""

    PASS = "PASS"
    REGRESSION = "REGRESSION"
    INCONCLUSIVE = "INCONCLUSIVE"
    HARD_FAILURE = "HARD FAILURE"
    INVALID = "INVALID MEASUREMENT"


EXIT_CODES = {
    GateOutcome.PASS: 0,
    GateOutcome.REGRESSION: 1,
    GateOutcome.INCONCLUSIVE: 2,
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
    """What tonight was expected to be: geometric mean of the segment's nights, and the ends of the interval.

    In the metric's unit; a ratio to the pinned run of the night where ``GateResult.pinned`` is set.
    """

    nights: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class SeriesResult:
    """One gated metric at one load. ``change``: tonight against the segment's mean, as a fraction; None unknown.

    ``reason``: why the status, in words. ``against_baseline``: tonight against the baseline, as a fraction.
    ``commits``: between which a change came; None unless there is one.
    """

    metric: str
    load: str
    status: Status
    reason: str
    value: float | None
    expected: Expected | None
    change: float | None
    against_baseline: float | None = None
    commits: tuple[str | None, str | None] | None = None
    alarm: HistoryAlarm | None = None

    @property
    def name(self) -> str:
        """``rtf, c = 16``."""
        return f"{self.metric}, {self.load}"


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
