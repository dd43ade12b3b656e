"""What the judge hears: clips of speech, as paths or arrays, at 16 kHz with silence around them.

Whisper drops the first word of a clip that begins at once and guesses at endings that are
cut short, so that every clip is given silence before and after (``asr.lead_silence_ms``,
``asr.tail_silence_ms``).
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from omni_bench.errors import AccuracyError

WHISPER_RATE_HZ = 16_000
WHISPER_WINDOW_S = 30.0
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 192_000
MAX_CLIP_S = 1800.0
MAX_FILE_BYTES = 256 << 20

# Less audio context than 30 s is safe only with much silence after the speech, else Whisper
# repeats itself. Measured on tiny.en at 15 s with joined sentences: no loop in 56 clips of 6 to
# 10 s, 1 in 14 of 11 to 12 s, 2 in 10 of 12 to 14.5 s.
SHORT_CONTEXT_SHARE = 0.6

_CANCELLED_SHARE = 0.4
_CUT_SEARCH_FROM = 0.6  # a long clip is cut at the quietest place of the last 40 % of a window
_CUT_FRAME_S = 0.2


class NotFinite(AccuracyError):
    """A file of floats holds NaN or infinity."""


@dataclass(frozen=True)
class AsrClip:
    """One answer to be transcribed.

    ``pcm16``: mono int16 samples, or the path of a file that holds them: ``.pcm`` raw and little-endian, anything
    else as libsndfile reads it (WAV, FLAC, MP3, Ogg), with the rate of its own header.
    ``language``: None takes the language given to the judge for the whole run.
    """

    request_id: str
    pcm16: Path | np.ndarray
    sample_rate_hz: int
    language: str | None = None


@dataclass(frozen=True)
class Transcript:
    """What the judge heard. The two numbers are None where nothing was decoded (an empty clip).

    ``avg_logprob``: mean natural log probability of the decoded tokens. ``no_speech_prob``: the
    model's own estimate, between 0 and 1, that the clip holds no speech.
    """

    request_id: str
    text: str
    avg_logprob: float | None
    no_speech_prob: float | None


def longest_clip_s(context_s: float, silence_s: float) -> float:
    """Longest clip that an audio context of ``context_s`` is good for, if ``silence_s`` is added to it."""
    if context_s < WHISPER_WINDOW_S:
        return context_s * SHORT_CONTEXT_SHARE - silence_s
    return WHISPER_WINDOW_S - silence_s


def clip_duration_s(clip: AsrClip) -> float:
    """Seconds of audio, from the header, the file's size or the array, without reading samples.

    Raises AccuracyError for an unreadable file, a bad rate or array, and for more than
    :data:`MAX_CLIP_S` seconds.
    """
    if isinstance(clip.pcm16, np.ndarray):
        if clip.pcm16.dtype != np.int16 or clip.pcm16.ndim != 1:
            raise AccuracyError(
                f"clip {clip.request_id}: expected a one-dimensional int16 array, "
                f"found {clip.pcm16.dtype} of shape {list(clip.pcm16.shape)}"
            )
        samples, rate_hz = clip.pcm16.size, clip.sample_rate_hz
    elif not _is_raw(clip.pcm16):
        try:
            info = soundfile.info(_readable(clip.pcm16))
        except (soundfile.SoundFileError, OSError) as error:
            raise AccuracyError(f"clip {clip.request_id}: cannot read {clip.pcm16}: {error}") from error
        samples, rate_hz = info.frames, info.samplerate
    else:
        try:
            samples, rate_hz = clip.pcm16.stat().st_size // 2, clip.sample_rate_hz
        except OSError as error:
            raise AccuracyError(f"clip {clip.request_id}: cannot read {clip.pcm16}: {error}") from error
    if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
        raise AccuracyError(
            f"clip {clip.request_id}: sample rate {rate_hz} Hz, valid are {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz"
        )
    duration_s = samples / rate_hz
    if duration_s > MAX_CLIP_S:
        raise AccuracyError(
            f"clip {clip.request_id}: {duration_s:.0f} s of audio, at most {MAX_CLIP_S:.0f} s are judged"
        )
    return duration_s


def load_samples_16k(clip: AsrClip) -> np.ndarray:
    """Mono float32 in [-1, 1) at 16 kHz, shape [samples]. Raises AccuracyError as clip_duration_s, and for NaN."""
    clip_duration_s(clip)
    rate_hz = clip.sample_rate_hz
    if isinstance(clip.pcm16, np.ndarray):
        samples = clip.pcm16.astype(np.float32) / 32768.0
    elif not _is_raw(clip.pcm16):
        try:
            frames, rate_hz = soundfile.read(_readable(clip.pcm16), dtype="float32", always_2d=True)
        except (soundfile.SoundFileError, OSError) as error:
            raise AccuracyError(f"clip {clip.request_id}: cannot read {clip.pcm16}: {error}") from error
        if not np.isfinite(frames).all():
            raise NotFinite(f"clip {clip.request_id}: {clip.pcm16}: holds samples that are not finite")
        samples = mixed_down(frames)
    else:
        try:
            data = clip.pcm16.read_bytes()
        except OSError as error:
            raise AccuracyError(f"clip {clip.request_id}: cannot read {clip.pcm16}: {error}") from error
        # Half a sample at the end is a validity finding of its own, not a reason not to listen.
        samples = np.frombuffer(data[: len(data) // 2 * 2], dtype="<i2").astype(np.float32) / 32768.0
    if rate_hz == WHISPER_RATE_HZ or samples.size == 0:
        return samples
    from scipy.signal import resample_poly  # 2 s of import, needed by the judge alone

    divisor = math.gcd(WHISPER_RATE_HZ, rate_hz)
    return resample_poly(samples, WHISPER_RATE_HZ // divisor, rate_hz // divisor).astype(np.float32)


def mixed_down(frames: np.ndarray) -> np.ndarray:
    """The mean of the channels, float [frames, channels] -> [frames], or the loudest where they cancel each other out.

    They do where the mean has less than 0.4 of the power that the loudest alone would leave in it.
    """
    mean = frames.mean(axis=1)
    if frames.shape[1] < 2 or not len(frames):
        return mean
    power = np.square(frames, dtype=np.float64).mean(axis=0)
    cancels = np.square(mean, dtype=np.float64).mean() < _CANCELLED_SHARE / frames.shape[1] ** 2 * power.max()
    return frames[:, int(power.argmax())].copy() if cancels else mean


def split_into_windows(samples: np.ndarray, longest_s: float) -> list[np.ndarray]:
    """Cut 16 kHz samples into pieces of at most ``longest_s``, at quiet places.

    A cut falls in the middle of the 200 ms with the least energy in the last 40 % of a window,
    so that the number of pieces is bounded, whatever the model says. Joined, the pieces are the
    samples. An empty clip has no pieces.
    """
    longest = round(longest_s * WHISPER_RATE_HZ)
    frame = round(_CUT_FRAME_S * WHISPER_RATE_HZ)
    pieces = []
    start = 0
    while samples.size - start > longest:
        search_from = start + round(longest * _CUT_SEARCH_FROM)
        energy = np.concatenate(([0.0], np.cumsum(np.square(samples[search_from : start + longest], dtype=np.float64))))
        cut = search_from + int(np.argmin(energy[frame:] - energy[:-frame])) + frame // 2
        pieces.append(samples[start:cut])
        start = cut
    if samples.size > start:
        pieces.append(samples[start:])
    return pieces


def with_silence(samples: np.ndarray, lead_ms: int, tail_ms: int) -> np.ndarray:
    """16 kHz samples with that much digital silence before and after."""
    per_ms = WHISPER_RATE_HZ // 1000
    return np.pad(samples, (lead_ms * per_ms, tail_ms * per_ms))


def _is_raw(path: Path) -> bool:
    return path.suffix.lower() == ".pcm"


def _readable(path: Path) -> str | io.BytesIO:
    """The file, or a WAV whose writer never came back to say how long it is, with the size of what follows."""
    if soundfile.info(str(path)).frames or path.stat().st_size > MAX_FILE_BYTES:
        return str(path)
    data = bytearray(path.read_bytes())
    at = len(b"RIFF----WAVE")
    while (body := at + 8) <= len(data):
        size = int.from_bytes(data[at + 4 : body], "little")
        if data[at : at + 4] == b"data" and not size:
            data[at + 4 : body] = (len(data) - body).to_bytes(4, "little")
            return io.BytesIO(bytes(data))
        at = body + size + size % 2
    return str(path)
