"""The two judges behind one door: found by the configuration, loaded by their spec."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from omni_bench.accuracy.asr.clips import AsrClip, Transcript
from omni_bench.accuracy.asr.settings import JudgeSettings
from omni_bench.accuracy.asr.weights.resolve import FASTER_WHISPER, JudgeSpec, resolve_judge
from omni_bench.records.config import AsrConfig


class LoadedJudge(Protocol):
    """What a judging process needs of a judge."""

    def transcribe(self, clips: Sequence[AsrClip], language: str) -> list[Transcript]:
        """Transcripts in the order of the clips; raises AccuracyError."""


def resolve_engine(
    asr: AsrConfig, language: str, *, download: bool = True, say: Callable[[str], None] = lambda _: None
) -> JudgeSpec:
    """The judge that ``asr`` names, found but not loaded. Raises as :func:`resolve.resolve_judge` does."""
    if asr.kind == FASTER_WHISPER:
        from omni_bench.accuracy.asr.weights.resolve_faster import resolve_faster_whisper

        return resolve_faster_whisper(asr.model, asr.device, language, download=download, say=say)
    return resolve_judge(asr.model, asr.device, language, download=download, say=say)


def load_engine(spec: JudgeSpec, settings: JudgeSettings) -> LoadedJudge:
    """The judge of ``spec`` with its weights. Raises AccuracyError."""
    if spec.engine == FASTER_WHISPER:
        from omni_bench.accuracy.asr.faster_whisper import load_faster_judge

        return load_faster_judge(spec, settings)
    from omni_bench.accuracy.asr.openai_whisper import load_judge

    return load_judge(spec, settings)
