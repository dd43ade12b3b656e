"""Writes a model as a released checkpoint folder: the loader's rules run backwards, JSON files, a small tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.peers.checkpoint import codec_json, main_json
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.tensor_rules import (
    Rule,
    code2wav_rule,
    codec_encoder_rule,
    predictor_rule,
    speaker_encoder_rule,
    talker_rule,
)
from reference_impl.model.config import CodecEncoderConfig, ModelConfig
from reference_impl.official_parity.official import save_tokenizer
from reference_impl.training.released import released_tensors


def tensors_of(model: Model) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The model's tensors under released names: those of the model's file and those of the speech tokenizer's."""
    config = model.config
    groups = config.predictor.num_code_groups
    rules = [(n, p, talker_rule(n)) for n, p in model.talker.named_parameters()]
    rules += [(n, p, predictor_rule(n, groups)) for n, p in model.predictor.named_parameters()]
    rules += [(n, p, code2wav_rule(n, config)) for n, p in model.code2wav.named_parameters()]
    if model.speaker_encoder is not None:
        rules += [(n, p, speaker_encoder_rule(n)) for n, p in model.speaker_encoder.named_parameters()]
    if model.codec_encoder is not None:
        sizes = config.codec_encoder
        counts = (len(sizes.ratios), sizes.num_semantic_books, sizes.num_code_groups)
        rules += [(n, p, codec_encoder_rule(n, *counts)) for n, p in model.codec_encoder.named_parameters()]
    tensors: dict[str, torch.Tensor] = {}
    for name, parameter, rule in rules:
        tensors.update(_parts(name, parameter.detach(), rule, config))
    codec = {n: t.contiguous() for n, t in tensors.items() if n.startswith(("decoder.", "encoder."))}
    rest = {n: t.contiguous() for n, t in tensors.items() if n not in codec}
    return rest, codec


def _parts(name: str, value: torch.Tensor, rule: Rule, config: ModelConfig) -> Iterable[tuple[str, torch.Tensor]]:
    sources = rule.sources
    if sources[-1].endswith("cluster_usage"):  # sums of what used each row, and how often: not once, as in training
        usage = [torch.full((book.shape[0],), 2.0 + i) for i, book in enumerate(value)]
        return zip(
            sources, [book * used[:, None] for book, used in zip(value, usage, strict=True)] + usage, strict=True
        )
    if sources[0].startswith("encoder."):
        if sources[0].endswith("_proj.weight") and "quantizer" in sources[0]:
            return [(sources[0], value[..., None])]
        if "q_proj" in sources[0]:
            return zip(sources, value.chunk(3), strict=True)
    return released_tensors(name, value, sources, config)


def save_released(folder: Path, model: Model, task: str = "custom_voice", size: str = "1b7", shards: int = 1) -> None:
    """Everything a released folder holds."""
    (folder / "speech_tokenizer").mkdir(parents=True)
    tensors, codec = tensors_of(model)
    save_file(codec, folder / "speech_tokenizer" / "model.safetensors")
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
    else:
        names = sorted(tensors)
        files = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(names)}
        for file in sorted(set(files.values())):
            save_file({n: tensors[n] for n in names if files[n] == file}, folder / file)
        write(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": files})
    raw = main_json(model.config, save_tokenizer(folder)) | {"tts_model_type": task, "tts_model_size": size}
    speakers = model.config.talker.control.speakers
    raw["talker_config"]["spk_id"] = {name.title(): [number] for name, number in speakers.items()}
    write(folder / "config.json", raw)
    write(
        folder / "generation_config.json",
        {"do_sample": True, "top_k": 40, "subtalker_top_p": 0.9, "max_new_tokens": 100},
    )
    codec_config = codec_json(model.config, small_encoder=False) | {"encoder_valid_num_quantizers": 16}
    if (encoder := model.config.codec_encoder) is not None:
        codec_config["encoder_config"] = encoder_json(encoder)
    write(folder / "speech_tokenizer" / "config.json", codec_config)


def write(path: Path, value: object) -> None:
    """A JSON file."""
    path.write_text(json.dumps(value), encoding="utf-8")


def encoder_json(encoder: CodecEncoderConfig) -> dict[str, object]:
    """MimiConfig's fields."""
    return {
        "upsampling_ratios": list(reversed(encoder.ratios)),
        "num_filters": encoder.num_filters,
        "hidden_size": encoder.hidden_size,
        "num_hidden_layers": encoder.num_layers,
        "num_attention_heads": encoder.num_heads,
        "head_dim": encoder.head_dim,
        "intermediate_size": encoder.intermediate_size,
        "sliding_window": encoder.sliding_window,
        "kernel_size": encoder.kernel,
        "last_kernel_size": encoder.last_kernel,
        "residual_kernel_size": encoder.residual_kernel,
        "compress": encoder.compress,
        "codebook_size": encoder.codebook_size,
        "codebook_dim": encoder.codebook_dim,
        "num_quantizers": encoder.num_books,
        "num_semantic_quantizers": encoder.num_semantic_books,
        "rope_theta": encoder.rope_theta,
        "norm_eps": encoder.norm_eps,
    }
