"""The released form of a configuration: ``config.json``, ``generation_config.json`` and the codec's ``config.json``.

Only what inference needs is read; everything that is needed and absent is one error. Some
fields are in the released files but not in the signature of the official classes
(``head_dim``, ``text_vocab_size``, ``codebook_dim``): they are read, never derived.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omni_bench.errors import CheckpointError
from reference_impl.model.config import (
    Code2WavConfig,
    CodecControl,
    CodecEncoderConfig,
    ModelConfig,
    PredictorConfig,
    SamplingConfig,
    SpeakerEncoderConfig,
    TalkerConfig,
    TextConfig,
    TransformerConfig,
    read_json,
)

CODEC_FOLDER = "speech_tokenizer"
TASKS = {"custom_voice": "CustomVoice", "voice_design": "VoiceDesign", "base": "Base"}
SIZES = {"0b6": "0.6B", "1b7": "1.7B"}
OWN_KEY = "omni_bench"  # what config.json of a voice of this project says beyond the released fields
OWN_TEXT = {"spoken_form": bool, "max_chars": int, "frames_per_char": float, "frames_extra": int}
CONTROL_IDS = 1024  # the last ids of the codec vocabulary are control ids, not codes
NO_INSTRUCTIONS = ("0b6", "custom_voice")  # this size and task were not trained to follow them
DEFAULT_MAX_NEW_TOKENS = 8192


class _Fields:
    """Reads fields of one JSON object and remembers which were missing."""

    def __init__(self, raw: Any, path: Path, prefix: str = ""):
        self.raw = raw if isinstance(raw, dict) else {}
        self._path, self._prefix = path, prefix
        self.missing: list[str] = []

    def __getitem__(self, name: str) -> Any:
        if self.raw.get(name) is None:
            self.missing.append(self._prefix + name)
            return 0
        return self.raw[name]

    def child(self, name: str) -> _Fields:
        """A nested object; its missing fields count here."""
        nested = _Fields(self[name], self._path, f"{self._prefix}{name}.")
        nested.missing = self.missing
        return nested

    def check(self) -> None:
        """Raise CheckpointError if anything was missing."""
        if self.missing:
            raise CheckpointError(f"{self._path}: field(s) missing: {', '.join(dict.fromkeys(self.missing))}")


def read_config(folder: Path) -> ModelConfig:
    """The configuration of a released checkpoint folder.

    Raises CheckpointError for missing files and fields, and for values this implementation
    does not know.
    """
    path = folder / "config.json"
    top = _Fields(read_json(path), path)
    task = str(top["tts_model_type"])
    size = str(top.raw.get("tts_model_size") or "")
    talker = top.child("talker_config")
    own = top.raw.get(OWN_KEY) or {}
    try:
        talker_config = _talker(talker)
        predictor = _predictor(talker.child("code_predictor_config"))
        text = TextConfig(
            task=task,
            instructions=task != "base" and (size, task) != NO_INSTRUCTIONS,
            tts_pad_id=top["tts_pad_token_id"],
            tts_bos_id=top["tts_bos_token_id"],
            tts_eos_id=top["tts_eos_token_id"],
            **{name: kind(own[name]) for name, kind in OWN_TEXT.items() if own.get(name) is not None},
        )
        top.check()
        if task not in TASKS:
            raise CheckpointError(f"{path}: tts_model_type={task!r} is unknown; valid: {', '.join(TASKS)}")
        sampling, max_new_tokens = _generation(folder / "generation_config.json")
        speaker = None
        if task == "base":
            speaker = _speaker_encoder(top.raw.get("speaker_encoder_config") or {}, talker_config)
        code2wav, encoder = _codec(folder / CODEC_FOLDER / "config.json", needs_encoder=task == "base")
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: a value has the wrong type: {error}") from None
    return ModelConfig(
        name=str(own.get("name") or f"Qwen3-TTS-12Hz-{SIZES.get(size, size or 'unknown')}-{TASKS[task]}"),
        talker=talker_config,
        predictor=predictor,
        code2wav=code2wav,
        text=text,
        sampling=sampling,
        cuda_dtype="float32" if top.raw.get("dtype") == "float32" else "bfloat16",
        max_frames=max(1, max_new_tokens - 1),
        speaker_encoder=speaker,
        codec_encoder=encoder,
    )


def _transformer(fields: _Fields) -> TransformerConfig:
    if fields.raw.get("attention_bias"):
        raise ValueError("attention_bias is true; released models have none")
    if fields.raw.get("use_sliding_window"):
        raise ValueError("use_sliding_window is true; released models attend to everything")
    return TransformerConfig(
        hidden_size=int(fields["hidden_size"]),
        num_layers=int(fields["num_hidden_layers"]),
        num_heads=int(fields["num_attention_heads"]),
        num_kv_heads=int(fields["num_key_value_heads"]),
        head_dim=int(fields["head_dim"]),
        intermediate_size=int(fields["intermediate_size"]),
        rope_theta=float(fields["rope_theta"]),
        rms_norm_eps=float(fields["rms_norm_eps"]),
    )


def _talker(fields: _Fields) -> TalkerConfig:
    languages = {str(k).lower(): int(v) for k, v in (fields.raw.get("codec_language_id") or {}).items()}
    speakers = {str(k).lower(): _speaker_id(v) for k, v in (fields.raw.get("spk_id") or {}).items()}
    dialects = {str(k).lower(): v for k, v in (fields.raw.get("spk_is_dialect") or {}).items() if v}
    unknown = sorted({str(v) for v in dialects.values()} - set(languages))
    if unknown:
        raise ValueError(f"spk_is_dialect names {', '.join(unknown)}, which codec_language_id lacks")
    vocabulary = int(fields["vocab_size"])
    return TalkerConfig(
        transformer=_transformer(fields),
        text_vocab_size=int(fields["text_vocab_size"]),
        text_hidden_size=int(fields["text_hidden_size"]),
        codec_vocab_size=vocabulary,
        codec_eos_id=int(fields["codec_eos_token_id"]),
        first_suppressed_id=max(0, vocabulary - CONTROL_IDS),
        control=CodecControl(
            pad_id=int(fields["codec_pad_id"]),
            bos_id=int(fields["codec_bos_id"]),
            think_id=int(fields["codec_think_id"]),
            nothink_id=int(fields["codec_nothink_id"]),
            think_bos_id=int(fields["codec_think_bos_id"]),
            think_eos_id=int(fields["codec_think_eos_id"]),
            languages=languages,
            speakers=speakers,
            dialects=dialects,
        ),
    )


def _speaker_id(value: Any) -> int:
    """Some re-packed checkpoints store a list of one id."""
    return int(value[0] if isinstance(value, list) and len(value) == 1 else value)


def _predictor(fields: _Fields) -> PredictorConfig:
    return PredictorConfig(
        transformer=_transformer(fields),
        codebook_size=int(fields["vocab_size"]),
        num_code_groups=int(fields["num_code_groups"]),
    )


def _generation(path: Path) -> tuple[SamplingConfig, int]:
    """Sampling defaults and the most new tokens; ``do_sample`` false is temperature 0."""
    raw = read_json(path)
    if not isinstance(raw, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    default = SamplingConfig()
    sampling = SamplingConfig(
        temperature=float(raw.get("temperature", default.temperature)) if raw.get("do_sample", True) else 0.0,
        top_k=int(raw.get("top_k", default.top_k)),
        top_p=float(raw.get("top_p", default.top_p)),
        repetition_penalty=float(raw.get("repetition_penalty", default.repetition_penalty)),
        predictor_temperature=float(raw.get("subtalker_temperature", default.predictor_temperature))
        if raw.get("subtalker_dosample", True)
        else 0.0,
        predictor_top_k=int(raw.get("subtalker_top_k", default.predictor_top_k)),
        predictor_top_p=float(raw.get("subtalker_top_p", default.predictor_top_p)),
    )
    return sampling, int(raw.get("max_new_tokens", DEFAULT_MAX_NEW_TOKENS))


def _codec(path: Path, needs_encoder: bool) -> tuple[Code2WavConfig, CodecEncoderConfig | None]:
    top = _Fields(read_json(path), path)
    fields = top.child("decoder_config")
    upsample_rates = fields["upsample_rates"] or ()
    upsampling_ratios = fields["upsampling_ratios"] or ()
    decoder = Code2WavConfig(
        codebook_size=int(fields["codebook_size"]),
        codebook_dim=int(fields["codebook_dim"]),
        latent_dim=int(fields["latent_dim"]),
        hidden_size=int(fields["hidden_size"]),
        num_heads=int(fields["num_attention_heads"]),
        head_dim=int(fields["head_dim"]),
        intermediate_size=int(fields["intermediate_size"]),
        num_layers=int(fields["num_hidden_layers"]),
        sliding_window=int(fields["sliding_window"]),
        decoder_dim=int(fields["decoder_dim"]),
        num_code_groups=int(fields["num_quantizers"]),
        rope_theta=float(fields["rope_theta"]),
        rms_norm_eps=float(fields["rms_norm_eps"]),
        upsample_rates=tuple(int(r) for r in upsample_rates),
        upsampling_ratios=tuple(int(r) for r in upsampling_ratios),
    )
    encoder = _codec_encoder(top) if needs_encoder else None
    top.check()
    return decoder, encoder


def _codec_encoder(top: _Fields) -> CodecEncoderConfig:
    fields = top.child("encoder_config")
    return CodecEncoderConfig(
        # the file lists strides as the decoder uses them; the encoder runs them backwards
        ratios=tuple(int(r) for r in reversed(fields["upsampling_ratios"] or ())),
        num_filters=int(fields["num_filters"]),
        hidden_size=int(fields["hidden_size"]),
        num_layers=int(fields["num_hidden_layers"]),
        num_heads=int(fields["num_attention_heads"]),
        head_dim=int(fields["head_dim"]),
        intermediate_size=int(fields["intermediate_size"]),
        sliding_window=int(fields["sliding_window"]),
        kernel=int(fields["kernel_size"]),
        last_kernel=int(fields["last_kernel_size"]),
        residual_kernel=int(fields["residual_kernel_size"]),
        compress=int(fields["compress"]),
        codebook_size=int(fields["codebook_size"]),
        codebook_dim=int(fields["codebook_dim"]),
        num_books=int(fields["num_quantizers"]),
        num_semantic_books=int(fields["num_semantic_quantizers"]),
        num_code_groups=int(top["encoder_valid_num_quantizers"]),
        rope_theta=float(fields["rope_theta"]),
        norm_eps=float(fields["norm_eps"]),
    )


def _speaker_encoder(raw: dict[str, Any], talker: TalkerConfig) -> SpeakerEncoderConfig:
    """The released file gives ``enc_dim`` and ``sample_rate``; the rest has the official defaults."""
    names = {
        "enc_dim": "output_size",
        "enc_channels": "channels",
        "enc_kernel_sizes": "kernels",
        "enc_dilations": "dilations",
        "enc_attention_channels": "attention_channels",
        "enc_res2net_scale": "res2net_scale",
        "enc_se_channels": "squeeze_channels",
        "mel_dim": "mel_bins",
        "sample_rate": "sample_rate_hz",
    }
    values = {own: raw[name] for name, own in names.items() if name in raw}
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return SpeakerEncoderConfig(**{"output_size": talker.transformer.hidden_size, **values})
