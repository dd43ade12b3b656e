"""How much of one text is heard in some words: local alignment of letters, weighted by the rarity of their words.

A judge splits, joins and misspells words where recordings were spliced, so that letters are
compared and not words (Smith and Waterman 1981, with a linear gap cost). The score counts
letters: a rare word that is heard exactly is worth its letters and one more for its boundary, a
letter that differs, is missing or is too many costs one. A Chinese character is a word of
one letter and so is worth two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import jiwer
import numpy as np
from rapidfuzz import fuzz, process

MISMATCH = GAP = 1.0
_BOUNDARY = 1


@dataclass(frozen=True)
class Letters:
    """Words as letters: code points, what each is worth if it is heard, and the index of its word; all [letters]."""

    codes: np.ndarray
    worth: np.ndarray
    word: np.ndarray


@dataclass(frozen=True)
class TextMatch:
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


def best_match(heard: Letters, source: Letters) -> TextMatch:
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
    return TextMatch(score, _words(heard, matched_heard), _words(source, matched_source))


def _words(letters: Letters, matched: Sequence[int]) -> tuple[int, ...]:
    words, counts = np.unique(letters.word[list(matched)], return_counts=True)
    lengths = np.array([int((letters.word == word).sum()) for word in words])
    half = 2 * counts >= lengths
    return tuple(words[half].tolist() or words.tolist())


# ---- Words that the own text does not explain, and the weight of a word as evidence ----

Words = tuple[str, ...]

# Share of letters in common (rapidfuzz's ratio) from which a heard word counts as a misspelling of an
# own one: "tailor" and "taylor" have 83, "taste" and "tastes" 91, "hand" and "hard" 75.
ALIKE_WORD = 80.0
# The same for a stretch of words where the own text has others: "emadrew" for "emma drew" has 93.
ALIKE_STRETCH = 75.0

_SMOOTHING = 0.5


@dataclass(frozen=True)
class WordWeights:
    """How much words weigh: near 0 if they are in every text, 1 if in one at most."""

    weights: Mapping[str, float]

    def of(self, word: str) -> float:
        """The weight of a word; one that is in no text is as rare as can be."""
        return self.weights.get(word, 1.0)


def weigh_words(texts: Iterable[Words]) -> WordWeights:
    """Weights from texts as they are compared; a text that comes twice counts once."""
    distinct = set(texts)
    counts = Counter(word for text in distinct for word in set(text))
    rarest = math.log((len(distinct) + 1) / (1 + _SMOOTHING))
    if rarest <= 0:  # one text: no word is rarer than another
        return WordWeights({})
    rarities = {word: math.log((len(distinct) + 1) / (count + _SMOOTHING)) for word, count in counts.items()}
    return WordWeights({word: rarity / rarest for word, rarity in rarities.items()})


def unexplained_words(heard: Words, own: Words) -> tuple[int, ...]:
    """Indices of the heard words that are neither own words nor a misspelling of what should stand there.

    ``own`` is aligned with ``heard`` first (jiwer); what is left are stretches that differ. A
    stretch that spells nearly what it replaces is explained, and so is a word like any own word.
    """
    if not heard or not own:
        return tuple(range(len(heard)))
    left: list[int] = []
    for own_from, own_to, heard_from, heard_to in _stretches(heard, own):
        said, meant = heard[heard_from:heard_to], own[own_from:own_to]
        if fuzz.ratio("".join(said), "".join(meant)) >= ALIKE_STRETCH:
            continue
        alike = words_alike(said, own)
        left += [heard_from + i for i, word in enumerate(said) if word not in alike]
    return tuple(left)


def words_alike(words: Iterable[str], own: Sequence[str]) -> frozenset[str]:
    """Those of ``words`` that are, or resemble, one of ``own``."""
    candidates = list(dict.fromkeys(words))
    if not candidates or not own:
        return frozenset()
    ratios = process.cdist(candidates, list(dict.fromkeys(own)), scorer=fuzz.ratio, score_cutoff=ALIKE_WORD)
    return frozenset(word for word, best in zip(candidates, ratios.max(axis=1), strict=True) if best >= ALIKE_WORD)


def _stretches(heard: Words, own: Words) -> list[tuple[int, int, int, int]]:
    """Maximal stretches without an equal word: (own from, own to, heard from, heard to), ends excluded."""
    stretches: list[tuple[int, int, int, int]] = []
    grows = False
    for chunk in jiwer.process_words(" ".join(own), " ".join(heard)).alignments[0]:
        if chunk.type == "equal":
            grows = False
            continue
        start = stretches.pop() if grows else (chunk.ref_start_idx, 0, chunk.hyp_start_idx, 0)
        stretches.append((start[0], chunk.ref_end_idx, start[2], chunk.hyp_end_idx))
        grows = True
    return [stretch for stretch in stretches if stretch[3] > stretch[2]]
