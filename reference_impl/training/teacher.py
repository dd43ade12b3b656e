"""The teacher voice: phoneme ids in, samples and phoneme end times out.

hibari-tts 0.2.1 (Apache-2.0) computes the length of every phoneme inside its ONNX graph; that
tensor is added to the graph's outputs, so that each codec frame can be labelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omni_bench.errors import DatasetError

SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 1920
LABELS_PER_FRAME = 2
PHONEMES = 178  # ids of the teacher's vocabulary
# per-phoneme durations in hibari.onnx of version 0.2.1, in units of two 300-sample frames
DURATION_TENSOR = "/Cast_32_output_0"
# the first sound starts about 20 ms before the end of the silence phoneme: 180 ms here are 160 ms to hear
LEAD_S, TAIL_S, FADE_S = 0.18, 0.16, 0.01
AUDIBLE = 0.01  # below this amplitude nothing is heard
LOW_VOICE_EVERY = 3  # every third sentence is read by the second voice
# the second voice: read faster, then resampled by the same factor, which lowers pitch and formants
LOW_VOICE_UP, LOW_VOICE_DOWN = 6, 5
MAX_FRAMES = 175


@dataclass(frozen=True)
class Utterance:
    """One spoken sentence: int16 ``samples`` [frames × 1920] and ``labels`` uint8 [frames, 2] (phoneme ids)."""

    samples: np.ndarray
    labels: np.ndarray
    voice: int

    @property
    def frames(self) -> int:
        """Codec frames."""
        return len(self.labels)


def voice_of(index: int) -> int:
    """The voice that reads sentence ``index``: 0 the teacher's own, 1 the lower one."""
    return 1 if index % LOW_VOICE_EVERY == LOW_VOICE_EVERY - 1 else 0


def prepare_teacher(target: Path) -> None:
    """Write the teacher's model with the duration output to ``target``.

    Raises DatasetError if the installed hibari is not the version whose graph is known.
    """
    import onnx
    from hibari.voices import voice_path

    model = onnx.load(str(voice_path("heart")))
    if not any(DURATION_TENSOR in node.output for node in model.graph.node):
        raise DatasetError(f"hibari.onnx has no tensor {DURATION_TENSOR}; install hibari-tts==0.2.1")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(DURATION_TENSOR))
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    onnx.save(model, str(partial))
    partial.replace(target)


class Teacher:
    """A loaded teacher; one thread. ``model``: file of :func:`prepare_teacher`."""

    def __init__(self, model: Path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def speak(self, phonemes: np.ndarray, voice: int, seed: int) -> Utterance | None:
        """Read phoneme ids int64 [n]. None if the result is silent or longer than ``MAX_FRAMES``.

        ``seed`` fixes the teacher's noise: the same arguments give the same samples.
        """
        from hibari import dsp
        from scipy.signal import resample_poly

        speed = LOW_VOICE_UP / LOW_VOICE_DOWN if voice else 1.0
        *spectrum, durations = self._session.run(
            None, {"ids": phonemes[None], "speed": np.asarray([speed], np.float32)}
        )
        wave = dsp.synth(*(part[0] for part in spectrum), np.random.default_rng(seed))
        if voice:
            wave = resample_poly(wave, LOW_VOICE_UP, LOW_VOICE_DOWN).astype(np.float32)
        lengths = durations.reshape(-1).astype(np.float64)
        return cut(wave, np.cumsum(lengths * (len(wave) / lengths.sum())), phonemes, voice)


def cut(wave: np.ndarray, ends: np.ndarray, phonemes: np.ndarray, voice: int) -> Utterance | None:
    """Trim to a fixed lead and tail of silence, pad to whole frames, label each half frame.

    wave float32 [samples]; ends float [n]: sample at which each phoneme ends; phoneme 0 is
    the teacher's leading silence.
    """
    audible = np.nonzero(np.abs(wave) > AUDIBLE)[0]
    if len(audible) == 0:
        return None
    start = round(float(ends[0]) - LEAD_S * SAMPLE_RATE_HZ)
    stop = min(len(wave), int(audible[-1]) + 1 + int(TAIL_S * SAMPLE_RATE_HZ))
    lead = np.zeros(max(0, -start), np.float32)
    wave = np.concatenate([lead, wave[max(0, start) : stop]])
    frames = -(-len(wave) // FRAME_SAMPLES)
    if frames > MAX_FRAMES:
        return None
    fade = int(FADE_S * SAMPLE_RATE_HZ)
    wave[-fade:] *= np.linspace(1, 0, fade, dtype=np.float32)
    padded = np.zeros(frames * FRAME_SAMPLES, np.float32)
    padded[: len(wave)] = wave
    step = FRAME_SAMPLES // LABELS_PER_FRAME
    centres = np.arange(frames * LABELS_PER_FRAME) * step + step // 2
    which = np.minimum(np.searchsorted(ends - start, centres, side="right"), len(phonemes) - 1)
    labels = phonemes[which].astype(np.uint8).reshape(frames, LABELS_PER_FRAME)
    return Utterance((np.clip(padded, -1, 1) * 32767).astype(np.int16), labels, voice)
