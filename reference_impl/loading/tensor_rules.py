"""From our parameter names to the tensors of the released files.

Our modules store some tensors fused or stacked; this file is the only place that knows how.
Names: ``talker.*``, ``talker.code_predictor.*``, ``speaker_encoder.*`` in the model's file,
``decoder.*`` (Code2Wav) and ``encoder.*`` in the speech tokenizer's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from reference_impl.model.config import ModelConfig

# codebooks are stored as a running sum and a count of uses; the released decoder divides with this floor
USAGE_FLOOR = 1e-5


@dataclass(frozen=True)
class Rule:
    """How one of our tensors is made: the released names it needs, and the function that joins them."""

    sources: tuple[str, ...]
    join: Callable[..., Tensor]


def _same(x: Tensor) -> Tensor:
    return x


def _rows(*parts: Tensor) -> Tensor:
    return torch.cat(parts)


def _stack(*parts: Tensor) -> Tensor:
    return torch.stack(parts)


def _squeeze(x: Tensor) -> Tensor:
    return x.squeeze(-1)


def _codebooks(*sums_and_usages: Tensor) -> Tensor:
    half = len(sums_and_usages) // 2
    pairs = zip(sums_and_usages[:half], sums_and_usages[half:], strict=True)
    return torch.stack([total.float() / usage.float().clamp(min=USAGE_FLOOR)[:, None] for total, usage in pairs])


def _stack_rule(own: str, released: str) -> Rule | None:
    """Tensors inside a decoder layer (talker or predictor): ``own`` is the name below the layer."""
    fused = {
        "qkv_proj.weight": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "gate_up_proj.weight": ("mlp.gate_proj", "mlp.up_proj"),
    }
    moved = {
        "q_norm.weight": "self_attn.q_norm",
        "k_norm.weight": "self_attn.k_norm",
        "o_proj.weight": "self_attn.o_proj",
        "down_proj.weight": "mlp.down_proj",
        "input_layernorm.weight": "input_layernorm",
        "post_attention_layernorm.weight": "post_attention_layernorm",
    }
    if own in fused:
        return Rule(tuple(f"{released}.{name}.weight" for name in fused[own]), _rows)
    if own in moved:
        return Rule((f"{released}.{moved[own]}.weight",), _same)
    return None


def talker_rule(name: str) -> Rule:
    """The released tensors behind the talker's parameter ``name``."""
    if match := re.fullmatch(r"stack\.layers\.(\d+)\.(.+)", name):
        rule = _stack_rule(match[2], f"talker.model.layers.{match[1]}")
        if rule:
            return rule
    if name.startswith(("text_embedding.", "codec_embedding.")):
        return Rule((f"talker.model.{name}",), _same)
    if name == "stack.norm.weight":
        return Rule(("talker.model.norm.weight",), _same)
    return Rule((f"talker.{name}",), _same)


def predictor_rule(name: str, groups: int) -> Rule:
    """The released tensors behind the code predictor's parameter ``name``."""
    prefix = "talker.code_predictor"
    if match := re.fullmatch(r"stack\.layers\.(\d+)\.(.+)", name):
        rule = _stack_rule(match[2], f"{prefix}.model.layers.{match[1]}")
        if rule:
            return rule
    if name == "embeddings":
        return Rule(tuple(f"{prefix}.model.codec_embedding.{i}.weight" for i in range(groups - 1)), _stack)
    if name == "heads":
        return Rule(tuple(f"{prefix}.lm_head.{i}.weight" for i in range(groups - 1)), _stack)
    if name == "stack.norm.weight":
        return Rule((f"{prefix}.model.norm.weight",), _same)
    return Rule((f"{prefix}.{name.replace('input_projection', 'small_to_mtp_projection')}",), _same)


def code2wav_rule(name: str, config: ModelConfig) -> Rule:
    """The released tensors behind Code2Wav's parameter ``name``."""
    quantizer, blocks = "decoder.quantizer", len(config.code2wav.upsample_rates)
    if name == "quantizer.codebooks":
        books = [f"{quantizer}.rvq_first.vq.layers.0._codebook"]
        books += [f"{quantizer}.rvq_rest.vq.layers.{i}._codebook" for i in range(config.code2wav.num_code_groups - 1)]
        return Rule(tuple(f"{b}.embedding_sum" for b in books) + tuple(f"{b}.cluster_usage" for b in books), _codebooks)
    if name in ("quantizer.first_proj.weight", "quantizer.rest_proj.weight"):
        which = "rvq_first" if "first" in name else "rvq_rest"
        return Rule((f"{quantizer}.{which}.output_proj.weight",), _squeeze)
    if match := re.fullmatch(r"transformer\.layers\.(\d+)\.(.+)", name):
        released = f"decoder.pre_transformer.layers.{match[1]}"
        scales = {"attention_scale": "self_attn_layer_scale.scale", "mlp_scale": "mlp_layer_scale.scale"}
        if match[2] in scales:
            return Rule((f"{released}.{scales[match[2]]}",), _same)
        rule = _stack_rule(match[2], released)
        if rule:
            return rule
    for own, released in (
        (r"transformer\.(.+)", r"decoder.pre_transformer.\1"),
        (r"upsample\.(\d+)\.transposed\.(.+)", r"decoder.upsample.\1.0.\2"),
        (r"upsample\.(\d+)\.block\.(.+)", r"decoder.upsample.\1.1.\2"),
        (r"input_conv\.(.+)", r"decoder.decoder.0.\1"),
        (r"output_act\.(.+)", rf"decoder.decoder.{blocks + 1}.\1"),
        (r"output_conv\.(.+)", rf"decoder.decoder.{blocks + 2}.\1"),
    ):
        if re.fullmatch(own, name):
            return Rule((re.sub(own, released, name),), _same)
    if match := re.fullmatch(r"blocks\.(\d+)\.(act|transposed|units\.(\d+))\.(.+)", name):
        inner = {"act": 0, "transposed": 1}.get(match[2], 2 + int(match[3] or 0))
        return Rule((f"decoder.decoder.{int(match[1]) + 1}.block.{inner}.{match[4]}",), _same)
    return Rule((f"decoder.{name}",), _same)


def speaker_encoder_rule(name: str) -> Rule:
    """The released tensors behind the speaker encoder's parameter ``name``."""
    return Rule((f"speaker_encoder.{name}",), _same)


def codec_encoder_rule(name: str, ratios: int, semantic_books: int, groups: int) -> Rule:
    """The released tensors behind the codec encoder's parameter ``name``. ``ratios``: how many strides it has."""
    quantizer = "encoder.quantizer"
    if match := re.fullmatch(r"(semantic|acoustic)\.(.+)", name):
        residual = f"{quantizer}.{match[1]}_residual_vector_quantizer"
        if match[2] == "input_proj.weight":
            return Rule((f"{residual}.input_proj.weight",), _squeeze)
        count = semantic_books if match[1] == "semantic" else groups - semantic_books
        books = [f"{residual}.layers.{i}.codebook" for i in range(count)]
        return Rule(tuple(f"{b}.embed_sum" for b in books) + tuple(f"{b}.cluster_usage" for b in books), _codebooks)
    if match := re.fullmatch(r"layers\.(\d+)\.(.+)", name):
        layer = f"encoder.encoder_transformer.layers.{match[1]}"
        if match[2] == "qkv_proj.weight":
            return Rule(tuple(f"{layer}.self_attn.{p}_proj.weight" for p in "qkv"), _rows)
        moved = {
            "o_proj.weight": "self_attn.o_proj.weight",
            "attention_scale": "self_attn_layer_scale.scale",
            "mlp_scale": "mlp_layer_scale.scale",
            "fc1.weight": "mlp.fc1.weight",
            "fc2.weight": "mlp.fc2.weight",
        }
        return Rule((f"{layer}.{moved.get(match[2], match[2])}",), _same)
    # the file numbers the convolutions and the activations between them in one list: 0, then three a stride, then two
    if match := re.fullmatch(r"units\.(\d+)\.conv(\d)\.(.+)", name):
        return Rule(
            (f"encoder.encoder.layers.{1 + 3 * int(match[1])}.block.{2 * int(match[2]) - 1}.{match[3]}",), _same
        )
    if match := re.fullmatch(r"downs\.(\d+)\.(.+)", name):
        return Rule((f"encoder.encoder.layers.{3 + 3 * int(match[1])}.{match[2]}",), _same)
    for own, index in (("input_conv.", 0), ("output_conv.", 2 + 3 * ratios)):
        if name.startswith(own):
            return Rule((f"encoder.encoder.layers.{index}.{name.removeprefix(own)}",), _same)
    return Rule((f"encoder.{name}",), _same)
