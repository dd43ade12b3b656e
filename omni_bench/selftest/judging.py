"""One judge for many runs: every distinct recording is heard once.

A clean server gives the same samples for the same request, and most faults leave some requests
alone, so a self-test has far fewer recordings than requests. Loading Whisper once for all runs
instead of once a run saves more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from omni_bench.accuracy.asr.clips import AsrClip, Transcript
from omni_bench.accuracy.asr.pool import transcribe
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec
from omni_bench.errors import AccuracyError
from omni_bench.records.config import AsrConfig

Progress = Callable[[int, int], None]


class Ear:
    """Has the signature of :func:`omni_bench.accuracy.asr.pool.transcribe` and remembers what it heard."""

    def __init__(self, asr: AsrConfig, spec: JudgeSpec, language: str):
        self.spec = spec
        self._asr, self._language = asr, language
        self._heard: dict[str, Transcript] = {}

    def learn(
        self, recordings: Iterable[tuple[Path, int]], references: Sequence[AsrClip], on_progress: Progress | None = None
    ) -> int:
        """Hear (file, sample rate in Hz) of many runs and ``references`` in one go.

        How many of the recordings differ from each other. Raises AccuracyError.
        """
        clips = [AsrClip(f"recording-{number}", path, rate) for number, (path, rate) in enumerate(recordings)]
        return len(set(self._hear([*clips, *references], on_progress)[: len(clips)]))

    def __call__(
        self,
        clips: Sequence[AsrClip],
        asr: AsrConfig,
        language: str,
        on_progress: Progress | None = None,
        *,
        spec: JudgeSpec | None = None,
    ) -> list[Transcript]:
        """Transcripts of ``clips``; ``asr``, ``language`` and ``spec`` are those of this ear. Raises AccuracyError."""
        keys = self._hear(clips, on_progress)
        return [replace(self._heard[key], request_id=clip.request_id) for clip, key in zip(clips, keys, strict=True)]

    def _hear(self, clips: Sequence[AsrClip], on_progress: Progress | None) -> list[str]:
        keys = [_fingerprint(clip) for clip in clips]
        new = {key: clip for key, clip in zip(keys, clips, strict=True) if key not in self._heard}
        # the ids within one call must differ, whatever run they come from
        ask = [replace(clip, request_id=str(number)) for number, clip in enumerate(new.values())]
        heard = transcribe(ask, self._asr, self._language, on_progress, spec=self.spec) if ask else []
        self._heard.update(zip(new, heard, strict=True))
        if on_progress is not None:
            on_progress(len(clips), len(clips))  # with those that were heard before
        return keys


def _fingerprint(clip: AsrClip) -> str:
    """SHA-256 of the file (a WAV header holds the rate) or the samples, with the rate."""
    if isinstance(clip.pcm16, np.ndarray):
        data = clip.pcm16.tobytes()
    else:
        try:
            data = clip.pcm16.read_bytes()
        except OSError as error:
            raise AccuracyError(f"clip {clip.request_id}: cannot read {clip.pcm16}: {error}") from error
    return f"{hashlib.sha256(data).hexdigest()}@{clip.sample_rate_hz}"
