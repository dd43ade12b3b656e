"""What bytes are that came as 16-bit little-endian mono samples and are something else: floats, swapped, doubled."""

from __future__ import annotations

import numpy as np

SHORTEST_SAMPLES = 2400  # a tenth of a second at 24 kHz
SMOOTH = 0.5  # correlation of neighbouring samples of speech and music: 0.8 to 0.99 from 16 kHz on; of noise: 0
ROUGH = 0.2
FLOAT_LIMIT = 4.0  # above full scale, with room for overshoots
SMALLEST_FLOAT = 1e-7  # below the step of 24 bits; 16-bit samples read as floats are mostly far below, or huge


def other_form(data: bytes) -> str | None:
    """Which other form samples have, in words; None for 16-bit mono, and where it cannot be told.

    Only clear cases are named: the order of the bytes by which of the two readings is smooth, floats by their range,
    two channels by equal neighbours.
    """
    pcm = np.frombuffer(data[: len(data) // 4 * 4], "<i2").astype(np.float64)
    if len(pcm) < SHORTEST_SAMPLES or not pcm.any():
        return None
    pairs = pcm.reshape(-1, 2)
    if np.mean(pairs[:, 0] == pairs[:, 1]) > 0.99 and np.mean(pairs[1:, 0] == pairs[:-1, 1]) < 0.5:
        return "two channels with the same samples"
    if _smoothness(pcm) > ROUGH:
        return None
    floats = np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(np.float64)
    loud = np.abs(floats[np.isfinite(floats) & (floats != 0)])
    if np.isfinite(floats).all() and len(loud) and loud.max() <= FLOAT_LIMIT and np.mean(loud > SMALLEST_FLOAT) > 0.99:
        return "32-bit floats"
    swapped = np.frombuffer(data[: len(data) // 4 * 4], ">i2").astype(np.float64)
    return "big-endian samples" if _smoothness(swapped) > SMOOTH else None


def _smoothness(samples: np.ndarray) -> float:
    """Correlation of each sample with the next one; 0 where nothing moves."""
    centred = samples - samples.mean()
    power = np.square(centred).sum()
    return float((centred[1:] * centred[:-1]).sum() / power) if power else 0.0
