"""From settings to a loaded model: which weights, on which device, in which type."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from omni_bench.errors import CheckpointError, ConfigError
from reference_impl.loading.checkpoint import MAX_REFERENCE_S, Model, load_model, weight_files, weight_folders
from reference_impl.loading.random_weights import random_model
from reference_impl.loading.released_config import read_config
from reference_impl.model.config import ModelConfig
from reference_impl.model.layers import counts_operations
from reference_impl.model.predictor_strategies import STRATEGIES
from reference_impl.model.presets import PRESETS
from reference_impl.model.transfers import use_device
from reference_impl.settings import BUNDLED, DTYPES, ServerSettings

MAX_FRAMES = 2048  # 164 s: the most one request may speak
RANDOM_WEIGHTS = (
    "random weights: the audio is noise of the length its text would have at 14 characters a second, "
    "so nothing is transcribed and there is no WER"
)


@dataclass(frozen=True)
class Origin:
    """Where the weights come from: the hash of their files, or why there is none."""

    sha256: str | None
    note: str | None


def load_weights(settings: ServerSettings) -> tuple[Model, Origin]:
    """Load a checkpoint, or make random weights.

    Raises ConfigError for an unknown preset, device, dtype or strategy, CheckpointError for weights that do not load.
    """
    if settings.preset not in PRESETS:
        raise ConfigError(f"reference.preset={settings.preset!r} is unknown; valid: {', '.join(PRESETS)}")
    if settings.predictor not in STRATEGIES:
        raise ConfigError(f"reference.predictor={settings.predictor!r} is unknown; valid: {', '.join(STRATEGIES)}")
    device = resolve_device(settings.device)
    use_device(device)
    # float32 must mean float32: with TF32 convolutions a streamed sample differs from the whole decode by 1e-3
    torch.backends.cudnn.allow_tf32 = False
    if device.type == "cpu":
        torch.set_num_threads(settings.threads or default_threads())
    if settings.checkpoint == "random":
        config = PRESETS[settings.preset]
        dtype = resolve_dtype(settings.dtype, config, device)
        model = random_model(config, device, dtype, settings.max_seq_len, most_frames(config))
        return _recorded(model, settings), Origin(None, RANDOM_WEIGHTS)
    folder = checkpoint_folder(settings)
    config = read_config(folder)
    dtype = resolve_dtype(settings.dtype, config, device)
    model = load_model(folder, device, dtype, settings.max_seq_len, most_frames(config))
    return _recorded(model, settings), Origin(files_sha256(folder), None)


def _recorded(model: Model, settings: ServerSettings) -> Model:
    if settings.recorded and counts_operations(model.talker.codec_embedding.weight):
        model.talker.record()
        model.code2wav.record()
    return model


def describe_weights(model: Model, origin: Origin) -> dict[str, Any]:
    """Which weights run where, for a run's provenance."""
    name = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else "cpu"
    return {
        "checkpoint_sha256": origin.sha256,
        **({"weights": origin.note} if origin.note else {}),
        "device": str(model.device),
        "device_name": name,
        "dtype": str(model.dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def most_frames(config: ModelConfig) -> int:
    """The most frames of one Code2Wav stream: the longest recording and an utterance after it."""
    return MAX_FRAMES + 1 + round(MAX_REFERENCE_S * config.frame_rate_hz)


def checkpoint_folder(settings: ServerSettings) -> Path:
    """Where the weights are. Raises CheckpointError if there is no such folder."""
    if settings.checkpoint != "bundled":
        folder = Path(settings.checkpoint)
        if not folder.is_dir():
            raise CheckpointError(
                f"reference.checkpoint={settings.checkpoint!r}: no such folder; valid: bundled, random, or the folder "
                "of a checkpoint"
            )
        return folder
    if settings.preset not in BUNDLED:
        raise CheckpointError(
            f"reference.checkpoint=bundled: no weights of {settings.preset} come with this package, only of "
            f"{', '.join(BUNDLED)}; give the folder of a released checkpoint, or random"
        )
    return BUNDLED[settings.preset]


def files_sha256(folder: Path) -> str:
    """One SHA-256 over the contents of every weight file, in order."""
    digest = hashlib.sha256()
    for part in weight_folders(folder):
        for path in weight_files(part):
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def default_threads() -> int:
    """Threads inside one operation on a CPU: half the cores, at most 4.

    The engine and Code2Wav run side by side, each with this many. More than the cores can
    serve is far slower than fewer: the threads of an operation wait for each other.
    """
    # not every system reports which cores a process may use
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(4, cores // 2))


def resolve_device(name: str) -> torch.device:
    """``auto``: CUDA where there is one, else the CPU. Raises ConfigError for anything that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"reference.device={name!r} is unknown; valid: auto, cpu, cuda, cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"reference.device={name!r}: PyTorch {torch.__version__} sees no CUDA device here")
    if device.type == "cuda" and device.index is not None and device.index >= torch.cuda.device_count():
        raise ConfigError(f"reference.device={name!r}: this machine has cuda:0 to cuda:{torch.cuda.device_count() - 1}")
    return device


def resolve_dtype(name: str, config: ModelConfig, device: torch.device) -> torch.dtype:
    """``auto``: float32 on a CPU, on CUDA what the model asks for (the tiny voice is too small for bfloat16 to pay)."""
    if name not in DTYPES:
        raise ConfigError(f"reference.dtype={name!r} is unknown; valid: {', '.join(DTYPES)}")
    if name == "auto":
        name = config.cuda_dtype if device.type == "cuda" else "float32"
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]
