"""What no answer shows alone but all of a level do together: cut ends, splices, silence, other voices, a wrong rate.

Each statistic has a null hypothesis under which its p-value is exact or an upper bound, whatever the voice: a level is
blamed at p ≤ 1e-6 (:data:`LEVEL_P`). With four such tests a level, that is one false alarm in 250,000 levels if
the nulls hold. No voice keeps to them exactly: ``reports/audio_checks.md`` counts the false alarms of voices that
nobody tuned to. The wrong rate has no p-value: it needs three measurements that agree with each other and with a usual
rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from omni_bench.accuracy.signal.dead_air import Quiet, level_quiet
from omni_bench.accuracy.signal.level_p import LEVEL_P, at_least_p
from omni_bench.accuracy.signal.splices import level_splice_p
from omni_bench.accuracy.signal.voice_traits import VoiceTraits, shifts_octaves, typical_shape
from omni_bench.metrics.pace import USUAL_RATES_HZ

CUT_DB = -15.0
CUT_SHARE = 0.10
"""Of the answers of a voice that ends as it should, at most so many stop within 15 dB of full level: none of the
voices in ``reports/audio_checks.md``, and up to 5 % of those of a neural voice that is trimmed to its last loud 20
ms. Formant and diphone voices stop within a sample: 14 to 64 % of theirs, trimmed so, are like answers cut off."""

SUSPECT_P = 0.01  # of one answer, in a level that is proven to be spliced

FEWEST_ANSWERS = 8  # for a voice of the level's own
TAIL_FREEDOM = 6
LEAST_F0_OCTAVES, LEAST_SHIFT_OCTAVES = 0.04, 0.02
"""Standard deviations from answer to answer are not believed to be smaller: a few equal texts are no yardstick."""

FEWEST_TRAITS = 5
SAME_VOICE_FIT = 0.985
SHIFT_OFF, F0_OFF, PACE_OFF = 0.045, 0.07, 0.14
"""Octaves. Levels of 32 answers and 12 or 32 recordings of the same voice differ by at most 0.03, 0.04 and 0.11."""

_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class ClipTraits:
    """One answer, or a reference recording (that has no end and no ``splice_p`` to judge).

    ``end_db``: level of its last 20 ms against its speech. ``splice_p``: of
    :func:`omni_bench.accuracy.signal.splices.splice_p`. ``letters_per_s``: None for short texts. ``quiet``: where
    nobody speaks; None for a tone. ``text``: what it says.
    """

    voice: VoiceTraits
    letters_per_s: float | None
    end_db: float | None = None
    splice_p: float | None = None
    quiet: Quiet | None = None
    text: str = ""


@dataclass(frozen=True)
class WrongRate:
    """The level against recordings of its voice, as factors; ``made_at_hz``: the usual rate that explains them."""

    made_at_hz: int
    f0: float
    formants: float
    pace: float
    references: int


@dataclass(frozen=True)
class LevelAudio:
    """The figures of a level of ``answers`` that could be measured. p-values are None where nothing was tested.

    ``cut``: answers that stop at full level. ``others``: answers in another voice (0 unless ``other_p`` is below the
    limit). ``pausing``: answers in which nobody speaks for too long, ``pausing_at``: how many before the speech, within
    and after it. ``before_s``, ``after_s``: the silence at their ends, ``quiet_share``: that and the pauses, of their
    audio (medians). ``suspects``: request ids by proven finding. ``not_held``: checks of single answers that claim
    nothing here, and how many answers show that the voice itself does what they look for.
    """

    answers: int = 0
    f0_hz: float | None = None
    cut: int = 0
    cut_p: float | None = None
    splice_p: float | None = None
    others: int = 0
    other_p: float | None = None
    pausing: int = 0
    pausing_at: tuple[int, int, int] = (0, 0, 0)
    pause_p: float | None = None
    before_s: float | None = None
    after_s: float | None = None
    quiet_share: float | None = None
    wrong_rate: WrongRate | None = None
    suspects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_held: Mapping[str, int] = field(default_factory=dict)


def level_audio(
    clips: Mapping[str, ClipTraits],
    sample_rate_hz: int | None,
    *,
    one_voice: bool = True,
    own_references: Mapping[str, ClipTraits] | None = None,
    references: Sequence[ClipTraits] = (),
    not_held: Mapping[str, int] | None = None,
) -> LevelAudio:
    """Judge the answers of a level, by request id.

    ``sample_rate_hz``: None if they differ. ``one_voice``: all answers are to be of one voice, or each of the voice of
    the recording that was sent with it (``own_references``, by request id). ``references``: recordings that the level's
    voice may be that of.
    """
    if not clips:
        return LevelAudio(not_held=dict(not_held or {}))
    pitches = [clip.voice.f0_hz for clip in clips.values() if clip.voice.f0_hz is not None]
    cut = tuple(name for name, clip in clips.items() if clip.end_db is not None and clip.end_db > CUT_DB)
    cut_p = at_least_p(len(cut), len(clips), CUT_SHARE)
    judged = {name: clip.splice_p for name, clip in clips.items() if clip.splice_p is not None}
    splice_p = level_splice_p(sorted(set(judged.values()))) if judged else None  # equal samples count once
    rested = {name: clip for name, clip in clips.items() if clip.quiet is not None}
    pauses = level_quiet([(clip.quiet, clip.text) for clip in rested.values()])
    pausing = tuple(name for number, name in enumerate(rested) if number in pauses.long)
    ends = [(one.before_s, one.after_s, one.share) for one in (clip.quiet for clip in rested.values())]
    before_s, after_s, share = np.median(ends, axis=0).tolist() if ends else (None, None, None)
    other_p, others = other_voices(clips, own_references) if one_voice else (None, ())
    spliced = splice_p is not None and splice_p <= LEVEL_P
    suspects = {
        "cut_off": cut if cut_p <= LEVEL_P else (),
        "spliced": tuple(
            name for name in sorted(judged, key=judged.__getitem__) if spliced and judged[name] <= SUSPECT_P
        ),
        "other_voice": others,
        "long_pauses": pausing if pauses.is_proven else (),
    }
    return LevelAudio(
        answers=len(clips),
        f0_hz=float(np.median(pitches)) if pitches else None,
        cut=len(cut),
        cut_p=cut_p,
        splice_p=splice_p,
        others=len(others),
        other_p=other_p,
        pausing=len(pausing),
        pausing_at=tuple(map(len, (pauses.before, pauses.within, pauses.after))),
        pause_p=pauses.p,
        before_s=before_s,
        after_s=after_s,
        quiet_share=share,
        wrong_rate=wrong_rate(list(clips.values()), references, sample_rate_hz) if sample_rate_hz else None,
        suspects={name: found for name, found in suspects.items() if found},
        not_held=dict(not_held or {}),
    )


def other_voices(
    clips: Mapping[str, ClipTraits], own_references: Mapping[str, ClipTraits] | None = None
) -> tuple[float | None, tuple[str, ...]]:
    """(p, request ids) of answers whose pitch and formants are shifted in the same direction, away from the others'.

    Each in units of the level's own deviation (MAD). Answers vary with heavier tails than the normal distribution's,
    so each deviation is judged by Student's t with 6 degrees of freedom; x is the product of the two tails, and p of an
    answer is 2x(1 + ln(1/4x)) if they are independent. Of the k smallest of n such p-values the largest is tested by
    the binomial distribution, for every k up to n/2, and the smallest result times n/2 is the level's p (Berk & Jones
    1979, with Bonferroni's bound). None with fewer than 8 answers. ``own_references``: each answer is compared with
    its own recording first. A voice that differs in pitch alone, or in formants alone, is not found.
    """
    known = {name: clip for name, clip in clips.items() if clip.voice.f0_hz is not None}
    if own_references is not None:
        known = {
            name: clip
            for name, clip in known.items()
            if name in own_references and own_references[name].voice.f0_hz is not None
        }
    if len(known) < FEWEST_ANSWERS:
        return None, ()
    voices = [clip.voice for clip in known.values()]
    own = [own_references[name].voice for name in known] if own_references is not None else None
    shapes = [voice.shape_db for voice in voices]
    pitch = np.log2([voice.f0_hz for voice in voices])
    if own is not None:
        pitch -= np.log2([voice.f0_hz for voice in own])
    shift, _ = shifts_octaves(shapes, [typical_shape(shapes)] if own is None else [voice.shape_db for voice in own])
    off = _deviations(pitch, LEAST_F0_OCTAVES), _deviations(shift, LEAST_SHIFT_OCTAVES)
    from scipy import special

    tails = special.stdtr(TAIL_FREEDOM, -np.abs(off[0])) * special.stdtr(TAIL_FREEDOM, -np.abs(off[1]))
    tails = np.where(off[0] * off[1] > 0, np.maximum(tails, 1e-300), 0.25)
    p_values = np.minimum(2 * tails * (1 + np.log(0.25 / tails)), 1.0)
    order = np.argsort(p_values, kind="stable")
    most = len(known) // 2
    smallest = np.arange(1, most + 1)
    tested = most * special.betainc(smallest, len(known) - smallest + 1, p_values[order[:most]])
    best = int(np.argmin(tested))
    names = list(known)
    found = tuple(names[index] for index in order[: best + 1]) if tested[best] <= LEVEL_P else ()
    return min(float(tested[best]), 1.0), found


def wrong_rate(clips: Sequence[ClipTraits], references: Sequence[ClipTraits], sample_rate_hz: int) -> WrongRate | None:
    """The usual rate at which the level's samples were made, if it was not ``sample_rate_hz``; None if nothing says so.

    Samples that are played too fast have a pitch, formants and a pace that are too high by one and the same factor. So
    it is claimed only where the level's spectrum, shifted, is that of the references (correlation 0.985), and all three
    factors are those of a usual rate. Another voice has other factors: none of the pairs of voices in
    ``reports/audio_checks.md`` is mistaken for a rate.
    """
    level, recordings = _medians(clips), _medians(references)
    if level is None or recordings is None:
        return None
    formants, fit = (float(one[0]) for one in shifts_octaves([level[2]], [recordings[2]]))
    f0, pace = level[0] - recordings[0], level[1] - recordings[1]
    for made_at_hz in USUAL_RATES_HZ:
        expected = math.log2(sample_rate_hz / made_at_hz)
        near = (
            abs(formants - expected) <= SHIFT_OFF and abs(f0 - expected) <= F0_OFF and abs(pace - expected) <= PACE_OFF
        )
        if made_at_hz != sample_rate_hz and near and fit >= SAME_VOICE_FIT:
            return WrongRate(made_at_hz, 2**f0, 2**formants, 2**pace, len(references))
    return None


def _medians(clips: Sequence[ClipTraits]) -> tuple[float, float, np.ndarray] | None:
    """log2 of pitch and pace, and the shape; None with fewer than 5 of either."""
    pitches = [math.log2(clip.voice.f0_hz) for clip in clips if clip.voice.f0_hz is not None]
    paces = [math.log2(clip.letters_per_s) for clip in clips if clip.letters_per_s]
    if min(len(pitches), len(paces)) < FEWEST_TRAITS:
        return None
    return float(np.median(pitches)), float(np.median(paces)), typical_shape([clip.voice.shape_db for clip in clips])


def _deviations(values: np.ndarray, least: float) -> np.ndarray:
    """How many (robust) standard deviations each is away from the median."""
    median = np.median(values)
    away = values - median
    return away / max(_MAD_TO_SIGMA * float(np.median(np.abs(away))), least)
