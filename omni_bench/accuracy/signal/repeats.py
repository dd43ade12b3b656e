"""The same samples twice in one response: a chunk that was sent again, or a stale buffer."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from omni_bench.accuracy.signal.fingerprints import WINDOW_S, AudioMatch, audible_windows, extend, window_hashes

PERIODS = 2.5
MOST_LAGS = 64


@dataclass(frozen=True)
class Anchors:
    """Audible windows of a response, one every 20 ms: where they begin, int64 [n], and their hashes, uint64 [n].

    Windows of what is periodic, and equal ones but the first, are left out.
    """

    at: np.ndarray
    hashes: np.ndarray


@dataclass(frozen=True)
class SelfMatches:
    """Audible stretches of 40 ms or more that occur earlier in the same response: ``at`` is the later position.

    What repeats itself over and over at one distance (a steady synthetic tone) is periodic, which is no fault.
    """

    repeats: tuple[AudioMatch, ...]
    anchors: Anchors


def self_matches(samples: np.ndarray, sample_rate_hz: int) -> SelfMatches:
    """Compare a response with itself. ``samples``: int16 [n].

    A stretch that goes on for 2.5 times the distance to its copy is periodic; a chunk
    sent twice goes on for once the distance, and sent three times for twice.
    """
    window = max(1, round(WINDOW_S * sample_rate_hz))
    periodic = np.zeros(len(samples), bool)
    hashes = window_hashes(samples, window)
    anchors = anchor_positions(samples, hashes, window)
    positions, found = HashTable(hashes[anchors]).look_up(hashes)
    later = positions > anchors[found]
    positions, found = positions[later], found[later]
    lags, counts = np.unique(positions - anchors[found], return_counts=True)
    order = np.argsort(positions - anchors[found], kind="stable")
    groups = np.split(positions[order], np.cumsum(counts)[:-1]) if len(lags) else []
    repeats: list[AudioMatch] = []
    for lag, hits in list(zip(lags, groups, strict=True))[:MOST_LAGS]:
        hits = hits[~periodic[hits]]
        if not len(hits):
            continue
        for match in extend(samples, samples, int(lag), hits, window):
            if match.length >= PERIODS * lag:
                periodic[match.source_at : match.at + match.length] = True
            elif match.length >= 2 * window:
                repeats.append(match)
    kept = [match for match in repeats if not periodic[match.at : match.at + match.length].all()]
    anchors = anchors[~periodic[anchors]]
    return SelfMatches(tuple(sorted(kept, key=lambda match: match.at)), Anchors(anchors, hashes[anchors]))


def anchor_positions(samples: np.ndarray, hashes: np.ndarray, window: int) -> np.ndarray:
    """Every ``window``-th position whose window is audible; of equal windows the first, which bounds the look-ups."""
    anchors = window * np.flatnonzero(audible_windows(samples, window))
    return anchors[np.sort(np.unique(hashes[anchors], return_index=True)[1])]


class HashTable:
    """Finds the positions of some hashes, uint64 [n], in those of whole responses."""

    def __init__(self, wanted: np.ndarray):
        self._order = np.argsort(wanted, kind="stable")
        self._sorted = wanted[self._order]
        # most positions occur nowhere: a bitmap by the top bits spares them the search
        self._shift = np.uint64(64 - max(16, len(wanted).bit_length() + 6))
        self._marked = np.zeros(1 << (64 - int(self._shift)), bool)
        self._marked[self._sorted >> self._shift] = True

    def look_up(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All (position in ``hashes``, index among the wanted) of equal values, in any order."""
        positions = np.flatnonzero(self._marked[hashes >> self._shift])
        left = np.searchsorted(self._sorted, hashes[positions], side="left")
        counts = np.searchsorted(self._sorted, hashes[positions], side="right") - left
        positions = np.repeat(positions, counts)
        ends = np.cumsum(counts)
        within = np.arange(len(positions)) - np.repeat(ends - counts, counts)
        return positions, self._order[np.repeat(left, counts) + within]


def says_something_twice(text: str) -> bool:
    """True if a sentence occurs twice in ``text``: who speaks sentence by sentence may answer with equal samples."""
    parts = sentences(text)
    return len(set(parts)) < len(parts)


def sentences(text: str) -> list[str]:
    """The sentences and clauses of a text in lower case, without punctuation at their ends."""
    pieces = re.split(r"[.!?;:,\n。！？；：，、]+", text.casefold())
    return [part for piece in pieces if (part := " ".join(piece.split()))]
