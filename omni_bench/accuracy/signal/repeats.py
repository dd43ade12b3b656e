"""The same samples twice in one response: a chunk that was sent again, or a stale buffer."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from omni_bench.accuracy.signal.fingerprints import WINDOW_S, AudioMatch, audible_windows, extend, window_hashes

PERIODS = 2.5
MOST_LAGS = 64


@dataclass(frozen=True)
class SelfMatches:
    """Audible stretches of 40 ms or more that occur earlier in the same response, and what is periodic.

    ``repeats``: ``at`` is the later position. ``periodic``: bool [n], where the signal repeats itself
    over and over at one distance (a steady synthetic tone), which is no fault.
    """

    repeats: tuple[AudioMatch, ...]
    periodic: np.ndarray


def self_matches(samples: np.ndarray, sample_rate_hz: int) -> SelfMatches:
    """Compare a response with itself. ``samples``: int16 [n].

    A stretch that goes on for 2.5 times the distance to its copy is periodic; a chunk
    sent twice goes on for once the distance, and sent three times for twice.
    """
    window = max(1, round(WINDOW_S * sample_rate_hz))
    periodic = np.zeros(len(samples), bool)
    hashes = window_hashes(samples, window)
    anchors = anchor_positions(samples, hashes, window)
    positions, found = look_up(hashes, hashes[anchors])
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
    return SelfMatches(tuple(sorted(kept, key=lambda match: match.at)), periodic)


def anchor_positions(samples: np.ndarray, hashes: np.ndarray, window: int) -> np.ndarray:
    """Every ``window``-th position whose window is audible; of equal windows the first, which bounds the look-ups."""
    anchors = np.arange(0, len(hashes), window)
    anchors = anchors[audible_windows(samples, window)[anchors]]
    return anchors[np.sort(np.unique(hashes[anchors], return_index=True)[1])]


def look_up(hashes: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All (position in ``hashes``, index in ``wanted``) of equal values; both uint64, in any order."""
    order = np.argsort(wanted, kind="stable")
    table = wanted[order]
    if not len(table) or not len(hashes):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # most positions occur nowhere: a bitmap by the top bits spares them the search
    shift = np.uint64(64 - max(16, len(table).bit_length() + 6))
    marked = np.zeros(1 << (64 - int(shift)), bool)
    marked[table >> shift] = True
    positions = np.flatnonzero(marked[hashes >> shift])
    left = np.searchsorted(table, hashes[positions], side="left")
    counts = np.searchsorted(table, hashes[positions], side="right") - left
    positions = np.repeat(positions, counts)
    ends = np.cumsum(counts)
    within = np.arange(len(positions)) - np.repeat(ends - counts, counts)
    return positions, order[np.repeat(left, counts) + within]


def says_something_twice(text: str) -> bool:
    """True if a sentence occurs twice in ``text``: who speaks sentence by sentence may answer with equal samples."""
    parts = sentences(text)
    return len(set(parts)) < len(parts)


def sentences(text: str) -> list[str]:
    """The sentences and clauses of a text in lower case, without punctuation at their ends."""
    pieces = re.split(r"[.!?;:,\n。！？；：，、]+", text.casefold())
    return [part for piece in pieces if (part := " ".join(piece.split()))]
