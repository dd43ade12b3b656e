"""From pairs to verdicts: one-sided bounds, thresholds, and corrections for looking at several things.

The same :func:`decide` serves one study and a thousand simulated ones, so that what the simulation
says about the procedure is about the code that judges real runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import stats

from omni_bench.compare.stats.pairs import (
    PairedEffect,
    one_sided_p,
    paired_effect,
    smallest_detectable_change,
    t_interval,
)
from omni_bench.metrics.definitions import METRICS


class Verdict(StrEnum):
    """What is said about one primary metric, or all of them."""

    REGRESSION = "REGRESSION"
    IMPROVEMENT = "IMPROVEMENT"
    NO_REGRESSION = "NO REGRESSION"
    INCONCLUSIVE = "INCONCLUSIVE"


VERDICTS = (Verdict.INCONCLUSIVE, Verdict.NO_REGRESSION, Verdict.IMPROVEMENT, Verdict.REGRESSION)
"""The verdicts by the codes of :func:`decide`."""

ALPHA = 0.05
MIN_CHANGE = 0.03  # a smaller change is no regression and no improvement, however certain
LOSS_LIMIT = 0.05  # NO REGRESSION says that a loss of so much is excluded
FULL_PAIRS = 5  # fewer pairs are advisory
CELL_FALSE_DISCOVERY_RATE = 0.10


@dataclass(frozen=True)
class StudyPlan:
    """How many pairs are run before looking. ``extended``: how many in all after the one extension, None for none.

    ``earlier_looks``: how often it was looked at before somebody asked for more pairs. A study that may look several
    times spends an equal share of the error at each look (Bonferroni).
    """

    pairs: int = FULL_PAIRS
    extended: int | None = 8
    earlier_looks: int = 0

    def __post_init__(self) -> None:
        if self.pairs < 1 or (self.extended is not None and self.extended <= self.pairs):
            raise ValueError(f"pairs={self.pairs}, extended={self.extended}: at least 1, and more when extended")

    @property
    def alpha(self) -> float:
        """The one-sided error of each look."""
        return ALPHA / self.looks

    @property
    def looks(self) -> int:
        """How many looks the plan allows for, the earlier ones included."""
        return self.earlier_looks + (1 if self.extended is None else 2)

    def with_more(self, pairs: int) -> StudyPlan:
        """The plan of an ended study that goes on to ``pairs`` pairs. Raises ValueError if it has as many."""
        if pairs <= max(self.pairs, self.extended or 0):
            raise ValueError(f"pairs={pairs}: more than {max(self.pairs, self.extended or 0)}")
        return StudyPlan(pairs, None, self.looks)

    def wanted_pairs(self, done: int, verdict: Verdict | None) -> int:
        """How many pairs the study should have in all, given what ``done`` pairs say; ``done`` itself: stop.

        There is no look before the plan's pairs are complete; only INCONCLUSIVE extends, and only once.
        """
        if done < self.pairs:
            return self.pairs
        if self.extended is not None and (self.pairs < done < self.extended or verdict is Verdict.INCONCLUSIVE):
            return max(self.extended, done)
        return done


@dataclass(frozen=True)
class PrimaryVerdict:
    """One primary metric. ``change``, ``interval`` and ``detectable`` are fractions of before.

    ``effect`` is None without data; ``interval`` (two-sided, 1 − 2 · alpha: its ends are the one-sided
    bounds), ``detectable`` (the smallest change found with power 0.8 at alpha / primaries, which is
    what Holm asks of the first), the p values (after Holm) and ``verdict`` are None with fewer than two pairs.
    """

    metric: str
    better: str
    effect: PairedEffect | None
    change: float | None
    interval: tuple[float, float] | None
    detectable: float | None
    p_worse: float | None
    p_better: float | None
    verdict: Verdict | None


def holm(p: np.ndarray) -> np.ndarray:
    """Adjusted p values along the last axis (Holm 1979): reject where they are at most alpha."""
    p = np.asarray(p, dtype=np.float64)
    tests = p.shape[-1]
    order = np.argsort(p, axis=-1)
    stepped = np.take_along_axis(p, order, axis=-1) * (tests - np.arange(tests))
    monotone = np.minimum(np.maximum.accumulate(stepped, axis=-1), 1.0)
    adjusted = np.empty_like(monotone)
    np.put_along_axis(adjusted, order, monotone, axis=-1)
    return adjusted


def benjamini_hochberg(p: Sequence[float | None]) -> list[float | None]:
    """Adjusted p values (Benjamini & Hochberg 1995) of those that are not None, in the same places."""
    present = [value for value in p if value is not None]
    if not present:
        return [None] * len(p)
    adjusted = iter(stats.false_discovery_control(present, method="bh"))
    return [None if value is None else float(next(adjusted)) for value in p]


def worse_sign(better: str | None) -> int:
    """1 if a rise is a loss, −1 if a fall is. Raises ValueError for a metric without a direction."""
    if better not in ("lower", "higher"):
        raise ValueError(f"better={better!r}: a primary metric needs a direction, lower or higher")
    return 1 if better == "lower" else -1


def decide(mean: np.ndarray, sd: np.ndarray, pairs: int, signs: Sequence[int], alpha: float) -> np.ndarray:
    """Codes into :data:`VERDICTS`, shape [..., primaries], from the pairs' mean and sd of ln(after/before).

    ``signs``: :func:`worse_sign` of each primary. REGRESSION: the one-sided test of a loss, Holm over
    the primaries, rejects at ``alpha`` and the change is worse than 3 %; IMPROVEMENT likewise.
    NO REGRESSION: the one-sided 1 − ``alpha`` bound excludes a loss of 5 %. That one has no correction:
    all primaries together are NO REGRESSION only if each is (an intersection–union test, Berger 1982).
    """
    mean, sd = np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    sign = np.asarray(signs)
    loss = sign * mean
    changed = sign * np.expm1(mean)
    limit = np.where(sign > 0, math.log1p(LOSS_LIMIT), -math.log1p(-LOSS_LIMIT))
    bound = loss + float(stats.t.isf(alpha, pairs - 1)) * sd / math.sqrt(pairs)
    codes = np.where(bound < limit, 1, 0)
    codes = np.where((holm(one_sided_p(-loss, sd, pairs)) <= alpha) & (changed < -MIN_CHANGE), 2, codes)
    return np.where((holm(one_sided_p(loss, sd, pairs)) <= alpha) & (changed > MIN_CHANGE), 3, codes)


def overall_code(codes: np.ndarray) -> np.ndarray:
    """The code of all primaries together, over the last axis.

    A regression of any is one of all; else anything inconclusive leaves all inconclusive; else an improvement counts.
    """
    worst = codes.max(axis=-1)
    return np.where(worst == 3, 3, np.where((codes == 0).any(axis=-1), 0, worst))


def overall(verdicts: Sequence[PrimaryVerdict]) -> Verdict | None:
    """The verdict of all primaries that have one; None if none has."""
    codes = [VERDICTS.index(primary.verdict) for primary in verdicts if primary.verdict is not None]
    return VERDICTS[int(overall_code(np.array(codes)))] if codes else None


def judge(changes: Mapping[str, Sequence[float] | None], *, alpha: float = ALPHA) -> tuple[PrimaryVerdict, ...]:
    """The verdict of each primary. ``changes``: metric -> ln(after/before) of each pair, None without data.

    Directions are those of :data:`omni_bench.metrics.definitions.METRICS`. All metrics that have
    data need the same number of pairs (ValueError). With one pair there is a change but no verdict.
    """
    effects = {name: paired_effect(values) if values else None for name, values in changes.items()}
    known = [(name, effect) for name, effect in effects.items() if effect is not None]
    counts = {effect.pairs for _, effect in known}
    if len(counts) > 1:
        raise ValueError(f"the primaries have different numbers of pairs: {sorted(counts)}")
    tested = {}
    if counts and counts != {1}:
        tested = _tested(known, counts.pop(), alpha)
    return tuple(_primary(name, effect, tested.get(name), alpha, len(known)) for name, effect in effects.items())


def _tested(
    known: Sequence[tuple[str, PairedEffect]], pairs: int, alpha: float
) -> dict[str, tuple[float, float, Verdict]]:
    signs = np.array([worse_sign(METRICS[name].better) for name, _ in known])
    mean = np.array([effect.mean for _, effect in known])
    sd = np.array([effect.sd for _, effect in known], dtype=np.float64)
    codes = decide(mean, sd, pairs, signs, alpha)
    worse = holm(one_sided_p(signs * mean, sd, pairs))
    better = holm(one_sided_p(-signs * mean, sd, pairs))
    return {name: (float(worse[i]), float(better[i]), VERDICTS[int(codes[i])]) for i, (name, _) in enumerate(known)}


def _primary(
    name: str, effect: PairedEffect | None, tested: tuple[float, float, Verdict] | None, alpha: float, primaries: int
) -> PrimaryVerdict:
    better = METRICS[name].better
    assert better is not None
    if effect is None:
        return PrimaryVerdict(name, better, None, None, None, None, None, None, None)
    bounds = t_interval(effect, 1 - 2 * alpha)
    p_worse, p_better, verdict = tested if tested is not None else (None, None, None)
    return PrimaryVerdict(
        metric=name,
        better=better,
        effect=effect,
        change=effect.change,
        interval=None if bounds is None else (math.expm1(bounds[0]), math.expm1(bounds[1])),
        detectable=smallest_detectable_change(effect.sd, effect.pairs, alpha=alpha / primaries),
        p_worse=p_worse,
        p_better=p_better,
        verdict=verdict,
    )
