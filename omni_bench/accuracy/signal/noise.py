"""Broadband noise under the speech: how loud, and how flat, is the sound where the voice pauses?

WER does not see white noise at 10 dB below the speech. Clean speech has moments (pauses,
closures) that are far quieter; noise fills them, and unlike a voice, a hum or a room it has about
the same power at all frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omni_bench.accuracy.signal.speech_level import decibels

FRAME_S = 0.020
QUIETEST_SHARE = 0.10
FEWEST_FRAMES = 5
SHORTEST_S = 1.0
DIGITAL_SILENCE_DBFS = -80.0
LOWEST_HZ = 300.0
HIGHEST_SHARE = 0.45  # of the sample rate
BANDS = 30

NOISE_LEVEL_DB = -13.5
NOISE_FLATNESS = 0.6


@dataclass(frozen=True)
class NoiseFloor:
    """The quietest tenth of a response: ``level_db`` against the speech, and spectral ``flatness`` in 0..1."""

    level_db: float
    flatness: float

    @property
    def is_noise(self) -> bool:
        """Above −13.5 dB of the speech, with a flatness above 0.6.

        White noise has 1; a vowel 0.1 and less; a fricative up to 0.9, but no utterance
        consists of nothing quieter. The floor of clean clips is at −41 dB and lower, at −17 dB
        where they were trimmed to the speech; white noise at 10 dB puts it at −10.8 dB and
        higher. The limit is high on purpose: a voice cloned from a poor recording may hiss at
        20 dB below the speech, and is right to. Such noise passes, as does noise that is not
        broadband (hum, babble, music), and noise in a telephone band.
        """
        return self.level_db >= NOISE_LEVEL_DB and self.flatness >= NOISE_FLATNESS


def noise_floor(samples: np.ndarray, active: float, sample_rate_hz: int) -> NoiseFloor | None:
    """Level and flatness of the quietest tenth of the 20 ms frames (at least five of them).

    ``samples``: float [n] in −1..1; ``active``: RMS of the speech. Frames of digital silence
    (below −80 dBFS) do not count before and after the sound: padding. Within it they are its floor.
    Flatness is the geometric over the arithmetic mean of
    the power in 30 equal bands from 300 Hz to 0.45 of the sample rate, averaged over those frames
    (Gray and Markel 1974).
    None under one second of sound: too short to hold a pause.
    """
    size = round(FRAME_S * sample_rate_hz)
    frames = samples[: len(samples) // size * size].reshape(-1, size)
    power = np.square(frames).mean(axis=1, dtype=np.float64)
    sounding = np.flatnonzero(power > 10 ** (DIGITAL_SILENCE_DBFS / 10))
    if len(sounding) * FRAME_S < SHORTEST_S:
        return None
    within = np.arange(sounding[0], sounding[-1] + 1)
    count = max(FEWEST_FRAMES, int(len(within) * QUIETEST_SHARE))
    quietest = within[np.argsort(power[within], kind="stable")[:count]]
    spectrum = np.square(np.abs(np.fft.rfft(frames[quietest] * np.hanning(size)))).mean(axis=0)
    low, high = round(LOWEST_HZ * FRAME_S), int(HIGHEST_SHARE * size)
    width = max(1, (high - low) // BANDS)
    bands = spectrum[low : low + (high - low) // width * width].reshape(-1, width).mean(axis=1)
    if not len(bands) or not bands.mean() > 0:
        return None
    flatness = float(np.exp(np.log(np.maximum(bands, bands.mean() * 1e-9)).mean()) / bands.mean())
    return NoiseFloor(float(decibels(np.sqrt(power[quietest].mean()) / active)), flatness)
