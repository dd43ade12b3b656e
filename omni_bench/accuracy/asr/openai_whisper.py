"""The judge: openai-whisper, decoding greedily in batches.

The decoding is that of ``whisper.decode`` at temperature 0 with the language given and without
timestamps, in float32 on the CPU and float16 on CUDA. A clip's text does not depend on its
neighbours: the mel spectrogram and (on the CPU) the encoder see one clip at a time, a clip's
length cap is its own, and which audio context a clip gets is decided by its own length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from whisper.audio import N_FRAMES, log_mel_spectrogram
from whisper.decoding import DecodingOptions, DecodingTask, LogitFilter
from whisper.model import ModelDimensions, Whisper

from omni_bench.accuracy.asr.clips import (
    WHISPER_RATE_HZ,
    WHISPER_WINDOW_S,
    AsrClip,
    Transcript,
    load_samples_16k,
    longest_clip_s,
    split_into_windows,
    with_silence,
)
from omni_bench.accuracy.asr.settings import JudgeSettings
from omni_bench.accuracy.asr.weights.files import verify_sha256
from omni_bench.accuracy.asr.weights.from_ctranslate2 import load_ctranslate2_whisper
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec
from omni_bench.accuracy.languages import is_english, whisper_language
from omni_bench.errors import AccuracyError

# A looping decoder is stopped here: far above any speech (English read at twice the normal speed
# has 8 tokens a second; a Chinese character may take two or three), far below whisper's own 224.
CAP_TOKENS_PER_S = 14.0
CAP_TOKENS_BASE = 16


@dataclass(frozen=True)
class Window:
    """A piece of a clip that fits the encoder: ``samples`` at 16 kHz with its silence."""

    clip_index: int
    samples: np.ndarray
    token_cap: int


def windows_of(index: int, samples: np.ndarray, settings: JudgeSettings, max_tokens: int) -> list[Window]:
    """The clip of that ``index``, float32 [n] at 16 kHz, in pieces."""
    return [
        Window(
            clip_index=index,
            samples=with_silence(piece, settings.lead_silence_ms, settings.tail_silence_ms),
            token_cap=token_cap(piece.size / WHISPER_RATE_HZ, max_tokens),
        )
        for piece in split_into_windows(samples, longest_clip_s(WHISPER_WINDOW_S, settings.silence_s))
    ]


def language_code(name: str, *, multilingual: bool) -> str:
    """Whisper's code. Raises AccuracyError for a language that it, or a model for English alone, does not know."""
    if not multilingual and not is_english(name):
        raise AccuracyError(
            f"the judge understands English only, the clips are in {name!r}: "
            "set asr.model to a multilingual model (base, small, medium, large-v3, turbo)"
        )
    return whisper_language(name)


class Judge:
    """A loaded Whisper. ``context_s``: the audio context of short clips, the others get 30 s."""

    def __init__(self, model: Whisper, device: str, context_s: float, settings: JudgeSettings) -> None:
        self._model = model.to(device).eval()
        self._device = torch.device(device)
        self._fp16 = self._device.type == "cuda"
        self._context_s = context_s
        self._settings = settings
        self._positions = model.encoder.positional_embedding
        self._max_tokens = model.dims.n_text_ctx // 2  # whisper.decode's own limit

    def transcribe(self, clips: Sequence[AsrClip], language: str) -> list[Transcript]:
        """Transcripts of ``clips``, in their order. ``language`` serves clips that name none.

        Raises AccuracyError for an unreadable clip or a language the model does not speak.
        """
        windows: dict[tuple[str, float], list[Window]] = {}
        for index, clip in enumerate(clips):
            code = language_code(clip.language or language, multilingual=self._model.is_multilingual)
            samples = load_samples_16k(clip)
            short = samples.size <= longest_clip_s(self._context_s, self._settings.silence_s) * WHISPER_RATE_HZ
            group = windows.setdefault((code, self._context_s if short else WHISPER_WINDOW_S), [])
            group += windows_of(index, samples, self._settings, self._max_tokens)
        results: dict[int, list[tuple[str, int, float, float]]] = {index: [] for index in range(len(clips))}
        for (code, context_s), group in sorted(windows.items(), key=lambda item: item[0]):
            for start in range(0, len(group), self._settings.batch_size):
                batch = group[start : start + self._settings.batch_size]
                for window, result in zip(batch, self._decode(batch, code, context_s), strict=True):
                    results[window.clip_index].append(result)
        return [join_windows(clip.request_id, results[index]) for index, clip in enumerate(clips)]

    @torch.inference_mode()
    def _decode(self, batch: Sequence[Window], language: str, context_s: float) -> list[tuple[str, int, float, float]]:
        """Text, token count, mean log probability and no-speech probability of each window."""
        self._set_context(context_s)
        mels = torch.stack([self._mel(window.samples, context_s) for window in batch])
        if self._fp16:
            features = self._model.encoder(mels.half())
        else:
            # One at a time is as fast here, needs a sixteenth of the memory, and makes the
            # features independent of the batch to the last bit.
            features = torch.cat([self._model.encoder(mel[None]) for mel in mels])
        caps = [window.token_cap for window in batch]
        options = DecodingOptions(
            language=language, temperature=0.0, without_timestamps=True, fp16=self._fp16, sample_len=max(caps) + 1
        )
        task = DecodingTask(self._model, options)
        task.logit_filters.append(_LengthCap(caps, task.sample_begin, task.tokenizer.eot, self._device))
        return [
            (result.text, len(result.tokens), result.avg_logprob, result.no_speech_prob)
            for result in task.run(features)
        ]

    def _mel(self, samples: np.ndarray, context_s: float) -> torch.Tensor:
        """Log-mel spectrogram of the clip and silence up to the context, shape [mels, frames]."""
        padded = np.zeros(round(context_s * WHISPER_RATE_HZ), dtype=np.float32)
        padded[: samples.size] = samples
        return log_mel_spectrogram(torch.from_numpy(padded).to(self._device), self._model.dims.n_mels)

    def _set_context(self, context_s: float) -> None:
        """Let the encoder take ``context_s`` of audio: its first sinusoidal positions serve."""
        positions = round(self._positions.shape[0] * context_s / WHISPER_WINDOW_S)
        self._model.encoder.positional_embedding = self._positions[:positions]
        self._model.dims.n_audio_ctx = positions


class _LengthCap(LogitFilter):
    """Ends row i after ``caps[i]`` tokens, whatever its neighbours still have to say."""

    def __init__(self, caps: Sequence[int], sample_begin: int, eot: int, device: torch.device) -> None:
        self._caps = torch.tensor(caps, device=device)
        self._sample_begin = sample_begin
        self._eot = eot

    def apply(self, logits: torch.Tensor, tokens: torch.Tensor) -> None:
        """Leave only the end token in rows that have reached their cap, in place."""
        over = self._caps <= tokens.shape[1] - self._sample_begin
        ends = logits[over, self._eot]
        logits[over] = -math.inf
        logits[over, self._eot] = ends


def token_cap(duration_s: float, max_tokens: int) -> int:
    """Most tokens that ``duration_s`` of speech may decode to."""
    return min(max_tokens, CAP_TOKENS_BASE + math.ceil(CAP_TOKENS_PER_S * duration_s))


def load_judge(spec: JudgeSpec, settings: JudgeSettings) -> Judge:
    """Load the weights of ``spec``, checking their hash. Raises AccuracyError if they are not a Whisper."""
    if spec.source == "package":
        model = load_ctranslate2_whisper(spec.paths, spec.sha256)
    else:
        model = _load_pt(spec.paths[0], spec.sha256)
    return Judge(model, spec.device, spec.context_s, settings)


def _load_pt(path: Path, expected_sha256: str) -> Whisper:
    verify_sha256([path], expected_sha256, "The file changed since the run began.")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        dims = ModelDimensions(**checkpoint["dims"])
        model = Whisper(dims)
        model.load_state_dict(checkpoint["model_state_dict"])
    except Exception as error:  # torch answers a file that is no checkpoint with any error at all
        raise AccuracyError(f"{path} is not a Whisper checkpoint (dims and model_state_dict): {error}") from error
    if dims.n_audio_ctx * 2 != N_FRAMES:
        raise AccuracyError(f"{path}: an audio context of {dims.n_audio_ctx}, expected {N_FRAMES // 2}")
    return model


def join_windows(request_id: str, windows: Sequence[tuple[str, int, float, float]]) -> Transcript:
    """One transcript out of a clip's windows; log probabilities weigh by tokens (the end token counts)."""
    if not windows:
        return Transcript(request_id=request_id, text="", avg_logprob=None, no_speech_prob=None)
    tokens = sum(count + 1 for _, count, _, _ in windows)
    logprob = sum(mean * (count + 1) for _, count, mean, _ in windows) / tokens
    no_speech = min(probability for _, _, _, probability in windows)
    return Transcript(
        request_id=request_id,
        text=" ".join(text for text, _, _, _ in windows if text),
        avg_logprob=logprob if math.isfinite(logprob) else None,
        no_speech_prob=no_speech if math.isfinite(no_speech) else None,
    )
