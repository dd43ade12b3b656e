"""What is done to the samples of a whole answer: pure, so that a stored recording can be damaged as a stream is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Damage = Callable[[np.ndarray, int], np.ndarray]
"""(int16 [n], sample rate in Hz) -> int16 [m]."""

TOO_FAST = (147, 160)  # 22,050 / 24,000
OTHER_VOICE = (50, 61)  # pitch and formants × 1.22
CUT_S, LOST_S, SILENCE_S = 0.200, 0.060, 0.700
WINDOW_S, VOICE_DB = 0.010, -30.0  # of the loudest window


def damaged_pcm(pcm: bytes, damage: str, sample_rate_hz: int) -> bytes:
    """s16le bytes damaged by the function of this name; without a whole sample as they are."""
    whole = len(pcm) // 2
    return DAMAGES[damage](np.frombuffer(pcm, "<i2", count=whole), sample_rate_hz).tobytes() if whole else pcm


def too_fast(samples: np.ndarray, sample_rate_hz: int) -> np.ndarray:
    """Resampled to 22.05/24 of the rate, and sent as if it had not been: 8.8 % too fast, and as much too high."""
    return _resampled(samples, *TOO_FAST)


def other_voice(samples: np.ndarray, sample_rate_hz: int) -> np.ndarray:
    """Somebody with a throat that is smaller by a fifth, who speaks as much faster."""
    return _resampled(samples, *OTHER_VOICE)


def cut_tail(samples: np.ndarray, sample_rate_hz: int) -> np.ndarray:
    """Ends 200 ms before the voice does."""
    rms, window = _windows(samples, sample_rate_hz)
    loud = np.flatnonzero(rms > rms.max(initial=0.0) * 10 ** (VOICE_DB / 20))
    end = (int(loud[-1]) + 1) * window if len(loud) else len(samples)
    return samples[: max(0, end - round(CUT_S * sample_rate_hz))]


def lost_samples(samples: np.ndarray, sample_rate_hz: int) -> np.ndarray:
    """60 ms are missing where the answer is loudest, at least 100 ms from its ends, and the rest is joined."""
    rms, window = _windows(samples, sample_rate_hz)
    length = round(LOST_S * sample_rate_hz)
    inner = rms[10:-16]
    if not len(inner):
        return samples
    at = (10 + int(inner.argmax())) * window
    return np.concatenate([samples[:at], samples[at + length :]])


def silence_first(samples: np.ndarray, sample_rate_hz: int) -> np.ndarray:
    """0.7 s of silence come first: a first packet that was ready before anything was spoken."""
    return np.concatenate([np.zeros(round(SILENCE_S * sample_rate_hz), samples.dtype), samples])


def _windows(samples: np.ndarray, sample_rate_hz: int) -> tuple[np.ndarray, int]:
    window = max(1, round(WINDOW_S * sample_rate_hz))
    whole = len(samples) // window * window
    return np.sqrt(np.square(samples[:whole].reshape(-1, window).astype(np.float64)).mean(axis=1)), window


def _resampled(samples: np.ndarray, up: int, down: int) -> np.ndarray:
    from scipy.signal import resample_poly  # slow to import

    changed = resample_poly(samples.astype(np.float64), up, down)
    return np.clip(np.round(changed), -32768, 32767).astype("<i2")


DAMAGES: dict[str, Damage] = {
    one.__name__: one for one in (too_fast, cut_tail, lost_samples, other_voice, silence_first)
}
"""By the name of the fault."""
