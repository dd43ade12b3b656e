"""Recordings that a Base checkpoint clones: checks, and their vectors and codes, each computed once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference_impl.engine_api import RequestRejected, SpeechRequest
from reference_impl.loading.checkpoint import MAX_REFERENCE_S, Model

MIN_S = 0.5
MOST_AMPLITUDE = 1e4  # full scale is 1; far beyond it (1e18) the encoders overflow and a voice is NaN
REMEMBERED = 64  # recordings whose vectors and codes are kept


class ReferenceVoices:
    """Speaker vectors and codes of recordings, for the checkpoints that have the encoders."""

    def __init__(self, model: Model):
        self._model = model
        self._known: OrderedDict[tuple[str, str], Tensor] = OrderedDict()

    def check(self, request: SpeechRequest) -> int:
        """The frames of a request's recording. Raises RequestRejected for a missing or unusable one."""
        audio, rate = request.reference_audio, self._model.config.sample_rate_hz
        if audio is None:
            raise RequestRejected("this checkpoint clones voices: it needs a recording", "ref_audio")
        if not (isinstance(audio, np.ndarray) and audio.ndim == 1 and audio.dtype == np.float32):
            raise RequestRejected("the reference must be float32 samples [n], mono", "ref_audio")
        if not MIN_S <= len(audio) / rate <= MAX_REFERENCE_S:
            raise RequestRejected(
                f"the reference lasts {len(audio) / rate:.2f} s; valid: {MIN_S:g} to {MAX_REFERENCE_S:g} s", "ref_audio"
            )
        if not np.isfinite(audio).all():
            raise RequestRejected("the reference holds NaN or infinity", "ref_audio")
        if np.abs(audio).max() > MOST_AMPLITUDE:
            raise RequestRejected(f"the reference is more than {MOST_AMPLITUDE:g} times full scale", "ref_audio")
        return -(-len(audio) // self._model.config.code2wav.samples_per_frame)

    def speaker(self, audio: np.ndarray) -> Tensor:
        """Samples [n] -> the speaker's vector [H]."""
        return self._once("speaker", audio, lambda samples: self._model.speaker_encoder.embed(samples[None])[0])

    def codes(self, audio: np.ndarray) -> Tensor:
        """Samples [n] -> codes int64 [T, 16]."""
        return self._once("codes", audio, lambda samples: self._model.codec_encoder.encode(samples[None])[0].T)

    def example(self) -> np.ndarray:
        """A second of soft noise, for a warm-up."""
        noise = np.random.default_rng(0).standard_normal(self._model.config.sample_rate_hz)
        return (0.05 * noise).astype(np.float32)

    def _once(self, kind: str, audio: np.ndarray, compute: Any) -> Tensor:
        key = (kind, hashlib.sha256(audio.tobytes()).hexdigest())
        if key not in self._known:
            with torch.inference_mode():
                self._known[key] = compute(torch.from_numpy(audio).to(self._model.device))
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]
