"""One system of benchmarks/peers, in a process and an interpreter of its own.

A plan (JSON) comes in on stdin; one JSON object a line goes out on stdout: what is installed,
then each result or why there is none, and which models are done. Everything that the packages
print goes to stderr. ``ready_s`` of a result: loading, or making weights and loading them, in
seconds; ``wall_s`` and ``first_s``: from each request to its last and first audio, in seconds.
"""

from __future__ import annotations

import gc
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.peers.checkpoint import shrunk
from benchmarks.peers.systems import NEEDS, SYSTEMS, Mode, System
from reference_impl.model.config import ModelConfig
from reference_impl.model.presets import PRESETS

REPORTED = (
    "torch", "triton", "transformers", "tokenizers", "accelerate", "qwen-tts", "qwen-tts-hf", "faster-qwen3-tts"
)  # fmt: skip


@dataclass(frozen=True)
class Utterance:
    """What was heard of one utterance: when its first and last samples were in host memory, and how many there are."""

    first_s: float
    last_s: float
    samples: int
    finite: bool


def listen(pieces: Iterator[np.ndarray]) -> Utterance:
    """Time an utterance from its request, which starts with the first step of ``pieces``."""
    heard: list[np.ndarray] = []
    begun = time.perf_counter()
    first_s = last_s = 0.0
    for piece in pieces:
        last_s = time.perf_counter() - begun
        if len(piece) and not any(map(len, heard)):
            first_s = last_s
        heard.append(piece)
    samples = np.concatenate(heard) if heard else np.zeros(0, np.float32)
    return Utterance(first_s, last_s, len(samples), bool(np.isfinite(samples).all()))


def run(system: str, plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Results of every model and mode, as they come; what cannot run is a result with ``error``."""
    cuda = plan["device"].startswith("cuda")
    yield {
        "about": {
            "python": platform.python_version(),
            "packages": installed_versions(),
            "device": torch.cuda.get_device_name(plan["device"]) if cuda else platform.processor() or "CPU",
        }
    }
    absent = [name for name in NEEDS[system] if importlib.util.find_spec(name) is None]
    for model in plan["models"]:
        if absent:
            yield {"model": model, "error": f"not installed: {', '.join(absent)}"}
        else:
            try:
                yield from _run_model(system, model, plan)
            except Exception as error:  # other people's code: whatever it raises is the result
                yield {"model": model, "error": f"{type(error).__name__}: {error}"}
        yield {"done": model}
        gc.collect()
        if cuda:
            torch.cuda.empty_cache()


def _run_model(system: str, model: str, plan: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    config = shrunk(PRESETS[model]) if plan["tiny"] else PRESETS[model]
    cuda = plan["device"].startswith("cuda")
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        speaker: System = SYSTEMS[system](model, config, plan, Path(folder))
    ready_s = time.perf_counter() - begun
    try:
        for mode in speaker.modes:
            try:
                # graphs are captured and kernels chosen at the first utterance
                warm_up = _checked(speaker, mode, plan["warm_up"], config)
                heard = [_checked(speaker, mode, plan, config)]
                while len(heard) < plan["rounds"] and sum(one.last_s for one in heard) < plan["enough_s"]:
                    heard.append(_checked(speaker, mode, plan, config))
            except Exception as error:
                yield {"model": model, "mode": mode.name, "error": f"{type(error).__name__}: {error}"}
                continue
            yield {
                "model": model,
                "mode": mode.name,
                "frames": plan["frames"],
                "frame_rate_hz": config.frame_rate_hz,
                "wall_s": [utterance.last_s for utterance in heard],
                "first_s": [utterance.first_s for utterance in heard] if mode.streams else None,
                "warm_up_s": warm_up.last_s,
                "ready_s": ready_s,
                "peak_gb": torch.cuda.max_memory_allocated() / 1e9 if cuda else None,
            }
    finally:
        speaker.close()


def _checked(speaker: System, mode: Mode, wanted: Mapping[str, Any], config: ModelConfig) -> Utterance:
    frames = wanted["frames"]
    utterance = listen(speaker.speak(mode, wanted["text"], frames))
    spoken = utterance.samples / config.code2wav.samples_per_frame
    if abs(spoken - frames) >= 0.5:
        raise ValueError(f"{spoken:.2f} frames came out, not {frames}: the comparison would not be of equal lengths")
    if not utterance.finite:
        raise ValueError("samples that are no numbers came out")
    return utterance


def installed_versions() -> dict[str, str]:
    """Of the packages in REPORTED that are there."""
    found = {}
    for name in REPORTED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Run the plan on stdin."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    plan = json.loads(sys.stdin.read())
    if not plan["device"].startswith("cuda"):
        torch.set_num_threads(1)
    for result in run(plan["system"], plan):
        results.write(json.dumps(result) + "\n")
        results.flush()


if __name__ == "__main__":
    main()
