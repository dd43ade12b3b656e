"""Accuracy of two arms over the same utterances: flags by McNemar's test, the WER by a bootstrap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from omni_bench.accuracy.parity.verdict import mcnemar_p

RESAMPLES = 4000
CONFIDENCE = 0.95

Key = TypeVar("Key")


@dataclass(frozen=True)
class FlagComparison:
    """Corrupted utterances of both arms, of those flagged in both; ``worse``/``better``: corrupted only after/before.

    ``p``: exact two-sided McNemar test of the discordant pairs.
    """

    utterances: int
    before: int
    after: int
    worse: int
    better: int
    p: float


@dataclass(frozen=True)
class WerDifference:
    """Corpus WER of both arms over the same utterances, and after − before with its 95 % interval; fractions."""

    utterances: int
    before: float
    after: float
    difference: float
    low: float
    high: float


def compare_flags(
    before: Sequence[Mapping[Key, bool | None]], after: Sequence[Mapping[Key, bool | None]]
) -> FlagComparison | None:
    """Compare per-utterance flags; one mapping (utterance -> corrupted) a run of each arm.

    An utterance counts as corrupted in an arm if it is in any of the arm's runs: repetitions of one
    utterance are not independent, and both arms have the same number of them. Utterances without
    a flag in some run are left out. None if no utterance is left. Raises ValueError for arms of different sizes.
    """
    if len(before) != len(after):
        raise ValueError(f"arms of {len(before)} and {len(after)} runs")
    first, second = _any_run(before), _any_run(after)
    shared = first.keys() & second.keys()
    if not shared:
        return None
    worse = sum(second[key] and not first[key] for key in shared)
    better = sum(first[key] and not second[key] for key in shared)
    return FlagComparison(
        utterances=len(shared),
        before=sum(first[key] for key in shared),
        after=sum(second[key] for key in shared),
        worse=worse,
        better=better,
        p=mcnemar_p(worse, better),
    )


def _any_run(runs: Sequence[Mapping[Key, bool | None]]) -> dict[Key, bool]:
    if not runs:
        return {}
    keys = set.intersection(*({key for key, flag in run.items() if flag is not None} for run in runs))
    return {key: any(run[key] for run in runs) for key in keys}


def wer_difference(
    before: Mapping[Key, tuple[int, int]], after: Mapping[Key, tuple[int, int]], *, seed: int = 0
) -> WerDifference | None:
    """Bootstrap of the difference of corpus WERs; utterance -> (word edits, reference words) of all runs of an arm.

    Utterances are drawn with replacement, both arms of an utterance together (Bisani & Ney, ICASSP 2004);
    the interval holds the middle 95 % of :data:`RESAMPLES` draws. The same ``seed`` gives the same interval.
    None if no utterance with words is in both arms.
    """
    shared = sorted((key for key in before.keys() & after.keys() if before[key][1] and after[key][1]), key=repr)
    if not shared:
        return None
    counts = np.array([[*before[key], *after[key]] for key in shared], dtype=np.float64)  # [utterances, 4]
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(shared), np.full(len(shared), 1 / len(shared)), size=RESAMPLES) @ counts
    differences = drawn[:, 2] / drawn[:, 3] - drawn[:, 0] / drawn[:, 1]
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(differences, (tail, 100 - tail))
    edits_before, words_before, edits_after, words_after = counts.sum(axis=0)
    wer_before, wer_after = edits_before / words_before, edits_after / words_after
    return WerDifference(
        utterances=len(shared),
        before=float(wer_before),
        after=float(wer_after),
        difference=float(wer_after - wer_before),
        low=float(low),
        high=float(high),
    )
