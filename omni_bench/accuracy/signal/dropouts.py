"""Holes in speech: a frame that was lost, and was filled with silence, is not a pause.

WER does not see a hole of one frame (80 ms). A pause, or the closure before "p" or "t", is not a
hole: the voice dies away over tens of milliseconds, while a lost frame begins within a sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter1d

from omni_bench.accuracy.signal.speech_level import LSB, decibels

BLOCK_S = 1 / 3000
BEFORE_S = 0.010
SHORTEST_HOLE_S = 0.040
FALL_DB = 25.0
SPEECH_DB = -15.0

QUIET_S = 0.040
ONSET_RATIO = 15.0
ONSET_DB = -14.0
ONSET_FLOOR = 4 * LSB

CONSTANT_S = 0.005
CLOSURE_DB, CLOSURE_RATIO = 20.0, 6.0  # of the voice's own; reached by 5 % of the answers of a neural voice
LOST_S, LOST_RUN_S = 0.064, 0.016
"""What is shorter is no lost audio but the voice's own: formant and diphone voices close their lips within a sample,
for up to 61 ms, and hold one value for up to 12 ms, while a lost frame is 80 ms long (and a packet 20 ms)."""
RIM_S = 0.002
RIM_DB = -20.0


@dataclass(frozen=True)
class Hole:
    """Silence that begins or ends abruptly, from ``at_s`` on for ``duration_s``. ``is_constant``: of one value."""

    at_s: float
    duration_s: float
    is_constant: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether it is as long as what can get lost; else it is a voice's own closure."""
        return self.duration_s >= (LOST_RUN_S if self.is_constant else LOST_S)


def abrupt_falls(samples: np.ndarray, active: float, sample_rate_hz: int, least_db: float = FALL_DB) -> list[Hole]:
    """Where speech breaks off, stays away for 40 ms or more, and comes back.

    ``samples``: float [n] in −1..1; ``active``: RMS of the speech. Speech breaks off where the
    RMS of 10 ms is within 15 dB of ``active``, and the peak of the next 40 ms is 25 dB below that
    RMS (``least_db``). Natural decay has both windows on one slope: at most 15.3 dB in the bundled voice and its
    teacher, and 20.6 dB in those of Kokoro and Piper (``reports/audio_checks.md``).
    Fades under about 20 ms into silence still count. A hole that begins in a quiet sound cannot be
    told from a pause here, nor one filled with noise that loud.
    """
    fall = fall_db(samples, active, sample_rate_hz)
    block = max(1, round(BLOCK_S * sample_rate_hz))
    peaks = _block_peaks(samples, block)
    holes, end = [], -1
    for start in np.flatnonzero(fall >= least_db).tolist():
        if start <= end:
            continue
        loud = np.flatnonzero(peaks[start:] > active * 10 ** ((SPEECH_DB - FALL_DB / 2) / 20))
        if not len(loud):
            break  # the end of the speech
        end = start + int(loud[0])
        if (end - start) * block >= SHORTEST_HOLE_S * sample_rate_hz:
            holes.append(Hole(start * block / sample_rate_hz, (end - start) * block / sample_rate_hz))
    return holes


def fall_db(samples: np.ndarray, active: float, sample_rate_hz: int) -> np.ndarray:
    """RMS of the 10 ms before each block over the peak of the 40 ms from it on, dB [blocks]; −inf outside speech."""
    block = max(1, round(BLOCK_S * sample_rate_hz))
    peaks = _block_peaks(samples, block)
    before = max(1, round(BEFORE_S * sample_rate_hz / block))
    after = max(1, round(SHORTEST_HOLE_S * sample_rate_hz / block))
    fall = np.full(len(peaks), -np.inf)
    if len(peaks) <= before + after:
        return fall
    power = np.square(samples[: len(peaks) * block]).reshape(-1, block).mean(axis=1, dtype=np.float64)
    summed = np.concatenate([[0.0], np.cumsum(power)])
    mean = np.maximum(summed[before:-1] - summed[: -before - 1], 0.0) / before  # of the blocks [k, k + before)
    last = len(peaks) - after
    rms_db = decibels(np.sqrt(mean[: last + 1 - before]))
    peak_db = decibels(np.maximum(maximum_filter1d(peaks, after, origin=-(after // 2))[before : last + 1], LSB))
    in_speech = rms_db >= decibels(active) + SPEECH_DB
    fall[before : last + 1] = np.where(in_speech, rms_db - peak_db, -np.inf)
    return fall


def onset_ratios(samples: np.ndarray, active: float, sample_rate_hz: int) -> tuple[np.ndarray, np.ndarray]:
    """(positions, ratios) of loud steps out of quiet: the step over the largest of the 40 ms before it.

    Only steps of a fifth of ``active`` or more count that follow 40 ms with a peak below that
    and lead into 10 ms above it, after speech was heard. The burst of a "p" or "t" rises over
    several samples: at most 4.3 in the bundled voice and its teacher, and 11.1 in clean speech of Kokoro's voices,
    which begin some words within a sample. Pieces cut out of other clips begin with 31 in the median; those that
    begin near a zero crossing or softly are missed.
    """
    quiet, loud = round(QUIET_S * sample_rate_hz), round(BEFORE_S * sample_rate_hz)
    limit = active * 10 ** (ONSET_DB / 20)
    steps = np.abs(np.diff(samples, prepend=samples[:1]))
    magnitude = np.abs(samples)
    positions = np.flatnonzero((steps >= limit) & (magnitude >= limit * 0.5))
    positions = positions[(positions >= quiet) & (positions < len(samples) - loud)]
    above = np.concatenate([[0], np.cumsum(magnitude > limit)])
    positions = positions[above[positions] == above[positions - quiet]]
    positions = positions[above[positions - quiet] > 0]
    ratios = np.array(
        [
            steps[at] / max(steps[at - quiet : at].max(), ONSET_FLOOR)
            if np.sqrt(np.square(samples[at : at + loud]).mean()) >= limit
            else 0.0
            for at in positions
        ]
    )
    return positions, ratios


def abrupt_onsets(
    samples: np.ndarray, active: float, sample_rate_hz: int, least_ratio: float = ONSET_RATIO
) -> list[Hole]:
    """Quiet of 40 ms or more that ends within one sample: :func:`onset_ratios` of ``least_ratio`` and more."""
    positions, ratios = onset_ratios(samples, active, sample_rate_hz)
    limit = active * 10 ** (ONSET_DB / 20)
    holes = []
    for at in positions[ratios >= least_ratio].tolist():
        start = int(np.flatnonzero(np.abs(samples[:at]) > limit)[-1]) + 1
        holes.append(Hole(start / sample_rate_hz, (at - start) / sample_rate_hz))
    return holes


def constant_runs(samples: np.ndarray, active: float, sample_rate_hz: int) -> list[Hole]:
    """Runs of one value for 5 ms or more in the middle of speech: the 2 ms on both sides within 20 dB of ``active``.

    Digital silence between sentences is common and fine: speech dies away before it. Clean
    recordings have no such run longer than 4 samples.
    """
    shortest, rim = round(CONSTANT_S * sample_rate_hz), max(1, round(RIM_S * sample_rate_hz))
    changes = np.flatnonzero(np.diff(samples)) + 1
    starts = np.concatenate([[0], changes])
    ends = np.concatenate([changes, [len(samples)]])
    limit = active * 10 ** (RIM_DB / 20)
    holes = []
    for index in np.flatnonzero(ends - starts >= shortest):
        start, end = int(starts[index]), int(ends[index])
        rims = samples[max(0, start - rim) : start], samples[end : end + rim]
        if all(len(side) and np.sqrt(np.square(side).mean()) >= limit for side in rims):
            holes.append(Hole(start / sample_rate_hz, (end - start) / sample_rate_hz, is_constant=True))
    return holes


def _block_peaks(samples: np.ndarray, block: int) -> np.ndarray:
    whole = len(samples) // block * block
    return np.abs(samples[:whole]).reshape(-1, block).max(axis=1)


def closes_abruptly(samples: np.ndarray, active: float, sample_rate_hz: int) -> bool:
    """True if the voice itself falls silent, or begins, within a sample, for shorter than anything can get lost."""
    holes = abrupt_falls(samples, active, sample_rate_hz, CLOSURE_DB)
    holes += abrupt_onsets(samples, active, sample_rate_hz, CLOSURE_RATIO)
    return any(not hole.is_lost for hole in holes + constant_runs(samples, active, sample_rate_hz))
