"""Reference recordings of a data set: what they hold, and why one is no speech of its text.

A recording that is silent, cut short or not a number would count as an error of the judge, or as the voice that a
server was to clone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omni_bench.accuracy.asr.clips import WHISPER_RATE_HZ, AsrClip, NotFinite, load_samples_16k
from omni_bench.accuracy.signal.audio_faults import speaking_time
from omni_bench.errors import AccuracyError
from omni_bench.metrics.pace import speech_s


class NoSpeech(AccuracyError):
    """A recording that can be read is no speech of its text; the message is the reason."""


def speech_of(path: Path, text: str | None, language: str) -> np.ndarray:
    """Mono float32 in −1..1 at 16 kHz of a recording that says ``text`` (None: unknown).

    Raises :class:`NoSpeech` for one that is not finite, silent, or shorter than a third of the usual time for its text,
    and another AccuracyError for one that cannot be read.
    """
    try:
        samples = load_samples_16k(AsrClip(path.name, path, WHISPER_RATE_HZ))
    except NotFinite:
        raise NoSpeech("holds samples that are not finite") from None
    if not samples.size:
        raise NoSpeech("no samples")
    spoken_s = speech_s(samples, WHISPER_RATE_HZ)
    if spoken_s is None:
        raise NoSpeech("silent")
    if text is not None and spoken_s < (shortest_s := speaking_time(text, language).shortest_s):
        raise NoSpeech(f"{spoken_s:.2f} s of speech, and its text takes {shortest_s:.2f} s at least: is it cut off?")
    return samples


def no_speech(path: Path, text: str | None, language: str) -> str | None:
    """The reason why a recording is no speech; None for one that is, and for what cannot be read here."""
    try:
        speech_of(path, text, language)
    except NoSpeech as error:
        return str(error)
    except AccuracyError:
        pass
    return None
