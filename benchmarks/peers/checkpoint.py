"""A checkpoint of random weights in the released layout, for packages that load nothing else.

The sizes are those of a preset; which tensors there are is read off the official classes on
PyTorch's meta device, and each is drawn on the device that is to run it. The end token is
never drawn (its row of the head is zero, far below the fifty likeliest), so that an utterance
lasts as long as it may.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from reference_impl.loading.random_weights import LAYER_SCALE
from reference_impl.loading.released_config import CODEC_FOLDER
from reference_impl.model.config import ModelConfig, TransformerConfig

SEED = 0
DRAWN_VALUES = ("embedding_sum", "embed_sum")  # running sums of the codebooks' vectors, fan-in 1
BRANCH_SCALES = ("layer_scale.scale", "gamma")
ZEROS = ("bias", "alpha", "beta")
# MimiConfig's fields where the encoder is to be small; it is loaded but never run
SMALL_ENCODER = {
    "hidden_size": 32,
    "num_filters": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "intermediate_size": 48,
    "codebook_size": 64,
    "codebook_dim": 16,
    "vector_quantization_hidden_dimension": 16,
    "num_quantizers": 20,
    "upsample_groups": 32,
}


def shrunk(config: ModelConfig) -> ModelConfig:
    """``config`` with little of everything but the ids, for a functional check on a CPU."""
    talker = dataclasses.replace(
        config.talker,
        transformer=_shrunk(config.talker.transformer, config.talker.transformer.hidden_size // 16),
        text_hidden_size=80,
    )
    predictor = dataclasses.replace(config.predictor, transformer=_shrunk(config.predictor.transformer, 64))
    code2wav = dataclasses.replace(
        config.code2wav,
        codebook_dim=32,
        latent_dim=40,
        hidden_size=24,
        num_heads=3,
        head_dim=16,
        intermediate_size=56,
        num_layers=2,
        decoder_dim=64,
    )
    return dataclasses.replace(config, talker=talker, predictor=predictor, code2wav=code2wav)


def _shrunk(transformer: TransformerConfig, hidden_size: int) -> TransformerConfig:
    return dataclasses.replace(
        transformer,
        hidden_size=hidden_size,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=32,
        intermediate_size=96,
    )


def main_json(config: ModelConfig, markers: Mapping[str, int]) -> dict[str, Any]:
    """``config.json`` of a CustomVoice checkpoint; ``markers`` are the tokenizer's special tokens and their ids.

    The width of the predictor's own embeddings is the talker's, as in the released files.
    """
    talker, predictor, control = config.talker, config.predictor, config.talker.control
    half = talker.transformer.head_dim // 2
    side = half * 20 // 64  # the released sections are 24, 20 and 20 of 64
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_type": config.text.task,
        "tts_model_size": "1b7" if config.text.instructions else "0b6",
        "im_start_token_id": markers["<|im_start|>"],
        "im_end_token_id": markers["<|im_end|>"],
        "tts_pad_token_id": markers["<tts_pad>"],
        "tts_bos_token_id": markers["<tts_text_bos>"],
        "tts_eos_token_id": markers["<tts_text_eod>"],
        "speaker_encoder_config": {"enc_dim": talker.transformer.hidden_size, "sample_rate": config.sample_rate_hz},
        "talker_config": {
            **_transformer_json(talker.transformer),
            "rope_scaling": {
                "type": "default",
                "rope_type": "default",
                "interleaved": True,
                "mrope_section": [half - 2 * side, side, side],
            },
            "vocab_size": talker.codec_vocab_size,
            "text_vocab_size": talker.text_vocab_size,
            "text_hidden_size": talker.text_hidden_size,
            "num_code_groups": predictor.num_code_groups,
            "codec_eos_token_id": talker.codec_eos_id,
            "codec_pad_id": control.pad_id,
            "codec_bos_id": control.bos_id,
            "codec_think_id": control.think_id,
            "codec_nothink_id": control.nothink_id,
            "codec_think_bos_id": control.think_bos_id,
            "codec_think_eos_id": control.think_eos_id,
            "codec_language_id": control.languages,
            "spk_id": control.speakers,
            "spk_is_dialect": {name: control.dialects.get(name, False) for name in control.speakers},
            "code_predictor_config": {
                **_transformer_json(predictor.transformer),
                "vocab_size": predictor.codebook_size,
                "num_code_groups": predictor.num_code_groups,
            },
        },
    }


def _transformer_json(transformer: TransformerConfig) -> dict[str, Any]:
    return {
        "hidden_size": transformer.hidden_size,
        "num_hidden_layers": transformer.num_layers,
        "num_attention_heads": transformer.num_heads,
        "num_key_value_heads": transformer.num_kv_heads,
        "head_dim": transformer.head_dim,
        "intermediate_size": transformer.intermediate_size,
        "rope_theta": transformer.rope_theta,
        "rms_norm_eps": transformer.rms_norm_eps,
        "max_position_embeddings": 32768,
    }


def codec_json(config: ModelConfig, small_encoder: bool) -> dict[str, Any]:
    """``speech_tokenizer/config.json``; the encoder is the released one, or a small one."""
    decoder = config.code2wav
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_config": {"rope_theta": 10000.0, **(SMALL_ENCODER if small_encoder else {})},
        "encoder_valid_num_quantizers": decoder.num_code_groups,
        "decode_upsample_rate": decoder.samples_per_frame,
        "decoder_config": {
            "codebook_size": decoder.codebook_size,
            "codebook_dim": decoder.codebook_dim,
            "latent_dim": decoder.latent_dim,
            "hidden_size": decoder.hidden_size,
            "num_attention_heads": decoder.num_heads,
            "num_key_value_heads": decoder.num_heads,
            "head_dim": decoder.head_dim,
            "intermediate_size": decoder.intermediate_size,
            "num_hidden_layers": decoder.num_layers,
            "num_quantizers": decoder.num_code_groups,
            "sliding_window": decoder.sliding_window,
            "decoder_dim": decoder.decoder_dim,
            "rope_theta": decoder.rope_theta,
            "rms_norm_eps": decoder.rms_norm_eps,
            "upsample_rates": list(decoder.upsample_rates),
            "upsampling_ratios": list(decoder.upsampling_ratios),
        },
    }


def generation_json(config: ModelConfig) -> dict[str, Any]:
    """``generation_config.json``: the preset's sampling."""
    sampling = config.sampling
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "repetition_penalty": sampling.repetition_penalty,
        "subtalker_dosample": True,
        "subtalker_temperature": sampling.predictor_temperature,
        "subtalker_top_k": sampling.predictor_top_k,
        "subtalker_top_p": sampling.predictor_top_p,
        "max_new_tokens": config.max_frames + 1,
    }


def save_random_checkpoint(
    folder: Path, config: ModelConfig, device: torch.device, dtype: torch.dtype, small_encoder: bool
) -> None:
    """Write everything that the official ``from_pretrained`` reads. Needs ``qwen_tts``; raises ImportError without."""
    # the official package is no part of the main environment, and its import takes seconds
    from reference_impl.official_parity.official import import_official, save_tokenizer

    import_official()
    from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSConfig
    from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSForConditionalGeneration
    from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config
    from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Model
    from transformers import EncodecFeatureExtractor

    raw, codec = main_json(config, save_tokenizer(folder)), codec_json(config, small_encoder)
    _write_json(folder / "config.json", raw)
    _write_json(folder / "generation_config.json", generation_json(config))
    generator = torch.Generator(device).manual_seed(SEED)
    with torch.device("meta"):
        model = Qwen3TTSForConditionalGeneration(Qwen3TTSConfig(**raw))
    weights = random_weights(model, generator, dtype)
    weights["talker.codec_head.weight"][config.talker.codec_eos_id] = 0.0
    _save(folder, weights)
    codec_folder = folder / CODEC_FOLDER
    codec_folder.mkdir(exist_ok=True)
    _write_json(codec_folder / "config.json", codec)
    with torch.device("meta"):
        model = Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**codec))
    _save(codec_folder, random_weights(model, generator, dtype))
    EncodecFeatureExtractor(sampling_rate=config.sample_rate_hz).save_pretrained(codec_folder)


def random_weights(model: nn.Module, generator: torch.Generator, dtype: torch.dtype) -> dict[str, Tensor]:
    """A value for every tensor of a model on the meta device: activations stay finite, branches are damped."""
    return {name: _random(name, tensor, generator, dtype) for name, tensor in model.state_dict().items()}


def _random(name: str, tensor: Tensor, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    kind = dtype if tensor.is_floating_point() else tensor.dtype
    value = torch.ones(tensor.shape, dtype=kind, device=generator.device)
    if name.endswith(BRANCH_SCALES):
        return value.fill_(LAYER_SCALE)
    if name.endswith(ZEROS):
        return value.zero_()
    if name.endswith(DRAWN_VALUES):
        return value.normal_(generator=generator)
    if tensor.dim() > 1:
        return value.normal_(0, tensor[0].numel() ** -0.5, generator=generator)
    return value


def _save(folder: Path, weights: dict[str, Tensor]) -> None:
    from safetensors.torch import save_file

    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
