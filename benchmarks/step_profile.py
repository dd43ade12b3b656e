"""Where the time of a decode step goes on a GPU: kernel by kernel, and what runs beside it in a closed loop.

    python benchmarks/step_profile.py --model qwen3_tts_1_7b --concurrency 1 32 --out profile.md

Traces of the GPU (Kineto, through torch.profiler) of replayed graphs of ``reference.graphs=full_step``:

1. the step alone. Its kernels are one chain, and the next one is on the card before the one in front
   of it has ended; so each is charged with the time from the end of the one in front to its own end,
   and these add up to the step. Time in which none was on the card is a gap.
2. Code2Wav and a prompt alone, a call of each.
3. a closed loop of requests: how long the card works on steps, on prompts, on Code2Wav, on several
   at once, and on nothing. Tracing itself costs some time here.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from omni_bench.metrics.trace_stages import ATTENTION, FIRST_OF_STEP, PRODUCTS, length, step_groups
from omni_bench.report.table import markdown_table
from reference_impl.engine.engine import Engine
from reference_impl.loading.from_settings import Origin, load_weights
from reference_impl.roofline.closed_loop import closed_loop, text_of
from reference_impl.settings import ServerSettings

STEPS = 20
LOOP_FRAMES = 40
CONTEXT = 128
STEP_KERNELS = (
    *PRODUCTS, *ATTENTION, FIRST_OF_STEP, "draw_rest_kernel", "embed_frame_kernel", "end_frame_kernel",
    "draw_first_kernel",
)  # fmt: skip
CODE2WAV_KERNELS = ("convolution_kernel", "exchange_kernel", "window_attention_kernel", "depthwise_kernel")
LIBRARY_PRODUCTS = ("nvjet", "gemm", "cutlass", "splitk")


@dataclass(frozen=True)
class Kernel:
    """One kernel on the card, or a copy."""

    name: str
    start_ns: int
    end_ns: int
    stream: int


def charges(kernels: Sequence[Kernel]) -> list[tuple[int, int]]:
    """(ns from the end of what was in front to its own end, of these without any kernel) for each of a chain."""
    front, result = kernels[0].start_ns, []
    for kernel in kernels:
        result.append((max(0, kernel.end_ns - front), max(0, kernel.start_ns - front)))
        front = max(front, kernel.end_ns)
    return result


def trace(work: Callable[..., Any], *arguments: Any) -> tuple[list[Kernel], Any]:
    """What the card did meanwhile, in order of the start, and what the work returned."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        result = work(*arguments)
        torch.cuda.synchronize()
    kernels = [
        Kernel(event.name(), event.start_ns(), event.start_ns() + event.duration_ns(), event.device_resource_id())
        for event in profiler.profiler.kineto_results.events()
        if event.device_type() == torch.autograd.DeviceType.CUDA and event.duration_ns() > 0
    ]
    return sorted(kernels, key=lambda kernel: kernel.start_ns), result


def share(part: float, whole: float) -> str:
    """As a percentage."""
    return f"{part / whole:.1%}"


def step_table(engine: Engine, rows: int) -> str:
    """The groups of a step of ``rows`` rows, CONTEXT positions behind each."""
    batch = engine._batch
    with torch.inference_mode():
        batch._counters[1:3, :rows] = CONTEXT
        kernels, _ = trace(lambda: [batch._full.replay(rows) for _ in range(STEPS + 1)])
        batch._clear(slice(0, rows))
    begins = [i for i, kernel in enumerate(kernels) if kernel.name == FIRST_OF_STEP]
    time_ns: Counter[str] = Counter()
    count: Counter[str] = Counter()
    gaps = total = 0
    # the first replay has nothing in front of it
    for begin, end in zip(begins[1:], [*begins[2:], len(kernels)], strict=True):
        one = kernels[begin:end]
        total += one[-1].end_ns - one[0].start_ns
        for group, (charged, gap) in zip(step_groups([kernel.name for kernel in one]), charges(one), strict=True):
            time_ns[group] += charged - gap
            count[group] += 1
            gaps += gap
    steps = len(begins) - 1
    table = [
        [group, str(count[group] // steps), *(f"{ns / n / 1e3:.1f}" for n in (steps, count[group])), share(ns, total)]
        for group, ns in time_ns.most_common()
    ]  # fmt: skip
    table.append(["gaps between kernels", "", f"{gaps / steps / 1e3:.0f}", "", f"{gaps / total:.1%}"])
    table.append(["the step", f"{sum(count.values()) // steps}", f"{total / steps / 1e3:.0f}", "", "100.0%"])
    return markdown_table(["kernels", "launches", "us a step", "us each", "share"], table)


def call_group(name: str) -> str:
    """What a kernel of Code2Wav or of a prompt is."""
    for kernel in (*CODE2WAV_KERNELS, "prompt_heads_kernel", "gate_kernel"):
        if name == kernel:
            return kernel.removesuffix("_kernel").replace("_", " ")
    lowered = name.lower()
    if any(word in lowered for word in LIBRARY_PRODUCTS):
        return "matrix products"
    if "norm" in lowered:
        return "norms"
    if "flash" in lowered or "fmha" in lowered or "sdpa" in lowered:
        return "attention"
    return "copies" if lowered.startswith(("memcpy", "memset")) else "others"


def call_table(calls: dict[str, Callable[[], None]]) -> str:
    """Groups of calls that run alone; each is made twice and its second trace counts."""
    table = []
    for title, call in calls.items():
        call()
        kernels, _ = trace(call)
        wall = kernels[-1].end_ns - kernels[0].start_ns
        groups: dict[str, list[int]] = defaultdict(list)
        for kernel, (charged, gap) in zip(kernels, charges(kernels), strict=True):
            groups[call_group(kernel.name)].append(charged - gap)
        busy = sum(map(sum, groups.values()))
        parts = sorted(groups.items(), key=lambda item: -sum(item[1]))
        table += [[title, name, str(len(ns)), f"{sum(ns) / 1e3:.0f}", f"{sum(ns) / wall:.1%}"] for name, ns in parts]
        table.append([title, "gaps between kernels", "", f"{(wall - busy) / 1e3:.0f}", f"{1 - busy / wall:.1%}"])
        table.append([title, "all", str(len(kernels)), f"{wall / 1e3:.0f}", "100.0%"])
    return markdown_table(["call", "kernels", "launches", "us", "share"], table)


def loop_rows(kernels: Sequence[Kernel], code2wav_stream: int, frames: float) -> list[list[str]]:
    """How long the card works on what, in a closed loop in which each place speaks ``frames``."""
    of: dict[str, list[tuple[int, int]]] = {"steps": [], "Code2Wav": [], "prompts and the rest": []}
    for kernel in kernels:
        ours = kernel.name in CODE2WAV_KERNELS or kernel.stream == code2wav_stream
        kind = "steps" if kernel.name in STEP_KERNELS else "Code2Wav" if ours else "prompts and the rest"
        of[kind].append((kernel.start_ns, kernel.end_ns))
    wall = max(kernel.end_ns for kernel in kernels) - kernels[0].start_ns
    everything = length(part for parts in of.values() for part in parts)
    alone = {
        f"{kind} alone": everything - length(p for other, parts in of.items() if other != kind for p in parts)
        for kind in of
    }
    times = {**alone, "several at once": everything - sum(alone.values()), "nothing": wall - everything, "all": wall}
    times.update({f"({kind}, alone or not)": length(parts) for kind, parts in of.items()})
    return [[name, f"{ns / 1e6 / frames:.2f}", share(ns, wall)] for name, ns in times.items()]


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="qwen3_tts_1_7b")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("a profile of the graphs needs a CUDA device")
    if min(args.concurrency) < 1:
        parser.error("--concurrency is at least 1")
    most = max(args.concurrency)
    settings = ServerSettings(
        preset=args.model, checkpoint="random", device="cuda", graphs="full_step", max_batch=most
    )  # fmt: skip
    model, _ = load_weights(settings)
    engine = Engine(model, settings, Origin(None, None))
    engine.warm_up()
    rate_hz = model.config.frame_rate_hz
    parts = [
        f"# Where a step's time goes: {args.model}, {torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n\n"
        f"`python benchmarks/step_profile.py --model {args.model} --concurrency "
        f"{' '.join(map(str, args.concurrency))} --out {args.out.name}`; what the tables mean stands in that file."
    ]
    try:
        for rows in args.concurrency:
            table = step_table(engine, rows)
            parts.append(f"## A step of {rows}, {CONTEXT} positions behind each, alone ({STEPS} replays)\n\n{table}")
        graphs, prompts = engine._audio._graphs, engine._batch._prompts
        shapes = [(count, frames) for count in sorted({1, most}) for frames in (1, graphs.frames)]
        calls: dict[str, Callable[[], None]] = {
            f"Code2Wav, {count} x {frames} frames": graphs._graphs[count, frames][0].replay for count, frames in shapes
        }
        for count, positions in ((1, 64), (8, 64)):
            if (count, positions) in prompts._graphs:
                calls[f"{count} prompts of {positions}"] = prompts._graphs[count, positions].replay
        parts.append(f"## Code2Wav and prompts, a call of each alone\n\n{call_table(calls)}")
        for concurrency in args.concurrency:
            text = text_of(LOOP_FRAMES, rate_hz)
            closed_loop(engine, text, concurrency, 1)
            kernels, pace = trace(closed_loop, engine, text, concurrency, 2)
            frames = pace.frames / concurrency
            stream = Counter(k.stream for k in kernels if k.name in CODE2WAV_KERNELS).most_common(1)[0][0]
            table = markdown_table(["the card works on", "ms a frame", "share"], loop_rows(kernels, stream, frames))
            parts.append(
                f"## A closed loop of {concurrency}, two utterances of {LOOP_FRAMES} frames each\n\n{table}\n\n"
                f"By the host's clock, traced: {pace.ms_per_frame:.2f} ms a frame, "
                f"{pace.stall_s:.2f} s of stalls."
            )
    finally:
        engine.stop()
    args.out.write_text("\n\n".join(parts) + "\n")
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
