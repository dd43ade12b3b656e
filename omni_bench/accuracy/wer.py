"""Word and character error rates, by jiwer, per utterance and over a corpus."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jiwer

from omni_bench.accuracy.languages import other_script
from omni_bench.accuracy.written.normalise import compared, counts_characters


@dataclass(frozen=True)
class UtteranceScore:
    """One request's transcript against its text. Rates are fractions and may exceed 1.

    ``reference`` and ``hypothesis`` are as given, ``reference_normal`` and ``hypothesis_normal``
    as compared. ``wer`` and ``cer`` are None if the reference has no words to compare
    (``reference_words`` is 0): words heard all the same are insertions, which count in the corpus. ``forced`` says why
    the utterance counts as wholly wrong whatever was heard (failed, empty, silent), else None.
    """

    request_id: str
    reference: str
    hypothesis: str
    reference_normal: str
    hypothesis_normal: str
    wer: float | None
    cer: float | None
    substitutions: int
    deletions: int
    insertions: int
    reference_words: int
    character_edits: int
    reference_characters: int
    forced: str | None

    @property
    def edits(self) -> int:
        """Word edits: substitutions, deletions and insertions."""
        return self.substitutions + self.deletions + self.insertions


@dataclass(frozen=True)
class CorpusScore:
    """Many utterances. ``wer`` is total edits over total reference words, not a mean of rates.

    All rates are fractions, and None when no utterance has words to compare. ``utterances``: those that have;
    ``above_50``: with a WER above one half. ``forced``: those counted as wholly wrong; ``excluded``: those of whose
    text nothing can be compared. They have no rate of their own, but words heard there are among the ``edits``.
    """

    judge: str
    wer: float | None
    cer: float | None
    wer_mean: float | None
    wer_median: float | None
    above_50: int | None
    utterances: int
    edits: int
    words: int
    forced: int
    excluded: int


def score_utterance(
    request_id: str, reference: str, hypothesis: str, language: str, forced: str | None = None
) -> UtteranceScore:
    """Score one transcript.

    With ``forced`` (the name of a failure) the hypothesis is taken as "": every reference word
    counts as deleted, so that the rates are 1. What the judge wrote in another script of the language than the text's
    is not compared. Where a language is compared by characters, the
    word figures are character figures. Raises AccuracyError for a language Whisper does not know.
    """
    heard = "" if forced is not None else hypothesis
    reference_normal, hypothesis_normal = compared(reference, heard, language)
    words = reference_normal.split()
    if words and hypothesis_normal and other_script(reference, heard, language):
        words, hypothesis_normal = [], ""
    if not words:
        inserted = len(hypothesis_normal.split())
        letters = inserted if counts_characters(language) else len(hypothesis_normal)
        return UtteranceScore(
            request_id, reference, heard, "", hypothesis_normal, None, None, 0, 0, inserted, 0, letters, 0, forced
        )
    by_word = jiwer.process_words(reference_normal, hypothesis_normal)
    if counts_characters(language):
        by_character, characters = by_word, len(words)
    else:
        by_character, characters = jiwer.process_characters(reference_normal, hypothesis_normal), len(reference_normal)
    word_edits = by_word.substitutions + by_word.deletions + by_word.insertions
    character_edits = by_character.substitutions + by_character.deletions + by_character.insertions
    return UtteranceScore(
        request_id=request_id,
        reference=reference,
        hypothesis=heard,
        reference_normal=reference_normal,
        hypothesis_normal=hypothesis_normal,
        wer=word_edits / len(words),
        cer=character_edits / characters,
        substitutions=by_word.substitutions,
        deletions=by_word.deletions,
        insertions=by_word.insertions,
        reference_words=len(words),
        character_edits=character_edits,
        reference_characters=characters,
        forced=forced,
    )


def score_corpus(judge: str, scores: Sequence[UtteranceScore]) -> CorpusScore:
    """Sum up utterances of one level; ``judge`` is the name of the model that heard them."""
    counted = [score for score in scores if score.wer is not None]
    edits = sum(score.edits for score in scores)
    words = sum(score.reference_words for score in counted)
    rates = [score.wer for score in counted]
    characters = sum(score.reference_characters for score in counted)
    return CorpusScore(
        judge=judge,
        wer=edits / words if counted else None,
        cer=sum(score.character_edits for score in scores) / characters if counted else None,
        wer_mean=statistics.fmean(rates) if counted else None,
        wer_median=statistics.median(rates) if counted else None,
        above_50=sum(rate > 0.5 for rate in rates) if counted else None,
        utterances=len(counted),
        edits=edits,
        words=words,
        forced=sum(score.forced is not None for score in counted),
        excluded=len(scores) - len(counted),
    )


# ---- Alignment of text and transcript (jiwer) ----


class Operation(NamedTuple):
    """A run of words with one fate. ``kind``: ``equal``, ``delete``, ``insert`` or ``substitute``.

    ``reference`` and ``heard`` are the words on either side, separated by single spaces, "" for none.
    """

    kind: str
    reference: str
    heard: str


def alignment(score: UtteranceScore) -> list[Operation]:
    """The compared texts of an utterance side by side, in order. [] if both are empty.

    Where a language is compared by characters, the words are characters.
    """
    if not score.reference_normal:
        return [Operation("insert", "", score.hypothesis_normal)] if score.hypothesis_normal else []
    output = jiwer.process_words(score.reference_normal, score.hypothesis_normal)
    reference, hypothesis = output.references[0], output.hypotheses[0]
    return [
        Operation(
            chunk.type,
            " ".join(reference[chunk.ref_start_idx : chunk.ref_end_idx]),
            " ".join(hypothesis[chunk.hyp_start_idx : chunk.hyp_end_idx]),
        )
        for chunk in output.alignments[0]
    ]


# ---- Corrupted or only misheard: one rule for every check ----

CORRUPTED_WER = 0.5
"""As the metric `above_50` has it."""

TOLERATED_EDITS = 1
"""A judge mishears a word of clean speech now and then, and of the same sentence spoken twice not always the same."""


def is_corrupted(score: UtteranceScore, twin: UtteranceScore | None = None) -> bool | None:
    """Whether an utterance is damaged; None if its text has no words to compare, and no more than one was heard.

    It is if it counts as wholly wrong (``forced``), or if more than half of its words and more
    than one are wrong. Beside a ``twin``, the same text spoken another time, it is also if it has
    more than one word edit more than that: the judge's habits with a text are the same in both.
    """
    if score.wer is None:
        return True if score.edits > TOLERATED_EDITS else None
    if score.forced is not None or (score.wer > CORRUPTED_WER and score.edits > TOLERATED_EDITS):
        return True
    return twin is not None and score.edits > twin.edits + TOLERATED_EDITS
