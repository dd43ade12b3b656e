"""What the comparisons of a level say together. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from omni_bench.accuracy.parity.compare import CODES, PCM, ParityComparison
from omni_bench.records.level import Level

TRANSCRIPT = "transcript"


@dataclass(frozen=True)
class LevelParity:
    """A level against the same requests sent alone.

    ``kind``: by what answers were compared; ``transcript`` if the server does not repeat itself even
    alone, so that other codes or samples say nothing (``differ`` of the ``answered`` pairs do differ).
    ``sent``: requests sent alone for it, repeats included; ``asked``: pairs to compare.
    ``compared``: pairs that ``mismatches`` is of; by transcripts a mismatch is an utterance that is
    corrupted beside its twin alone (None without a judge). ``exact``: pairs that agree bit for bit.
    ``repeatable``: whether requests sent twice alone, or alone and in a level of concurrency 1, got the
    same answer (``repeats`` of them were compared, in the whole run); None if none could be.
    ``deterministic``: the server claims to be. ``judged``: pairs with both transcripts, of which ``worse``
    are corrupted in company beside the twin and ``worse_alone`` the other way round, the discordant pairs
    of ``mcnemar_p``; ``corrupted`` and ``corrupted_alone`` are so by themselves. ``failed``: requests that
    failed when sent alone, by kind of error. ``first``: the mismatch that arrived first.
    """

    kind: str
    sent: int
    asked: int
    compared: int
    mismatches: int | None
    answered: int
    differ: int
    exact: int | None
    repeatable: bool | None
    repeats: int
    repeats_differ: int
    deterministic: bool
    judged: int
    worse: int
    worse_alone: int
    corrupted: int
    corrupted_alone: int
    mcnemar_p: float | None
    failed: dict[str, int]
    first: ParityComparison | None


def mcnemar_p(worse: int, worse_alone: int) -> float:
    """Exact two-sided McNemar test (McNemar 1947): the discordant pairs fall either way with probability 1/2.

    1 where there are none.
    """
    if worse + worse_alone == 0:
        return 1.0
    from scipy.stats import binomtest  # slow to import

    return float(binomtest(worse, worse + worse_alone, 0.5).pvalue)


def level_parity(
    comparisons: Sequence[ParityComparison], concurrency: Level, *, deterministic: bool
) -> LevelParity | None:
    """Sum up one level out of the ``comparisons`` of a whole run; None if it has none."""
    all_of_level = [one for one in comparisons if one.concurrency == concurrency]
    mine = [one for one in all_of_level if not one.repeat]
    if not mine:
        return None
    # in which a request had no company either time: what they show is the server's own
    checks = [one for one in comparisons if one.equal is not None and (one.repeat or one.concurrency == 1)]
    repeats_differ = sum(not one.equal for one in checks)
    repeatable = None if not checks else repeats_differ == 0
    answered = [one for one in mine if one.equal is not None]
    judged = [one.words for one in mine if one.words is not None]
    worse, worse_alone = sum(words.worse for words in judged), sum(words.worse_alone for words in judged)
    different = [one for one in answered if not one.equal]
    if repeatable is False and not deterministic:
        kind, compared = TRANSCRIPT, len(judged)
        mismatched = [one for one in mine if is_mismatch(one, kind)]
        mismatches = len(mismatched) if judged else None
    else:
        kind = CODES if answered and all(one.kind == CODES for one in answered) else PCM
        compared, mismatched, mismatches = len(answered), different, len(different) if answered else None
    exact = [one.exact for one in answered if one.exact is not None]
    return LevelParity(
        kind=kind,
        sent=len(all_of_level),
        asked=len(mine),
        compared=compared,
        mismatches=mismatches,
        answered=len(answered),
        differ=len(different),
        exact=sum(exact) if exact else None,
        repeatable=repeatable,
        repeats=len(checks),
        repeats_differ=repeats_differ,
        deterministic=deterministic,
        judged=len(judged),
        worse=worse,
        worse_alone=worse_alone,
        corrupted=sum(words.corrupted for words in judged),
        corrupted_alone=sum(words.corrupted_alone for words in judged),
        mcnemar_p=mcnemar_p(worse, worse_alone) if judged else None,
        failed=dict(Counter(one.solo_error for one in all_of_level if one.solo_error is not None).most_common()),
        first=min(mismatched, key=_moment, default=None),
    )


def is_mismatch(comparison: ParityComparison, kind: str) -> bool:
    """Whether a pair counts as a mismatch where the level is compared by ``kind``."""
    if kind == TRANSCRIPT:
        return comparison.words is not None and comparison.words.worse
    return comparison.equal is False


def _moment(comparison: ParityComparison) -> tuple[bool, int]:
    """Orders mismatches by the arrival of the first difference; those of an unknown moment come last."""
    return (comparison.arrived_ns is None, comparison.arrived_ns or 0)
