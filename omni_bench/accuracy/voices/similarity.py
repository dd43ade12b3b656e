"""Does an utterance sound like its voice, from the first word on? Cosines, and who falls out of line.

A soft sign beside WER: a request that begins in the voice of another request has the right words
too late, or none wrong at all. The anchor of an utterance is its own reference recording if one was
sent, else the median of its level (whole against whole, onset against onset: what the same
length of speech looks like). An outlier lies far below the median of its level, in units of the
median absolute deviation, so that no fixed cosine has to suit every voice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from omni_bench.accuracy.asr.clips import WHISPER_RATE_HZ, AsrClip, load_samples_16k
from omni_bench.metrics.pcm import audible_span

ONSET_S = 1.0
"""Four words of an onset; longer ones dilute a short splice (reports/speaker_similarity.md)."""
MIN_UTTERANCES = 8
"""Below this a level has no median to fall out of."""
OUTLIER_DEVIATIONS = 3.5
"""Iglewicz and Hoaglin 1993: the usual limit of the modified z-score."""
MIN_DEVIATION = 0.02
"""Cosines of one voice and one text vary by this much: a level of near-identical outputs has no outliers within it."""

_MAD_TO_SIGMA = 1.4826  # of a normal distribution
VOICE_FIELDS = ("voice_onset_rest", "voice_onset", "voice_whole", "voice_outlier")


class Encoder(Protocol):
    """What turns speech into unit vectors; see :class:`speaker_encoder.SpeakerEncoder`."""

    def embed(self, speech: Sequence[np.ndarray]) -> list[np.ndarray | None]:
        """One unit vector each, None for what is too short or silent."""


@dataclass(frozen=True)
class VoicePrint:
    """Unit vectors of the first second of speech, of the rest, and of the whole; None where there is too little."""

    onset: np.ndarray | None
    rest: np.ndarray | None
    whole: np.ndarray | None


NO_VOICE = VoicePrint(None, None, None)


@dataclass(frozen=True)
class VoiceSimilarity:
    """One utterance. All but ``outlier`` are cosines, None where they could not be had.

    ``onset_rest``: its first second against the rest. ``onset`` and ``whole``: these parts
    against the anchor. ``outlier``: one of the last two lies far below the level's median; None if
    neither could be compared.
    """

    onset_rest: float | None
    onset: float | None
    whole: float | None
    outlier: bool | None


@dataclass(frozen=True)
class VoiceSummary:
    """A level: how many utterances could be compared, and how many of them are outliers (None: none compared)."""

    checked: int
    outliers: int | None


def voice_prints(encoder: Encoder, clips: Sequence[AsrClip]) -> list[VoicePrint]:
    """The three vectors of every clip, silence at both ends left out. Raises AccuracyError for an unreadable clip."""
    prints = []
    for clip in clips:
        speech = without_outer_silence(load_samples_16k(clip))
        cut = round(ONSET_S * WHISPER_RATE_HZ)
        prints.append(VoicePrint(*encoder.embed([speech[:cut], speech[cut:], speech])))
    return prints


def without_outer_silence(samples: np.ndarray) -> np.ndarray:
    """16 kHz samples from the first to the last audible window of 20 ms; empty if none is audible."""
    first, end = audible_span(samples, WHISPER_RATE_HZ) or (0, 0)
    return samples[first:end]


def compare_level(
    prints: Mapping[str, VoicePrint], references: Mapping[str, VoicePrint] | None = None
) -> dict[str, VoiceSimilarity]:
    """Similarities of the utterances of one level, by request id.

    ``references``: the prints of the recordings that were sent, by request id; None if
    none were: then the level's own median voice is the anchor of all.
    """
    if references is None:
        onset_anchor = median_voice([one.onset for one in prints.values()])
        whole_anchor = median_voice([one.whole for one in prints.values()])
        anchors = dict.fromkeys(prints, (onset_anchor, whole_anchor))
    else:
        anchors = {name: (ref.whole, ref.whole) for name, ref in references.items()}
    nothing = (None, None)
    onset = {name: cosine(one.onset, anchors.get(name, nothing)[0]) for name, one in prints.items()}
    whole = {name: cosine(one.whole, anchors.get(name, nothing)[1]) for name, one in prints.items()}
    onset_limit, whole_limit = outlier_limit(onset.values()), outlier_limit(whole.values())
    return {
        name: VoiceSimilarity(
            onset_rest=cosine(one.onset, one.rest),
            onset=onset[name],
            whole=whole[name],
            outlier=_either(_below(onset[name], onset_limit), _below(whole[name], whole_limit)),
        )
        for name, one in prints.items()
    }


def summarise_voices(similarities: Sequence[VoiceSimilarity]) -> VoiceSummary:
    """Counts of one level."""
    checked = [one.outlier for one in similarities if one.outlier is not None]
    return VoiceSummary(len(checked), sum(checked) if checked else None)


def cosine(first: np.ndarray | None, second: np.ndarray | None) -> float | None:
    """The cosine of two unit vectors; None without either."""
    return None if first is None or second is None else float(first @ second)


def median_voice(vectors: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The unit vector of the medians of every coordinate: a few strange voices do not move it."""
    known = [vector for vector in vectors if vector is not None]
    if len(known) < MIN_UTTERANCES:
        return None
    return unit(np.median(known, axis=0))


def unit(vector: np.ndarray) -> np.ndarray | None:
    """``vector`` with the length 1; None if it has none."""
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else None


def outlier_limit(cosines) -> float | None:
    """Cosines below this are outliers: median − 3.5 deviations (MAD). None for fewer than 8."""
    known = [value for value in cosines if value is not None and math.isfinite(value)]
    if len(known) < MIN_UTTERANCES:
        return None
    median = float(np.median(known))
    deviation = _MAD_TO_SIGMA * float(np.median(np.abs(np.array(known) - median)))
    return median - OUTLIER_DEVIATIONS * max(deviation, MIN_DEVIATION)


def voice_fields(similarity: VoiceSimilarity | None) -> dict[str, float | bool | None]:
    """The fields of utterances.jsonl, all None if voices were not compared."""
    if similarity is None:
        return dict.fromkeys(VOICE_FIELDS)
    values = (similarity.onset_rest, similarity.onset, similarity.whole, similarity.outlier)
    return dict(zip(VOICE_FIELDS, values, strict=True))


def voice_from_fields(record: Mapping[str, object]) -> VoiceSimilarity | None:
    """The inverse of :func:`voice_fields`; None for a line without any of them."""
    values = [record.get(name) for name in VOICE_FIELDS]
    numbers = [value if isinstance(value, float) else None for value in values[:3]]
    outlier = values[3] if isinstance(values[3], bool) else None
    return None if all(value is None for value in values) else VoiceSimilarity(*numbers, outlier)


def _below(value: float | None, limit: float | None) -> bool | None:
    return None if value is None or limit is None else value < limit


def _either(first: bool | None, second: bool | None) -> bool | None:
    known = [value for value in (first, second) if value is not None]
    return any(known) if known else None
