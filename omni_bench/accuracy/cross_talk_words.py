"""Which heard words a request's own text does not explain, and what a word of another text is worth as evidence.

Words that the own text has, or that resemble one of its own, are evidence of nothing. Of the
others a rare word weighs more than one that is in every sentence (inverse document frequency,
Spärck Jones 1972), and a long one more than a short one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import jiwer
from rapidfuzz import fuzz, process

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
