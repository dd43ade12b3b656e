"""Speech to corrupt, and ways to corrupt it: what ``audio_checks.py`` measures the signal checks with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import signal

from omni_bench.accuracy.signal.speech_level import active_rms
from omni_bench.errors import EngineError
from reference_impl.build import build_engine
from reference_impl.engine_api import AudioChunk, Event, Finished, SpeechRequest
from reference_impl.settings import ServerSettings

FRAME = 1920  # samples of 80 ms at 24 kHz
FULL_SCALE = 32768


@dataclass(frozen=True)
class Speech:
    """Samples int16 [n], index of the first sample of every chunk but the first, and what is said."""

    name: str
    samples: np.ndarray
    edges: tuple[int, ...]
    text: str
    sample_rate_hz: int = 24_000


def speak(texts: Sequence[str], fault: str | None = None, together: int = 8, voice: str = "heart") -> list[Speech]:
    """Have the bundled voice speak ``texts``, ``together`` at a time, with a fault of the catalogue if one is named."""
    engine = build_engine(ServerSettings(device="cpu", dtype="float32", fault=fault))
    spoken = []
    try:
        for first in range(0, len(texts), together):
            batch = [_Listener(text) for text in texts[first : first + together]]
            for offset, listener in enumerate(batch):
                name = f"{fault or 'clean'}-{first + offset}"
                engine.submit(SpeechRequest(name, listener.text, voice, seed=7000 + first + offset), listener)
                listener.name = name
            spoken += [listener.speech() for listener in batch]
    finally:
        engine.stop()
    return spoken


class _Listener:
    """Collects the chunks of one request."""

    def __init__(self, text: str):
        self.text, self.name = text, ""
        self._chunks: list[np.ndarray] = []
        self._ended = threading.Event()
        self._end: Event | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, AudioChunk):
            self._chunks.append(np.frombuffer(event.pcm, "<i2"))
        else:
            self._end = event
            self._ended.set()

    def speech(self) -> Speech:
        if not self._ended.wait(timeout=120) or not isinstance(self._end, Finished):
            raise EngineError(f"{self.name} did not finish: {self._end}")
        ends = np.cumsum([len(chunk) for chunk in self._chunks])
        return Speech(self.name, np.concatenate(self._chunks), tuple(int(end) for end in ends[:-1]), self.text)


Corruption = Callable[[Speech, Speech, np.random.Generator], Speech]
"""(speech, another, generator) -> the corrupted speech."""


def _with(speech: Speech, samples: np.ndarray, edges: Sequence[int] | None = None) -> Speech:
    clipped = np.clip(np.round(samples), -FULL_SCALE, FULL_SCALE - 1).astype("<i2")
    return Speech(speech.name, clipped, tuple(speech.edges if edges is None else edges), speech.text)


def white_noise(snr_db: float) -> Corruption:
    """White Gaussian noise, ``snr_db`` below the whole clip's RMS."""

    def corrupt(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
        clean = speech.samples.astype(float)
        level = np.sqrt(np.square(clean).mean()) * 10 ** (-snr_db / 20)
        return _with(speech, clean + rng.normal(size=len(clean)) * level)

    return corrupt


def hole(duration_s: float, fade_s: float = 0.0, filled: float = 0.0) -> Corruption:
    """Silence (or noise of RMS ``filled``, in 16-bit steps) in the middle of speech, with raised-cosine fades."""

    def corrupt(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
        length, fade = round(duration_s * speech.sample_rate_hz), round(fade_s * speech.sample_rate_hz)
        at = loud_position(speech, length, rng)
        gain = np.zeros(length)
        if fade:
            gain[:fade] = 0.5 + 0.5 * np.cos(np.linspace(0, np.pi, fade))
            gain[-fade:] = gain[:fade][::-1]
        samples = speech.samples.astype(float)
        samples[at : at + length] = samples[at : at + length] * gain + rng.normal(size=length) * filled
        return _with(speech, samples)

    return corrupt


def cut_frame(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
    """80 ms of speech are missing, and nothing is in their place."""
    at = loud_position(speech, FRAME, rng)
    return _with(speech, np.concatenate([speech.samples[:at], speech.samples[at + FRAME :]]))


def chunk_twice(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
    """A chunk is sent twice."""
    ends = [*speech.edges, len(speech.samples)]
    index = int(rng.integers(1, len(ends)))
    start, end = ends[index - 1], ends[index]
    edges = [edge if edge <= start else edge + end - start for edge in speech.edges]
    twice = np.concatenate([speech.samples[:end], speech.samples[start:end], speech.samples[end:]])
    return _with(speech, twice, sorted({*edges, end}))


def appended(duration_s: float) -> Corruption:
    """A piece of another clip follows the end."""

    def corrupt(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
        length = round(duration_s * speech.sample_rate_hz)
        at = loud_position(other, length, rng)
        return _with(speech, np.concatenate([speech.samples, other.samples[at : at + length]]))

    return corrupt


def edge_steps(size: int) -> Corruption:
    """One sample at every chunk edge is off by ``size``."""

    def corrupt(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
        samples = speech.samples.astype(float)
        samples[list(speech.edges)] += size
        return _with(speech, samples)

    return corrupt


def foreign_piece(duration_s: float) -> Corruption:
    """A piece of ``other`` in the place of this one's own samples."""

    def corrupt(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
        length = round(duration_s * speech.sample_rate_hz)
        at, source = loud_position(speech, length, rng), loud_position(other, length, rng)
        samples = speech.samples.copy()
        samples[at : at + length] = other.samples[source : source + length]
        return _with(speech, samples)

    return corrupt


def loud_position(speech: Speech, length: int, rng: np.random.Generator) -> int:
    """A random start of ``length`` samples of speech: RMS within 10 dB of its level, 0.1 s from the ends."""
    values = speech.samples / FULL_SCALE
    active = active_rms(values, speech.sample_rate_hz)
    summed = np.concatenate([[0.0], np.cumsum(np.square(values))])
    margin = speech.sample_rate_hz // 10
    starts = np.arange(margin, len(values) - length - margin)
    rms = np.sqrt((summed[starts + length] - summed[starts]) / length)
    return int(rng.choice(starts[rms >= active * 10**-0.5]))


def quiet_added(speech: Speech, where: str, seconds: float, dbfs: float | None, rng: np.random.Generator) -> Speech:
    """Digital silence (``dbfs`` None) or white noise before, inside (in the quietest 50 ms of the middle) or after."""
    rate_hz, samples = speech.sample_rate_hz, speech.samples
    level = 0.0 if dbfs is None else FULL_SCALE * 10 ** (dbfs / 20)
    added = np.round(rng.normal(size=round(seconds * rate_hz)) * level).astype("<i2")
    window = rate_hz // 20
    middle = samples[len(samples) // 4 : 3 * len(samples) // 4].astype(float)
    power = np.square(middle[: len(middle) // window * window].reshape(-1, window)).mean(axis=1)
    quietest = len(samples) // 4 + int(power.argmin()) * window + window // 2
    at = {"before": 0, "inside": quietest, "after": len(samples)}[where]
    edges = [edge if edge <= at else edge + len(added) for edge in speech.edges]
    return Speech(speech.name, np.insert(samples, at, added), tuple(edges), speech.text, rate_hz)


def tightly_trimmed(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
    """Harmless: 20 ms frames 30 dB below the speech are cut off at both ends."""
    start, end = _sounding(speech)
    return _with(speech, speech.samples[start:end], [edge - start for edge in speech.edges if start < edge < end])


def joined(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
    """Harmless: two tightly trimmed sentences with 200 ms of digital silence between them."""
    (start, end), (begin, stop) = _sounding(speech), _sounding(other)
    pause = np.zeros(speech.sample_rate_hz // 5, "<i2")
    return _with(speech, np.concatenate([speech.samples[start:end], pause, other.samples[begin:stop]]), [end - start])


def mu_law(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
    """Harmless: 8 bits of μ-law (ITU-T G.711)."""
    values = speech.samples / FULL_SCALE
    coded = np.round(np.sign(values) * np.log1p(255 * np.abs(values)) / np.log(256) * 127) / 127
    return _with(speech, np.sign(coded) * (256 ** np.abs(coded) - 1) / 255 * FULL_SCALE)


def telephone_band(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
    """Harmless: nothing above 4 kHz."""
    narrow = signal.resample_poly(signal.resample_poly(speech.samples.astype(float), 1, 3), 3, 1)
    return _with(speech, narrow[: len(speech.samples)])


def quieter(speech: Speech, other: Speech, rng: np.random.Generator) -> Speech:
    """Harmless: 20 dB less."""
    return _with(speech, speech.samples * 0.1)


def _sounding(speech: Speech) -> tuple[int, int]:
    frame = speech.sample_rate_hz // 50
    values = speech.samples[: len(speech.samples) // frame * frame] / FULL_SCALE
    rms = np.sqrt(np.square(values.reshape(-1, frame)).mean(axis=1))
    loud = np.flatnonzero(rms > active_rms(values, speech.sample_rate_hz) * 10**-1.5)
    return int(loud[0]) * frame, int(loud[-1] + 1) * frame
