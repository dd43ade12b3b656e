"""How much of one text is heard in some words: local alignment of letters, weighted by the rarity of their words.

A judge splits, joins and misspells words where recordings were spliced, so that letters are
compared and not words (Smith and Waterman 1981, with a linear gap cost). The score counts
letters: a rare word that is heard exactly is worth its letters and one more for its boundary, a
letter that differs, is missing or is too many costs one. A Chinese character is a word of
one letter and so is worth two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omni_bench.accuracy.cross_talk_words import Words, WordWeights

MISMATCH = GAP = 1.0
_BOUNDARY = 1


@dataclass(frozen=True)
class Letters:
    """Words as letters: code points, what each is worth if it is heard, and the index of its word; all [letters]."""

    codes: np.ndarray
    worth: np.ndarray
    word: np.ndarray


@dataclass(frozen=True)
class Match:
    """The best local alignment: its score, and the indices of the words of both texts that took part in it.

    A word took part with half of its letters or more; where no word did, all that were touched count.
    """

    score: float
    heard: tuple[int, ...]
    source: tuple[int, ...]


def letters_of(words: Words, indices: Sequence[int], weights: WordWeights) -> Letters:
    """The letters of ``words[i]`` for ``i`` in ``indices``, one after another."""
    chosen = [words[index] for index in indices]
    lengths = [len(word) for word in chosen]
    worth = [weights.of(word) * (len(word) + _BOUNDARY) / len(word) for word in chosen]
    return Letters(
        codes=np.frombuffer("".join(chosen).encode("utf-32-le", "surrogatepass"), dtype="<i4"),
        worth=np.repeat(np.array(worth, dtype=np.float32), lengths),
        word=np.repeat(np.array(indices, dtype=np.int32), lengths),
    )


def best_scores(heard: Letters, sources: Sequence[Letters]) -> np.ndarray:
    """The score of ``heard`` against each source, float32 [sources]; 0 where nothing matches."""
    longest = max((source.codes.size for source in sources), default=0)
    best = np.zeros(len(sources), dtype=np.float32)
    if not longest or not heard.codes.size:
        return best
    codes = np.zeros((len(sources), longest), dtype=np.int32)  # 0 is no letter
    worth = np.zeros((len(sources), longest), dtype=np.float32)
    for row, source in enumerate(sources):
        codes[row, : source.codes.size] = source.codes
        worth[row, : source.codes.size] = source.worth
    gaps = np.arange(longest + 1, dtype=np.float32) * GAP
    before = np.zeros((len(sources), longest + 1), dtype=np.float32)
    for code in heard.codes:
        now = np.maximum(before - GAP, 0.0)
        np.maximum(now[:, 1:], before[:, :-1] + np.where(codes == code, worth, -MISMATCH), out=now[:, 1:])
        # A run of gaps along the source: the best of all earlier columns, less one GAP a column.
        before = np.maximum.accumulate(now + gaps, axis=1) - gaps
        np.maximum(best, before.max(axis=1), out=best)
    return best


def best_match(heard: Letters, source: Letters) -> Match:
    """The alignment behind a score of :func:`best_scores`. Of several as good, that which ends first."""
    rows, columns = heard.codes.size, source.codes.size
    table = np.zeros((rows + 1, columns + 1))
    for i in range(rows):
        for j in range(columns):
            step = source.worth[j] if heard.codes[i] == source.codes[j] else -MISMATCH
            table[i + 1, j + 1] = max(0.0, table[i, j] + step, table[i, j + 1] - GAP, table[i + 1, j] - GAP)
    i, j = (int(index) for index in np.unravel_index(np.argmax(table), table.shape))
    score = float(table[i, j])
    matched_heard, matched_source = [], []
    while table[i, j] > 0:
        same = heard.codes[i - 1] == source.codes[j - 1]
        step = float(source.worth[j - 1]) if same else -MISMATCH
        if table[i, j] == table[i - 1, j - 1] + step:
            i, j = i - 1, j - 1
            if same:
                matched_heard.append(i)
                matched_source.append(j)
        elif table[i, j] == table[i - 1, j] - GAP:
            i -= 1
        else:
            j -= 1
    return Match(score, _words(heard, matched_heard), _words(source, matched_source))


def _words(letters: Letters, matched: Sequence[int]) -> tuple[int, ...]:
    words, counts = np.unique(letters.word[list(matched)], return_counts=True)
    lengths = np.array([int((letters.word == word).sum()) for word in words])
    half = 2 * counts >= lengths
    return tuple(words[half].tolist() or words.tolist())
