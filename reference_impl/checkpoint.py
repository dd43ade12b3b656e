"""Loading weights: released tensor names in, our modules out, one error for everything wrong.

A checkpoint folder holds ``config.json`` and ``*.safetensors`` whose tensors have the names
of the released Qwen3-TTS files: ``talker.*``, ``talker.code_predictor.*`` and, for
Code2Wav, ``decoder.*``. Our modules store some of them fused or stacked; this file is the
only place that knows how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from omni_bench.errors import CheckpointError
from reference_impl.code2wav import Code2Wav
from reference_impl.code_predictor import CodePredictor
from reference_impl.config import ModelConfig, config_from_json
from reference_impl.talker import Talker

BUNDLED = {"tiny": Path(__file__).parent / "checkpoints" / "tiny"}
# codebooks are stored as a running sum and a count of uses; the released decoder divides with this floor
USAGE_FLOOR = 1e-5


@dataclass(frozen=True)
class Model:
    """The three stages, loaded, in eval mode, on one device."""

    config: ModelConfig
    talker: Talker
    predictor: CodePredictor
    code2wav: Code2Wav
    device: torch.device
    dtype: torch.dtype


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


class TensorSource:
    """The tensors of every ``*.safetensors`` file of a folder, by name, read when asked for."""

    def __init__(self, folder: Path):
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise CheckpointError(f"{folder}: no *.safetensors file in this checkpoint folder")
        self._where: dict[str, tuple[Path, tuple[int, ...]]] = {}
        for path in files:
            try:
                with safe_open(path, framework="pt") as handle:
                    for name in handle.keys():  # noqa: SIM118 - the handle itself is not iterable
                        self._where[name] = (path, tuple(handle.get_slice(name).get_shape()))
            except (SafetensorError, OSError) as error:
                raise CheckpointError(f"{path}: cannot be read as safetensors: {error}") from None
        self._open = {path: safe_open(path, framework="pt") for path in files}

    def names(self) -> Iterator[str]:
        """Every tensor name in the folder."""
        return iter(self._where)

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def get(self, name: str) -> Tensor:
        """The tensor, on the CPU, in its stored type."""
        return self._open[self._where[name][0]].get_tensor(name)


def load_model(folder: Path, device: torch.device, dtype: torch.dtype, max_positions: int, max_frames: int) -> Model:
    """Build the three stages from a checkpoint folder.

    Raises CheckpointError listing every missing tensor, every unexpected one, and both shapes
    of every one that does not fit.
    """
    config = config_from_json(folder / "config.json")
    source = TensorSource(folder)
    talker = Talker(config.talker, max_positions)
    predictor = CodePredictor(config.predictor, config.talker.transformer.hidden_size)
    code2wav = Code2Wav(config.code2wav, max_frames)
    groups = config.predictor.num_code_groups
    rules: list[tuple[Tensor, Rule]] = []
    rules += [(p, talker_rule(n)) for n, p in talker.named_parameters()]
    rules += [(p, predictor_rule(n, groups)) for n, p in predictor.named_parameters()]
    rules += [(p, code2wav_rule(n, config)) for n, p in code2wav.named_parameters()]
    _fill(rules, source, folder)
    for module in (talker, predictor, code2wav):
        module.requires_grad_(False).eval().to(device=device, dtype=dtype)
    predictor.prepare(talker.codec_embedding.weight)
    code2wav.prepare()
    return Model(config, talker, predictor, code2wav, device, dtype)


def _fill(rules: list[tuple[Tensor, Rule]], source: TensorSource, folder: Path) -> None:
    missing, misshapen, used = [], [], set()
    for parameter, rule in rules:
        used.update(rule.sources)
        absent = [name for name in rule.sources if name not in source]
        if absent:
            missing += absent
            continue
        parts = [source.get(name) for name in rule.sources]
        try:
            value = rule.join(*parts)
        except RuntimeError:
            value = None
        if value is None or value.shape != parameter.shape:
            found = ", ".join(f"{n} {tuple(p.shape)}" for n, p in zip(rule.sources, parts, strict=True))
            misshapen.append(f"{found} do not give {tuple(parameter.shape)}")
            continue
        with torch.no_grad():
            parameter.copy_(value)
    # the encoder, the speaker encoder and the quantiser's input side are not needed to speak
    spare = re.compile(r"encoder\.|speaker_encoder\.|.*\.input_proj\.weight$")
    unexpected = [name for name in source.names() if name not in used and not spare.match(name)]
    if missing or misshapen or unexpected:
        raise CheckpointError(
            f"{folder}: the checkpoint does not fit its config.json"
            + _listed("missing", missing)
            + _listed("unexpected", unexpected)
            + _listed("wrong shape", misshapen)
        )


def _listed(title: str, entries: list[str], most: int = 20) -> str:
    if not entries:
        return ""
    more = f"\n  ... and {len(entries) - most} more" if len(entries) > most else ""
    return f"\n{title} ({len(entries)}):\n  " + "\n  ".join(entries[:most]) + more
