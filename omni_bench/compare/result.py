"""What a comparison found: one frozen value from which markdown, JSON and plots are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from omni_bench.compare.keys import Difference
from omni_bench.compare.stats.accuracy import FlagComparison, WerDifference
from omni_bench.compare.stats.length_guard import LengthGuard
from omni_bench.compare.stats.looks import Look
from omni_bench.compare.stats.verdicts import PrimaryVerdict
from omni_bench.errors import EXIT_INVALID, EXIT_OK
from omni_bench.records.level import Level


class Advisory(StrEnum):
    """Why an outcome is advisory, by code; the text for people stands beside it in ``Comparison.advisory``."""

    SINGLE_RUNS = "single_runs"
    NO_REQUESTS = "no_requests"
    FEW_PAIRS = "few_pairs"
    OTHER_KEYS = "other_keys"


WITHOUT_VERDICT = frozenset({Advisory.SINGLE_RUNS, Advisory.NO_REQUESTS})
"""With these there is nothing to base a verdict on."""
AND = " and "


def common_rate(rates: tuple[str | None, str | None]) -> str | None:
    """What both arms count errors by: "WER" (also where nothing was judged) or "CER"; None if they differ."""
    known = {rate for rate in rates if rate is not None} or {"WER"}
    return known.pop() if len(known) == 1 and not any(AND in rate for rate in known) else None


class ComparisonOutcome(StrEnum):
    """How a comparison ends."""

    REGRESSION = "REGRESSION"
    IMPROVEMENT = "IMPROVEMENT"
    NO_REGRESSION = "NO REGRESSION"
    INCONCLUSIVE = "INCONCLUSIVE"
    HARD_FAILURE = "HARD FAILURE"
    AFTER_BROKEN = "AFTER IS BROKEN"
    NO_CLAIM = "NO PERFORMANCE CLAIM"
    ADVISORY = "ADVISORY"


EXIT_INCONCLUSIVE = 2
EXIT_CODES = {
    ComparisonOutcome.NO_REGRESSION: EXIT_OK,
    ComparisonOutcome.IMPROVEMENT: EXIT_OK,
    ComparisonOutcome.REGRESSION: EXIT_INVALID,
    ComparisonOutcome.HARD_FAILURE: EXIT_INVALID,
    ComparisonOutcome.AFTER_BROKEN: EXIT_INVALID,
    ComparisonOutcome.NO_CLAIM: EXIT_INVALID,
    ComparisonOutcome.INCONCLUSIVE: EXIT_INCONCLUSIVE,
    ComparisonOutcome.ADVISORY: EXIT_INCONCLUSIVE,
}
"""As those of the gate: 0 pass, 1 regression or broken, 2 nothing can be said, 3 infrastructure."""
NOT_ABOUT_SPEED = (ComparisonOutcome.HARD_FAILURE, ComparisonOutcome.AFTER_BROKEN, ComparisonOutcome.NO_CLAIM)


class Mark(StrEnum):
    """What is said about one cell: a metric at one level. Informational, never a verdict on the change."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "no change"  # one of 5 % is excluded
    NOTHING = "cannot tell"
    ADVISORY = "advisory"
    INVALID = "invalid"
    LENGTH_GUARD = "length guard"
    MISSING = "n/a"


@dataclass(frozen=True)
class ComparedArm:
    """One side. ``sources``: its runs as the user named them; ``versions``: those all its runs agree on."""

    sources: tuple[str, ...]
    started_utc: tuple[str | None, ...]
    target: str | None
    version: str | None
    commit: str | None
    command: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """One metric at one level over the pairs that have both values.

    ``before``, ``after``: geometric means over the runs (of an intercept: arithmetic means). ``change`` and
    ``interval`` (two-sided, 1 − 2 · alpha) are fractions of before; of an intercept, of the median E2EL of before; of a
    share of requests, differences.
    ``p`` is two-sided, ``p_adjusted`` after Benjamini–Hochberg over all cells; None with fewer than two pairs.
    ``better_pairs``: of the pairs, those in which after is the better one.
    """

    metric: str
    concurrency: Level
    pairs: int
    before: float | None
    after: float | None
    change: float | None
    interval: tuple[float, float] | None
    p: float | None
    p_adjusted: float | None
    mark: Mark
    better_pairs: int = 0

    @property
    def delta(self) -> float | None:
        """after − before, in the metric's unit."""
        return None if self.before is None or self.after is None else self.after - self.before


@dataclass(frozen=True)
class Percentiles:
    """Figures of one metric at one level, of both arms: (name, before, after), means over the runs."""

    metric: str
    concurrency: Level
    figures: tuple[tuple[str, float | None, float | None], ...]


@dataclass(frozen=True)
class LevelAccuracy:
    """Corpus WER (or CER) and cross-talk hits of a level in both arms, over all runs; None where not checked."""

    concurrency: Level
    before: float | None
    after: float | None
    cross_talk_before: int | None = None
    cross_talk_after: int | None = None


@dataclass(frozen=True)
class PairChange:
    """One primary in pair ``pair`` (from 1, as given). ``before``, ``after``: geometric means over the common levels,
    None where that means nothing (an intercept); ``change``: their ratio − 1, of a share their difference.
    ``stands_apart``: far from all others.
    """

    pair: int
    metric: str
    before: float | None
    after: float | None
    change: float
    better: bool
    stands_apart: bool = False


@dataclass(frozen=True)
class Breakage:
    """One thing that after does wrong and before does not: ``code`` and a ``text`` of :class:`InvalidReason`.

    ``levels``: at which; ``runs``: runs of after in which.
    """

    code: str
    levels: tuple[Level, ...]
    text: str
    runs: int


@dataclass(frozen=True)
class HeardPair:
    """An utterance that after says worse than before, in one pair. Rates are fractions; ``heard_*``: transcripts.

    ``audio_*``: paths of the recordings, relative to where the runs are named from; None where it was not kept.
    """

    pair: int
    concurrency: Level
    text: str
    heard_before: str | None
    heard_after: str
    rate_before: float | None
    rate_after: float
    audio_before: str | None
    audio_after: str | None


@dataclass(frozen=True)
class Accuracy:
    """What was heard in both arms. Counts are of all runs of an arm; None where it was not checked.

    ``rates``: what errors are counted by in each arm, "WER" (words) or "CER" (characters); None without a judge. Where
    they differ (--force), ``wer`` and ``flags`` are None: the two are not compared.
    ``wer_before``/``wer_after`` are of all runs and levels; ``wer`` has the difference over utterances that both arms
    have, with its interval, None without per-request data. ``cross_talk_runs``: runs of after with a hit.
    """

    rates: tuple[str | None, str | None]
    levels: tuple[LevelAccuracy, ...]
    wer_before: float | None
    wer_after: float | None
    wer: WerDifference | None
    flags: FlagComparison | None
    cross_talk_before: int | None
    cross_talk_after: int | None
    cross_talk_runs: int | None
    parity_before: int | None
    parity_after: int | None

    @property
    def rate(self) -> str | None:
        """The rate of both arms; None if they differ in it. WER where nothing was judged."""
        return common_rate(self.rates)


@dataclass(frozen=True)
class Comparison:
    """The whole comparison.

    ``pairs``: as given; ``used``: indices of those whose runs are both valid. ``alpha``: one-sided level of the bounds
    of intervals at this look. ``look``: of a study, None outside of one and between its looks. ``advisory``: why the
    outcome is not binding, in words. ``forced``: keys that differ all the same.
    ``settings``, ``versions``: what was compared. ``invalid``: why runs are not valid. ``failures``: what fails
    whatever the speed. ``accuracy_worse``: corruption flags rose significantly. ``broken``: what is wrong with after
    alone, empty unless that is the outcome. ``pair_changes``: the primaries pair by pair. ``worst``: what after says
    worse than before, the worst first. ``faults``: those that were injected on purpose, by arm; ``stated_faults``: what
    servers that are not ours say of their own. ``stopped``: that a study ended before all its pairs, and why; None for
    one that did not.
    """

    outcome: ComparisonOutcome
    before: ComparedArm
    after: ComparedArm
    pairs: int
    used: tuple[int, ...]
    alpha: float
    look: Look | None
    levels: tuple[Level, ...]
    requests: tuple[tuple[int, int], ...]
    hardware: str | None
    prompts: str | None
    judge: str | None
    settings: tuple[Difference, ...]
    versions: tuple[Difference, ...]
    forced: tuple[Difference, ...]
    advisory: Mapping[Advisory, str]
    invalid: tuple[str, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...]
    guard: LengthGuard
    primaries: tuple[PrimaryVerdict, ...]
    cells: tuple[Cell, ...]
    percentiles: tuple[Percentiles, ...]
    accuracy: Accuracy
    accuracy_worse: bool
    broken: tuple[Breakage, ...] = ()
    pair_changes: tuple[PairChange, ...] = ()
    worst: tuple[HeardPair, ...] = ()
    faults: tuple[str, ...] = ()
    stated_faults: tuple[str, ...] = ()
    stopped: str | None = None

    @property
    def judges_speed(self) -> bool:
        """False where the outcome says nothing about speed, whatever the figures are."""
        return self.outcome not in NOT_ABOUT_SPEED

    @property
    def gives_verdicts(self) -> bool:
        """False where there is nothing to base a verdict on: single runs, or summaries of another program."""
        return WITHOUT_VERDICT.isdisjoint(self.advisory)
