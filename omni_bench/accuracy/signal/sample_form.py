"""What bytes are that came as 16-bit little-endian mono samples and are something else: floats, A-law, channels, text.

Each reading is judged by how smooth it makes the waveform (the correlation of neighbouring samples); 16-bit samples
also have a low byte that is spread otherwise than the high one, which bytes of one size each do not. The limits
were set on clips of many voices from 8 to 32 kHz, loud, quiet and cut to 0.4 s too.
"""

from __future__ import annotations

import io
import re

import numpy as np
import soundfile

SHORTEST_BYTES = 4800  # a tenth of a second at 24 kHz
SMOOTH = 0.5  # speech and music: 0.6 to 0.99 from 8 kHz on; noise: 0
ROUGH = 0.2
ALIKE = 0.2  # distance of the histograms of low and high bytes; samples: 0.47 to 0.78, bytes of one size: up to 0.07
LOUDER = 0.3  # of one channel, as a logarithm of power; between the halves of one: up to 0.03
FLOAT_LIMIT = 4.0  # above full scale, with room for overshoots
SMALLEST_FLOAT = 1e-7  # below the step of 24 bits; 16-bit samples read as floats are mostly far below, or huge
_ONE_SIZE = {
    "unsigned 8-bit samples": ("PCM_U8", "LITTLE"),
    "signed 8-bit samples": ("PCM_S8", "LITTLE"),
    "A-law": ("ALAW", "LITTLE"),
    "µ-law": ("ULAW", "LITTLE"),
    "24-bit samples": ("PCM_24", "LITTLE"),
    "big-endian 24-bit samples": ("PCM_24", "BIG"),
}
"""Forms of one or three bytes a sample, as libsndfile reads them."""
_TEXT = re.compile(rb"[\t\r\n -~]+")
_HEX = re.compile(rb"[0-9a-fA-F\s]+")
_BASE64 = re.compile(rb"[0-9a-zA-Z+/=_\s-]+")


def other_form(data: bytes) -> str | None:
    """Which other form samples have, in words; None for 16-bit mono, and where it cannot be told.

    Only clear cases are named: no noise, and nothing shorter than a tenth of a second.
    """
    data = data[: len(data) // 24 * 24]  # of every size
    if len(data) < SHORTEST_BYTES or not any(data):
        return None
    if _TEXT.fullmatch(data):
        return "hexadecimal text" if _HEX.fullmatch(data) else "base64 text" if _BASE64.fullmatch(data) else "text"
    with np.errstate(all="ignore"):  # other bytes make any floats
        return _floats(data) or _bytes_of_one_size(data) or _channels(data) or _order(data)


def _floats(data: bytes) -> str | None:
    for form, name in (("<f8", "64-bit floats"), ("<f4", "32-bit floats"), (">f4", "big-endian 32-bit floats")):
        floats = np.frombuffer(data, form).astype(np.float64)
        loud = np.abs(floats[floats != 0])
        in_range = np.isfinite(floats).all() and len(loud) > 0 and loud.max() <= FLOAT_LIMIT
        if in_range and np.mean(loud > SMALLEST_FLOAT) > 0.99 and _smoothness(floats) > ROUGH:
            return name
    halves = np.frombuffer(data, "<f2").astype(np.float64)  # of samples, each small negative one is no number
    smooth = np.isfinite(halves).all() and np.abs(halves).max() <= FLOAT_LIMIT and _smoothness(halves)
    return "16-bit floats" if smooth > max(SMOOTH, _smoothness(np.frombuffer(data, "<i2"))) else None


def _bytes_of_one_size(data: bytes) -> str | None:
    """Samples of one byte, or of three: low and high bytes of the pairs are spread alike."""
    codes = np.frombuffer(data, np.uint8)
    low, high = (np.bincount(codes[first::2], minlength=256) for first in (0, 1))
    if np.abs(low - high).sum() / len(codes) > ALIKE:
        return None
    smooth = {}
    for name, (subtype, endian) in _ONE_SIZE.items():
        samples, _ = soundfile.read(
            io.BytesIO(data), format="RAW", subtype=subtype, endian=endian, samplerate=24_000, channels=1
        )
        smooth[name] = _smoothness(samples)
    best = max(smooth, key=smooth.__getitem__)
    return best if smooth[best] > SMOOTH else None


def _channels(data: bytes) -> str | None:
    """Two channels, or the two halves of 32 bits."""
    pcm = np.frombuffer(data, "<i2").astype(np.float64)
    first, second = pcm[::2], pcm[1::2]
    if np.mean(first == second) > 0.99 and np.mean(first[1:] == second[:-1]) < 0.5:
        return "two channels with the same samples"
    has_first, has_second = _smoothness(first) > SMOOTH, _smoothness(second) > SMOOTH
    if _smoothness(pcm) < ROUGH:
        if has_first and (has_second or not second.any()):
            return "two channels" if has_second else "two channels of which the second is silent"
        if has_second:
            return "32-bit integers" + ("" if first.any() else ", or two channels of which the first is silent")
    elif has_first and has_second and abs(np.log(first.var() / second.var())) > LOUDER:
        return "two channels of different loudness"
    return None


def _order(data: bytes) -> str | None:
    """Bytes in the other order, or one byte late: both put the high bytes right, and only one of them the low ones."""
    if _smoothness(np.frombuffer(data, "<i2")) > ROUGH:
        return None
    swapped, shifted = np.frombuffer(data[2:], ">i2"), np.frombuffer(data[1:-1], "<i2")
    if _smoothness(swapped) < SMOOTH:
        return None
    return "big-endian samples" if _bends(swapped) < _bends(shifted) else "16-bit samples that begin a byte late"


def _bends(samples: np.ndarray) -> float:
    return float(np.abs(np.diff(samples.astype(np.float64), 2)).mean())


def _smoothness(samples: np.ndarray) -> float:
    """Correlation of each sample with the next one; 0 where nothing moves, or one is no number."""
    centred = samples - samples.astype(np.float64).mean()
    power = np.square(centred).sum()
    return float((centred[1:] * centred[:-1]).sum() / power) if power and np.isfinite(power) else 0.0
