"""Between our modules and a checkpoint folder with the released tensor names: loading a base, writing a result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from reference_impl.loading.checkpoint import Model, TensorSource, load_model
from reference_impl.loading.qwen_tokenizer import FILES
from reference_impl.loading.released_config import CODEC_FOLDER
from reference_impl.loading.tensor_rules import code2wav_rule, predictor_rule, talker_rule
from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.config import ModelConfig

MAX_POSITIONS, MAX_FRAMES = 512, 257


def load_base(folder: Path) -> Model:
    """A checkpoint in float32 on the CPU. Raises CheckpointError if it does not load."""
    return load_model(folder, torch.device("cpu"), torch.float32, MAX_POSITIONS, MAX_FRAMES)


def load_code2wav(target: Code2Wav, folder: Path, config: ModelConfig) -> None:
    """Copy a checkpoint's Code2Wav into ``target`` (same shapes, any activation module)."""
    target.load_state_dict(load_base(folder).code2wav.state_dict())


def released_tensors(
    name: str, value: Tensor, sources: tuple[str, ...], config: ModelConfig
) -> Iterator[tuple[str, Tensor]]:
    """Undo the joining of :mod:`..loading.checkpoint`: one of our tensors -> the released ones, by name."""
    if name.endswith("qkv_proj.weight"):
        if "pre_transformer" in sources[0]:
            sizes = [value.shape[0] // 3] * 3
        else:
            part = config.predictor if "code_predictor" in sources[0] else config.talker
            shape = part.transformer
            heads, kv_heads = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
            sizes = [heads, kv_heads, kv_heads]
        parts = list(value.split(sizes))
    elif name.endswith("gate_up_proj.weight"):
        parts = list(value.chunk(2))
    elif name == "quantizer.codebooks":
        parts = [*value.unbind(), *torch.ones(value.shape[:2]).unbind()]
    elif name in ("quantizer.first_proj.weight", "quantizer.rest_proj.weight"):
        parts = [value[..., None]]
    elif len(sources) > 1:
        parts = list(value.unbind())
    else:
        parts = [value]
    yield from zip(sources, parts, strict=True)


def write_checkpoint(
    folder: Path, base: Path, config: ModelConfig, talker: nn.Module, predictor: nn.Module, code2wav: nn.Module
) -> None:
    """Write the released folder of ``config``: weights as float16, everything else as ``base`` has it."""
    groups = config.predictor.num_code_groups
    main: list[tuple[nn.Module, Callable]] = [(talker, talker_rule), (predictor, lambda n: predictor_rule(n, groups))]
    codec: list[tuple[nn.Module, Callable]] = [(code2wav, lambda n: code2wav_rule(n, config))]
    for part, stages in ((folder, main), (folder / CODEC_FOLDER, codec)):
        part.mkdir(parents=True, exist_ok=True)
        source = TensorSource(base / part.relative_to(folder))
        tensors = {name: source.get(name) for name in source.names()}
        for module, rule in stages:
            for name, parameter in module.named_parameters():
                value = parameter.detach().float().cpu()
                for released, piece in released_tensors(name, value, rule(name).sources, config):
                    tensors[released] = piece
        half = {name: t.half() if t.is_floating_point() else t for name, t in tensors.items()}
        partial = part / "model.partial"
        save_file({name: t.contiguous() for name, t in half.items()}, partial, metadata={"format": "pt"})
        partial.chmod(0o644)
        partial.replace(part / "model.safetensors")
        for name in (*FILES, "config.json", "generation_config.json", "preprocessor_config.json"):
            path = base / part.relative_to(folder) / name
            if path.exists() and path.resolve() != (part / name).resolve():
                shutil.copyfile(path, part / name)
