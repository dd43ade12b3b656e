"""Shapes of the stages: one frozen dataclass a stage. The sizes are in ``presets.py``.

Names follow the released ``config.json`` of Qwen3-TTS (12 Hz).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omni_bench.errors import CheckpointError


@dataclass(frozen=True)
class TransformerConfig:
    """A Qwen3-style decoder stack: pre-norm, grouped-query attention with q/k norm, SwiGLU."""

    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    rope_theta: float
    rms_norm_eps: float = 1e-6


@dataclass(frozen=True)
class CodecControl:
    """The control ids of the codec vocabulary that a released prompt is made of.

    Tables map names in lower case to ids; ``dialects`` maps a speaker to the language (a key
    of ``languages``) that replaces Chinese and "auto" when that speaker talks.
    """

    pad_id: int
    bos_id: int
    think_id: int
    nothink_id: int
    think_bos_id: int
    think_eos_id: int
    languages: dict[str, int]
    speakers: dict[str, int]
    dialects: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TalkerConfig:
    """Text and codec embeddings, the transformer, and the head for codebook 0.

    ``codec_vocab_size`` counts the codes of codebook 0 and the control ids;
    ``text_hidden_size`` None means that text embeddings are ``hidden_size`` wide and need no
    projection. ``min_frames``: the end token is masked until this many frames exist. Ids from
    ``first_suppressed_id`` on, except the end token, are never drawn (None: all may be).
    """

    transformer: TransformerConfig
    text_vocab_size: int
    codec_vocab_size: int
    codec_eos_id: int
    text_hidden_size: int | None = None
    min_frames: int = 2
    first_suppressed_id: int | None = None
    control: CodecControl | None = None

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """Ids that are never drawn."""
        first = self.codec_vocab_size if self.first_suppressed_id is None else self.first_suppressed_id
        return tuple(i for i in range(first, self.codec_vocab_size) if i != self.codec_eos_id)


@dataclass(frozen=True)
class PredictorConfig:
    """The code predictor: codebooks 1..15 of a frame, one after the other."""

    transformer: TransformerConfig
    codebook_size: int
    num_code_groups: int = 16


@dataclass(frozen=True)
class Code2WavConfig:
    """The codec decoder: split RVQ, sliding-window transformer, ConvNeXt upsampling, SnakeBeta decoder.

    ``codebook_dim`` is the width after the RVQ output projection; a codebook's vectors are
    half as wide.
    """

    codebook_size: int
    codebook_dim: int
    latent_dim: int
    hidden_size: int
    num_heads: int
    head_dim: int
    intermediate_size: int
    num_layers: int
    sliding_window: int
    decoder_dim: int
    num_code_groups: int = 16
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    upsample_rates: tuple[int, ...] = (8, 5, 4, 3)
    upsampling_ratios: tuple[int, ...] = (2, 2)

    @property
    def samples_per_frame(self) -> int:
        """Output samples of one frame: 1920 for every released configuration."""
        total = 1
        for rate in (*self.upsample_rates, *self.upsampling_ratios):
            total *= rate
        return total


@dataclass(frozen=True)
class TextConfig:
    """The text front end of the released models: control ids of the text vocabulary, and the task.

    ``task``: ``custom_voice`` (speakers by name), ``voice_design`` (a description speaks) or
    ``base`` (a recording is cloned). ``instructions``: whether the checkpoint follows them
    (the 0.6B CustomVoice model does not).

    The rest is for a small voice of our own: ``spoken_form``: numbers, dates and abbreviations are made
    words first; ``max_chars``: a longer text is split at sentence ends; ``frames_per_char`` and
    ``frames_extra`` bound a segment's frames, since one that has not stopped by then never will.
    """

    task: str
    instructions: bool
    tts_pad_id: int = 151671
    tts_bos_id: int = 151672
    tts_eos_id: int = 151673
    spoken_form: bool = False
    max_chars: int | None = None
    frames_per_char: float | None = None
    frames_extra: int = 0


@dataclass(frozen=True)
class SamplingConfig:
    """How codes are drawn; a server may override each field. Temperature 0 takes the largest logit."""

    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    predictor_temperature: float = 0.9
    predictor_top_k: int = 50
    predictor_top_p: float = 1.0


@dataclass(frozen=True)
class SpeakerEncoderConfig:
    """ECAPA-TDNN: a log-mel spectrogram in, one vector of the talker's width out.

    The lists hold one entry a block; the last block joins the others. Spectrogram: ``mel_bins``
    Slaney bands over 0 Hz to half the sample rate, windows of ``fft_size`` samples every ``hop``.
    """

    output_size: int
    channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    kernels: tuple[int, ...] = (5, 3, 3, 3, 1)
    dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    res2net_scale: int = 8
    squeeze_channels: int = 128
    attention_channels: int = 128
    mel_bins: int = 128
    fft_size: int = 1024
    hop: int = 256
    sample_rate_hz: int = 24000


@dataclass(frozen=True)
class CodecEncoderConfig:
    """The Mimi encoder: 24 kHz samples in, 16 codes a frame out.

    ``ratios``: the strides from the samples on (960 in all), before a last stride of 2.
    ``num_books``: residual codebooks in the file; only the first ``num_code_groups`` are used.
    """

    ratios: tuple[int, ...] = (4, 5, 6, 8)
    num_filters: int = 64
    hidden_size: int = 512
    num_layers: int = 8
    num_heads: int = 8
    head_dim: int = 64
    intermediate_size: int = 2048
    sliding_window: int = 250
    kernel: int = 7
    last_kernel: int = 3
    residual_kernel: int = 3
    compress: int = 2
    downsample_stride: int = 2
    codebook_size: int = 2048
    codebook_dim: int = 256
    num_books: int = 32
    num_semantic_books: int = 1
    num_code_groups: int = 16
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5


@dataclass(frozen=True)
class ModelConfig:
    """One complete model. ``frame_rate_hz`` × ``samples_per_frame`` = ``sample_rate_hz``.

    ``cuda_dtype``: the type that ``dtype=auto`` means on CUDA (float32 on a CPU).
    ``max_frames``: the most frames a released checkpoint speaks. The encoders are there only
    where a checkpoint clones voices.
    """

    name: str
    talker: TalkerConfig
    predictor: PredictorConfig
    code2wav: Code2WavConfig
    text: TextConfig
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    sample_rate_hz: int = 24000
    cuda_dtype: str = "float32"
    max_frames: int = 8191
    speaker_encoder: SpeakerEncoderConfig | None = None
    codec_encoder: CodecEncoderConfig | None = None

    @property
    def frame_rate_hz(self) -> float:
        """Codec frames a second of audio: 12.5."""
        return self.sample_rate_hz / self.code2wav.samples_per_frame


def read_json(path: Path) -> Any:
    """A JSON file of a checkpoint folder. Raises CheckpointError if it is missing or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{path}: no such file; a checkpoint folder holds config.json and *.safetensors"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: not a JSON file: {error}") from None
