"""Cross-talk: outputs in which the words of another request are heard, whose they are, and where.

The words of a transcript that its own text does not explain (``cross_talk_words``) are compared
with the texts that could have got there (``cross_talk_pairs``); a score counts the letters heard
(``cross_talk_score``), and a null tells how often that happens by chance (``cross_talk_null``).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from omni_bench.accuracy.cross_talk.null import Null, chance_of, describe_null
from omni_bench.accuracy.cross_talk.pairs import Neighbours, Request, SourceText
from omni_bench.accuracy.cross_talk.score import (
    Words,
    WordWeights,
    best_match,
    best_scores,
    letters_of,
    unexplained_words,
    weigh_words,
    words_alike,
)
from omni_bench.records.level import Level, level_title
from omni_bench.records.stages import Tell, untold

# Letters of another text that make a hit, from recordings with spliced words (reports/cross_talk.md).
THRESHOLD = 7.0
MAX_NULL_PAIRS = 20_000  # a level
NULL_SEED = 0

WHOLE, ONSET, MIDDLE, TAIL = "whole", "onset", "middle", "tail"
_OWN_SAID_BEFORE_TAIL = 2 / 3


@dataclass(frozen=True)
class CrossTalkHit:
    """Words of ``source`` heard in the output of ``victim``.

    ``kind``: of which of its texts (target or reference; a victim may speak its own reference);
    ``relation``: in flight at the same time, or earlier; ``also``: further requests with the same text.
    ``position``: whole, onset, middle (also from the middle to the end) or tail. ``heard`` and
    ``words``: what was heard there, and the words of the source that it matches. ``score``: letters.
    """

    victim: str
    source: str
    kind: str
    relation: str
    also: tuple[str, ...]
    position: str
    heard: str
    words: str
    score: float
    concurrency: Level


@dataclass(frozen=True)
class LevelCrossTalk:
    """The finding for one level. ``pairs``: outputs times the texts that each was compared with."""

    concurrency: Level
    hits: tuple[CrossTalkHit, ...]
    pairs: int
    null: Null

    @property
    def expected_false_hits(self) -> float | None:
        """Hits that chance alone would give; None without a null."""
        return self.null.expected_hits(self.pairs)

    @property
    def chance(self) -> float | None:
        """The probability of such hits by chance alone; None if there are none."""
        return chance_of([hit.score for hit in self.hits], self.pairs, self.null)


def find_cross_talk(
    requests: Sequence[Request],
    transcripts: Mapping[str, Words],
    background: Iterable[Words] = (),
    tell: Tell = untold,
) -> dict[Level, LevelCrossTalk]:
    """Cross-talk of every level, by concurrency.

    ``requests``: all of the run with their times, warm-up included; ``transcripts``: what was heard of those that
    were judged, by request id, as it is compared. ``background``: other sentences of the language, for the null and for
    the rarity of words. The null of a level is a sample of :data:`MAX_NULL_PAIRS` pairs at most, the same every time.
    ``tell`` hears how far it is.
    """
    texts = sorted({words for request in requests for words in (request.target, request.reference) if words})
    others = sorted({words for words in background if words} - set(texts))
    weights = weigh_words([*texts, *others])
    neighbours = Neighbours(requests)
    levels = {}
    for concurrency in dict.fromkeys(r.concurrency for r in requests if r.request_id in transcripts):
        victims = [r for r in requests if r.concurrency == concurrency and r.request_id in transcripts]
        levels[concurrency] = _check_level(
            concurrency, victims, transcripts, neighbours, [*texts, *others], weights, tell
        )
    return levels


def score_pairs(heard: Words, own: Words, texts: Sequence[Words], weights: WordWeights) -> list[float]:
    """How many letters of each text are heard in words that the own text does not explain; one score a text."""
    unexplained = unexplained_words(heard, own)
    if not unexplained or not texts:
        return [0.0] * len(texts)
    alike = words_alike((word for text in texts for word in text), own)
    letters = [letters_of(text, _foreign(text, alike), weights) for text in texts]
    return best_scores(letters_of(heard, unexplained, weights), letters).tolist()


def locate(request: Request, heard: Words, source: SourceText, score: float, weights: WordWeights) -> CrossTalkHit:
    """The hit behind a score of :func:`score_pairs`: which words, and where in the output."""
    unexplained = unexplained_words(heard, request.target)
    foreign = _foreign(source.words, words_alike(source.words, request.target))
    match = best_match(letters_of(heard, unexplained, weights), letters_of(source.words, foreign, weights))
    first, last, source_first, source_last = _extend(heard, source.words, match.heard, match.source)
    return CrossTalkHit(
        victim=request.request_id,
        source=source.request_id,
        kind=source.kind,
        relation=source.relation,
        also=source.also,
        position=position_of(first, last, heard, request.target, unexplained),
        heard=" ".join(heard[first : last + 1]),
        words=" ".join(source.words[source_first : source_last + 1]),
        score=score,
        concurrency=request.concurrency,
    )


def position_of(first: int, last: int, heard: Words, own: Words, unexplained: Sequence[int]) -> str:
    """Where the heard words ``first`` to ``last`` stand in the output.

    A word in six at either end may be missing for it to count as the end. Words at the end are a tail only
    after two thirds of the own text; before that, the output changed over in the middle.
    """
    slack = len(heard) // 6
    begins, ends = first <= slack, last >= len(heard) - 1 - slack
    if begins:
        return WHOLE if ends else ONSET
    own_before = sum(index not in unexplained for index in range(first))
    return TAIL if ends and own_before >= _OWN_SAID_BEFORE_TAIL * len(own) else MIDDLE


def _check_level(
    concurrency: Level,
    victims: Sequence[Request],
    transcripts: Mapping[str, Words],
    neighbours: Neighbours,
    texts: Sequence[Words],
    weights: WordWeights,
    tell: Tell,
) -> LevelCrossTalk:
    hits, pairs = [], 0
    null_scores: list[float] = []
    each = max(MAX_NULL_PAIRS // len(victims), 1)
    for number, victim in enumerate(victims):
        tell(f"looking for words of others at {level_title(concurrency)}", number, len(victims))
        heard = transcripts[victim.request_id]
        sources = neighbours.sources_of(victim)
        related = {source.words for source in sources} | {victim.target}
        unrelated = [words for words in texts if words not in related]
        if len(unrelated) > each:
            unrelated = random.Random(f"{NULL_SEED} {victim.request_id}").sample(unrelated, each)
        scores = score_pairs(heard, victim.target, [*(s.words for s in sources), *unrelated], weights)
        pairs += len(sources)
        null_scores += scores[len(sources) :]
        best = max(range(len(sources)), key=scores.__getitem__, default=None)
        if best is not None and scores[best] >= THRESHOLD:
            hits.append(locate(victim, heard, sources[best], scores[best], weights))
    return LevelCrossTalk(concurrency, tuple(hits), pairs, describe_null(null_scores, THRESHOLD))


def _foreign(words: Words, alike: frozenset[str]) -> tuple[int, ...]:
    return tuple(index for index, word in enumerate(words) if word not in alike)


def _extend(
    heard: Words, source: Words, matched_heard: Sequence[int], matched_source: Sequence[int]
) -> tuple[int, int, int, int]:
    """First and last word of a match in both texts, with the words beside it that agree, own words or not."""
    first, last = matched_heard[0], matched_heard[-1]
    source_first, source_last = matched_source[0], matched_source[-1]
    while first > 0 and source_first > 0 and heard[first - 1] == source[source_first - 1]:
        first, source_first = first - 1, source_first - 1
    while last + 1 < len(heard) and source_last + 1 < len(source) and heard[last + 1] == source[source_last + 1]:
        last, source_last = last + 1, source_last + 1
    return first, last, source_first, source_last
