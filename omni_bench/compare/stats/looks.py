"""Several looks at one growing study: how much of the error each may spend, so that all together spend no more.

A study that stops at the first look that can tell has as many chances to be wrong as it has looks. The error is spent
in proportion to the pairs, α · t with t the share that is done at a look: the third spending function of Lan & DeMets
("Discrete sequential boundaries for clinical trials", Biometrika 70, 1983, 659–663). It lies between their first, which
resembles O'Brien & Fleming's boundary and hardly ever stops after three pairs, and their second, which resembles
Pocock's and loses power at the end. The level of a look follows from the joint distribution of Student's t at all
looks, which is integrated here by quasi-Monte Carlo (Owen-scrambled Sobol points, the same in each process). Each step
of Holm's procedure spends its own part in this way (Maurer & Bretz, "Multiple testing in group sequential trials using
graphical approaches", Statistics in Biopharmaceutical Research 5, 2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import stats
from scipy.stats import qmc

ALPHA = 0.05
"""What all looks together spend, one-sided."""
EARLY_LOOKS = (3, 5, 8, 13, 21, 34, 55, 89)
"""Pairs, each about 1.6 times as many as before."""
SEED = 1983
_POINTS_LOG2 = 17
_ERRORS = np.geomspace(0.004, 0.64, 23)
"""Errors of which the levels are integrated: 0.05 over up to twelve primaries. Beyond them in proportion."""


@dataclass(frozen=True)
class Look:
    """Look ``number`` (from 1) of a study that looks after ``at`` pairs at most.

    ``shares``: the error is divided into so many equal parts (Bonferroni); None: it is spent by the function above.
    ``early``: how many of the looks come before the full study, and can tell nothing but a change.
    """

    number: int = 1
    at: tuple[int, ...] = ()
    shares: int | None = 1
    early: int = 0

    @property
    def pairs(self) -> int | None:
        """Pairs at this look; None outside of a study."""
        return self.at[self.number - 1] if self.at else None

    @property
    def is_last(self) -> bool:
        """Whether the study ends with it whatever it shows."""
        return self.number >= len(self.at)

    def level(self, error: float) -> float:
        """The one-sided level of a test at this look, where all looks together spend ``error``."""
        return float(self._map(np.array(error), to_level=True))

    @property
    def bound(self) -> float:
        """The one-sided level of the bounds of an interval, of which NO REGRESSION asks that they exclude a loss.

        As early looks cannot say that, they spend nothing of its error.
        """
        if self.shares is not None or self.number <= self.early:
            return self.level(ALPHA)
        if len(self.at) == self.early + 1:
            return ALPHA
        return replace(self, number=self.number - self.early, at=self.at[self.early :], early=0).level(ALPHA)

    def corrected(self, p: np.ndarray) -> np.ndarray:
        """p values as what all looks together spend if this one rejects at them; at most 1, NaN stays."""
        return np.minimum(self._map(np.asarray(p, dtype=np.float64), to_level=False), 1.0)

    def _map(self, values: np.ndarray, *, to_level: bool) -> np.ndarray:
        if self.shares is not None:
            return values / self.shares if to_level else values * self.shares
        known = _levels(self.at)[:, self.number - 1]
        xs, ys = (_ERRORS, known) if to_level else (known, _ERRORS)
        inside = np.exp(np.interp(np.log(np.maximum(values, 1e-300)), np.log(xs), np.log(ys)))
        return np.where(
            values < xs[0], values * ys[0] / xs[0], np.where(values > xs[-1], values * ys[-1] / xs[-1], inside)
        )


ONE_LOOK = Look()


def spent(error: float, share: float) -> float:
    """How much of ``error`` may be spent when ``share`` (0 to 1) of the pairs are done."""
    return error * share


@cache
def _levels(at: tuple[int, ...]) -> np.ndarray:
    """The level of each look for each of ``_ERRORS``, shape [errors, looks]."""
    p = null_p(at, _POINTS_LOG2)
    p = np.concatenate([p, 1 - p])  # with all signs turned it is as likely
    return np.array([_boundaries(p, [spent(error, pairs / at[-1]) for pairs in at]) for error in _ERRORS])


def _boundaries(p: np.ndarray, spending: Sequence[float]) -> list[float]:
    """Levels at which a share ``spending[k]`` of the rows of ``p`` [points, looks] is rejected by look k or before."""
    alive, found = np.ones(len(p), dtype=bool), []
    for of_look, total in zip(p.T, spending, strict=True):
        more = max(round(total * len(p)) - int((~alive).sum()), 0)
        left = of_look[alive]
        found.append(float(np.partition(left, more)[more]) if more < len(left) else 1.0)
        alive &= of_look > found[-1]
    return found


def null_p(at: tuple[int, ...], points_log2: int) -> np.ndarray:
    """One-sided p values of Student's t at each look where nothing differs, shape [2^points_log2, looks].

    Between two looks the sum of the new pairs is normal, and the squares about their mean are χ² with one degree of
    freedom less than there are new pairs.
    """
    uniform = qmc.Sobol(2 * len(at), seed=SEED).random_base2(points_log2)
    total, squares = np.zeros(len(uniform)), np.zeros(len(uniform))
    found, done = [], 0
    for look, pairs in enumerate(at):
        new, done = pairs - done, pairs
        added = stats.norm.ppf(uniform[:, 2 * look]) * math.sqrt(new)
        total = total + added
        squares = squares + added**2 / new + (stats.chi2.ppf(uniform[:, 2 * look + 1], new - 1) if new > 1 else 0.0)
        variance = (squares - total**2 / pairs) / (pairs - 1)
        found.append(stats.t.sf(total / np.sqrt(pairs * variance), pairs - 1))
    return np.stack(found, axis=1)
