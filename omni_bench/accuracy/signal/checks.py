"""Audio sanity of one response at the level of its signal, beside the judge: what WER does not hear."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from omni_bench.accuracy.signal.audio_faults import in_order
from omni_bench.accuracy.signal.clicks import EdgeEvidence, clicks_by_level, edge_evidence, has_clicks
from omni_bench.accuracy.signal.dead_air import quiet_of
from omni_bench.accuracy.signal.dropouts import Hole, abrupt_falls, abrupt_onsets, closes_abruptly, constant_runs
from omni_bench.accuracy.signal.level_audio import ClipTraits, LevelAudio, level_audio
from omni_bench.accuracy.signal.noise import noise_floor
from omni_bench.accuracy.signal.repeats import Anchors, says_something_twice, self_matches
from omni_bench.accuracy.signal.shared_audio import ResponseClip, Samples, SharedAudio, find_shared_audio, samples_of
from omni_bench.accuracy.signal.speech_level import active_rms, is_steady
from omni_bench.accuracy.signal.splices import roughest_places, splice_p
from omni_bench.accuracy.signal.trailing import (
    LONGEST_TAIL_S,
    end_level_db,
    reaches_end,
    restarts_at_end,
    stops_at_full_level,
)
from omni_bench.accuracy.signal.voice_traits import voice_traits
from omni_bench.metrics.pace import pace, speech_s
from omni_bench.records.timeline import Timeline
from omni_bench.spread import Spread, here

NO_EDGES = EdgeEvidence()
EQUAL_S = 0.075
"""A server copies frames or chunks (80 ms and more); what is shorter is equal because the voice speaks so."""
OWN_SHARE, OWN_LEAST = 0.10, 3
END_S = 0.020
MOST_SPLICE_CLIPS = 32
"""Spread over the level: enough to prove it, and what a voice's own roughness adds up to is bounded."""


@dataclass(frozen=True)
class SignalFindings:
    """What one answer shows by itself; ``traits`` is None where there is no speech to measure.

    ``faults``: names of :data:`.audio_faults.INVALID_REASONS`, as far as they need no other answer. ``broken``: those
    that are void if the voice closes abruptly, ``repeats``: if it speaks equal samples; ``closes`` and ``equal_s``
    (the lengths of equal stretches within it) are the signs of that. ``anchors``: what others are compared with.
    """

    faults: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    closes: bool = False
    equal_s: tuple[float, ...] = ()
    edges: EdgeEvidence = NO_EDGES
    traits: ClipTraits | None = None
    anchors: Anchors | None = None


@dataclass(frozen=True)
class RequestFindings:
    """What the signal of one request, and that of its neighbours, tells. ``shared``: of which it is the victim."""

    faults: tuple[str, ...]
    shared: tuple[SharedAudio, ...]


@dataclass(frozen=True)
class ExpectedVoices:
    """Whose voices a level is to have.

    ``one_voice``: one for all, or (``own``: traits of the recording that was sent, by request id) each its own.
    ``references``: recordings that may be of the level's voice.
    """

    one_voice: bool = True
    own: Mapping[str, ClipTraits] | None = None
    references: Sequence[ClipTraits] = ()


ANY_VOICE = ExpectedVoices()


def measures_splices(index: int, answers: int) -> bool:
    """Whether splices are measured in one of the ``answers`` of a level, by its place among them."""
    return index % max(1, -(-answers // MOST_SPLICE_CLIPS)) == 0


def level_findings(
    timelines: Sequence[Timeline],
    texts: Sequence[str],
    audio: Mapping[str, Samples],
    voices: ExpectedVoices = ANY_VOICE,
    alone: Sequence[SignalFindings] | None = None,
    spread: Spread = here,
) -> tuple[dict[str, RequestFindings], LevelAudio]:
    """Check all responses of a level, each by itself and against the others, by request id; and all of them together.

    ``timelines``: of requests that succeeded, with a known sample rate; ``texts[i]``: what
    ``timelines[i]`` should say. ``audio``: by request id. ``alone[i]``: of :func:`signal_findings`, if it is known.
    A check claims nothing where a tenth of the answers (at least three, or all of fewer) show that the voice itself
    does what it looks for. Raises StoreError.
    """
    single = alone
    if single is None:
        single = [
            signal_findings(
                samples_of(audio[timeline.request_id]),
                timeline.sample_rate_hz,
                chunk_edges(timeline),
                text,
                splices=measures_splices(index, len(timelines)),
            )
            for index, (timeline, text) in enumerate(zip(timelines, texts, strict=True))
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
    anchors = {one.request_id: findings.anchors for one, findings in zip(timelines, single, strict=True)}
    shared: dict[str, list[SharedAudio]] = {}
    for one in find_shared_audio(clips, audio, anchors, spread):
        shared.setdefault(one.victim, []).append(one)
    clicks = clicks_by_level([findings.edges for findings in single])
    names = [timeline.request_id for timeline in timelines]
    closing = sum(findings.closes for findings in single)
    equal = sum(
        any(length_s < EQUAL_S for length_s in (*findings.equal_s, *(one.duration_s for one in shared.get(name, ()))))
        for name, findings in zip(names, single, strict=True)
    )
    least = min(len(single), max(OWN_LEAST, math.ceil(OWN_SHARE * len(single))))
    not_held = {name: count for name, count in (("dropout", closing), ("shared_audio", equal)) if 0 < least <= count}
    result = {}
    for timeline, findings, clicked in zip(timelines, single, clicks, strict=True):
        mine = [one for one in shared.get(timeline.request_id, ()) if one.duration_s >= EQUAL_S]
        if "dropout" in not_held:  # a voice that is put together from pieces: only those count that do not fit in
            mine = [one for one in mine if all(back.source != one.victim for back in shared.get(one.source, ()))]
        found = set(findings.faults) | ({"clicks"} if clicked else set())
        if "dropout" not in not_held:
            found.update(findings.broken)
        if "shared_audio" in not_held:
            mine = []
        else:
            found.update(findings.repeats)
        if mine:
            found.add("shared_audio")
        duration_s = sum(timeline.chunk_samples) / timeline.sample_rate_hz
        if reaches_end((one.at_s + one.duration_s for one in mine), duration_s):
            found.add("trailing_audio")
        result[timeline.request_id] = RequestFindings(in_order(found), tuple(mine))
    rates = {timeline.sample_rate_hz for timeline in timelines}
    traits = {name: one.traits for name, one in zip(names, single, strict=True) if one.traits is not None}
    return result, level_audio(
        traits,
        rates.pop() if len(rates) == 1 else None,
        one_voice=voices.one_voice,
        own_references=voices.own,
        references=voices.references,
        not_held=not_held,
    )


def chunk_edges(timeline: Timeline) -> list[int]:
    """Index of the first sample of every HTTP chunk but the first."""
    ends = accumulate(samples for _, samples in timeline.http_chunks)
    return sorted({end for end in ends if 0 < end < sum(timeline.chunk_samples)})


def signal_findings(
    samples: np.ndarray, sample_rate_hz: int, edges: Sequence[int], text: str, *, splices: bool = True
) -> SignalFindings:
    """Check a response for dead air, clicks, dropouts, noise, audio after the end, and repeated samples.

    ``samples``: int16 [n]; ``edges``: index of the first sample of every chunk but the first;
    ``text``: what it should say; ``splices``: measure them too, which costs the most. The rules are those of the
    modules that are called. Nothing is claimed of audio that is silent or shorter than half a second. All rules but
    the last are for speech: music, or the noise of a model with random weights, may break them.
    """
    matches = self_matches(samples, sample_rate_hz)
    values = samples.astype(np.float32) / np.float32(32768)
    active = active_rms(values, sample_rate_hz)
    if active is None:
        return SignalFindings(anchors=matches.anchors)
    evidence = edge_evidence(values, edges, sample_rate_hz)
    falls = abrupt_falls(values, active, sample_rate_hz) + constant_runs(values, active, sample_rate_hz)
    duration_s = len(values) / sample_rate_hz
    onsets = [
        onset
        for onset in abrupt_onsets(values, active, sample_rate_hz)
        if onset.is_lost and not _is_one_of(onset, falls)
    ]
    inside = [onset for onset in onsets if duration_s - (onset.at_s + onset.duration_s) > LONGEST_TAIL_S]
    floor = noise_floor(values, active, sample_rate_hz)
    equal = () if says_something_twice(text) else matches.repeats
    repeats = [match for match in equal if match.length >= EQUAL_S * sample_rate_hz]
    own = {
        "dead_air": quiet_of(values, active, sample_rate_hz).is_dead_air,
        "clicks": has_clicks(evidence),
        "noise": floor is not None and floor.is_noise,
        "trailing_audio": stops_at_full_level(values, active, sample_rate_hz),
    }
    broken = {
        "dropout": bool(inside) or any(hole.is_lost for hole in falls),
        "trailing_audio": restarts_at_end(onsets, duration_s),
    }
    copied = ((match.at + match.length) / sample_rate_hz for match in repeats)
    twice = {"repeated_audio": bool(repeats), "trailing_audio": reaches_end(copied, duration_s)}
    return SignalFindings(
        *(tuple(name for name, found in checks.items() if found) for checks in (own, broken, twice)),
        closes=closes_abruptly(values, active, sample_rate_hz),
        equal_s=tuple(match.length / sample_rate_hz for match in equal),
        edges=evidence,
        traits=clip_traits(values, active, sample_rate_hz, text, splices=splices),
        anchors=matches.anchors,
    )


def clip_traits(
    samples: np.ndarray, active: float, sample_rate_hz: int, text: str, *, splices: bool = True
) -> ClipTraits:
    """Voice, pace and end of an answer to ``text``. ``samples``: float [n] in −1..1; ``active``: RMS of the speech.

    A tone has neither an end that could come too early nor splices.
    """
    steady = is_steady(samples, sample_rate_hz)
    return ClipTraits(
        voice_traits(samples, active, sample_rate_hz),
        pace(text, speech_s(samples, sample_rate_hz)),
        None if steady else end_level_db(samples, active, sample_rate_hz, END_S),
        splice_p(roughest_places(samples, active, sample_rate_hz)) if splices and not steady else None,
        None if steady else quiet_of(samples, active, sample_rate_hz),
        text,
    )


def reference_traits(samples: np.ndarray, sample_rate_hz: int, text: str) -> ClipTraits | None:
    """Of a recording, float [n] in −1..1, that says ``text``; None if there is no speech in it."""
    active = active_rms(samples, sample_rate_hz)
    return None if active is None else clip_traits(samples, active, sample_rate_hz, text, splices=False)


def _is_one_of(onset: Hole, holes: Sequence[Hole]) -> bool:
    """Whether the quiet before an onset is a hole that is known already."""
    end_s = onset.at_s + onset.duration_s
    return any(hole.at_s <= end_s <= hole.at_s + hole.duration_s + 0.01 for hole in holes)
