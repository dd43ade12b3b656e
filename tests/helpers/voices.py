"""Sound that is enough like speech for the signal checks: voiced syllables with pauses between them."""

import numpy as np

RATE = 24_000


def speech(seconds=3.0, seed=0, rate=RATE):
    """int16: syllables of 200 ms that swell and die away, a buzz at 120 Hz over a faint floor; quiet at the end."""
    rng = np.random.default_rng(seed)
    count = round(seconds * rate)
    time = np.arange(count) / rate
    pitch = 120 * (1 + 0.1 * np.sin(2 * np.pi * 0.7 * time + seed) + 0.02 * rng.standard_normal())
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    buzz = sum(np.sin(harmonic * phase + rng.uniform(0, 6)) / harmonic for harmonic in range(1, 20))
    gate = ((np.sin(2 * np.pi * 2.5 * time) > 0) & (time < seconds - 0.2)).astype(float)
    window = np.hanning(round(0.08 * rate))
    envelope = np.convolve(gate, window / window.sum(), "same")
    samples = 3000 * buzz * envelope + rng.normal(size=count) * 12
    return np.clip(np.round(samples), -32768, 32767).astype("<i2")


def floats(samples):
    return samples.astype(np.float32) / 32768
