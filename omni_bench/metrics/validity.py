"""Is a response speech of the right kind at all? Cheap checks of the samples, each with a name."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

from omni_bench.metrics.signal import first_audible_sample, samples_from_pcm

INVALID_REASONS = (
    "empty",  # no whole sample
    "silent",  # no 20 ms window above -50 dBFS
    "odd_bytes",  # not a whole number of samples
    "truncated",  # shorter than a third of the expected speaking time
    "runaway",  # more than three times the expected speaking time
    "clipped",  # more than CLIPPED_SHARE of the samples at full scale
    "non_finite",  # NaN or infinity (float samples only)
    "unchecked",  # the samples were lost (the load worker was killed): nobody can say what they were
)

# Speech peak-normalised to full scale touches it in a handful of samples (below 0.01 %);
# overdriven by 3 dB, about 0.25 % of the samples of Laplace-distributed speech with a crest
# factor of 15.6 dB lie at full scale. The threshold is between the two.
CLIPPED_SHARE = 0.001
FULL_SCALE = 32767 / 32768  # symmetric: clipping at -1 often gives -32767

ENGLISH_CHARACTERS_PER_S = 14.0
CHINESE_CHARACTERS_PER_S = 4.5
ENGLISH_CHARACTERS_PER_DIGIT = 5.0  # "7" is spoken as a word
SHORT_TEXT_S = 2.0  # a text of one word may still come with pauses: runaway is judged as if it took this long
LENGTH_FACTOR = 3.0


@dataclass(frozen=True)
class SpeakingTime:
    """How long a text takes to speak: expected, and the limits outside which the audio cannot be of it."""

    expected_s: float
    shortest_s: float
    longest_s: float


def speaking_time(text: str, language: str) -> SpeakingTime:
    """Estimate the speaking time of ``text`` (``language``: a locale such as "en" or "zh").

    After stripping and collapsing white space, each East Asian wide letter counts 1/4.5 s and
    any other character 1/14 s, except digits, which are spoken as words: five characters
    each, or one Chinese one where the language is Chinese. The rule follows the script and
    not only the language, so that mixed text is right. Shortest: a third of that; longest:
    three times that, and for short texts three times two seconds.
    """
    expected_s = 0.0
    is_chinese = language.lower().startswith(("zh", "cmn", "yue"))
    for character in " ".join(text.split()):
        if character.isdigit():
            chinese_s, english_s = 1 / CHINESE_CHARACTERS_PER_S, ENGLISH_CHARACTERS_PER_DIGIT / ENGLISH_CHARACTERS_PER_S
            expected_s += chinese_s if is_chinese else english_s
        elif character.isalpha() and unicodedata.east_asian_width(character) == "W":
            expected_s += 1 / CHINESE_CHARACTERS_PER_S
        else:
            expected_s += 1 / ENGLISH_CHARACTERS_PER_S
    return SpeakingTime(
        expected_s=expected_s,
        shortest_s=expected_s / LENGTH_FACTOR,
        longest_s=max(expected_s, SHORT_TEXT_S) * LENGTH_FACTOR,
    )


def audio_faults(audio: bytes | np.ndarray, sample_rate_hz: int, text: str, language: str) -> tuple[str, ...]:
    """Names from :data:`INVALID_REASONS` of what is wrong with the audio of ``text``; empty if nothing is.

    ``audio``: s16le mono bytes as received, or samples [n] as int16, or as float in −1..1.
    """
    reasons = []
    if isinstance(audio, bytes):
        samples = samples_from_pcm(audio)
        if len(audio) % 2:
            reasons.append("odd_bytes")
    elif np.issubdtype(audio.dtype, np.int16):
        samples = audio.astype(np.float64) / 32768.0
    else:
        samples = audio.astype(np.float64)
    if len(samples) == 0:
        return _in_order([*reasons, "empty"])
    finite = np.isfinite(samples)
    if not finite.all():
        reasons.append("non_finite")
    if first_audible_sample(samples, sample_rate_hz) is None:
        reasons.append("silent")
    limits = speaking_time(text, language)
    duration_s = len(samples) / sample_rate_hz
    if duration_s < limits.shortest_s:
        reasons.append("truncated")
    if duration_s > limits.longest_s:
        reasons.append("runaway")
    if finite.any() and np.mean(np.abs(samples[finite]) >= FULL_SCALE) > CLIPPED_SHARE:
        reasons.append("clipped")
    return _in_order(reasons)


def _in_order(reasons: list[str]) -> tuple[str, ...]:
    return tuple(name for name in INVALID_REASONS if name in reasons)
