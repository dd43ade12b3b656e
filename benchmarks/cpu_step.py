"""Milliseconds a frame of each stage of the reference server on a CPU, also against another checkout.

    python benchmarks/cpu_step.py                                   this checkout
    python benchmarks/cpu_step.py --against ../older-checkout       this one and that one, and their ratio

Stages: one step of the decode batch, the talker and the code predictor's frame within it (each for all
rows together), and Code2Wav for one stream by chunk length (a frame of it). Both checkouts are loaded
into this one process and take turns, stage by stage, so that the ratio holds on a machine that others
use too. The CPU time of the measuring thread is printed beside the wall time: on a busy machine it is
the steadier one, though a slower clock and shared caches still show in it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch
from tabulate import tabulate

TEXT = "The train to the coast leaves in the morning."
PACKAGE = "reference_impl"
SAMPLING, BATCH = "model.sampling", "engine.decode_batch"
Stages = dict[str, tuple[Callable[[], object], float]]  # what to call, and how many frames a call makes


def load_package(root: Path) -> Callable[[str], ModuleType]:
    """A function that imports modules of the package ``reference_impl`` under ``root``, whichever others are loaded."""
    own: dict[str, ModuleType] = {}

    def load(name: str) -> ModuleType:
        theirs = {key: sys.modules.pop(key) for key in list(sys.modules) if key.split(".")[0] == PACKAGE}
        sys.modules.update(own)
        sys.path.insert(0, str(root))
        try:
            return importlib.import_module(f"{PACKAGE}.{name}")
        finally:
            sys.path.remove(str(root))
            own.update({key: sys.modules.pop(key) for key in list(sys.modules) if key.split(".")[0] == PACKAGE})
            sys.modules.update(theirs)

    return load


def stages(root: Path, rows: list[int], chunks: list[int]) -> Stages:
    """Every stage of one checkout, ready to be called again and again."""
    load = load_package(root)
    settings = load("settings").ServerSettings(device="cpu", threads=1)
    older = not (root / PACKAGE / "engine").is_dir()  # from before the package had folders
    loading, sampling = load("loading" if older else "loading.from_settings"), load("sampling" if older else SAMPLING)
    model, _ = loading.load_weights(settings)
    prompts = load("loading" if older else "prompt.for_model").prompt_builder(model)
    found: Stages = {}
    for count in rows:
        batch = load("batch" if older else BATCH).DecodeBatch(model, settings, loading.MAX_FRAMES, prompts.pad)
        for seed in range(count):
            request = load("engine_api").SpeechRequest(f"r{seed}", TEXT, "heart", seed=seed)
            allocate = batch.join if older else batch.allocate_slot
            slot = allocate(sampling.request_uniforms(seed, 600, 16))
            batch.prefill(slot, prompts.build(prompts.segments(request)[0]))
        found[f"step, {count} rows"] = batch.step, 1
        found[f"predictor, {count} rows"] = (lambda b=batch, n=count: b._complete(slice(0, n))), 1
        found[f"talker, {count} rows"] = talker_step(model, batch, count), 1
    for length in chunks:
        found[f"Code2Wav, chunk of {length}"] = push(model, length), length
    return found


def push(model: object, length: int) -> Callable[[], object]:
    """The next ``length`` frames of one stream; it is set back each time, so that it never ends."""
    state = model.code2wav.new_state(1)
    codes = torch.randint(0, model.config.code2wav.codebook_size, (1, 16, length))

    def call() -> None:
        model.code2wav.push(codes, state, slice(0, 1))
        state.frames.zero_()

    return call


def talker_step(model: object, batch: object, count: int) -> Callable[[], object]:
    """One position for each row, 40 positions behind it (about the middle of a sentence)."""
    inputs = torch.randn(count, model.config.talker.transformer.hidden_size)
    lengths = torch.full((count,), 40)
    return lambda: model.talker.decode(inputs, lengths, batch._cache, lengths, 64)


def measure(checkouts: list[Stages], rounds: int) -> list[list[object]]:
    """Rows of the table: medians over ``rounds``, the checkouts taking turns."""
    table = []
    for name in checkouts[0]:
        wall: list[list[float]] = [[] for _ in checkouts]
        cpu: list[list[float]] = [[] for _ in checkouts]
        for turn in range(rounds + 3):
            for index, found in enumerate(checkouts):
                call, frames = found[name]
                started = time.perf_counter(), time.thread_time()
                call()
                if turn >= 3:  # the first calls pay for what is done once
                    wall[index].append((time.perf_counter() - started[0]) * 1e3 / frames)
                    cpu[index].append((time.thread_time() - started[1]) * 1e3 / frames)
        middle = [(statistics.median(w), statistics.median(c)) for w, c in zip(wall, cpu, strict=True)]
        ratio = [statistics.median(a / b for a, b in zip(*cpu, strict=True))] if len(checkouts) == 2 else []
        table.append([name, *(value for pair in middle for value in pair), *ratio])
    return table


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="the root of another checkout of this repository")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--chunks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    roots = [Path(__file__).parent.parent, *([given.against] if given.against else [])]
    torch.set_flush_denormal(True)
    print(f"torch {torch.__version__}, load average {os.getloadavg()[0]:.1f}, {given.rounds} rounds, one thread")
    with torch.inference_mode():
        found = measure([stages(root.resolve(), given.rows, given.chunks) for root in roots], given.rounds)
    headers = ["ms a frame", "wall", "CPU", *(["wall there", "CPU there", "CPU ratio"] if given.against else [])]
    print(tabulate(found, headers=headers, floatfmt=".2f"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
