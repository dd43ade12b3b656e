"""Where a result comes from: everything needed to judge, compare and repeat a run."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from omni_bench import __version__
from omni_bench.records.config import RunConfig
from omni_bench.spread import usable_cores as usable_cores
from reference_impl.settings import may_have_gpu, torch_version

ARCHIVE = Path("omni_bench") / "archive_commit.txt"  # filled in by git archive, as .gitattributes says
PACKAGES = (
    "aiohttp",
    "ctranslate2",
    "datasets",
    "faster-whisper",
    "hydra-core",
    "jiwer",
    "numpy",
    "omegaconf",
    "openai-whisper",
    "pyarrow",
    "resemblyzer",
    "safetensors",
    "scipy",
    "sglang",
    "sglang-omni",
    "torch",
    "vllm",
    "vllm-omni",
)
"""Packages that can change a result; one that is not installed is null."""

COMMAND_TIMEOUT_S = 10.0


def provenance(
    config: RunConfig,
    *,
    command: Sequence[str],
    target: dict[str, Any],
    prompts: dict[str, Any],
    judge: dict[str, Any] | None,
    with_gpus: bool = True,
    here: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """``provenance`` of run.json. The other arguments are its parts of the same name, as plain types.

    ``with_gpus``: of :func:`hardware`; ``here``: what that says, None to look now.
    """
    return {
        "command": list(command),
        "harness": harness(),
        "target": target,
        "config": asdict(config),
        "prompts": prompts,
        "judge": judge,
        "hardware": hardware(with_gpus) if here is None else dict(here),
        "software": software(),
    }


def harness() -> dict[str, Any]:
    """Version of omni-bench; commit and whether it was changed, if it runs from a git checkout.

    The files of ``git archive`` know their commit (``ARCHIVE``), but not whether they were changed since: None.
    """
    root = Path(__file__).resolve().parents[2]
    commit = dirty = None
    if (root / "pyproject.toml").is_file() and (root / ".git").exists():
        commit = _output(["git", "-C", str(root), "rev-parse", "HEAD"])
        status = _output(["git", "-C", str(root), "status", "--porcelain"]) if commit else None
        dirty = None if status is None else bool(status)
    elif (root / ARCHIVE).is_file():
        stated = (root / ARCHIVE).read_text(encoding="ascii").strip()
        commit = None if stated.startswith("$") else stated
    return {"version": __version__, "commit": commit or None, "dirty": dirty}


def hardware(with_gpus: bool = True) -> dict[str, Any]:
    """CPU, memory and visible GPUs of this machine. ``with_gpus`` initialises CUDA: not before the load phase."""
    return {
        "cpu": cpu_model(),
        "cpu_cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": _gpus() if with_gpus and may_have_gpu() else [],
        "cuda": torch_version()["cuda"] if with_gpus else None,
    }


def _gpus() -> list[dict[str, Any]]:
    import torch  # takes seconds

    if not torch.cuda.is_available():
        return []
    driver = (_output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]) or "").splitlines()
    found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [
        {"name": one.name, "memory_bytes": one.total_memory, "driver": driver[0].strip() if driver else None}
        for one in found
    ]


def software() -> dict[str, Any]:
    """Python, operating system and the versions of :data:`PACKAGES`."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: package_version(name) for name in PACKAGES},
    }


def package_version(name: str) -> str | None:
    """Version of an installed package, None if it is not."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def cpu_model() -> str | None:
    """The CPU's name, None where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None) or platform.processor() or None


def _output(command: list[str]) -> str | None:
    """What a command prints, stripped; None if it is not there, fails or takes too long."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
