"""How often words of another text are "heard" by chance, and whether a level's hits are more than that.

The null distribution comes from the same outputs against texts that cannot have reached them: of
requests that were not in flight with them, and of other sentences of the language.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# From here on the scores of the null fall off exponentially, as those of local alignments do (Karlin and
# Altschul 1990). With fewer scores beyond it than MIN_TAIL their rate of decay is taken from the
# evaluation instead (reports/cross_talk.md).
TAIL_FROM = 4.0
MIN_TAIL = 30
USUAL_DECAY = 1.0  # per letter
SIGNIFICANT = 0.01


@dataclass(frozen=True)
class Null:
    """Scores of pairs that have nothing to do with each other: how many, how many are hits, and their tail.

    ``beyond``: pairs with a score above :data:`TAIL_FROM`; ``decay``: of their share, per letter.
    """

    pairs: int
    hits: int
    beyond: int
    decay: float

    def share_of(self, score: float) -> float:
        """The share of unrelated pairs with that score or more, an upper estimate: one pair more than were seen."""
        share = min((self.beyond + 1) / (self.pairs + 1), 1.0)
        return share * math.exp(-self.decay * max(score - TAIL_FROM, 0.0))

    def expected_hits(self, pairs: int) -> float | None:
        """False hits to be expected among ``pairs`` pairs; None without a null."""
        return pairs * self.hits / self.pairs if self.pairs else None


def describe_null(scores: Sequence[float], threshold: float) -> Null:
    """Summarise the null's scores; ``threshold``: from where on a score is a hit."""
    excess = [score - TAIL_FROM for score in scores if score > TAIL_FROM]
    decay = len(excess) / sum(excess) if len(excess) >= MIN_TAIL else USUAL_DECAY
    return Null(len(scores), sum(score >= threshold for score in scores), len(excess), decay)


def chance_of(hit_scores: Sequence[float], pairs: int, null: Null) -> float | None:
    """The probability that ``pairs`` unrelated pairs give hits such as these; None if there are no hits.

    Two questions are asked, and the smaller answer is doubled for it: how likely is that many hits (the Poisson tail
    at the null's share of hits, itself an upper estimate: one hit in one pair more than were seen, as by
    Phipson and Smyth 2010), and how likely is one as strong as the strongest (the null's tail).
    """
    if not hit_scores:
        return None
    from scipy.stats import poisson  # slow to import, and needed only where there is a hit

    many = float(poisson.sf(len(hit_scores) - 1, pairs * (null.hits + 1) / (null.pairs + 1)))
    strong = -math.expm1(-pairs * null.share_of(max(hit_scores)))
    return min(1.0, 2 * min(many, strong))
