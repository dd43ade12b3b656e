"""Where the time of a trace goes, stage by stage: from the events of a Chrome trace as Kineto writes it. Pure.

A stage is a range that the server named (``omni:talker``); what is within another range counts for the inner one. A
server without such ranges has a trace file a stage, and each of these is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any

from omni_bench.records.profile import Stage, Trace
from reference_impl.settings import SPAN_PREFIX

Event = Mapping[str, Any]
STEP, HOST_GAPS = "step", "host gaps"
_RUNTIME, _DEVICE = ("cuda_runtime", "cuda_driver"), ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCH = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch")
_SYNC = "Synchronize"
MOST_US = 1e18  # a clock of the year 33658
_TO_HOST = "Memcpy DtoH"
PRODUCTS = ("few_rows_kernel", "linear_kernel")
ATTENTION = {"frame_attention_kernel": "predictor", "slot_attention_kernel": "talker"}
AFTER_ATTENTION = ("output", "gate, up", "down", "head")
FIRST_OF_STEP = "begin_frame_kernel"
"""Only a step of ``reference.graphs=full_step`` has it: its kernels tell the stages within one graph."""


def step_groups(names: Sequence[str]) -> list[str]:
    """What each kernel of one step is, in the order of :meth:`reference_impl.engine.cuda.step.FullStep.run`."""
    groups, since_attention, stage = [], None, "predictor"
    for index, name in enumerate(names):
        following = names[index + 1] if index + 1 < len(names) else ""
        if name in ATTENTION:
            stage, since_attention = ATTENTION[name], 0
            groups.append(f"{stage} attention")
        elif name not in PRODUCTS:
            since_attention = None
            groups.append("sampling" if name.startswith("draw") else "embeddings, states")
        elif following in ATTENTION:
            groups.append(f"{ATTENTION[following]} QKV")
        elif since_attention is None:
            # in front of the first layer, or behind the last
            groups.append("talker head" if following == "draw_first_kernel" else "predictor input")
        else:  # of another version of the server there may be more of them
            groups.append(f"{stage} {next(iter(AFTER_ATTENTION[since_attention:]), 'other')}")
            since_attention += 1
    return groups


def union(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same time without overlaps, in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[tuple[float, float]]) -> float:
    """Time that is covered."""
    return sum(end - start for start, end in union(intervals))


def trace_of(events: Iterable[object], file: str, name: str) -> Trace | None:
    """The stages of a trace file; None if nothing in it took time. ``name``: of the stage, if it has no ranges."""
    timed = [one for one in events if isinstance(one, Mapping) and _is_timed(one)]
    if not timed:
        return None
    spans = [one for one in timed if one.get("cat") == "user_annotation" and one["name"].startswith(SPAN_PREFIX)]
    steps = [_interval(one) for one in spans if one["name"] == SPAN_PREFIX + STEP]
    device = [one for one in timed if one.get("cat") in _DEVICE]
    rest = HOST_GAPS if spans else name
    calls: defaultdict[str, int] = defaultdict(int)
    host_us: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[tuple[str, str], float] = defaultdict(float)
    stage_of: dict[Any, str] = {}
    threads: defaultdict[Any, list[Event]] = defaultdict(list)
    for one in [*spans, *(one for one in timed if one.get("cat") in _RUNTIME)]:
        threads[one.get("pid"), one.get("tid")].append(one)
    for thread in threads.values():
        open_spans: list[Event] = []
        for one in sorted(thread, key=lambda one: (one["ts"], -one["dur"])):
            while open_spans and _interval(open_spans[-1])[1] <= one["ts"]:
                open_spans.pop()
            stage = _stage(open_spans[-1]) if open_spans else rest
            if one.get("cat") in _RUNTIME:
                stage_of[_correlation(one)] = stage
                counts[stage, "launches"] += one["name"].startswith(_LAUNCH)
                counts[stage, "syncs"] += _SYNC in one["name"]
                continue
            if open_spans:
                host_us[stage] -= one["dur"]
            calls[_stage(one)] += one["name"] != SPAN_PREFIX + STEP
            host_us[_stage(one)] += one["dur"]
            open_spans.append(one)
    own_us = _own_times_us(device)
    for kernel, stage in _device_work(device, stage_of, rest):
        counts[stage, "device"] += own_us[id(kernel)]
        counts[stage, "to_host"] += kernel["name"].startswith(_TO_HOST)
    window = _window(steps or [_interval(one) for one in timed])
    if steps:  # the thread of the steps: what no stage has of it
        of_steps = next((one.get("pid"), one.get("tid")) for one in spans if one["name"] == SPAN_PREFIX + STEP)
        own = [one for one in spans if (one.get("pid"), one.get("tid")) == of_steps]
        host_us[HOST_GAPS] += window[1] - window[0] - length(_clipped(map(_interval, own), window))
    elif not spans:
        calls[name], host_us[name] = 1, window[1] - window[0]
    names = dict.fromkeys([*host_us, *(stage for stage, _ in counts)])
    on_gpu = bool(device)
    stages = [
        Stage(
            one,
            calls[one],
            host_us[one] / 1e3,
            counts[one, "device"] / 1e3 if on_gpu else None,
            *(int(counts[one, key]) if on_gpu else None for key in ("launches", "syncs", "to_host")),
        )
        for one in sorted(names, key=lambda one: (one == HOST_GAPS, -host_us[one]))
    ]
    busy = length(_clipped(map(_interval, device), window))
    idle_ms = (window[1] - window[0] - busy) / 1e3 if on_gpu else None
    return Trace(file, (window[1] - window[0]) / 1e3, len(steps) or None, idle_ms, tuple(stages))


def _own_times_us(device: Sequence[Event]) -> dict[int, float]:
    """By ``id`` of each event of a GPU: how much longer its stream was busy because of it, in microseconds.

    Kernels of a programmatic dependent launch start while those before them run, and wait: the sum of their durations
    is many times the time that passed.
    """
    busy_until: dict[Any, float] = {}
    own: dict[int, float] = {}
    for one in sorted(device, key=lambda one: one["ts"]):
        stream, (start, end) = (one.get("pid"), one.get("tid")), _interval(one)
        before = busy_until.get(stream, start)
        own[id(one)] = max(0.0, end - max(start, before))
        busy_until[stream] = max(before, end)
    return own


def _device_work(device: Sequence[Event], stage_of: Mapping[Any, str], rest: str) -> Iterable[tuple[Event, str]]:
    """Everything that a GPU did, with the stage that launched it, or that it is of within the graph of a whole step."""
    launched: defaultdict[Any, list[Event]] = defaultdict(list)
    for one in device:
        launched[_correlation(one)].append(one)
    for correlation, work in launched.items():
        work.sort(key=lambda one: one["ts"])
        stages = [stage_of.get(correlation, rest)] * len(work)
        if any(one["name"] == FIRST_OF_STEP for one in work):
            stages = [group.split()[0].rstrip(",") for group in step_groups([one["name"] for one in work])]
        yield from zip(work, stages, strict=True)


def _is_timed(event: Event) -> bool:
    """Whether it is a range of time as it should be: with numbers that can be added up, of a thread that has a name."""
    numbers = all(isinstance(event.get(key), (int, float)) and 0 <= event[key] < MOST_US for key in ("ts", "dur"))
    named = all(isinstance(event.get(key), (int, str, NoneType)) for key in ("pid", "tid"))
    return event.get("ph") == "X" and numbers and named and isinstance(event.get("name"), str)


def _interval(event: Event) -> tuple[float, float]:
    return event["ts"], event["ts"] + event["dur"]


def _stage(span: Event) -> str:
    name = span["name"].removeprefix(SPAN_PREFIX)
    return HOST_GAPS if name == STEP else name  # what is in a step and in no stage of it


def _correlation(event: Event) -> int | str | None:
    arguments = event.get("args")
    found = arguments.get("correlation") if isinstance(arguments, Mapping) else None
    return found if isinstance(found, (int, str)) else None


def _window(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return min(start for start, _ in intervals), max(end for _, end in intervals)


def _clipped(intervals: Iterable[tuple[float, float]], window: tuple[float, float]) -> list[tuple[float, float]]:
    inside = [(max(start, window[0]), min(end, window[1])) for start, end in intervals]
    return [(start, end) for start, end in inside if start < end]
