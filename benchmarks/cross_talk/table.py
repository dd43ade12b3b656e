"""The report of benchmarks/cross_talk: what was done, how the threshold was chosen, and what was found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from benchmarks.cross_talk.cases import (
    KINDS,
    ONSET_ADDED,
    ONSET_REPLACED,
    SECOND_HALF,
    TAIL_ADDED,
    TAIL_REPLACED,
    WHOLE,
    WORDS,
)
from omni_bench.accuracy.cross_talk.check import THRESHOLD
from omni_bench.foreign_text import escape_markdown
from omni_bench.report.format import percent
from omni_bench.report.table import markdown_table

THRESHOLDS = (4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
UNRELATED_RATE = 4e-3
WANTED_ONSETS, WANTED_RATE = 0.9, 1e-3
MISSED_SHOWN = 20
_POSITION = {
    ONSET_ADDED: ("onset",),
    ONSET_REPLACED: ("onset",),
    TAIL_ADDED: ("tail",),
    TAIL_REPLACED: ("tail", "middle"),
    SECOND_HALF: ("middle",),
    WHOLE: ("whole",),
}


@dataclass(frozen=True)
class Outcome:
    """One case.

    ``score``: of the spliced text; ``best_score``: of the best text in flight, and whether that is the spliced one.
    ``position``: where in the output, None if no text in flight has any letter in it.
    """

    kind: str
    first_words: bool
    spliced: str
    heard: str
    score: float
    best_is_source: bool
    best_score: float
    position: str | None

    def found(self, threshold: float) -> bool:
        """True if the case is a hit that names the right source."""
        return self.best_is_source and self.score >= threshold


@dataclass(frozen=True)
class Evaluation:
    """One half: its cases, and scores of pairs that have nothing to do with each other.

    ``clean``: clean outputs and every other text; ``unrelated``: spliced outputs and every text that is not in
    them. ``decay``: how fast the tail of ``unrelated`` falls off, per letter.
    """

    outcomes: tuple[Outcome, ...]
    clean: tuple[float, ...]
    unrelated: tuple[float, ...]
    clean_outputs: int
    decay: float


def render(development: Evaluation, final: Evaluation, *, judge: str, origin: str, options: Mapping[str, int]) -> str:
    """The markdown of reports/cross_talk.md."""
    arguments = " ".join(f"--{name} {value}" for name, value in options.items())
    onsets = [one for one in final.outcomes if one.kind in (ONSET_ADDED, ONSET_REPLACED)]
    met = "met" if _share(onsets) >= WANTED_ONSETS and rate(final.clean, THRESHOLD) <= WANTED_RATE else "NOT met"
    parts = [
        "# Cross-talk: what the attribution finds",
        f"Written by `python -m benchmarks.cross_talk {arguments}` (judge {judge}; recordings of {origin}). "
        "Run it again to repeat the figures.",
        f"**{sum(one.found(THRESHOLD) for one in onsets)} of {len(onsets)} injected onsets of {WORDS} words found** "
        f"({percent(_share(onsets))}, 95 % interval {_interval(onsets)}), and "
        f"**{hits(final.clean, THRESHOLD)} false hits in {len(final.clean)} clean pairs** "
        f"({_per_thousand(final.clean, THRESHOLD)}). Wanted: 9 of 10, and at most 1 in 1,000: {met}.",
        "## Method",
        _method(development, final, options),
        "## The threshold, from the first half",
        _thresholds(development),
        "## Found, in the second half",
        _found(final),
        _false(final),
        "## What was missed",
        _missed(final),
    ]
    return "\n\n".join(parts) + "\n"


def hits(scores: Sequence[float], threshold: float) -> int:
    """How many scores are hits."""
    return int((np.asarray(scores) >= threshold).sum())


def rate(scores: Sequence[float], threshold: float) -> float:
    """Their share."""
    return hits(scores, threshold) / len(scores)


def _method(development: Evaluation, final: Evaluation, options: Mapping[str, int]) -> str:
    return "\n".join(
        [
            f"- {options['recordings']} sentences of the bundled set, each spoken once, in two halves that share no "
            f"sentence. In each half {options['cases']} cases of each kind are made of two different recordings; every "
            "other case takes the words with which the neighbour begins (a slot that is reused too early), the "
            "others four words from anywhere after its first word, function words or not.",
            "- Where a word ends is not known: the place is estimated in proportion to the letters between the "
            "first and the last audible moment, and the cut is made at the quietest 20 ms within 0.2 s of it. A piece "
            "of four words may so be half a word longer or shorter.",
            f"- The judge hears each case; the transcript is compared with its own text and those of "
            f"{options['in-flight'] - 1} other requests, the source one of them. Found: the best score is that of the "
            "source, and reaches the threshold.",
            "- A score counts letters of the other text that are heard in words that the own text does not explain; "
            "common words count less, one more is counted for each word, errors cost one each.",
            f"- Clean pairs: each clean output of the half and every other sentence of the set "
            f"({len(final.clean)} in the second half). Unrelated pairs: each spliced output and every sentence that is "
            "not in it. They are the harder null, since clean outputs leave hardly a word unexplained.",
            f"- Unrelated scores above 4 letters fall off by a factor of {math.exp(development.decay):.1f} a letter "
            f"in the first half and {math.exp(final.decay):.1f} in the second.",
        ]
    )


def _thresholds(development: Evaluation) -> str:
    headers = ("threshold (letters)", "found", "onsets found", "clean pairs, per 1,000", "unrelated pairs, per 1,000")
    onsets = [one for one in development.outcomes if one.kind in (ONSET_ADDED, ONSET_REPLACED)]
    rows = [
        [
            f"{threshold:g}",
            percent(_share(development.outcomes, threshold)),
            percent(_share(onsets, threshold)),
            f"{1000 * rate(development.clean, threshold):.2f}",
            f"{1000 * rate(development.unrelated, threshold):.2f}",
        ]
        for threshold in THRESHOLDS
    ]
    good = [
        threshold
        for threshold in THRESHOLDS
        if rate(development.unrelated, threshold) <= UNRELATED_RATE
        and rate(development.clean, threshold) <= WANTED_RATE
    ]
    rule = (
        f"Rule: the lowest of these with at most {1000 * UNRELATED_RATE:g} unrelated and at most "
        f"{1000 * WANTED_RATE:g} clean pair in 1,000: {f'{good[0]:g}' if good else 'none'}. omni-bench uses "
        f"{THRESHOLD:g}. That a few unrelated texts hit an output that is wrong already is allowed for: a level is "
        "judged against its own null."
    )
    return f"{markdown_table(headers, rows)}\n\n{rule}"


def _found(final: Evaluation) -> str:
    headers = ("spliced", "cases", "found", "95 % interval", "neighbour's first words", "from anywhere", "place right")
    rows = []
    for kind in KINDS:
        cases = [one for one in final.outcomes if one.kind == kind]
        found = [one for one in cases if one.found(THRESHOLD)]
        both = [[one for one in cases if one.first_words is first] for first in (True, False)]
        right = sum(one.position in _POSITION[kind] for one in found)
        split = ["–", "–"] if kind in (SECOND_HALF, WHOLE) else [_of(part) for part in both]
        rows.append([kind, str(len(cases)), str(len(found)), _interval(cases), *split, f"{right}/{len(found)}"])
    return markdown_table(headers, rows, left=(0,))


def _false(final: Evaluation) -> str:
    wrong = sum(not one.best_is_source and one.best_score >= THRESHOLD for one in final.outcomes)
    upper = binomtest(hits(final.clean, THRESHOLD), len(final.clean)).proportion_ci(method="exact").high
    return (
        f"Clean pairs: {hits(final.clean, THRESHOLD)} hits in {len(final.clean)} pairs of {final.clean_outputs} "
        f"outputs (upper end of the exact 95 % interval, as if pairs were independent: {1000 * upper:.2f} per "
        f"1,000). Unrelated pairs: {hits(final.unrelated, THRESHOLD)} in {len(final.unrelated)} "
        f"({_per_thousand(final.unrelated, THRESHOLD)}). Spliced outputs for which another request than the source was "
        f"named: {wrong} of {len(final.outcomes)}."
    )


def _missed(final: Evaluation) -> str:
    missed = [one for one in final.outcomes if not one.found(THRESHOLD)]
    if not missed:
        return "Nothing."
    shown = missed[:MISSED_SHOWN]
    rows = [[one.kind, escape_markdown(one.spliced), escape_markdown(one.heard), f"{one.score:.1f}"] for one in shown]
    table = markdown_table(("spliced", "words, roughly", "what the judge heard", "score"), rows, left=(0, 1, 2))
    return f"{len(missed)} of {len(final.outcomes)} cases; the first {len(shown)}.\n\n{table}"


def _share(outcomes: Sequence[Outcome], threshold: float = THRESHOLD) -> float:
    return sum(one.found(threshold) for one in outcomes) / len(outcomes)


def _interval(outcomes: Sequence[Outcome]) -> str:
    found = sum(one.found(THRESHOLD) for one in outcomes)
    interval = binomtest(found, len(outcomes)).proportion_ci(method="wilson")
    return f"{100 * interval.low:.0f} to {100 * interval.high:.0f} %"


def _of(outcomes: Sequence[Outcome]) -> str:
    return f"{sum(one.found(THRESHOLD) for one in outcomes)}/{len(outcomes)}"


def _per_thousand(scores: Sequence[float], threshold: float) -> str:
    return f"{1000 * rate(scores, threshold):.2f} per 1,000"
