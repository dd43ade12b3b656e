"""The systems that benchmarks/peers compares, each behind the same few methods.

What only one of them needs is imported in its class: they live in environments of their own.
"""

from __future__ import annotations

import itertools
import queue
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from benchmarks.peers.checkpoint import save_random_checkpoint
from reference_impl.model.config import ModelConfig

VOICE, LANGUAGE = "vivian", "English"
TIMEOUT_S = 120


@dataclass(frozen=True)
class Mode:
    """A way in which a system speaks. ``chunk_frames``: of the audio that it streams; None if all comes at once."""

    name: str
    streams: bool
    chunk_frames: int | None = None


class System(Protocol):
    """A loaded model, ready to speak utterances one after the other."""

    modes: tuple[Mode, ...]

    def speak(self, mode: Mode, text: str, frames: int) -> Iterator[np.ndarray]:
        """Pieces of ``text`` spoken in exactly ``frames`` frames, in host memory."""

    def close(self) -> None:
        """Give the memory back."""


class Ours:
    """The engine of the reference server, without HTTP."""

    modes = (Mode("stream", True),)

    def __init__(self, model: str, config: ModelConfig, plan: Mapping[str, Any], folder: Path):
        from benchmarks.ladder.__main__ import RUNGS
        from reference_impl.engine.engine import Engine
        from reference_impl.loading.from_settings import (
            Origin,
            load_weights,
            most_frames,
            resolve_device,
            resolve_dtype,
        )
        from reference_impl.loading.random_weights import random_model
        from reference_impl.settings import ServerSettings

        rung = RUNGS["full_step"] if plan["device"].startswith("cuda") else {}
        base = {"preset": model, "checkpoint": "random", "device": plan["device"], "max_batch": 32}
        settings = ServerSettings(**{**base, **rung, **plan["settings"]})
        if plan["tiny"]:
            device = resolve_device(settings.device)
            dtype = resolve_dtype(settings.dtype, config, device)
            weights = random_model(config, device, dtype, settings.max_seq_len, most_frames(config))
        else:
            weights, _ = load_weights(settings)
        self._engine = Engine(weights, settings, Origin(None, None))
        self._engine.warm_up()
        self._numbers = itertools.count()

    def speak(self, mode: Mode, text: str, frames: int) -> Iterator[np.ndarray]:
        """See :class:`System`."""
        from reference_impl.engine_api import AudioChunk, Finished, SpeechRequest

        number, events = next(self._numbers), queue.SimpleQueue()
        request = SpeechRequest(str(number), text, VOICE, seed=number, language=LANGUAGE.lower())
        self._engine.submit(request, events.put)
        while isinstance(event := events.get(timeout=TIMEOUT_S), AudioChunk):
            yield np.frombuffer(event.pcm, "<i2")
        if not isinstance(event, Finished):
            raise RuntimeError(f"the engine failed: {event.message}")

    def close(self) -> None:
        """See :class:`System`."""
        self._engine.stop()


class QwenTts:
    """The official package; it gives back a whole utterance."""

    modes = (Mode("whole", False),)

    def __init__(self, model: str, config: ModelConfig, plan: Mapping[str, Any], folder: Path):
        device, dtype = torch.device(plan["device"]), dtype_on(plan["device"])
        save_random_checkpoint(folder, config, device, dtype, small_encoder=plan["tiny"])
        from qwen_tts import Qwen3TTSModel

        self._model = Qwen3TTSModel.from_pretrained(
            str(folder), device_map=plan["device"], dtype=dtype, attn_implementation="sdpa"
        )

    def speak(self, mode: Mode, text: str, frames: int) -> Iterator[np.ndarray]:
        """See :class:`System`."""
        # the last token that may be drawn is never turned into a frame
        waves, _ = self._model.generate_custom_voice(text, VOICE, language=LANGUAGE, max_new_tokens=frames + 1)
        yield waves[0]

    def close(self) -> None:
        """See :class:`System`."""
        del self._model


class FasterQwen3Tts:
    """The package with CUDA graphs; a whole utterance, or chunks (12 frames unless told otherwise)."""

    modes = (Mode("whole", False), Mode("chunks of 12", True, 12), Mode("chunks of 1", True, 1))

    def __init__(self, model: str, config: ModelConfig, plan: Mapping[str, Any], folder: Path):
        dtype = dtype_on(plan["device"])
        save_random_checkpoint(folder, config, torch.device(plan["device"]), dtype, small_encoder=plan["tiny"])
        from faster_qwen3_tts import FasterQwen3TTS

        from reference_impl.settings import ServerSettings

        # as many positions as our cache has: its attention reads all of them at every step
        positions = plan["settings"].get("max_seq_len", ServerSettings.max_seq_len)
        self._model = FasterQwen3TTS.from_pretrained(
            str(folder), device=plan["device"], dtype=dtype, max_seq_len=positions
        )

    def speak(self, mode: Mode, text: str, frames: int) -> Iterator[np.ndarray]:
        """See :class:`System`."""
        request = {
            "text": text,
            "speaker": VOICE,
            "language": LANGUAGE,
            "max_new_tokens": frames,
        }
        if not mode.streams:
            waves, _ = self._model.generate_custom_voice(**request)
            yield waves[0]
            return
        for piece, _, _ in self._model.generate_custom_voice_streaming(**request, chunk_size=mode.chunk_frames):
            yield piece

    def close(self) -> None:
        """See :class:`System`."""
        del self._model


SYSTEMS = {"ours": Ours, "qwen_tts": QwenTts, "faster_qwen3_tts": FasterQwen3Tts}
NEEDS = {"ours": (), "qwen_tts": ("qwen_tts",), "faster_qwen3_tts": ("qwen_tts", "faster_qwen3_tts")}


def dtype_on(device: str) -> torch.dtype:
    """The type of the released weights on a GPU, float32 on a CPU."""
    return torch.bfloat16 if device.startswith("cuda") else torch.float32
