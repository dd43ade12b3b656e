"""Audio sanity of one response at the level of its signal, beside the judge: what WER does not hear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from omni_bench.accuracy.signal.audio_faults import in_order
from omni_bench.accuracy.signal.clicks import EdgeEvidence, clicks_by_level, edge_evidence, has_clicks
from omni_bench.accuracy.signal.dropouts import Hole, abrupt_falls, abrupt_onsets, constant_runs
from omni_bench.accuracy.signal.noise import noise_floor
from omni_bench.accuracy.signal.repeats import says_something_twice, self_matches
from omni_bench.accuracy.signal.shared_audio import ResponseClip, SharedAudio, find_shared_audio
from omni_bench.accuracy.signal.speech_level import active_rms
from omni_bench.accuracy.signal.trailing import LONGEST_TAIL_S, reaches_end, restarts_at_end, stops_at_full_level
from omni_bench.records.timeline import Timeline

NO_EDGES = EdgeEvidence()


@dataclass(frozen=True)
class SignalFindings:
    """``faults``: names of :data:`.audio_faults.INVALID_REASONS`; ``edges``: for the level to pool."""

    faults: tuple[str, ...] = ()
    edges: EdgeEvidence = NO_EDGES


@dataclass(frozen=True)
class RequestFindings:
    """What the signal of one request, and that of its neighbours, tells. ``shared``: of which it is the victim."""

    faults: tuple[str, ...]
    shared: tuple[SharedAudio, ...]


def level_findings(
    timelines: Sequence[Timeline], texts: Sequence[str], load: Callable[[str], np.ndarray]
) -> dict[str, RequestFindings]:
    """Check all responses of a level, each by itself and against the others; by request id.

    ``timelines``: of requests that succeeded, with a known sample rate; ``texts[i]``: what
    ``timelines[i]`` should say. ``load(request_id)``: its samples, int16 [n]; called a few times each.
    """
    single = [
        signal_findings(load(timeline.request_id), timeline.sample_rate_hz, chunk_edges(timeline), text)
        for timeline, text in zip(timelines, texts, strict=True)
    ]
    clips = [
        ResponseClip(
            timeline.request_id,
            text,
            timeline.seed,
            timeline.started_ns,
            timeline.finished_ns,
            timeline.sample_rate_hz,
        )
        for timeline, text in zip(timelines, texts, strict=True)
    ]
    shared: dict[str, list[SharedAudio]] = {}
    for one in find_shared_audio(clips, load):
        shared.setdefault(one.victim, []).append(one)
    clicks = clicks_by_level([findings.edges for findings in single])
    result = {}
    for timeline, findings, clicked in zip(timelines, single, clicks, strict=True):
        mine = tuple(shared.get(timeline.request_id, ()))
        names = set(findings.faults)
        if clicked:
            names.add("clicks")
        if mine:
            names.add("shared_audio")
        duration_s = sum(timeline.chunk_samples) / timeline.sample_rate_hz
        if reaches_end((one.at_s + one.duration_s for one in mine), duration_s):
            names.add("trailing_audio")
        result[timeline.request_id] = RequestFindings(in_order(names), mine)
    return result


def chunk_edges(timeline: Timeline) -> list[int]:
    """Index of the first sample of every HTTP chunk but the first."""
    ends = accumulate(samples for _, samples in timeline.http_chunks)
    return sorted({end for end in ends if 0 < end < sum(timeline.chunk_samples)})


def signal_findings(samples: np.ndarray, sample_rate_hz: int, edges: Sequence[int], text: str) -> SignalFindings:
    """Check a response for clicks, dropouts, noise, audio after the end, and repeated samples.

    ``samples``: int16 [n]; ``edges``: index of the first sample of every chunk but the first;
    ``text``: what it should say. The rules are those of the modules that are called. Nothing
    is claimed of audio that is silent or shorter than half a second. All rules but the last
    are for speech: music, or the noise of a model with random weights, may break them.
    """
    values = samples.astype(np.float32) / np.float32(32768)
    active = active_rms(values, sample_rate_hz)
    if active is None:
        return SignalFindings()
    evidence = edge_evidence(values, edges, sample_rate_hz)
    falls = abrupt_falls(values, active, sample_rate_hz) + constant_runs(values, active, sample_rate_hz)
    duration_s = len(values) / sample_rate_hz
    onsets = [onset for onset in abrupt_onsets(values, active, sample_rate_hz) if not _is_one_of(onset, falls)]
    floor = noise_floor(values, active, sample_rate_hz)
    repeats = () if says_something_twice(text) else self_matches(samples, sample_rate_hz).repeats
    trailing = (
        restarts_at_end(onsets, duration_s)
        or stops_at_full_level(values, active, sample_rate_hz)
        or reaches_end(((match.at + match.length) / sample_rate_hz for match in repeats), duration_s)
    )
    inside = [onset for onset in onsets if duration_s - (onset.at_s + onset.duration_s) > LONGEST_TAIL_S]
    checks = {
        "clicks": has_clicks(evidence),
        "dropout": bool(falls or inside),
        "noise": floor is not None and floor.is_noise,
        "trailing_audio": trailing,
        "repeated_audio": bool(repeats),
    }
    return SignalFindings(tuple(name for name, found in checks.items() if found), evidence)


def _is_one_of(onset: Hole, holes: Sequence[Hole]) -> bool:
    """Whether the quiet before an onset is a hole that is known already."""
    end_s = onset.at_s + onset.duration_s
    return any(hole.at_s <= end_s <= hole.at_s + hole.duration_s + 0.01 for hole in holes)
