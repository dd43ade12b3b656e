"""Which words of a text were heard, missed, changed or added: by jiwer, as data."""

from __future__ import annotations

from typing import NamedTuple

import jiwer

from omni_bench.accuracy.wer import UtteranceScore


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
