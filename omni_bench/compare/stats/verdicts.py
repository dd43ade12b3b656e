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

from omni_bench.compare.stats.looks import ALPHA, EARLY_LOOKS, ONE_LOOK, Look
from omni_bench.compare.stats.pairs import MAX_LOG, PairedEffect, one_sided_p, paired_effect
from omni_bench.metrics.definitions import METRICS


class Verdict(StrEnum):
    """What is said about one primary metric, or all of them."""

    REGRESSION = "REGRESSION"
    IMPROVEMENT = "IMPROVEMENT"
    NO_REGRESSION = "NO REGRESSION"
    INCONCLUSIVE = "INCONCLUSIVE"


VERDICTS = (Verdict.INCONCLUSIVE, Verdict.NO_REGRESSION, Verdict.IMPROVEMENT, Verdict.REGRESSION)
"""The verdicts by the codes of :func:`decide`."""

MIN_CHANGE = 0.03  # a smaller change is no regression and no improvement, however certain
LOSS_LIMIT = 0.05  # NO REGRESSION says that a loss of so much is excluded
TAIL_MIN_CHANGE = 0.05  # the same of the slowest requests, of which there are fewer
TAIL_LOSS_LIMIT = 0.10
FULL_PAIRS = 5  # fewer pairs are advisory
CELL_FALSE_DISCOVERY_RATE = 0.10


@dataclass(frozen=True)
class StudyPlan:
    """After how many pairs a study is looked at; it stops at the first look that can tell.

    Before all of ``pairs`` are there only a change can be told: a study that stopped at NO REGRESSION would miss
    improvements.
    ``pairs``: of the full study. ``extended``: of its one extension, None for none. ``early``: whether a full study is
    looked at before all its pairs are there (:data:`.looks.EARLY_LOOKS`). Without, the looks spend equal shares of the
    error (Bonferroni) instead of what :mod:`.looks` integrates. ``earlier_looks``: how often it was looked at
    before somebody asked for more pairs; then there is one look, with an equal share.
    """

    pairs: int = FULL_PAIRS
    extended: int | None = 8
    earlier_looks: int = 0
    early: bool = True

    def __post_init__(self) -> None:
        if self.pairs < 1 or (self.extended is not None and self.extended <= self.pairs):
            raise ValueError(f"pairs={self.pairs}, extended={self.extended}: at least 1, and more when extended")

    @property
    def looks(self) -> tuple[int, ...]:
        """The pairs after which it is looked at, in order."""
        early = EARLY_LOOKS if self.early and self.pairs >= FULL_PAIRS else ()
        last = () if self.extended is None else (self.extended,)
        return (*(pairs for pairs in early if pairs < self.pairs), self.pairs, *last)

    def look(self, done: int) -> Look:
        """The look at ``done`` pairs, or the next one if there is none at so many."""
        number = next((number for number, pairs in enumerate(self.looks, start=1) if pairs >= done), len(self.looks))
        integrated = self.early and len(self.looks) > 1
        shares = None if integrated else self.earlier_looks + len(self.looks)
        return Look(number, self.looks, shares, self.looks.index(self.pairs))

    def with_more(self, pairs: int) -> StudyPlan:
        """The plan of an ended study that goes on to ``pairs`` pairs. Raises ValueError if it has as many."""
        if pairs <= self.looks[-1]:
            raise ValueError(f"pairs={pairs}: more than {self.looks[-1]}")
        return StudyPlan(pairs, None, self.earlier_looks + len(self.looks), early=False)

    def goes_on(self, done: int, verdict: Verdict | None) -> bool:
        """Whether more pairs may be worth while after a look that says ``verdict``; None: nothing that they change."""
        if done >= self.looks[-1]:
            return False
        return verdict is Verdict.INCONCLUSIVE or (verdict is Verdict.NO_REGRESSION and done < self.pairs)

    def wanted_pairs(self, done: int, verdict: Verdict | None) -> int:
        """How many pairs the study should have next, given what ``done`` pairs say; ``done`` itself: stop."""
        if done in self.looks and not self.goes_on(done, verdict):
            return done
        return next((pairs for pairs in self.looks if pairs > done), done)


@dataclass(frozen=True)
class PrimaryVerdict:
    """One primary metric. ``change``, ``interval`` and ``detectable`` are fractions of before; of a share, differences.

    ``effect`` is None without data; ``interval`` (two-sided: its ends are the one-sided bounds of this look),
    ``detectable`` (the smallest change found at this look with power 0.8, by the level that
    Holm asks of the first), the p values (after Holm and the looks, to be at most 0.05; None for one that is the same
    in every pair) and ``verdict`` are None with fewer than two pairs.
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
    """Adjusted p values along the last axis (Holm 1979): reject where they are at most alpha.

    A NaN is no test and does not count as one.
    """
    p = np.asarray(p, dtype=np.float64)
    tests = (~np.isnan(p)).sum(axis=-1, keepdims=True)
    order = np.argsort(p, axis=-1)  # NaN last
    stepped = np.take_along_axis(p, order, axis=-1) * np.maximum(tests - np.arange(p.shape[-1]), 1)
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


@dataclass(frozen=True)
class Limits:
    """Of each primary: a smaller ``change`` is none; NO REGRESSION excludes a ``loss`` of so much. Fractions.

    ``points``: which of them are shares, that change by a difference.
    """

    change: Sequence[float]
    loss: Sequence[float]
    points: Sequence[bool]


def limits_of(metrics: Sequence[str]) -> Limits:
    """Wider ones for the slowest requests; a share of requests has those of the medians, in percentage points."""
    wide = [METRICS[name].tail and not METRICS[name].points for name in metrics]
    return Limits(
        change=[TAIL_MIN_CHANGE if one else MIN_CHANGE for one in wide],
        loss=[TAIL_LOSS_LIMIT if one else LOSS_LIMIT for one in wide],
        points=[METRICS[name].points for name in metrics],
    )


def adjusted_p(loss: np.ndarray, sd: np.ndarray, pairs: int, look: Look = ONE_LOOK) -> np.ndarray:
    """p of "not worse", after ``look`` and Holm over the primaries (last axis); NaN for one that never differs.

    That one could not have been rejected, whatever the level (no request stalls in any run), so that it does not count
    among the tests (Tarone, Biometrics 1990).
    """
    p = np.where((loss == 0) & (sd == 0), np.nan, one_sided_p(loss, sd, pairs))
    return holm(look.corrected(p))


def decide(
    mean: np.ndarray, sd: np.ndarray, pairs: int, signs: Sequence[int], limits: Limits, look: Look = ONE_LOOK
) -> np.ndarray:
    """Codes into :data:`VERDICTS`, shape [..., primaries], from the pairs' mean and sd of ln(after/before).

    ``signs``: :func:`worse_sign` of each primary. REGRESSION: the one-sided test
    of a loss, corrected for the looks and for the primaries (Holm), rejects at 0.05 and the change is worse than its
    limit; IMPROVEMENT likewise. NO REGRESSION: the one-sided bound of this look excludes the loss. That one has no
    correction for the primaries: all together are NO REGRESSION only if each is (an intersection–union test, Berger
    1982).
    """
    mean, sd = np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    sign, points = np.asarray(signs), np.asarray(limits.points)
    loss = sign * mean
    changed = sign * np.where(points, mean, np.expm1(np.minimum(mean, MAX_LOG)))
    least, excluded = map(np.asarray, (limits.change, limits.loss))
    limit = np.where(points, excluded, np.where(sign > 0, np.log1p(excluded), -np.log1p(-excluded)))
    bound = loss + float(stats.t.isf(look.bound, pairs - 1)) * sd / math.sqrt(pairs)
    codes = np.where(bound < limit, 1, 0)
    codes = np.where((adjusted_p(-loss, sd, pairs, look) <= ALPHA) & (changed < -least), 2, codes)
    return np.where((adjusted_p(loss, sd, pairs, look) <= ALPHA) & (changed > least), 3, codes)


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


def unknown_medians(verdicts: Sequence[PrimaryVerdict]) -> list[PrimaryVerdict]:
    """The primaries of which nothing is known, so that all together are INCONCLUSIVE at best; a tail may be missing."""
    return [one for one in verdicts if one.effect is None and not METRICS[one.metric].tail]


def judge(changes: Mapping[str, Sequence[float] | None], look: Look = ONE_LOOK) -> tuple[PrimaryVerdict, ...]:
    """The verdict of each primary. ``changes``: metric -> ln(after/before) of each pair, None without data.

    Of a share: after − before. Directions are those of :data:`omni_bench.metrics.definitions.METRICS`. All metrics that
    have data need the same number of pairs (ValueError). With one pair there is a change but no verdict.
    """
    effects = {
        name: paired_effect(values, points=METRICS[name].points) if values else None for name, values in changes.items()
    }
    known = [(name, effect) for name, effect in effects.items() if effect is not None]
    counts = {effect.pairs for _, effect in known}
    if len(counts) > 1:
        raise ValueError(f"the primaries have different numbers of pairs: {sorted(counts)}")
    tested = {}
    if counts and counts != {1}:
        tested = _tested(known, counts.pop(), look)
    tests = sum((effect.mean, effect.sd) != (0, 0) for _, effect in known) or 1
    return tuple(_primary(name, effect, tested.get(name), look, tests) for name, effect in effects.items())


def _tested(
    known: Sequence[tuple[str, PairedEffect]], pairs: int, look: Look
) -> dict[str, tuple[float | None, float | None, Verdict]]:
    names = [name for name, _ in known]
    signs = np.array([worse_sign(METRICS[name].better) for name in names])
    mean = np.array([effect.mean for _, effect in known])
    sd = np.array([effect.sd for _, effect in known], dtype=np.float64)
    codes = decide(mean, sd, pairs, signs, limits_of(names), look)
    found = [adjusted_p(sign * mean, sd, pairs, look).tolist() for sign in (signs, -signs)]
    worse, better = ([None if math.isnan(p) else p for p in side] for side in found)
    return {name: (worse[i], better[i], VERDICTS[int(codes[i])]) for i, name in enumerate(names)}


def _primary(
    name: str,
    effect: PairedEffect | None,
    tested: tuple[float | None, float | None, Verdict] | None,
    look: Look,
    primaries: int,
) -> PrimaryVerdict:
    better = METRICS[name].better
    assert better is not None
    if effect is None:
        return PrimaryVerdict(name, better, None, None, None, None, None, None, None)
    p_worse, p_better, verdict = tested if tested is not None else (None, None, None)
    return PrimaryVerdict(
        metric=name,
        better=better,
        effect=effect,
        change=effect.change,
        interval=effect.interval(1 - 2 * look.bound),
        detectable=effect.detectable(look.level(ALPHA / primaries)),
        p_worse=p_worse,
        p_better=p_better,
        verdict=verdict,
    )
