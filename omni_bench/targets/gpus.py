"""NVIDIA GPUs as ``nvidia-smi`` tells them: which there are, and which processes hold memory on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

QUERY_TIMEOUT_S = 10.0
RELEASE_WAIT_S = 3.0
POLL_S = 0.25
DEVICES_VARIABLE = "CUDA_VISIBLE_DEVICES"
OTHER_ACCELERATORS = {"/dev/kfd": "an AMD GPU", "/dev/davinci0": "an Ascend NPU", "/dev/accel/accel0": "an accelerator"}


@dataclass(frozen=True)
class Gpu:
    """``index`` and ``uuid`` as CUDA_VISIBLE_DEVICES takes them."""

    index: str
    uuid: str
    name: str


def visible_gpus(env: Mapping[str, str]) -> list[Gpu] | None:
    """The GPUs that a process with the environment ``env`` sees; None without a working ``nvidia-smi``.

    A list in CUDA_VISIBLE_DEVICES ends at the first entry that does not exist, as in CUDA.
    """
    rows = _query("--query-gpu=index,uuid,name")
    if rows is None:
        return None
    gpus = [Gpu(*row) for row in rows if len(row) == 3]
    listed = env.get(DEVICES_VARIABLE)
    if listed is None:
        return gpus
    seen: list[Gpu] = []
    for word in (part.strip() for part in listed.split(",")):
        found = next((gpu for gpu in gpus if word and (gpu.index == word or gpu.uuid.startswith(word))), None)
        if found is None:
            break
        seen.append(found)
    return seen


def other_accelerator() -> str | None:
    """What else than an NVIDIA GPU this machine computes with, None if nothing is seen."""
    return next((name for path, name in OTHER_ACCELERATORS.items() if Path(path).exists()), None)


def free_gpu_bytes() -> dict[str, int | None] | None:
    """UUID -> free memory of every GPU, None where the driver does not say; None without a working ``nvidia-smi``."""
    rows = _query("--query-gpu=uuid,memory.free")
    if rows is None:
        return None
    words = {row[0]: row[1].split() for row in rows if len(row) == 2}
    return {
        uuid: int(word[0]) * 2**20 if len(word) == 2 and word[0].isdecimal() and word[1] == "MiB" else None
        for uuid, word in words.items()
    }


def gpu_processes() -> dict[int, str] | None:
    """Process id -> GPU of every process that computes on one; None without a working ``nvidia-smi``."""
    rows = _query("--query-compute-apps=pid,gpu_uuid")
    return None if rows is None else {int(row[0]): row[1] for row in rows if len(row) == 2 and row[0].isdecimal()}


def left_behind(before: Mapping[int, str] | None) -> dict[int, str]:
    """Processes that are on a GPU and were not ``before``; memory that is being released is waited for."""
    if before is None:
        return {}
    deadline = time.monotonic() + RELEASE_WAIT_S
    while True:
        left = {pid: gpu for pid, gpu in (gpu_processes() or {}).items() if pid not in before}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(POLL_S)


def _query(question: str) -> list[list[str]] | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    env = {**os.environ, "LC_ALL": "C"}
    command = [program, question, "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=False, env=env, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0:
        return None
    return [[cell.strip() for cell in line.split(",", 2)] for line in done.stdout.splitlines() if line.strip()]
