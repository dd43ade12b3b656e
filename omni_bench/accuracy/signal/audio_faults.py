"""Is a response speech of the right kind at all? Cheap checks of the samples, each with a name."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from omni_bench.accuracy.signal.dead_air import AFTER_LIMIT_S, BEFORE_LIMIT_S
from omni_bench.metrics.pcm import audible_span, samples_from_pcm
from omni_bench.records.timeline import Timeline

FAULTS = {
    "empty": "no whole sample",
    "silent": "no 20 ms window above −50 dBFS",
    "dead_air": "nobody speaks for about a second at an end or within: it would count as output",
    "odd_bytes": "not a whole number of samples",
    "truncated": "shorter than a third of the expected speaking time",
    "runaway": "more than three times the expected speaking time",
    "clipped": "more than 0.1 % of the samples at full scale",
    "non_finite": "NaN or infinity (float samples only)",
    "slow_drip": "it came in crumbs of below a millisecond, or began with one: no packet to be timed",
    "clicks": "the waveform is broken where chunks meet",
    "dropout": "a hole in the middle of speech",
    "noise": "broadband noise nearly as loud as the speech",
    "trailing_audio": "stale audio after the end",
    "repeated_audio": "the same samples twice",
    "shared_audio": "samples of another request",
    "no_text": "a chat reply without the text that was asked for",
    "unchecked": "the samples were lost (the load worker was killed) and cannot be checked",
}
"""What can be wrong with the audio of an answer: its name, and what that means, for reports."""
INVALID_REASONS = tuple(FAULTS)

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

DRIP_READS = 16
FIRST_PACKET_READS = 2
FIRST_PACKET_LIMIT_NS = 100_000_000


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


def audio_faults(audio: bytes | np.ndarray, sample_rate_hz: int, text: str | None, language: str) -> tuple[str, ...]:
    """Names from :data:`INVALID_REASONS` of what is wrong with the audio of ``text``; empty if nothing is.

    ``text``: None if the expected text is unknown, so that no length is too short or too long.
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
        return in_order([*reasons, "empty"])
    finite = np.isfinite(samples)
    if not finite.all():
        reasons.append("non_finite")
    span = audible_span(samples, sample_rate_hz)
    if span is None:
        reasons.append("silent")
    elif span[0] > BEFORE_LIMIT_S * sample_rate_hz or len(samples) - span[1] > AFTER_LIMIT_S * sample_rate_hz:
        reasons.append("dead_air")
    if text is not None:
        duration_s, limits = len(samples) / sample_rate_hz, speaking_time(text, language)
        reasons += ["truncated"] if duration_s < limits.shortest_s else []
        reasons += ["runaway"] if duration_s > limits.longest_s else []
    if finite.any() and np.mean(np.abs(samples[finite]) >= FULL_SCALE) > CLIPPED_SHARE:
        reasons.append("clipped")
    return in_order(reasons)


def delivery_faults(timeline: Timeline) -> tuple[str, ...]:
    """``("slow_drip",)`` if the way the audio of a request came makes its times worthless, else empty.

    A first byte that cannot be played is not a first packet, so either of these is a fault:

    - more than half of the reads, and at least 16, hold less than a millisecond of audio. No network does
      that to an honest server: it cuts what the server writes into full segments and one remainder, so at
      most every second read is a small one, however slow the network is;
    - the first millisecond of audio took more than two reads (the end of a segment and the next one), or
      more than 100 ms from its first byte on: a header or a crumb was sent ahead of the audio.
    """
    rate_hz, sizes = timeline.sample_rate_hz, timeline.chunk_bytes
    if not timeline.ok or rate_hz is None:
        return ()
    packet_bytes = rate_hz * timeline.sample_width_bytes / 1000
    crumbs = sum(size < packet_bytes for size in sizes)
    if crumbs >= DRIP_READS and 2 * crumbs > len(sizes):
        return ("slow_drip",)
    received_bytes = 0
    for index, (size, arrived_ns) in enumerate(zip(sizes, timeline.chunk_arrived_ns, strict=True)):
        received_bytes += size
        if received_bytes >= packet_bytes:
            late = arrived_ns - timeline.chunk_arrived_ns[0] > FIRST_PACKET_LIMIT_NS
            return ("slow_drip",) if index >= FIRST_PACKET_READS or late else ()
    return ()


def in_order(reasons: Iterable[str]) -> tuple[str, ...]:
    """Each of ``reasons`` once, in the order of :data:`INVALID_REASONS`."""
    given = set(reasons)
    return tuple(name for name in INVALID_REASONS if name in given)
