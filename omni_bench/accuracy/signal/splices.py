"""Missing samples: where a piece was cut out and its ends were joined, the waveform jumps, and so does its rhythm.

One such jump in one answer is not to be told from the voice, which has bursts and creaks of its own. So each answer is
its own yardstick, and the level is judged: by how much is the place of an answer that looks most like a splice ahead of
its next ones? If the scores of the first places fall off exponentially, their spacings, each times its rank, are
equally distributed and independent (Rényi 1953, "On the theory of order statistics"), whatever the steepness of the
voice's tail. The first spacing over the mean of the others is then F(2, 2·others) distributed. Voices jump a little
more than that by themselves, so it may be :data:`OWN_JUMPS` times as large. This gives each answer a p-value, and
Fisher's method the level's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import maximum_filter1d

from omni_bench.accuracy.signal.speech_level import LSB, WINDOW_S

FRAME_S = 0.020
HIGH_HZ, HIGH_SHARE, TAPS = 3000.0, 0.3, 31  # above: the voice is weak there, and a jump is not; share of the rate
NEAR_S, FAR_S, PEAK_S = 0.0005, 0.012, 0.002
"""What belongs to the place itself; its surroundings: a period of the voice; what lies between two places."""
SPEECH_DB = -15.0
ROUGH_DB = -45.0
"""Against the speech: rougher than this are thousands of places in each second of speech (the loudest are at 0 dB), and
none of a tone or a hum, whose rounding errors are no tail to compare with."""
CANDIDATES, PLACES = 40, 12
PERIODS = 0.3  # weight of broken periods
LOW_RATE_HZ, HISTORY_S, SIDE_S = 3000, 0.010, 0.030
SMEARED = 2  # samples at the low rate that a splice is spread over by the filter
RIDGE = 1e-3
OWN_JUMPS = 2.25
"""By how much the first spacing of clean speech may exceed its tail: as much as it does on the mean in nearly all
voices that it was chosen on. Kokoro's jf_alpha and flite's kal16 exceed it, so that a level of theirs may be called
spliced now and then; ``reports/audio_checks.md`` counts such levels by voice."""


def roughest_places(samples: np.ndarray, active: float, sample_rate_hz: int) -> np.ndarray:
    """How much like a splice those places of speech look that look most like one: [≤ 12], falling.

    ``samples``: float [n] in −1..1; ``active``: RMS of the speech. Rough is what linear prediction over 20 ms does not
    foresee, above 3 kHz. Places count with speech (within 15 dB of ``active``) on both sides, and by how many times
    rougher than the 12 ms on both sides they are. Of the 40 first the logarithm of that, and 0.3 times that of
    :func:`broken_periods`, make the score, which is squared: of sound speech these sums are spread about as the upper
    half of a normal distribution, whose squares fall off exponentially.
    """
    rough = _unforeseen(samples.astype(np.float64), sample_rate_hz)
    near, far = round(NEAR_S * sample_rate_hz), round(FAR_S * sample_rate_hz)
    width = far - near
    if len(rough) <= 2 * far:
        return np.empty(0)
    gap = np.zeros(near + 1)
    before = np.concatenate([gap, maximum_filter1d(rough, width, origin=(width - 1) // 2)])[: len(rough)]
    after = np.concatenate([maximum_filter1d(rough, width, origin=-(width // 2))[near + 1 :], gap])
    window = round(WINDOW_S * sample_rate_hz)
    summed = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    at = np.arange(len(samples))
    sides = summed[at] - summed[np.maximum(at - window, 0)], summed[np.minimum(at + window, len(at))] - summed[at]
    in_speech = np.minimum(*sides) > window * active**2 * 10 ** (SPEECH_DB / 10)
    in_speech &= rough > active * 10 ** (ROUGH_DB / 20)
    ratio = np.where(in_speech, rough / np.maximum(np.maximum(before, after), LSB), 0.0)
    peaks = np.flatnonzero((ratio == maximum_filter1d(ratio, 2 * round(PEAK_S * sample_rate_hz) + 1)) & (ratio > 0))
    places = peaks[np.argsort(-ratio[peaks], kind="stable")][:CANDIDATES]
    if len(places) < PLACES:
        return np.empty(0)
    score = np.log(ratio[places]) + PERIODS * np.log(broken_periods(samples, places, sample_rate_hz))
    return np.sort(np.square(score[score > 0]))[::-1][:PLACES]


def broken_periods(samples: np.ndarray, places: np.ndarray, sample_rate_hz: int) -> np.ndarray:
    """How many times worse the 10 ms after each place are foreseen across it than the 30 ms on its sides are: [places].

    Power of the residual of linear prediction below 1.5 kHz from 10 ms, longer than a period of most voices: a splice
    breaks the rhythm of the periods, and a burst or a creak does not. Fitted to both sides of each place (covariance
    method), without the samples whose history lies across it.
    """
    from scipy.signal import resample_poly  # slow to import

    down = max(1, round(sample_rate_hz / LOW_RATE_HZ))
    low = resample_poly(samples.astype(np.float64), 1, down)
    order, side = round(HISTORY_S * sample_rate_hz / down), round(SIDE_S * sample_rate_hz / down)
    margin = order + side + SMEARED + 1
    padded = np.concatenate([np.zeros(margin), low, np.zeros(margin)])
    middle = np.round(places / down).astype(int) + margin
    pieces = padded[middle[:, None] + np.arange(-side - order, side)]
    windows = np.lib.stride_tricks.sliding_window_view(pieces, order + 1, axis=1)  # [places, 2·side, order + 1]
    after = np.arange(2 * side) - side
    across = (after >= -SMEARED) & (after < order + SMEARED)
    history, next_one = windows[:, ~across, :-1], windows[:, ~across, -1:]
    products = history.transpose(0, 2, 1) @ history
    products += np.eye(order) * (RIDGE * np.trace(products, axis1=1, axis2=2)[:, None, None] / order + 1e-9)
    weights = np.linalg.solve(products, history.transpose(0, 2, 1) @ next_one)
    power = np.square(windows[:, :, -1] - (windows[:, :, :-1] @ weights)[:, :, 0])
    usual = power[:, ~across].sum(axis=1) / max(1, np.count_nonzero(~across) - order)
    return np.maximum(power[:, across].mean(axis=1), LSB**2) / np.maximum(usual, LSB**2)


def splice_p(places: np.ndarray) -> float | None:
    """Probability of a first place so far ahead of the next ones, of one answer; None with fewer than 12 places."""
    if len(places) < PLACES:
        return None
    from scipy import special  # slow to import

    spacings = -np.diff(places) * np.arange(1, PLACES)
    others = PLACES - 2
    ratio = spacings[0] / max(spacings[1:].mean(), 1e-9)
    return float(special.fdtrc(2, 2 * others, ratio / OWN_JUMPS))


def level_splice_p(values: Sequence[float]) -> float:
    """Fisher's method over the answers of a level: minus twice the sum of logarithms is chi-squared."""
    from scipy import special

    return float(special.gammaincc(len(values), -np.log(np.maximum(values, 1e-300)).sum())) if len(values) else 1.0


def _unforeseen(samples: np.ndarray, sample_rate_hz: int) -> np.ndarray:
    """Amplitude above 3 kHz of the residual of linear prediction (autocorrelation method, frame by frame), [n]."""
    from scipy.signal import firwin  # slow to import

    size, order = round(FRAME_S * sample_rate_hz), round(sample_rate_hz / 1000) + 2
    frames = -(-len(samples) // size)
    padded = np.concatenate([np.zeros(size // 2), samples, np.zeros(frames * size - len(samples) + size)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * size)[: frames * size : size] * np.hanning(2 * size)
    power = np.square(np.abs(np.fft.rfft(windows, 4 * size)))
    correlation = np.fft.irfft(power)[:, : order + 1]
    correlation[:, 0] = correlation[:, 0] * 1.0001 + 1e-9
    lags = np.abs(np.subtract.outer(np.arange(order), np.arange(order)))
    weights = np.linalg.solve(correlation[:, lags], correlation[:, 1:, None])[:, :, 0]
    history = np.concatenate([np.zeros(order), samples, np.zeros(frames * size - len(samples))])
    pieces = np.lib.stride_tricks.sliding_window_view(history, size + order)[::size]
    residual = pieces[:, order:].copy()
    for lag in range(1, order + 1):
        residual -= weights[:, lag - 1, None] * pieces[:, order - lag : order - lag + size]
    highpass = firwin(TAPS, min(HIGH_HZ, HIGH_SHARE * sample_rate_hz), pass_zero=False, fs=sample_rate_hz)
    high = np.convolve(residual.ravel()[: len(samples)], highpass, "same")
    return np.sqrt(np.convolve(high * high, np.full(5, 0.2), "same"))
