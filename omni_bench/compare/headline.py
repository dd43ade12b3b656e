"""The verdict in a few plain sentences, for a first glance. The codes of a comparison decide, not its texts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from omni_bench.compare.result import Breakage, Comparison, ComparisonOutcome, Mark
from omni_bench.compare.stats.looks import ALPHA
from omni_bench.compare.stats.pairs import as_ratio, log_ratio
from omni_bench.compare.stats.verdicts import (
    LOSS_LIMIT,
    TAIL_LOSS_LIMIT,
    PrimaryVerdict,
    Verdict,
    limits_of,
    unknown_medians,
    worse_sign,
)
from omni_bench.errors import shorten
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.invalid_reason import CROSS_TALK_CODES, Code
from omni_bench.records.level import Level, listed_levels
from omni_bench.report.format import change_text, count, p_text, percent

MARKS = {
    ComparisonOutcome.REGRESSION: "🔴",
    ComparisonOutcome.IMPROVEMENT: "🟢",
    ComparisonOutcome.NO_REGRESSION: "⚪",
    ComparisonOutcome.INCONCLUSIVE: "❔",
    ComparisonOutcome.HARD_FAILURE: "❌",
    ComparisonOutcome.AFTER_BROKEN: "❌",
    ComparisonOutcome.NO_CLAIM: "⚠️",
    ComparisonOutcome.ADVISORY: "❔",
}
_BROKEN = {
    Code.WER: "says the wrong words",
    Code.CROSS_TALK: "speaks words of other requests",
    Code.CROSS_TALK_REPEATS: "speaks words of other requests",
    Code.PARITY_DIFFERS: "answers differently in company",
    Code.PARITY_REPEATS: "answers differently when asked again",
    Code.PARITY_WORDS: "says words wrong in company",
    Code.PARITY_CORRUPTED: "says words wrong in company",
    Code.INVALID_AUDIO: "sends invalid audio",
    Code.INVALID_ANSWER: "sends invalid answers",
    Code.REQUESTS_FAILED: "fails requests",
    Code.WARMUP_FAILED: "fails requests",
    Code.SOLO_FAILED: "fails requests",
    Code.BENCH_FAILED: "fails requests",
    Code.NO_REQUESTS: "answers no request",
    Code.NONE_COMPLETED: "answers no request",
}
_GROUPS = {
    Verdict.REGRESSION: "slower",
    Verdict.IMPROVEMENT: "faster",
    Verdict.NO_REGRESSION: f"no regression (a loss of {100 * LOSS_LIMIT:g} % is excluded)",
    Verdict.INCONCLUSIVE: "cannot tell",
}
_MOVED = (Verdict.REGRESSION, Verdict.IMPROVEMENT)
MAX_TEXT = 240
SPEED_IS_NOT_JUDGED = "Speed is not judged."


def outcome_line(comparison: Comparison) -> str:
    """The outcome, and what its interval says but the correction for many figures leaves unproved, if anything.

    ``NO REGRESSION (faster, not proved after correction for 5 figures: RTF -38.3 %)``.
    """
    if comparison.outcome not in (ComparisonOutcome.NO_REGRESSION, ComparisonOutcome.INCONCLUSIVE):
        return str(comparison.outcome)
    figures = sum(one.p_worse is not None for one in comparison.primaries)
    said = []
    for better in (True, False):
        found = _worth_a_word([one for one in comparison.primaries if _is_unproved(one, better)])
        if found:
            words = {moved_word(one.metric, better) for one in found}
            word = words.pop() if len(words) == 1 else "better" if better else "worse"
            listed = ", ".join(_changed(one) for one in found)
            many = f"{figures} figure{'' if figures == 1 else 's'}"
            said.append(f"{word}, not proved after correction for {many}: {listed}")
    return f"{comparison.outcome} ({'; '.join(said)})" if said else str(comparison.outcome)


def _is_unproved(primary: PrimaryVerdict, better: bool) -> bool:
    """Whether it moved to this side by its own interval, by enough to count, and the corrected test does not say so."""
    p = primary.p_better if better else primary.p_worse
    if primary.interval is None or primary.change is None or p is None or p <= ALPHA:
        return False
    sign = worse_sign(primary.better) * (-1 if better else 1)
    return (
        min(sign * end for end in primary.interval) > 0
        and sign * primary.change > limits_of([primary.metric]).change[0]
    )


def moved_word(metric: str, better: bool) -> str:
    """ "faster" or "slower"; of a share of requests that go wrong "fewer" or "more"."""
    if METRICS[metric].points:
        return "fewer" if better else "more"
    return "faster" if better else "slower"


def headline(comparison: Comparison) -> str:
    """The first sentence: what happened."""
    match comparison.outcome:
        case ComparisonOutcome.AFTER_BROKEN:
            return "; ".join(_broken(comparison, one) for one in comparison.broken)
        case ComparisonOutcome.HARD_FAILURE:
            return "; ".join(comparison.failures)
        case ComparisonOutcome.NO_CLAIM:
            left = comparison.pairs - len(comparison.used)
            if not left:
                return f"no run has a figure that is judged: {_named(comparison.primaries)}"
            return f"{left} of {comparison.pairs} pairs make no performance claim"
        case ComparisonOutcome.ADVISORY:
            why = "; ".join(comparison.advisory.values())
            changes = ", ".join(_changed(one) for one in comparison.primaries if not says_nothing(one))
            return f"{why}, so that this is no verdict: {changes}"
        case _:
            return "; ".join([*_more_errors(comparison), *_speed(comparison)])


def remarks(comparison: Comparison) -> list[str]:
    """The sentences after the first."""
    found = []
    if comparison.outcome is ComparisonOutcome.AFTER_BROKEN:
        found += ["Before is fine.", *(f"Besides, {one}." for one in comparison.failures)]
    if comparison.stopped:
        found.append(comparison.stopped)
    if comparison.outcome in (ComparisonOutcome.NO_REGRESSION, ComparisonOutcome.IMPROVEMENT):
        found += _worse_levels(comparison)
    if not comparison.judges_speed:
        found.append(SPEED_IS_NOT_JUDGED)
    elif words := words_line(comparison):
        found.append(words)
    look = comparison.look
    if look is not None and not look.is_last:
        found.append(f"Stopped at look {look.number} of {len(look.at)} ({look.pairs} pairs).")
    if comparison.advisory and comparison.judges_speed and comparison.outcome is not ComparisonOutcome.ADVISORY:
        found.append(f"Advisory: {'; '.join(comparison.advisory.values())}.")
    return found


def _worse_levels(comparison: Comparison) -> Iterator[str]:
    """The levels at which a judged figure is worse, which its mean over the levels hides."""
    judged = [one.metric for one in comparison.primaries]
    for level in comparison.levels:
        found = [
            f"{METRICS[cell.metric].short} {change_text(METRICS[cell.metric], cell.change)}"
            for cell in comparison.cells
            if cell.concurrency == level
            and cell.mark is Mark.WORSE
            and cell.metric in judged
            and abs(cell.change or 0.0) > limits_of([cell.metric]).change[0]
        ]
        if found:
            yield f"At {listed_levels([level])} alone it is worse: {', '.join(found)}."


def _broken(comparison: Comparison, one: Breakage) -> str:
    """``says the wrong words at c = 2: WER 0.00 % → 34.57 %, in 2 of 3 runs``."""
    said = _BROKEN.get(one.code)  # type: ignore[call-overload]
    where = f" at {listed_levels(one.levels)}" if one.levels else ""
    figures = shorten(one.text, MAX_TEXT)
    if one.code == Code.WER:
        figures = _at(comparison, one.levels, comparison.accuracy.rate or "errors", "before", "after", percent)
    elif one.code in CROSS_TALK_CODES:
        figures = _at(comparison, one.levels, "cross-talk", "cross_talk_before", "cross_talk_after", count) or figures
    runs = f", in {one.runs} of {comparison.pairs} runs" if comparison.pairs > 1 else ""
    return f"{said}{where}: {figures}{runs}" if said else f"after{where}: {figures}{runs}"


def _at(
    comparison: Comparison, levels: Sequence[Level], name: str, first: str, second: str, text: Callable[[Any], str]
) -> str:
    found = [one for one in comparison.accuracy.levels if one.concurrency in levels]
    return f"{name} " + ", ".join(f"{text(getattr(one, first))} → {text(getattr(one, second))}" for one in found)


def _more_errors(comparison: Comparison) -> Iterator[str]:
    """That speech became worse, if a test says so: no verdict on speed is to be read without it."""
    accuracy, flags = comparison.accuracy, comparison.accuracy.flags
    if comparison.accuracy_worse and flags is not None:
        counts = f"{flags.before} → {flags.after} of {flags.utterances}"
        yield f"more corrupted utterances: {counts} (McNemar {p_text(flags.p)})"
    if accuracy.wer is not None and accuracy.wer.low > 0:
        yield f"higher {accuracy.rate}: {percent(accuracy.wer.before)} → {percent(accuracy.wer.after)}"


def _speed(comparison: Comparison) -> Iterator[str]:
    for verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.INCONCLUSIVE, Verdict.NO_REGRESSION):
        found = _worth_a_word([primary for primary in comparison.primaries if primary.verdict is verdict])
        if found:
            said = (_changed(one) + _pairs_said(comparison, one) for one in found)
            alone = " in the tail alone" if verdict in _MOVED and all(METRICS[one.metric].tail for one in found) else ""
            yield f"{_GROUPS[verdict]}{alone}: {', '.join(said)}"
            if verdict is Verdict.INCONCLUSIVE:
                yield from _outliers(comparison)
        if verdict is Verdict.REGRESSION and (unknown := unknown_medians(comparison.primaries)):
            yield f"cannot tell, as not every run has it: {_named(unknown)}"


def _named(primaries: Sequence[PrimaryVerdict]) -> str:
    return ", ".join(METRICS[one.metric].short for one in primaries)


def _worth_a_word(found: Sequence[PrimaryVerdict]) -> list[PrimaryVerdict]:
    """Without a tail that says no more than its median, of which the same is said."""
    medians = {one.metric: one for one in found}
    return [
        one
        for one in found
        if not says_nothing(one)
        and ((median := medians.get(one.metric.replace("_tail", ""))) in (None, one) or _moved_further(one, median))
    ]


def _moved_further(tail: PrimaryVerdict, median: PrimaryVerdict | None) -> bool:
    """Whether by all of its interval the tail moved more than twice as far: a tail of its own beside a small change."""
    if tail.interval is None or median is None or median.change is None:
        return False
    sign = math.copysign(1, median.change)
    return min(sign * end for end in tail.interval) > 2 * abs(median.change)


def says_nothing(primary: PrimaryVerdict) -> bool:
    """Whether it is a tail without a value, or a share that is the same in every pair, mostly 0."""
    metric, effect = METRICS[primary.metric], primary.effect
    return metric.tail and (effect is None or (metric.points and effect.mean == 0 and not effect.sd))


def _changed(primary: PrimaryVerdict) -> str:
    metric = METRICS[primary.metric]
    return f"{metric.short} {change_text(metric, primary.change)}"


def _pairs_said(comparison: Comparison, primary: PrimaryVerdict) -> str:
    """`` (3 of 3 pairs faster)`` of what cannot be told; `` (of 10 %)`` of a tail, whose limit is another."""
    metric = METRICS[primary.metric]
    if primary.verdict is Verdict.NO_REGRESSION and metric.tail and not metric.points:
        return f" (of {100 * TAIL_LOSS_LIMIT:g} %)"
    pairs = [one for one in comparison.pair_changes if one.metric == primary.metric]
    if primary.verdict is not Verdict.INCONCLUSIVE or not pairs:
        return ""
    return f" ({pairs_text(primary.metric, sum(one.better for one in pairs), len(pairs))})"


def pairs_text(metric: str, better: int, pairs: int) -> str:
    """``3 of 3 pairs faster``, of the side that more pairs are on; of a share, which may stay as it was, the better."""
    most = 2 * better >= pairs or METRICS[metric].points
    word = f"{'with ' if METRICS[metric].points else ''}{moved_word(metric, most)}"
    return f"{better if most else pairs - better} of {pairs} pairs {word}"


def _outliers(comparison: Comparison) -> Iterator[str]:
    """Pairs that are far from all others, each once, with the run and the metric that it is by."""
    seen = set()
    for far in comparison.pair_changes:
        if not far.stands_apart or far.pair in seen:
            continue
        seen.add(far.pair)
        metric, ratios = METRICS[far.metric], {}
        others = [one for one in comparison.pair_changes if one.metric == far.metric and one is not far]
        for arm in ("before", "after"):
            rest = [value for one in others if (value := getattr(one, arm)) is not None]
            ratio = log_ratio(statistics.median(rest), getattr(far, arm)) if rest and not metric.as_share else None
            if ratio is not None:
                ratios[arm] = ratio
        said = f"{metric.short} {change_text(metric, far.change)}"
        if ratios:
            arm = max(ratios, key=lambda name: abs(ratios[name]))
            said = f"{metric.short} of its {arm} is {as_ratio(ratios[arm]):.2g} × that of the others"
        yield f"pair {far.pair} is an outlier: {said}"


def words_line(comparison: Comparison) -> str | None:
    """``WER 0.00 % → 0.00 %, cross-talk 0 → 0.``; None if nothing was heard."""
    accuracy = comparison.accuracy
    parts = []
    if accuracy.rate is not None and (accuracy.wer_before, accuracy.wer_after) != (None, None):
        parts.append(f"{accuracy.rate} {percent(accuracy.wer_before)} → {percent(accuracy.wer_after)}")
    if (accuracy.cross_talk_before, accuracy.cross_talk_after) != (None, None):
        parts.append(f"cross-talk {count(accuracy.cross_talk_before)} → {count(accuracy.cross_talk_after)}")
    return f"{', '.join(parts)}." if parts else None
