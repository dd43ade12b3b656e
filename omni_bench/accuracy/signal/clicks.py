"""Clicks at chunk edges: is the waveform rougher where one chunk meets the next than around it?

A server that decodes each chunk without its left context (vllm-omni PR 1945) starts every chunk
from an empty history, and the waveform jumps there. The size of a jump says little by itself,
because voices differ. So each edge is ranked among its own surroundings, and the ranks of all
edges together are tested: if an edge is a place like any other, its rank is uniform, whatever
the voice. For a click at a single edge that test has no power; it is not claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

AROUND_S = 0.020
SMALLEST_STEP = 10 ** (-60 / 20)  # of full scale; a smaller one cannot be heard
REQUEST_P = 1e-6
LEVEL_P = 1e-9
MEMBER_P = 1e-2
MEAN_SURPRISE = 2.0


@dataclass(frozen=True)
class EdgeEvidence:
    """Ranks of the edges of one request, or of many.

    ``surprise``: sum over ``edges`` of −ln(rank), rank in (0, 1] being the share of steps around
    the edge that are at least as large. By chance it is Gamma(edges, 1) distributed, its mean
    one per edge (Fisher 1932: minus twice the sum of logarithms is chi-squared).
    """

    edges: int = 0
    surprise: float = 0.0

    @property
    def p_value(self) -> float:
        """Probability of at least this much surprise if the edges are places like any other."""
        if self.edges == 0:
            return 1.0
        from scipy import special  # slow to import

        return float(special.gammaincc(self.edges, self.surprise))

    @property
    def mean(self) -> float:
        """Surprise per edge: about 1 by chance (lower if chunks end in silence), 0 without edges."""
        return self.surprise / self.edges if self.edges else 0.0

    @classmethod
    def pooled(cls, many: Iterable[EdgeEvidence]) -> EdgeEvidence:
        """The edges of many requests together."""
        listed = list(many)
        return cls(sum(one.edges for one in listed), sum(one.surprise for one in listed))


def edge_evidence(samples: np.ndarray, edges: Sequence[int], sample_rate_hz: int) -> EdgeEvidence:
    """Rank the step into each chunk among the steps of the 20 ms before and after it.

    ``samples``: float [n] in −1..1; ``edges``: index of the first sample of every chunk but the
    first, ascending. A step is |x[i] − x[i−1]|. A step below −60 dBFS gets rank 1: it is inaudible.
    Edges nearer than 20 ms to the last one used, or to either end, are skipped, so that a
    body that came in many tiny reads is neither tested a thousand times nor slow.
    """
    around = round(AROUND_S * sample_rate_hz)
    steps = np.abs(np.diff(samples))  # steps[i - 1] leads into sample i
    used, surprise, last = 0, 0.0, -around
    for edge in edges:
        if edge - last < around or edge < around or edge > len(samples) - around:
            continue
        last, used = edge, used + 1
        step = steps[edge - 1]
        if step < SMALLEST_STEP:
            continue
        nearby = steps[max(0, edge - 1 - around) : edge + around]
        surprise -= float(np.log(np.count_nonzero(nearby >= step) / len(nearby)))
    return EdgeEvidence(used, surprise)


def has_clicks(evidence: EdgeEvidence) -> bool:
    """True if one request's own edges prove it: p ≤ 1e-6, and on average 2 or more of surprise an edge.

    The second limit keeps a slight roughness, which a very long response would make
    significant, from counting. Clean clips of ``reports/audio_checks.md``: p 0.5 and higher, mean
    below 1; decoded without left context: p 1e-6 in the median, mean 3.2 and higher. At least
    two edges are needed to reach the first.
    """
    return evidence.p_value <= REQUEST_P and evidence.mean >= MEAN_SURPRISE


def clicks_by_level(evidence: Sequence[EdgeEvidence]) -> list[bool]:
    """Which requests of a level have clicks: by their own edges, or with those of their neighbours.

    A short response has few edges. Where the edges of all requests together are rough beyond
    doubt (p ≤ 1e-9, mean 2 or more), the server is at fault, and a request counts as one of the victims
    from p ≤ 0.01 on.
    """
    level = EdgeEvidence.pooled(evidence)
    proven = level.p_value <= LEVEL_P and level.mean >= MEAN_SURPRISE
    return [has_clicks(one) or (proven and one.p_value <= MEMBER_P) for one in evidence]
