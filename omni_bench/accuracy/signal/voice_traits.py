"""How a voice sounds, without a model: its pitch, and its spectrum, which a throat of another size shifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PITCH_FRAME_S, PITCH_HOP_S = 0.048, 0.016
LOWEST_HZ, HIGHEST_HZ = 60.0, 450.0
VOICED = 0.6  # of the autocorrelation
VOICED_DB, SOUNDING_DB = -15.0, -20.0
FEWEST_FRAMES = 6

SHAPE_FRAME_S, SHAPE_FFT = 0.032, 2048
SHAPE_FROM_HZ, SHAPE_TO_HZ, SHAPE_SHARE = 300.0, 7000.0, 0.45  # the last of the sample rate
STEPS = 48  # of an octave
SMOOTH_OCTAVES = 1 / 12  # on both sides: harmonics are no shape
MOST_STEPS = 32  # two thirds of an octave
SHIFT_COST = 0.1  # of a correlation, an octave squared: of two fits as good, the smaller shift


@dataclass(frozen=True)
class VoiceTraits:
    """``f0_hz``: median pitch of the voiced parts, None without any. ``shape_db``: long-term spectrum, [steps], dB."""

    f0_hz: float | None
    shape_db: np.ndarray


def voice_traits(samples: np.ndarray, active: float, sample_rate_hz: int) -> VoiceTraits:
    """Of one answer. ``samples``: float [n] in −1..1, half a second or more; ``active``: RMS of the speech.

    Pitch: the autocorrelation over that of the window (Boersma 1993), 48 ms every 16 ms. Shape: the power
    spectra of 32 ms of speech, each of unit sum, averaged in bands of a sixth of an octave from 300 Hz to 7 kHz (or
    0.45 of the rate), at steps of 1/48 octave.
    """
    pitch = _pitch_hz(samples, active, sample_rate_hz)
    f0_hz = float(np.median(pitch)) if len(pitch) >= FEWEST_FRAMES else None
    return VoiceTraits(f0_hz, _shape_db(samples, active, sample_rate_hz))


def typical_shape(shapes: Sequence[np.ndarray]) -> np.ndarray:
    """The median of each step, as far as all shapes go."""
    steps = min(map(len, shapes))
    return np.median([shape[:steps] for shape in shapes], axis=0)


def shifts_octaves(shapes: Sequence[np.ndarray], typical: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """By how many octaves each shape lies above its own of ``typical``, or above the only one; and its fit then.

    At most two thirds, as far as all of them go. The fit is a correlation.
    """
    steps = min(map(len, (*shapes, *typical)))
    ours = np.array([shape[:steps] for shape in shapes])
    theirs = np.array([shape[:steps] for shape in typical])
    fits = np.full((2 * MOST_STEPS + 1, len(ours)), -1.0)
    for row, by in enumerate(range(-MOST_STEPS, MOST_STEPS + 1)):
        mine, other = ours[:, max(0, by) : steps + min(0, by)], theirs[:, max(0, -by) : steps - max(0, by)]
        if mine.shape[1] > STEPS:
            mine, other = mine - mine.mean(axis=1, keepdims=True), other - other.mean(axis=1, keepdims=True)
            power = np.sqrt(np.square(mine).sum(axis=1) * np.square(other).sum(axis=1))
            product = np.einsum("ij,ij->i", mine, np.broadcast_to(other, mine.shape))
            np.divide(product, power, out=fits[row], where=power > 0)
    octaves = np.arange(-MOST_STEPS, MOST_STEPS + 1) / STEPS
    scores = fits - SHIFT_COST * np.square(octaves)[:, None]
    best, column = scores.argmax(axis=0), np.arange(len(ours))
    inner = np.clip(best, 1, len(octaves) - 2)
    below, at, above = (scores[inner + offset, column] for offset in (-1, 0, 1))
    between = np.where(inner == best, 0.5 * (below - above) / np.minimum(below - 2 * at + above, -1e-12), 0.0)
    return octaves[best] + between / STEPS, fits[best, column]


def _frames(samples: np.ndarray, size: int, hop: int, least: float) -> np.ndarray:
    if len(samples) < size:
        return np.empty((0, size))
    frames = np.lib.stride_tricks.sliding_window_view(samples, size)[::hop]
    return frames[np.square(frames).mean(axis=1) > least**2]


def _pitch_hz(samples: np.ndarray, active: float, sample_rate_hz: int) -> np.ndarray:
    size, hop = round(PITCH_FRAME_S * sample_rate_hz), round(PITCH_HOP_S * sample_rate_hz)
    frames = _frames(samples, size, hop, active * 10 ** (VOICED_DB / 20))
    if not len(frames):
        return np.empty(0)
    window, fft = np.hanning(size), 1 << (size + size // 2).bit_length()

    def autocorrelation(values: np.ndarray) -> np.ndarray:
        return np.fft.irfft(np.square(np.abs(np.fft.rfft(values, fft))))

    lags = np.arange(int(sample_rate_hz / HIGHEST_HZ), int(sample_rate_hz / LOWEST_HZ) + 1)
    power = autocorrelation((frames - frames.mean(axis=1, keepdims=True)) * window)
    of_window = autocorrelation(window)
    periodic = power[:, lags] / np.maximum(power[:, :1], 1e-12) / (of_window[lags] / of_window[0])
    best = (periodic - 0.01 * np.log2(lags / lags[0])).argmax(axis=1)  # of a period and its double, the period
    rows = np.arange(len(best))
    sure = (periodic[rows, best] > VOICED) & (best > 0) & (best < len(lags) - 1)
    rows, best = rows[sure], best[sure]
    below, here, above = (periodic[rows, best + offset] for offset in (-1, 0, 1))
    between = 0.5 * (below - above) / np.minimum(below - 2 * here + above, -1e-12)
    return sample_rate_hz / (lags[best] + np.clip(between, -1, 1))


def _shape_db(samples: np.ndarray, active: float, sample_rate_hz: int) -> np.ndarray:
    size = min(round(SHAPE_FRAME_S * sample_rate_hz), SHAPE_FFT)
    frames = _frames(samples, size, size // 2, active * 10 ** (SOUNDING_DB / 20))
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(size), SHAPE_FFT)))
    mean = (power / np.maximum(power.sum(axis=1, keepdims=True), 1e-12)).mean(axis=0) if len(frames) else power.sum(0)
    bin_hz = sample_rate_hz / SHAPE_FFT
    octaves = np.log2(min(SHAPE_TO_HZ, SHAPE_SHARE * sample_rate_hz) / SHAPE_FROM_HZ)
    middle = SHAPE_FROM_HZ * 2 ** (np.arange(int(octaves * STEPS)) / STEPS)
    edges = bin_hz * (np.arange(len(mean) + 1) - 0.5)
    summed = np.concatenate([[0.0], np.cumsum(mean)])
    low, high = middle * 2**-SMOOTH_OCTAVES, middle * 2**SMOOTH_OCTAVES
    return 10 * np.log10((np.interp(high, edges, summed) - np.interp(low, edges, summed)) / (high - low) + 1e-12)
