"""Writes a model as a released checkpoint folder: the loader's rules run backwards, JSON files, a small tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers.pre_tokenizers import ByteLevel

from reference_impl.loading.checkpoint import Model
from reference_impl.loading.tensor_rules import (
    code2wav_rule,
    codec_encoder_rule,
    predictor_rule,
    speaker_encoder_rule,
    talker_rule,
)
from reference_impl.model.config import Code2WavConfig, ModelConfig, TransformerConfig

MERGES = ("a s", "as s", "i s", "t a", "n t", "is ta", "ass ista", "assista nt", "u s", "e r", "us er", "h e")
MARKERS = ("<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_bos>", "<tts_eos>")


def released_tensors(model: Model) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The model's tensors under released names: those of the model's file and those of the speech tokenizer's."""
    config = model.config
    groups = config.predictor.num_code_groups
    rules = [(p, talker_rule(n)) for n, p in model.talker.named_parameters()]
    rules += [(p, predictor_rule(n, groups)) for n, p in model.predictor.named_parameters()]
    rules += [(p, code2wav_rule(n, config)) for n, p in model.code2wav.named_parameters()]
    if model.speaker_encoder is not None:
        rules += [(p, speaker_encoder_rule(n)) for n, p in model.speaker_encoder.named_parameters()]
    if model.codec_encoder is not None:
        sizes = config.codec_encoder
        counts = (len(sizes.ratios), sizes.num_semantic_books, sizes.num_code_groups)
        rules += [(p, codec_encoder_rule(n, *counts)) for n, p in model.codec_encoder.named_parameters()]
    tensors: dict[str, torch.Tensor] = {}
    for parameter, rule in rules:
        tensors.update(zip(rule.sources, _parts(parameter.detach(), rule.sources, config), strict=True))
    codec = {n: t.contiguous() for n, t in tensors.items() if n.startswith(("decoder.", "encoder."))}
    rest = {n: t.contiguous() for n, t in tensors.items() if n not in codec}
    return rest, codec


def _parts(value: torch.Tensor, sources: tuple[str, ...], config: ModelConfig) -> list[torch.Tensor]:
    if sources[-1].endswith("cluster_usage"):
        usage = [torch.full((book.shape[0],), 2.0 + i) for i, book in enumerate(value)]
        return [book * used[:, None] for book, used in zip(value, usage, strict=True)] + usage
    if sources[0].endswith(("_proj.weight",)) and "quantizer" in sources[0]:
        return [value[..., None]]
    if len(sources) == 1:
        return [value]
    if "q_proj" in sources[0] or "gate_proj" in sources[0]:
        return list(value.split(_fused_rows(sources[0], value, config)))
    return list(value)


def _fused_rows(name: str, value: torch.Tensor, config: ModelConfig) -> list[int]:
    if "gate_proj" in name:
        return [value.shape[0] // 2] * 2
    if name.startswith(("decoder.", "encoder.")):
        return [value.shape[0] // 3] * 3
    stack = config.predictor.transformer if "code_predictor" in name else config.talker.transformer
    return [heads * stack.head_dim for heads in (stack.num_heads, stack.num_kv_heads, stack.num_kv_heads)]


def save_released(folder: Path, model: Model, task: str = "custom_voice", size: str = "1b7", shards: int = 1) -> None:
    """Everything a released folder holds."""
    (folder / "speech_tokenizer").mkdir(parents=True)
    tensors, codec = released_tensors(model)
    save_file(codec, folder / "speech_tokenizer" / "model.safetensors")
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
    else:
        names = sorted(tensors)
        files = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(names)}
        for file in sorted(set(files.values())):
            save_file({n: tensors[n] for n in names if files[n] == file}, folder / file)
        write(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": files})
    vocabulary = save_tokenizer(folder)
    write(folder / "config.json", released_json(model.config, vocabulary, task, size))
    write(
        folder / "generation_config.json",
        {"do_sample": True, "top_k": 40, "subtalker_top_p": 0.9, "max_new_tokens": 100},
    )
    write(folder / "speech_tokenizer" / "config.json", codec_json(model.config))


def write(path: Path, value: object) -> None:
    """A JSON file."""
    path.write_text(json.dumps(value), encoding="utf-8")


def save_tokenizer(folder: Path) -> dict[str, int]:
    """A byte-level tokenizer with a few merges; returns its vocabulary."""
    vocabulary = {character: i for i, character in enumerate(sorted(ByteLevel.alphabet()))}
    for merge in MERGES:
        vocabulary.setdefault(merge.replace(" ", ""), len(vocabulary))
    write(folder / "vocab.json", vocabulary)
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n", encoding="utf-8")
    added = {}
    for marker in MARKERS:
        vocabulary[marker] = len(vocabulary)
        added[str(vocabulary[marker])] = {"content": marker, "special": True}
    write(folder / "tokenizer_config.json", {"added_tokens_decoder": added})
    return vocabulary


def stack_json(stack: TransformerConfig) -> dict[str, object]:
    """The fields of a decoder stack."""
    return {
        "hidden_size": stack.hidden_size,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": stack.num_heads,
        "num_key_value_heads": stack.num_kv_heads,
        "head_dim": stack.head_dim,
        "intermediate_size": stack.intermediate_size,
        "rope_theta": stack.rope_theta,
        "rms_norm_eps": stack.rms_norm_eps,
    }


def released_json(config: ModelConfig, vocabulary: dict[str, int], task: str, size: str) -> dict[str, object]:
    """config.json in the released form."""
    talker, control = config.talker, config.talker.control
    return {
        "tts_model_type": task,
        "tts_model_size": size,
        "tts_pad_token_id": vocabulary["<tts_pad>"],
        "tts_bos_token_id": vocabulary["<tts_bos>"],
        "tts_eos_token_id": vocabulary["<tts_eos>"],
        "speaker_encoder_config": {"enc_dim": talker.transformer.hidden_size, "sample_rate": 24000},
        "talker_config": {
            **stack_json(talker.transformer),
            "vocab_size": talker.codec_vocab_size,
            "text_vocab_size": talker.text_vocab_size,
            "text_hidden_size": talker.text_hidden_size,
            "codec_eos_token_id": talker.codec_eos_id,
            "codec_pad_id": control.pad_id,
            "codec_bos_id": control.bos_id,
            "codec_think_id": control.think_id,
            "codec_nothink_id": control.nothink_id,
            "codec_think_bos_id": control.think_bos_id,
            "codec_think_eos_id": control.think_eos_id,
            "codec_language_id": control.languages,
            "spk_id": {name.title(): [number] for name, number in control.speakers.items()},
            "spk_is_dialect": {name: control.dialects.get(name, False) for name in control.speakers},
            "code_predictor_config": {
                **stack_json(config.predictor.transformer),
                "vocab_size": config.predictor.codebook_size,
                "num_code_groups": config.predictor.num_code_groups,
            },
        },
    }


def codec_json(config: ModelConfig) -> dict[str, object]:
    """speech_tokenizer/config.json."""
    decoder: Code2WavConfig = config.code2wav
    raw: dict[str, object] = {
        "encoder_valid_num_quantizers": 16,
        "decoder_config": {
            "codebook_size": decoder.codebook_size,
            "codebook_dim": decoder.codebook_dim,
            "latent_dim": decoder.latent_dim,
            "hidden_size": decoder.hidden_size,
            "num_attention_heads": decoder.num_heads,
            "head_dim": decoder.head_dim,
            "intermediate_size": decoder.intermediate_size,
            "num_hidden_layers": decoder.num_layers,
            "num_quantizers": decoder.num_code_groups,
            "sliding_window": decoder.sliding_window,
            "rms_norm_eps": decoder.rms_norm_eps,
            "rope_theta": decoder.rope_theta,
            "upsample_rates": decoder.upsample_rates,
            "upsampling_ratios": decoder.upsampling_ratios,
            "decoder_dim": decoder.decoder_dim,
        },
    }
    encoder = config.codec_encoder
    if encoder is not None:
        raw["encoder_config"] = {
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
    return raw
