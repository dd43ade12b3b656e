"""The same samples in two responses: a buffer that was reused while another request still read it.

Bit-identical audible audio is exact evidence and names its source, which a transcript can only suggest.
What cannot be seen: two streams that were exchanged from some chunk on (each sample is sent
once only), and audio that was computed wrongly rather than copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from omni_bench.accuracy.signal.clicks import AROUND_S, edge_evidence
from omni_bench.accuracy.signal.fingerprints import WINDOW_S, AudioMatch, extend, window_hashes
from omni_bench.accuracy.signal.repeats import Anchors, HashTable, self_matches, sentences
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.spread import Spread, here

JUST_BEFORE_NS = 5_000_000_000
OWNER_LEAD = 4.0  # of surprise: the joins of the victim are e⁴ = 55 times as unlikely as those of the owner
MOST_STRETCHES = 16  # of one pair
MOST_SOURCES = 64
"""That one response is compared with: a server that says the same to everybody is caught by these."""
TOGETHER = 64
"""Responses that are compared in one go with each other and with those just before them."""
CACHED_CLIPS = 64

Samples = Path | np.ndarray
"""Of one response, int16 [n], or the file that holds them as received (s16le mono)."""


def samples_of(audio: Samples) -> np.ndarray:
    """int16 [n]; half a sample at the end is dropped. Raises StoreError."""
    if isinstance(audio, np.ndarray):
        return audio
    with os_errors_as_store_errors("read", audio):
        pcm = audio.read_bytes()
    return np.frombuffer(pcm, "<i2", count=len(pcm) // 2)


@dataclass(frozen=True)
class ResponseClip:
    """One response of a run, without its samples. Times in ns of one clock."""

    request_id: str
    text: str
    seed: int | None
    started_ns: int
    finished_ns: int
    sample_rate_hz: int


@dataclass(frozen=True)
class SharedAudio:
    """``victim`` has ``duration_s`` of ``source``'s samples at ``at_s``; in the source they are at ``source_at_s``."""

    victim: str
    source: str
    at_s: float
    source_at_s: float
    duration_s: float


def may_share(one: ResponseClip, other: ResponseClip) -> bool:
    """Whether equal samples of the two would be a fault that the timelines allow.

    False if they were never in flight together and the later did not start within 5 s of the
    earlier's end; if text and seed are equal; if a sentence of one is in the other too and so
    may legitimately be spoken alike; or if the sample rates differ.
    """
    first, second = sorted((one, other), key=lambda clip: clip.started_ns)
    near = second.started_ns - first.finished_ns <= JUST_BEFORE_NS
    same = one.text == other.text and one.seed == other.seed
    common = not _sentences(one.text).isdisjoint(_sentences(other.text))
    return near and not same and not common and one.sample_rate_hz == other.sample_rate_hz


@lru_cache(maxsize=4096)
def _sentences(text: str) -> frozenset[str]:
    return frozenset(sentences(text))


def find_shared_audio(
    clips: Sequence[ResponseClip],
    audio: Mapping[str, Samples],
    anchors: Mapping[str, Anchors] | None = None,
    spread: Spread = here,
) -> list[SharedAudio]:
    """Every audible stretch of 40 ms or more that two responses share, by victim and time.

    ``audio``: by request id; ``anchors``: of :func:`self_matches`, by request id, if they are known. ``spread`` does
    the work, a :data:`TOGETHER` at a time; few clips are held at once. Only responses that are near each other in time
    are compared (:func:`may_share`), so that it takes time in proportion to their number.
    What begins with the first sample of both is not a fault: a causal
    decoder answers equal first codes with equal first samples. Steady tones are left out too.
    The victim is the one whose waveform is rougher where the stretch begins and ends; where
    that does not tell, both are named as each other's victim. Raises StoreError.
    """
    if anchors is None:
        anchors = {
            clip.request_id: self_matches(samples_of(audio[clip.request_id]), clip.sample_rate_hz).anchors
            for clip in clips
        }
    found = [one for shared in spread(_shared_within, _neighbourhoods(clips, audio, anchors)) for one in shared]
    return sorted(found, key=lambda shared: (shared.victim, shared.at_s, shared.source))


@dataclass(frozen=True)
class _Neighbourhood:
    """Responses in the order in which they started; those from ``first`` on are compared with all before each."""

    clips: tuple[ResponseClip, ...]
    audio: tuple[Samples, ...]
    anchors: tuple[Anchors, ...]
    first: int


def _neighbourhoods(
    clips: Sequence[ResponseClip], audio: Mapping[str, Samples], anchors: Mapping[str, Anchors]
) -> Iterator[_Neighbourhood]:
    ordered = sorted(clips, key=lambda clip: clip.started_ns)
    near: list[ResponseClip] = []
    for start in range(0, len(ordered), TOGETHER):
        since_ns = ordered[start].started_ns - JUST_BEFORE_NS
        near = [clip for clip in near if clip.finished_ns >= since_ns]
        first, near = len(near), near + ordered[start : start + TOGETHER]
        yield _Neighbourhood(
            tuple(near),
            tuple(audio[clip.request_id] for clip in near),
            tuple(anchors[clip.request_id] for clip in near),
            first,
        )


def _shared_within(group: _Neighbourhood) -> list[SharedAudio]:
    load = lru_cache(maxsize=CACHED_CLIPS)(lambda index: samples_of(group.audio[index]))
    table = HashTable(np.concatenate([one.hashes for one in group.anchors]))
    owner = np.repeat(np.arange(len(group.anchors)), [len(one.at) for one in group.anchors])
    at = np.concatenate([one.at for one in group.anchors])
    found: list[SharedAudio] = []
    for index in range(group.first, len(group.clips)):
        clip, samples = group.clips[index], load(index)
        window = max(1, round(WINDOW_S * clip.sample_rate_hz))
        positions, hits = table.look_up(window_hashes(samples, window))
        before = owner[hits] < index
        positions, hits = positions[before], hits[before]
        sources, lags = owner[hits], positions - at[hits]
        names, counts = np.unique(sources, return_counts=True)
        suspects = [
            source for source in names[np.argsort(-counts, kind="stable")] if may_share(clip, group.clips[source])
        ]
        for source in suspects[:MOST_SOURCES]:
            theirs, of_source = load(int(source)), sources == source
            for match in _matches(samples, theirs, positions[of_source], lags[of_source], window):
                found += _named(clip, group.clips[source], match, samples, theirs)
    return found


def _matches(
    ours: np.ndarray, theirs: np.ndarray, positions: np.ndarray, lags: np.ndarray, window: int
) -> list[AudioMatch]:
    matches: list[AudioMatch] = []
    values, counts = np.unique(lags, return_counts=True)
    for lag in values[np.argsort(-counts, kind="stable")][:MOST_STRETCHES]:
        for match in extend(ours, theirs, int(lag), positions[lags == lag], window):
            common_beginning = match.at == 0 and match.source_at == 0
            if match.length >= 2 * window and not common_beginning:
                matches.append(match)
    return matches[:MOST_STRETCHES]


def _named(
    one: ResponseClip, other: ResponseClip, match: AudioMatch, ours: np.ndarray, theirs: np.ndarray
) -> list[SharedAudio]:
    rate = one.sample_rate_hz
    mine = SharedAudio(one.request_id, other.request_id, match.at / rate, match.source_at / rate, match.length / rate)
    their_own = SharedAudio(
        other.request_id, one.request_id, match.source_at / rate, match.at / rate, match.length / rate
    )
    lead = _roughness(ours, match.at, match.length, rate) - _roughness(theirs, match.source_at, match.length, rate)
    if abs(lead) < OWNER_LEAD:
        return [mine, their_own]
    return [mine] if lead > 0 else [their_own]


def _roughness(samples: np.ndarray, at: int, length: int, sample_rate_hz: int) -> float:
    far, rough = 2 * round(AROUND_S * sample_rate_hz), 0.0
    for edge in (at, at + length):
        since = max(0, edge - far)
        values = samples[since : edge + far] / np.float32(32768)
        rough += edge_evidence(values, [edge - since], sample_rate_hz).surprise
    return rough
