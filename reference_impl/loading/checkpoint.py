"""Loading weights: released tensor names in, our modules out, one error for everything wrong.

A checkpoint folder is one of the released Qwen3-TTS: ``config.json``, ``generation_config.json``,
``*.safetensors`` (tensor names: ``tensor_rules.py``), the tokenizer's files and the codec in ``speech_tokenizer/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from omni_bench.errors import CheckpointError
from reference_impl.loading.qwen_tokenizer import QwenTokenizer, TextTokenizer
from reference_impl.loading.released_config import CODEC_FOLDER, read_config
from reference_impl.loading.tensor_rules import (
    Rule,
    code2wav_rule,
    codec_encoder_rule,
    predictor_rule,
    speaker_encoder_rule,
    talker_rule,
)
from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.code_predictor import CodePredictor
from reference_impl.model.codec_encoder import CodecEncoder
from reference_impl.model.config import ModelConfig, read_json
from reference_impl.model.layers import RotaryTable, prepare_layers
from reference_impl.model.speaker_encoder import SpeakerEncoder
from reference_impl.model.talker import Talker

INDEX = "model.safetensors.index.json"
MAX_REFERENCE_S = 60.0  # the longest recording that is cloned


@dataclass(frozen=True)
class Model:
    """The three stages, loaded, in eval mode, on one device.

    The rest belongs to released checkpoints: the text tokenizer, the encoders of those that
    clone voices, and whether the length of an utterance is fixed beforehand (random weights).
    """

    config: ModelConfig
    talker: Talker
    predictor: CodePredictor
    code2wav: Code2Wav
    device: torch.device
    dtype: torch.dtype
    tokenizer: TextTokenizer | None = None
    speaker_encoder: SpeakerEncoder | None = None
    codec_encoder: CodecEncoder | None = None
    forced_lengths: bool = False


Stages = tuple[Talker, CodePredictor, Code2Wav]


class TensorSource:
    """The tensors of the ``*.safetensors`` files of some folders, by name, read when asked for.

    Raises CheckpointError for a folder without such a file, a shard that its index names and
    that is not there, a file that cannot be read, and a name that two files hold.
    """

    def __init__(self, *folders: Path):
        self._where: dict[str, tuple[Path, tuple[int, ...]]] = {}
        files = [path for folder in folders for path in weight_files(folder)]
        for path in files:
            try:
                with safe_open(path, framework="pt") as handle:
                    for name in handle.keys():  # noqa: SIM118 - the handle itself is not iterable
                        if name in self._where:
                            raise CheckpointError(f"tensor {name} is in both {self._where[name][0]} and {path}")
                        self._where[name] = (path, tuple(handle.get_slice(name).get_shape()))
            except (SafetensorError, OSError) as error:
                raise CheckpointError(f"{path}: cannot be read as safetensors: {error}") from None
        self._open = {path: safe_open(path, framework="pt") for path in files}

    def names(self) -> Iterator[str]:
        """Every tensor name in the folders."""
        return iter(self._where)

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def shape(self, name: str) -> tuple[int, ...]:
        """The stored shape."""
        return self._where[name][1]

    def get(self, name: str) -> Tensor:
        """The tensor, on the CPU, in its stored type."""
        return self._open[self._where[name][0]].get_tensor(name)


def weight_files(folder: Path) -> list[Path]:
    """The files an index names, or without one every ``*.safetensors``."""
    index = folder / INDEX
    if not index.is_file():
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise CheckpointError(f"{folder}: no *.safetensors file in this checkpoint folder")
        return files
    raw = read_json(index)
    shards = raw.get("weight_map") if isinstance(raw, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise CheckpointError(f"{index}: no weight_map in it")
    names = sorted({str(name) for name in shards.values()})
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise CheckpointError(f"{index}: names file(s) outside the folder: {', '.join(outside)}")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(f"{index}: shard(s) missing: {', '.join(missing)}")
    return [folder / name for name in names]


def weight_folders(folder: Path) -> tuple[Path, ...]:
    """The folders that hold a checkpoint's tensors."""
    return folder, folder / CODEC_FOLDER


def load_model(folder: Path, device: torch.device, dtype: torch.dtype, max_positions: int, max_frames: int) -> Model:
    """Build the stages from a checkpoint folder; each tensor goes straight to the device.

    Raises CheckpointError listing every missing tensor, every unexpected one, and both shapes
    of every one that does not fit.
    """
    config = read_config(folder)
    source = TensorSource(*weight_folders(folder))
    talker, predictor, code2wav = stages = empty_stages(config, device, dtype, max_positions, max_frames)
    groups = config.predictor.num_code_groups
    rules: list[tuple[Tensor, Rule]] = []
    rules += [(p, talker_rule(n)) for n, p in talker.named_parameters()]
    rules += [(p, predictor_rule(n, groups)) for n, p in predictor.named_parameters()]
    rules += [(p, code2wav_rule(n, config)) for n, p in code2wav.named_parameters()]
    speaker_encoder, codec_encoder = empty_encoders(config, device)
    if speaker_encoder is not None:
        rules += [(p, speaker_encoder_rule(n)) for n, p in speaker_encoder.named_parameters()]
    if codec_encoder is not None:
        sizes = config.codec_encoder
        counts = (len(sizes.ratios), sizes.num_semantic_books, sizes.num_code_groups)
        rules += [(p, codec_encoder_rule(n, *counts)) for n, p in codec_encoder.named_parameters()]
    _fill(rules, source, folder)
    tokenizer = QwenTokenizer(folder)
    return assemble(config, stages, tokenizer=tokenizer, speaker_encoder=speaker_encoder, codec_encoder=codec_encoder)


def empty_encoders(config: ModelConfig, device: torch.device) -> tuple[SpeakerEncoder | None, CodecEncoder | None]:
    """The encoders of a checkpoint that clones voices, in float32, parameters not yet filled."""
    with torch.device("meta"):
        speaker = SpeakerEncoder(config.speaker_encoder) if config.speaker_encoder else None
        max_samples = round(MAX_REFERENCE_S * config.sample_rate_hz)
        codec = CodecEncoder(config.codec_encoder, max_samples) if config.codec_encoder else None
    for encoder in (speaker, codec):
        if encoder is not None:
            materialise(encoder, device, torch.float32)
    return speaker, codec


def empty_stages(
    config: ModelConfig, device: torch.device, dtype: torch.dtype, max_positions: int, max_frames: int
) -> Stages:
    """The three stages on the device in the wanted type, parameters not yet filled.

    ``max_positions`` of the talker and ``max_frames`` of an utterance bound the rotary tables.
    """
    with torch.device("meta"):
        stages = (
            Talker(config.talker, max_positions),
            CodePredictor(config.predictor, config.talker.transformer.hidden_size),
            Code2Wav(config.code2wav, max_frames),
        )
    for stage in stages:
        materialise(stage, device, dtype)
    return stages


def materialise(module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Give a module built on the meta device memory on ``device``, and fill what is not a parameter."""
    module.requires_grad_(False).eval().to(dtype=dtype)
    for part in module.modules():
        # Module.to_empty does the same, and loads SymPy to ask a meta tensor for its strides
        for name, tensor in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]:
            memory = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
            if isinstance(tensor, nn.Parameter):
                memory = nn.Parameter(memory, requires_grad=False)
            setattr(part, name, memory)
    for part in module.modules():
        if isinstance(part, RotaryTable | CodePredictor | SpeakerEncoder):
            part.fill()


def assemble(config: ModelConfig, stages: Stages, **more: Any) -> Model:
    """A model from filled stages: computes what is derived from the weights."""
    talker, predictor, code2wav = stages
    weight = talker.codec_embedding.weight
    for stage in stages:
        prepare_layers(stage)
    predictor.prepare(weight)
    code2wav.prepare()
    return Model(config, talker, predictor, code2wav, weight.device, weight.dtype, **more)


def _fill(rules: Sequence[tuple[Tensor, Rule]], source: TensorSource, folder: Path) -> None:
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
    # what only training, or only cloning with another checkpoint, needs
    spare = re.compile(r"encoder\.|speaker_encoder\.|decoder\.quantizer\.\w+\.input_proj\.weight$")
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
