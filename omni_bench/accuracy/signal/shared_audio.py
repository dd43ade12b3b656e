"""The same samples in two responses: a buffer that was reused while another request still read it.

Bit-identical audible audio is exact evidence and names its source, which a transcript can only suggest.
What cannot be seen: two streams that were exchanged from some chunk on (each sample is sent
once only), and audio that was computed wrongly rather than copied.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from omni_bench.accuracy.signal.clicks import edge_evidence
from omni_bench.accuracy.signal.fingerprints import WINDOW_S, AudioMatch, extend, window_hashes
from omni_bench.accuracy.signal.repeats import anchor_positions, look_up, self_matches, sentences

JUST_BEFORE_NS = 5_000_000_000
OWNER_LEAD = 4.0  # of surprise: the joins of the victim are e⁴ = 55 times as unlikely as those of the owner
MOST_STRETCHES = 16  # of one pair
CACHED_CLIPS = 64


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
    common = not set(sentences(one.text)).isdisjoint(sentences(other.text))
    return near and not same and not common and one.sample_rate_hz == other.sample_rate_hz


def find_shared_audio(clips: Sequence[ResponseClip], load: Callable[[str], np.ndarray]) -> list[SharedAudio]:
    """Every audible stretch of 40 ms or more that two responses share, by victim and time.

    ``load(request_id)`` gives the samples, int16 [n]; it is called about twice a clip, and few
    clips are held at a time. What begins with the first sample of both is not a fault: a causal
    decoder answers equal first codes with equal first samples. Steady tones are left out too.
    The victim is the one whose waveform is rougher where the stretch begins and ends; where
    that does not tell, both are named as each other's victim.
    """
    store = _Store(load)
    table = _Anchors.of(clips, store)
    found: list[SharedAudio] = []
    for index, clip in enumerate(clips):
        samples = store.get(clip.request_id)
        window = max(1, round(WINDOW_S * clip.sample_rate_hz))
        positions, anchors = look_up(window_hashes(samples, window), table.hashes[: table.ends[index]])
        sources, lags = table.clip[anchors], positions - table.at[anchors]
        for source in np.unique(sources):
            other = clips[source]
            if source == index or not may_share(clip, other):
                continue
            of_source = sources == source
            matches = _matches(samples, store.get(other.request_id), positions[of_source], lags[of_source], window)
            for match in matches:
                found += _named(clip, other, match, store)
    return sorted(found, key=lambda shared: (shared.victim, shared.at_s, shared.source))


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


def _named(one: ResponseClip, other: ResponseClip, match: AudioMatch, store: _Store) -> list[SharedAudio]:
    rate = one.sample_rate_hz
    here = SharedAudio(one.request_id, other.request_id, match.at / rate, match.source_at / rate, match.length / rate)
    there = SharedAudio(other.request_id, one.request_id, match.source_at / rate, match.at / rate, match.length / rate)
    lead = _roughness(store.get(one.request_id), match.at, match.length, rate) - _roughness(
        store.get(other.request_id), match.source_at, match.length, rate
    )
    if abs(lead) < OWNER_LEAD:
        return [here, there]
    return [here] if lead > 0 else [there]


def _roughness(samples: np.ndarray, at: int, length: int, sample_rate_hz: int) -> float:
    values = samples / np.float32(32768)
    return sum(edge_evidence(values, [edge], sample_rate_hz).surprise for edge in (at, at + length))


class _Store:
    """The samples of the clips used last."""

    def __init__(self, load: Callable[[str], np.ndarray]):
        self._load = load
        self._kept: OrderedDict[str, np.ndarray] = OrderedDict()

    def get(self, request_id: str) -> np.ndarray:
        if request_id in self._kept:
            self._kept.move_to_end(request_id)
        else:
            self._kept[request_id] = self._load(request_id)
            if len(self._kept) > CACHED_CLIPS:
                self._kept.popitem(last=False)
        return self._kept[request_id]


@dataclass(frozen=True)
class _Anchors:
    """Hashes of the audible windows at every 20 ms of all clips, clip after clip; ``ends[i]``: where clip i begins."""

    hashes: np.ndarray
    clip: np.ndarray
    at: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, clips: Sequence[ResponseClip], store: _Store) -> _Anchors:
        hashes, positions = [], []
        for clip in clips:
            samples = store.get(clip.request_id)
            window = max(1, round(WINDOW_S * clip.sample_rate_hz))
            of_clip = window_hashes(samples, window)
            at = anchor_positions(samples, of_clip, window)
            at = at[~self_matches(samples, clip.sample_rate_hz).periodic[at]]
            positions.append(at)
            hashes.append(of_clip[at])
        counts = [len(at) for at in positions]
        return cls(
            hashes=np.concatenate([np.empty(0, np.uint64), *hashes]),
            clip=np.repeat(np.arange(len(clips)), counts),
            at=np.concatenate([np.empty(0, np.int64), *positions]),
            ends=np.cumsum([0, *counts]),
        )
