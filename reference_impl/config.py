"""Shapes of the three stages: one frozen dataclass a stage, one preset a model.

Names follow the released ``config.json`` of Qwen3-TTS (12 Hz). Sizes of the released models
come from the public configurations; those of ``tiny`` from the bundled checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
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
class TalkerConfig:
    """Text and codec embeddings, the transformer, and the head for codebook 0.

    ``codec_vocab_size`` counts the codes of codebook 0 and the control ids;
    ``text_hidden_size`` None means that text embeddings are ``hidden_size`` wide and need no
    projection. ``min_frames``: the end token is masked until this many frames exist.
    """

    transformer: TransformerConfig
    text_vocab_size: int
    codec_vocab_size: int
    codec_eos_id: int
    text_hidden_size: int | None = None
    min_frames: int = 2


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
    """The character text front end of the tiny voice: ids of the prefix tokens and the alphabet.

    ``max_chars``: the longest text one segment may hold; the checkpoint heard nothing longer
    in training. ``frames_per_char`` and ``frames_extra`` bound a segment's frames: a segment
    that has not stopped by then never will (the longest natural one in the training corpus
    stays well below).
    """

    chars: str = " abcdefghijklmnopqrstuvwxyz',.?!"
    first_char_id: int = 4
    codec_bos_id: int = 3
    voices: dict[str, int] = field(default_factory=lambda: {"heart": 1, "heart_low": 2})
    max_chars: int = 105
    frames_per_char: float = 1.3
    frames_extra: int = 20


@dataclass(frozen=True)
class ModelConfig:
    """One complete model. ``frame_rate_hz`` × ``samples_per_frame`` = ``sample_rate_hz``."""

    name: str
    talker: TalkerConfig
    predictor: PredictorConfig
    code2wav: Code2WavConfig
    text: TextConfig = field(default_factory=TextConfig)
    sample_rate_hz: int = 24000

    @property
    def frame_rate_hz(self) -> float:
        """Codec frames a second of audio: 12.5."""
        return self.sample_rate_hz / self.code2wav.samples_per_frame

    def to_json(self) -> str:
        """The form stored beside the weights as ``config.json``."""
        return json.dumps(asdict(self), indent=1)


TINY = ModelConfig(
    name="tiny",
    talker=TalkerConfig(
        transformer=TransformerConfig(
            hidden_size=320,
            num_layers=6,
            num_heads=4,
            num_kv_heads=2,
            head_dim=64,
            intermediate_size=800,
            rope_theta=10000.0,
        ),
        text_vocab_size=36,
        codec_vocab_size=513,
        codec_eos_id=512,
        min_frames=4,
    ),
    predictor=PredictorConfig(
        transformer=TransformerConfig(
            hidden_size=256,
            num_layers=3,
            num_heads=4,
            num_kv_heads=2,
            head_dim=64,
            intermediate_size=640,
            rope_theta=10000.0,
        ),
        codebook_size=512,
    ),
    code2wav=Code2WavConfig(
        codebook_size=512,
        codebook_dim=128,
        latent_dim=192,
        hidden_size=192,
        num_heads=3,
        head_dim=64,
        intermediate_size=512,
        num_layers=3,
        sliding_window=8,
        decoder_dim=256,
    ),
)

PRESETS = {"tiny": TINY}


def config_from_json(path: Path) -> ModelConfig:
    """Read a ``config.json`` written by :meth:`ModelConfig.to_json`.

    Raises CheckpointError for a missing file, bad JSON, or missing and unknown fields.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{path}: no such file; a checkpoint folder holds config.json and *.safetensors"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: not a JSON file: {error}") from None
    try:
        return ModelConfig(
            name=raw["name"],
            talker=_with_transformer(TalkerConfig, raw["talker"]),
            predictor=_with_transformer(PredictorConfig, raw["predictor"]),
            code2wav=Code2WavConfig(**{k: tuple(v) if isinstance(v, list) else v for k, v in raw["code2wav"].items()}),
            text=TextConfig(**raw["text"]),
            sample_rate_hz=raw["sample_rate_hz"],
        )
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: field {error}; write the file with ModelConfig.to_json") from None


def _with_transformer(cls: type, raw: dict[str, Any]) -> Any:
    return cls(**{**raw, "transformer": TransformerConfig(**raw["transformer"])})
