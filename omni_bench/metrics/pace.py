"""How fast a voice speaks: letters a second, what pace to expect, and which sample rate another pace hints at.

Samples that are played at another rate than they were made at are faster or slower by the ratio of the two rates. So
where a server states no rate, or a wrong one, the pace tells: RTF and seconds of audio rest on that rate.
"""

from __future__ import annotations

import math
import statistics
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from omni_bench.metrics.pcm import audible_span

MIN_LETTERS = 10  # of a text: the pace of one word is mostly its first and last sound
MIN_UTTERANCES = 5
VOICES_SPREAD = 0.15
"""Standard deviation of ln(pace) from voice to voice of a language: readers of the same text differ by 9 to 18 %
(Trauzettel-Klosinski & Dietz 2012, table 2)."""
SCALED_SPREAD = 0.18  # where the pace of the language is scaled too
LANGUAGE_LIMIT = 2.5  # standard deviations: one voice in 80 is slower or faster
SAME_VOICE_LIMIT = 3.0
MOST_SPREAD = 0.25  # audio that varies more is not of its text, and says nothing of a rate
SMALLEST_DOUBT = 0.08  # 22,050 Hz taken for 24,000 Hz: no two usual rates are nearer to each other
USUAL_RATES_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_MEDIAN_FACTOR = math.sqrt(math.pi / 2)  # standard error of a median against that of a mean, of normal values

ENGLISH_LETTERS_PER_S = 13.5
"""Between a book read aloud (LJ Speech as published: 12.6) and this package's reference recordings (16.4)."""
CHINESE_LETTERS_PER_S = 4.5
_READING_ALOUD_CPM = {  # characters a minute, aloud and fast (Trauzettel-Klosinski & Dietz 2012, table 2)
    **{"en": 987, "nl": 978, "fi": 1078, "fr": 998, "de": 920, "it": 950, "pl": 916, "pt": 913, "ru": 986},
    **{"sl": 885, "es": 1025, "sv": 917, "tr": 1054},
}


@dataclass(frozen=True)
class ExpectedPace:
    """``letters_per_s``, and the standard deviation ``spread`` of its logarithm from voice to voice.

    ``source``: "language" or "references". ``limit``: how many standard deviations are still no wonder.
    """

    letters_per_s: float
    spread: float
    source: str
    limit: float


@dataclass(frozen=True)
class LevelPace:
    """The pace of a level beside what was to be expected.

    ``letters_per_s``: median of ``utterances`` texts, which vary by ``spread`` (standard deviation of the logarithm).
    ``tolerance``: how far ln(pace / expected) may be from 0. ``in_doubt``: it is farther. ``fitting_hz``: usual rates
    with which it would not be, the likeliest first.
    """

    letters_per_s: float
    spread: float
    utterances: int
    expected: ExpectedPace
    tolerance: float
    fitting_hz: tuple[int, ...]
    in_doubt: bool


def letters(text: str) -> int:
    """Letters and digits of a text; marks, spaces and punctuation are not spoken one by one."""
    return sum(unicodedata.category(character)[0] in "LN" for character in text)


def speech_s(samples: np.ndarray, sample_rate_hz: int) -> float | None:
    """Seconds from the first to the last audible 20 ms window (above −50 dBFS); None if there is none.

    ``samples``: float [n] in −1..1. Pauses within count, silence before and after does not.
    """
    span = audible_span(samples, sample_rate_hz)
    return None if span is None else (span[1] - span[0]) / sample_rate_hz


def pace(text: str, spoken_s: float | None) -> float | None:
    """Letters a second; None for short texts, and without speech."""
    count = letters(text)
    return count / spoken_s if spoken_s and count >= MIN_LETTERS else None


def language_pace(language: str, speed: float = 1.0) -> ExpectedPace | None:
    """What a voice of that language does; None where no figure is known. ``speed``: what the server was asked for.

    The published figures are of fast reading; they are scaled by what English voices do in place of it.
    """
    base = language.strip().lower().replace("_", "-").split("-")[0]
    if base in ("zh", "cmn", "yue"):
        return ExpectedPace(CHINESE_LETTERS_PER_S * speed, VOICES_SPREAD, "language", LANGUAGE_LIMIT)
    if base not in _READING_ALOUD_CPM:
        return None
    scale = ENGLISH_LETTERS_PER_S / _READING_ALOUD_CPM["en"]
    spread = VOICES_SPREAD if base == "en" else SCALED_SPREAD
    return ExpectedPace(_READING_ALOUD_CPM[base] * scale * speed, spread, "language", LANGUAGE_LIMIT)


def references_pace(paces: Sequence[float], speed: float = 1.0) -> ExpectedPace | None:
    """What voices do that were cloned from recordings of these ``paces``; None with fewer than 5 of them.

    The spread is that of the median: how well so many recordings tell the pace of their voices.
    """
    if len(paces) < MIN_UTTERANCES:
        return None
    logs = [math.log(one) for one in paces]
    spread = _MEDIAN_FACTOR * statistics.stdev(logs) / math.sqrt(len(logs))
    return ExpectedPace(math.exp(statistics.median(logs)) * speed, spread, "references", SAME_VOICE_LIMIT)


def level_pace(paces: Iterable[float | None], expected: ExpectedPace, sample_rate_hz: int) -> LevelPace | None:
    """Set the paces of a level's utterances, computed with ``sample_rate_hz``, beside the expected one.

    In doubt is a median farther off than the spread of the expectation and its own standard error explain, and than
    8 %, if a usual rate explains it. None with fewer than 5 utterances, and if they vary by more than 25 %.
    """
    logs = [math.log(one) for one in paces if one]
    if len(logs) < MIN_UTTERANCES:
        return None
    spread, median = statistics.stdev(logs), statistics.median(logs)
    if spread > MOST_SPREAD:
        return None
    error = _MEDIAN_FACTOR * spread / math.sqrt(len(logs))
    tolerance = max(expected.limit * math.hypot(expected.spread, error), SMALLEST_DOUBT)
    off = median - math.log(expected.letters_per_s)
    misfit = {rate_hz: abs(off + math.log(rate_hz / sample_rate_hz)) for rate_hz in USUAL_RATES_HZ}
    fitting = sorted((hz for hz in misfit if misfit[hz] <= tolerance and hz != sample_rate_hz), key=misfit.__getitem__)
    return LevelPace(
        letters_per_s=math.exp(median),
        spread=spread,
        utterances=len(logs),
        expected=expected,
        tolerance=tolerance,
        fitting_hz=tuple(fitting),
        in_doubt=abs(off) > tolerance and bool(fitting),
    )
