"""From alarms to the verdict of a self-test: fault × detector × lowest concurrency. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from omni_bench.selftest.cases import CLEAN, SelftestCase


@dataclass(frozen=True)
class DetectorAlarm:
    """One detector's finding in one run. ``detail``: the evidence in a few words, with a request's id."""

    detector: str
    concurrency: int
    detail: str


@dataclass(frozen=True)
class CaseRun:
    """One run of one case. ``problem``: why it could not be judged at all, None if it could."""

    case: SelftestCase
    repeat: int
    folder: str
    alarms: tuple[DetectorAlarm, ...]
    duration_s: float
    problem: str | None = None

    def lowest(self, detector: str) -> int | None:
        """The lowest concurrency at which ``detector`` alarmed."""
        return min((alarm.concurrency for alarm in self.alarms if alarm.detector == detector), default=None)

    @property
    def caught(self) -> bool:
        """True if a detector named in advance alarmed where the fault is said to show, at ``min_concurrency`` or above.

        Below that the catalogue says that the fault cannot be seen: what alarmed there alarmed for another reason.
        """
        return any(
            alarm.detector in self.case.expected and alarm.concurrency >= self.case.min_concurrency
            for alarm in self.alarms
        )


@dataclass(frozen=True)
class CaseVerdict:
    """All runs of one case."""

    case: SelftestCase
    runs: tuple[CaseRun, ...]

    @property
    def caught(self) -> int:
        """Runs in which the fault was found by a detector named in advance."""
        return sum(run.caught for run in self.runs)

    @property
    def ok(self) -> bool:
        """A fault: found in every run. The clean server: no alarm in any."""
        if any(run.problem for run in self.runs):
            return False
        if self.case.kind == CLEAN:
            return not any(run.alarms for run in self.runs)
        return bool(self.runs) and self.caught == len(self.runs)

    def lowest(self, detector: str) -> int | None:
        """The lowest concurrency at which ``detector`` alarmed in any run."""
        return min((low for run in self.runs if (low := run.lowest(detector)) is not None), default=None)

    def times(self, detector: str) -> int:
        """Runs in which ``detector`` alarmed."""
        return sum(run.lowest(detector) is not None for run in self.runs)


@dataclass(frozen=True)
class SelftestResult:
    """The whole matrix. ``skipped``: faults that single runs cannot show (``omni-bench ab`` does)."""

    verdicts: tuple[CaseVerdict, ...]
    skipped: tuple[SelftestCase, ...]
    duration_s: float
    facts: Mapping[str, object]

    @property
    def ok(self) -> bool:
        """True if every fault was caught and the clean server stayed silent."""
        return all(verdict.ok for verdict in self.verdicts)

    @property
    def detectors(self) -> list[str]:
        """Detectors that alarmed, or were expected to: most often named first."""
        names = Counter(
            name
            for verdict in self.verdicts
            for name in {*verdict.case.expected, *(alarm.detector for run in verdict.runs for alarm in run.alarms)}
        )
        return sorted(names, key=lambda name: (-names[name], name))

    def false_alarms(self) -> tuple[int, int, float, float] | None:
        """(alarming clean runs, clean runs, 95 % interval of the rate); None without clean runs.

        A run that proves nothing (``problem``) is not among them.
        """
        runs = [run for one in self.verdicts if one.case.kind == CLEAN for run in one.runs if run.problem is None]
        if not runs:
            return None
        alarming = sum(bool(run.alarms) for run in runs)
        return (alarming, len(runs), *rate_interval(alarming, len(runs)))


def rate_interval(events: int, runs: int) -> tuple[float, float]:
    """Exact 95 % interval of a rate (Clopper & Pearson 1934). Raises ValueError unless 0 <= events <= runs > 0."""
    interval = stats.binomtest(events, runs).proportion_ci(0.95, method="exact")
    return float(interval.low), float(interval.high)


def group_by_case(runs: Sequence[CaseRun]) -> tuple[CaseVerdict, ...]:
    """Verdicts in the order in which the cases first appear."""
    by_name: dict[str, list[CaseRun]] = {}
    for run in runs:
        by_name.setdefault(run.case.name, []).append(run)
    return tuple(CaseVerdict(group[0].case, tuple(group)) for group in by_name.values())
