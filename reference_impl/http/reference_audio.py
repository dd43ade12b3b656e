"""The ``ref_audio`` field of a request: base64 text in, the samples that a checkpoint clones out.

Only what the client sent is decoded: no URL is fetched and no path opened. Costs CPU, so call
it off the event loop.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from fractions import Fraction

import numpy as np

from reference_impl.http.errors import ApiError, bad_request, shown

MIN_S, MAX_S = 0.5, 30.0
MIN_RATE_HZ, MAX_RATE_HZ = 8_000, 192_000
MAX_CHANNELS = 2
# The resampler's filter grows with the ratio's terms: an odd rate (44101 Hz) would cost seconds. Rates in
# use have small terms and stay exact; others are off by less than a thousandth, two cents of pitch.
MAX_DENOMINATOR = 1000
VALID = "data:audio/wav;base64,... or the plain base64 of a WAV or FLAC file"
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):")


def decode_reference(field: str, sample_rate_hz: int) -> np.ndarray:
    """A data URL, or plain base64, of a WAV or FLAC file -> float32 [samples], mono, at ``sample_rate_hz``.

    Raises ApiError (400) naming ref_audio: another URL, bad base64, another or a broken
    format, a length outside 0.5 to 30 s, a rate outside 8 to 192 kHz, more than two channels,
    samples that are not numbers.
    """
    audio, rate_hz = _read(_payload(field))
    seconds = len(audio) / rate_hz
    if seconds > MAX_S:  # no more was read, so the true length is unknown
        raise _refusal(f"ref_audio lasts more than {MAX_S:g} s; valid: {MIN_S:g} to {MAX_S:g} s")
    if seconds < MIN_S:
        raise _refusal(f"ref_audio lasts {seconds:.3f} s; valid: {MIN_S:g} to {MAX_S:g} s")
    mono = audio.mean(axis=1, dtype=np.float64)
    if rate_hz != sample_rate_hz:
        from scipy.signal import resample_poly  # slow to import, and most servers never clone

        ratio = Fraction(sample_rate_hz, rate_hz).limit_denominator(MAX_DENOMINATOR)
        mono = resample_poly(mono, ratio.numerator, ratio.denominator)
    limit = np.finfo(np.float32).max
    if not (np.abs(mono) <= limit).all():  # false for NaN as well
        raise _refusal("ref_audio holds samples that are not finite float32 numbers")
    return np.ascontiguousarray(mono, dtype=np.float32)


def _payload(field: str) -> bytes:
    """The file that the field holds."""
    scheme = _SCHEME.match(field[:100])
    if scheme:
        if scheme[1].lower() != "data":
            raise _refusal(f"ref_audio {shown(field[:100])}: URLs are not fetched, nor files opened; valid: {VALID}")
        head, comma, field = field.partition(",")
        if not comma or not head.rstrip().lower().endswith(";base64"):
            raise _refusal(f"ref_audio {shown(head[:100])} is not a base64 data URL; valid: {VALID}")
    try:
        return base64.b64decode("".join(field.split()), validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: not ASCII
        raise _refusal(f"ref_audio is not base64 ({error}); valid: {VALID}") from None


def _read(data: bytes) -> tuple[np.ndarray, int]:
    """The file's samples [n, channels], a little more than 30 s at most, and its rate in Hz."""
    import soundfile  # lazily, as above

    # by content and before libsndfile sees it, which would try many more formats
    if not (data[:4] == b"RIFF" and data[8:12] == b"WAVE") and data[:4] != b"fLaC":
        raise _refusal(f"ref_audio is neither a WAV nor a FLAC file; valid: {VALID}")
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            rate_hz, channels = file.samplerate, file.channels
            if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
                raise _refusal(f"ref_audio has {rate_hz} samples a second; valid: {MIN_RATE_HZ} to {MAX_RATE_HZ}")
            if channels > MAX_CHANNELS:
                raise _refusal(f"ref_audio has {channels} channels; valid: 1 to {MAX_CHANNELS}")
            # bounded: a small FLAC file can hold hours of silence
            return file.read(int(MAX_S * rate_hz) + 1, dtype="float32", always_2d=True), rate_hz
    except soundfile.SoundFileError as error:
        raise _refusal(f"ref_audio cannot be decoded: {shown(str(error))}") from None


def _refusal(message: str) -> ApiError:
    return bad_request(message, "ref_audio")
