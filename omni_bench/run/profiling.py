"""The profile of a run: a few more requests after the levels, while the server takes a trace. None of them is timed."""

from __future__ import annotations

import gzip
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from omni_bench.load.runner import LevelInterrupted
from omni_bench.metrics.request import request_metrics
from omni_bench.metrics.trace_stages import trace_of
from omni_bench.records.api_key import ApiKey
from omni_bench.records.config import RunConfig
from omni_bench.records.level import Rate
from omni_bench.records.plan import LevelPlan
from omni_bench.records.profile import RunProfile, Trace
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LevelRecording
from omni_bench.targets.probe import post
from reference_impl.settings import PROFILE_VARIABLE

TRACES = "profile"
REQUESTS = 2  # at least; one for each slot of a level with more
START_TIMEOUT_S, STOP_TIMEOUT_S = 120.0, 300.0
SETTLE_S, SETTLE_LIMIT_S = 0.5, 60.0
VLLM_STAGES = ("0", "1")  # of Qwen3-TTS: talker, Code2Wav
_STAGE = re.compile(r"stage_?\d+")
_UNREADABLE = (OSError, EOFError, zlib.error, msgspec.DecodeError, ValueError, TypeError, LookupError, RecursionError)
"""What reading a file that a server wrote can raise: it may be cut, or no trace at all."""


def profiled(config: RunConfig, folder: Path) -> RunConfig:
    """The configuration of a launch whose server can take traces, into a folder of the run. It is not stored."""
    target, traces = config.target, str(folder / TRACES)
    env = {**target.env, PROFILE_VARIABLE: traces, "VLLM_TORCH_PROFILER_DIR": traces}
    target = replace(target, env=env)
    if target.kind == "vllm_omni":
        given = {str(stage): dict(values) for stage, values in target.stage_overrides.items()}
        wanted = {"profiler": "torch", "torch_profiler_with_stack": False}  # a folder a stage: not all names tell it
        overrides = {
            one: {"profiler_config": {**wanted, "torch_profiler_dir": f"{traces}/stage{one}"}, **given.get(one, {})}
            for one in dict.fromkeys((*VLLM_STAGES, *given))
        }
        target = replace(target, stage_overrides=overrides)
    return replace(config, target=target)


def profile_plan(plans: Sequence[LevelPlan], prompts: Mapping[str, Prompt]) -> LevelPlan:
    """A few requests of the level with the most in flight, those of the shortest texts, as a closed loop.

    A trace holds every operation: some 3 MB a decode step of the tiny voice on a CPU, before they are packed.
    """
    plan = max(plans, key=lambda one: -1 if isinstance(one.concurrency, Rate) else one.concurrency)
    slots = REQUESTS if isinstance(plan.concurrency, Rate) else plan.concurrency
    by_length = sorted(plan.measured, key=lambda one: len(prompts[one.prompt_id].text))
    chosen = by_length[: max(REQUESTS, slots)]
    renamed = (
        replace(one, request_id=f"profile-{number:04d}", scheduled_offset_ns=None) for number, one in enumerate(chosen)
    )
    return LevelPlan(slots, (), tuple(renamed))


def take_profile(
    plan: LevelPlan,
    url: str,
    folder: Path,
    drive: Callable[[LevelPlan], LevelRecording],
    key: ApiKey | None = None,
) -> RunProfile:
    """Trace the requests of ``plan``; ``url``: the server's own address, ``folder``: of the run.

    Whatever goes wrong is told in ``problem``. Raises KeyboardInterrupt, and what ``drive`` raises.
    """
    assert isinstance(plan.concurrency, int)
    nothing = RunProfile(plan.concurrency, 0, 0.0)
    begun = post(f"{url}/start_profile", START_TIMEOUT_S, key)
    if begun.status != 200:
        return replace(nothing, problem=f"the server takes no trace: POST /start_profile {begun.said}")
    try:
        recording = drive(plan)
    except LevelInterrupted:  # its recording is of no level
        raise KeyboardInterrupt from None
    ended = post(f"{url}/stop_profile", STOP_TIMEOUT_S, key)
    metrics = [request_metrics(one, None) for one in recording.timelines if one.ok]
    found = replace(nothing, completed=len(metrics), audio_s=sum(one["audio_s"] or 0.0 for one in metrics))
    if ended.status != 200:
        return replace(found, problem=f"the server did not end its trace: POST /stop_profile {ended.said}")
    traces, problems = [], []
    for path in _written(folder / TRACES):
        name = path.relative_to(folder).as_posix()
        try:
            trace = _read(path, name)
        except _UNREADABLE as error:
            problems.append(f"{name} cannot be read: {type(error).__name__}")
            continue
        traces += [trace] if trace is not None else []
    if not traces and not problems:
        problems.append(f"the server left no trace in {TRACES}/; look into the folder that it was configured with")
    return replace(found, traces=tuple(traces), problem="; ".join(problems) or None)


def _written(folder: Path) -> list[Path]:
    """The trace files, once a server that packs them in the background has come to its end."""
    deadline_s, before = time.monotonic() + SETTLE_LIMIT_S, None
    while True:
        found = sorted(path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz")))
        sizes = [(path, path.stat().st_size) for path in found if path.is_file()]
        if sizes == before or time.monotonic() > deadline_s:
            return [path for path, _ in sizes]
        before = sizes
        time.sleep(SETTLE_S)


def _read(path: Path, file: str) -> Trace | None:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        content: Any = msgspec.json.decode(stream.read())
    events = content.get("traceEvents") if isinstance(content, dict) else None
    stage = _STAGE.search(file)
    name = stage[0].replace("_", " ").replace("stage", "stage ").replace("  ", " ") if stage else path.stem
    return trace_of(events if isinstance(events, list) else [], file, name)
