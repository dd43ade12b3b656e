"""When an utterance counts as corrupted, rather than misheard by a word: one rule for every check."""

from __future__ import annotations

from omni_bench.accuracy.wer import UtteranceScore

CORRUPTED_WER = 0.5
"""As the metric `above_50` has it."""

TOLERATED_EDITS = 1
"""A judge mishears a word of clean speech now and then, and of the same sentence spoken twice not always the same."""


def is_corrupted(score: UtteranceScore, twin: UtteranceScore | None = None) -> bool | None:
    """Whether an utterance is damaged; None if its text has no words to compare.

    It is if it counts as wholly wrong (``forced``), or if more than half of its words and more
    than one are wrong. Beside a ``twin``, the same text spoken another time, it is also if it has
    more than one word edit more than that: the judge's habits with a text are the same in both.
    """
    if score.wer is None:
        return None
    if score.forced is not None or (score.wer > CORRUPTED_WER and score.edits > TOLERATED_EDITS):
        return True
    return twin is not None and score.edits > twin.edits + TOLERATED_EDITS
