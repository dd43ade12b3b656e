"""Change points in a series of nights: E-divisive with means, hierarchical, with its own permutation test.

The method is that of Matteson & James (arXiv 1306.4933); the limits p < 0.001, magnitude ≥ 3 % and at least three
nights a segment are those with which Hunter (arXiv 2301.03034) made it practical for nightly benchmarks.

The search is that of the library ruptures (binary segmentation). With the cost of a segment S

    cost(S) = Σ_{i<j} |x_i − x_j| / |S|

the gain of a split into X and Y is n·m / (n + m) · E(X, Y) / 2, E being the energy distance (Rizzo & Székely 2010,
"DISCO analysis": total dispersion = within + between), so that the best split of ruptures is the candidate of
E-divisive. ruptures was chosen because it installs beside this project's versions on Python 3.11 and 3.12 (it needs
numpy and scipy, nothing else). Apache Otava 0.8.0 pins numpy to 2.2 and asks for clients of BigQuery, PostgreSQL and
Slack; MongoDB's signal-processing-algorithms 2.1.6 asks for numpy below 2 and Python below 3.12.

Otava and Hunter replace the permutation test by Student's t over the two sides, which ignores that the split was chosen
for being the best. Here the permutation test stays: the best split of a permuted series is as chosen as the real one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from omni_bench.compare.stats.pairs import as_change

MAX_P = 0.001
MIN_MAGNITUDE = 0.03
MIN_SEGMENT = 3
PERMUTATIONS = 9999
SEED = 1306_4933
_FIRST_LOOKS = (1999, 4999)  # with a p value below half of the limit by then, more permutations would not change it
_BATCHES = (32, 64, 128, 256, 512)  # small first: most series have no change point, and a few permutations show that


@dataclass(frozen=True)
class ChangePoint:
    """``index``: the first night of the new level. ``change``: mean after against mean before, as a fraction.

    ``p``: of the permutation test of the segment that was split there.
    """

    index: int
    change: float
    p: float


def change_points(logs: Sequence[float], *, points: bool = False) -> tuple[ChangePoint, ...]:
    """The change points of a series of logarithms, by position. The same series gives the same points.

    ``points``: of a series of shares, whose changes are differences.

    Each segment is split at its best place while the permutation test says p < 0.001; then the
    smallest change below 3 % is merged away, one after the other. Raises ValueError for values that are not finite.
    """
    values = tuple(float(value) for value in logs)
    if not all(map(math.isfinite, values)):
        raise ValueError("a series with a value that is not finite")
    return _change_points(values, points)


@lru_cache(maxsize=4096)
def _change_points(values: tuple[float, ...], points: bool) -> tuple[ChangePoint, ...]:
    series = np.array(values)
    if not _may_change(series):
        return ()
    found: dict[int, float] = {}
    pending = [(0, len(series))]
    while pending:
        start, end = pending.pop()
        split = _best_split(series[start:end])
        if split is None:
            continue
        p = permutation_p(series[start:end])
        if p < MAX_P:
            found[start + split] = p
            pending += [(start, start + split), (start + split, end)]
    return _merged(series, found, points)


def _may_change(series: np.ndarray) -> bool:
    """Whether any two segments can be 3 % apart, which spares the permutations of a quiet series.

    A segment of three nights or more is made of pieces of three to five, and its mean lies between the means of those.
    """
    pieces = [sliding_window_view(series, size).mean(axis=1) for size in (3, 4, 5) if size <= len(series)]
    means = np.concatenate(pieces) if pieces else np.zeros(1)
    return _magnitude(float(np.ptp(means))) >= MIN_MAGNITUDE


def _best_split(segment: np.ndarray) -> int | None:
    """Where the segment is best split into two of at least three nights; None if it is too short or constant."""
    from ruptures import Binseg  # takes seconds to import

    if len(segment) < 2 * MIN_SEGMENT or np.ptp(segment) == 0:
        return None
    search = Binseg(custom_cost=energy_cost(), min_size=MIN_SEGMENT, jump=1).fit(segment)
    return search.predict(n_bkps=1)[0]


@lru_cache(maxsize=1)
def _energy_cost_class() -> type:
    from ruptures.base import BaseCost

    class EnergyCost(BaseCost):
        """Half the mean distance within a segment, times its length."""

        model = "energy"
        min_size = MIN_SEGMENT

        def fit(self, signal: np.ndarray) -> EnergyCost:
            self.signal = np.asarray(signal, dtype=np.float64).reshape(-1, 1)
            size = len(self.signal)
            self._sums = np.zeros((size + 1, size + 1))
            self._sums[1:, 1:] = np.abs(self.signal - self.signal.T).cumsum(axis=0).cumsum(axis=1)
            return self

        def error(self, start: int, end: int) -> float:
            sums = self._sums
            within = sums[end, end] - sums[start, end] - sums[end, start] + sums[start, start]
            return within / (2 * (end - start))

    return EnergyCost


def energy_cost():
    """A fresh cost object for ruptures (the class is made on first use, as ruptures takes seconds to import)."""
    return _energy_cost_class()()


def best_gains(orders: np.ndarray, segment: np.ndarray) -> np.ndarray:
    """The gain of the best split of ``segment`` [nights] in each of ``orders`` [rows, nights] of it; shape [rows].

    The same sums as :func:`energy_cost`, over many orders at once; at least six nights.
    """
    nights = len(segment)
    to_all = np.abs(segment[:, None] - segment).sum(axis=0)[orders.T].cumsum(axis=0)  # in any order the same
    by_night = segment[orders.T]  # the loop is over nights, so that an order costs microseconds
    to_earlier = np.zeros(by_night.shape)
    for night in range(1, nights):
        to_earlier[night] = np.abs(by_night[:night] - by_night[night]).sum(axis=0)
    sizes = np.arange(MIN_SEGMENT, nights - MIN_SEGMENT + 1)
    left = 2 * to_earlier.cumsum(axis=0)[sizes - 1]
    right = to_all[-1] - 2 * to_all[sizes - 1] + left
    sizes = sizes[:, None]
    gains = to_all[-1] / (2 * nights) - left / (2 * sizes) - right / (2 * (nights - sizes))
    return gains.max(axis=0)


def permutation_p(segment: np.ndarray) -> float:
    """(1 + permutations with a split as good) / (1 + permutations); at least six nights.

    It stops as soon as the answer to "p < 0.001?" is known (Besag & Clifford 1991 for the early no).
    """
    rng = np.random.default_rng(SEED)
    given = np.arange(len(segment))[None, :]
    observed = best_gains(given, segment)[0] * (1 - 1e-9)  # the same values in another order are as good
    enough = math.ceil(MAX_P * (PERMUTATIONS + 1)) - 1  # as many as this and p cannot be below the limit any more
    done = as_good = 0
    while done < PERMUTATIONS and as_good < enough:
        looks = [look for look in (*_FIRST_LOOKS, PERMUTATIONS) if look > done]
        batch = min(_BATCHES[min(done // 64, len(_BATCHES) - 1)], looks[0] - done)
        orders = rng.permuted(np.repeat(given, batch, axis=0), axis=1)
        as_good += int((best_gains(orders, segment) >= observed).sum())
        done += batch
        if done in _FIRST_LOOKS and (as_good + 1) / (done + 1) <= MAX_P / 2:
            break
    return (as_good + 1) / (done + 1)


def _merged(series: np.ndarray, found: dict[int, float], as_points: bool) -> tuple[ChangePoint, ...]:
    """The points that are left after merging segments whose means are less than 3 % apart, the closest first."""
    points = sorted(found)
    while True:
        bounds = [0, *points, len(series)]
        means = [float(series[start:end].mean()) for start, end in pairwise(bounds)]
        steps = [after - before for before, after in pairwise(means)]
        weak = [number for number, step in enumerate(steps) if _magnitude(step) < MIN_MAGNITUDE]
        if not weak:
            return tuple(
                ChangePoint(index, as_change(step, points=as_points), found[index])
                for index, step in zip(points, steps, strict=True)
            )
        del points[min(weak, key=lambda number: abs(steps[number]))]


def _magnitude(step: float) -> float:
    """The larger of the changes forth and back, as Hunter has it, so that up and down are treated alike."""
    return as_change(abs(step))
