"""The other judge: faster-whisper (CTranslate2), greedy as :mod:`omni_bench.accuracy.asr.openai_whisper` is.

Every window is padded with silence to Whisper's 30 s before the features are made (faster-whisper
itself would pad the features with zeros, which is not what silence looks like), so that
both judges hear the same. On CUDA windows are decoded in batches in float16, on the CPU one after
the other in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from omni_bench.accuracy.asr.clips import WHISPER_RATE_HZ, WHISPER_WINDOW_S, AsrClip, Transcript, load_samples_16k
from omni_bench.accuracy.asr.openai_whisper import Window, join_windows, language_code, windows_of
from omni_bench.accuracy.asr.settings import THREADS_PER_WORKER, JudgeSettings, on_cuda
from omni_bench.accuracy.asr.weights.files import verify_sha256
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec
from omni_bench.accuracy.asr.weights.resolve_faster import INSTALL, model_files
from omni_bench.errors import AccuracyError

MAX_TOKENS = 224  # half of Whisper's text context, as whisper.decode has it
_WINDOW_SAMPLES = round(WHISPER_WINDOW_S * WHISPER_RATE_HZ)


class FasterJudge:
    """A loaded faster-whisper. ``model``: its WhisperModel; ``pipeline``: its BatchedInferencePipeline over it."""

    def __init__(self, model: Any, pipeline: Any, settings: JudgeSettings, *, batched: bool) -> None:
        self._model = model
        self._pipeline = pipeline
        self._settings = settings
        self._batch_size = settings.batch_size if batched else 1

    def transcribe(self, clips: Sequence[AsrClip], language: str) -> list[Transcript]:
        """Transcripts of ``clips``, in their order. ``language`` serves clips that name none.

        Raises AccuracyError for an unreadable clip or a language the model does not speak, and
        if the library fails.
        """
        by_language: dict[str, list[Window]] = {}
        for index, clip in enumerate(clips):
            code = language_code(clip.language or language, multilingual=self._model.model.is_multilingual)
            windows = windows_of(index, load_samples_16k(clip), self._settings, MAX_TOKENS)
            by_language.setdefault(code, []).extend(windows)
        results: dict[int, list[tuple[str, int, float, float]]] = {index: [] for index in range(len(clips))}
        for code, windows in sorted(by_language.items()):
            for start in range(0, len(windows), self._batch_size):
                batch = windows[start : start + self._batch_size]
                try:
                    decoded = self._decode(batch, code)
                except (RuntimeError, ValueError) as error:  # CTranslate2's, such as a missing library of CUDA
                    raise AccuracyError(f"faster-whisper failed: {error}") from error
                for window, result in zip(batch, decoded, strict=True):
                    results[window.clip_index].append(result)
        return [join_windows(clip.request_id, results[index]) for index, clip in enumerate(clips)]

    def _decode(self, batch: Sequence[Window], language: str) -> list[tuple[str, int, float, float]]:
        """Text, token count, mean log probability and no-speech probability of each window."""
        joined = np.zeros(len(batch) * _WINDOW_SAMPLES, dtype=np.float32)
        for number, window in enumerate(batch):
            start = number * _WINDOW_SAMPLES
            joined[start : start + window.samples.size] = window.samples
        spans = [
            {"start": number * WHISPER_WINDOW_S, "end": (number + 1) * WHISPER_WINDOW_S} for number in range(len(batch))
        ]
        segments, _ = self._pipeline.transcribe(
            joined,
            language=language,
            beam_size=1,
            temperature=0.0,
            without_timestamps=True,
            vad_filter=False,
            clip_timestamps=spans,
            batch_size=len(batch),
            max_new_tokens=max(window.token_cap for window in batch),
        )
        heard: list[list[Any]] = [[] for _ in batch]
        for segment in segments:
            heard[min(int(segment.start // WHISPER_WINDOW_S), len(batch) - 1)].append(segment)
        return [self._result(window, parts) for window, parts in zip(batch, heard, strict=True)]

    def _result(self, window: Window, segments: Sequence[Any]) -> tuple[str, int, float, float]:
        """One window's segments together, ended at the window's own cap whatever its neighbours were allowed."""
        tokens = [token for segment in segments for token in segment.tokens]
        if not tokens:
            nothing = segments[0] if segments else None
            return "", 0, nothing.avg_logprob if nothing else 0.0, nothing.no_speech_prob if nothing else 1.0
        if len(tokens) > window.token_cap:
            tokens = tokens[: window.token_cap]
            text = self._model.hf_tokenizer.decode(tokens)
        else:
            text = "".join(segment.text for segment in segments)
        weights = [len(segment.tokens) + 1 for segment in segments]
        logprob = float(np.average([segment.avg_logprob for segment in segments], weights=weights))
        return text.strip(), len(tokens), logprob, min(segment.no_speech_prob for segment in segments)


def load_faster_judge(spec: JudgeSpec, settings: JudgeSettings) -> FasterJudge:
    """Load the weights of ``spec``, checking their hash.

    Raises AccuracyError if faster-whisper is not installed or cannot load them.
    """
    try:
        from faster_whisper import BatchedInferencePipeline, WhisperModel
    except ImportError as error:
        raise AccuracyError(f"asr=faster_whisper: {error}; {INSTALL}") from error
    verify_sha256(spec.paths, spec.sha256, "The file changed since the run began.")
    cuda = on_cuda(spec.device)
    folder = spec.paths[0].parent
    files = None
    if len(spec.paths) > 1:  # in parts: joined in memory, and no copy is left on the disk
        small = model_files(folder)
        if small is None:
            raise AccuracyError(f"{folder} lost the files beside {spec.paths[0].name}; reinstall {spec.origin}")
        files = {name: path.read_bytes() for name, path in small.items()}
        files["model.bin"] = b"".join(path.read_bytes() for path in spec.paths)
    try:
        model = WhisperModel(
            str(folder),
            device="cuda" if cuda else "cpu",
            device_index=int(spec.device.partition(":")[2] or 0) if cuda else 0,
            compute_type="float16" if cuda else "float32",
            cpu_threads=THREADS_PER_WORKER,
            local_files_only=True,
            files=files,
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise AccuracyError(f"faster-whisper cannot load {spec.origin} on {spec.device}: {error}") from error
    return FasterJudge(model, BatchedInferencePipeline(model), settings, batched=cuda)
