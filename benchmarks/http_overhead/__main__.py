"""What HTTP costs the reference server beside an engine that keeps a card's time: one process or two.

    python -m benchmarks.http_overhead [--levels 1,8,32] [--rounds 3] [--host-ms 1]

The engine (``paced_engine.py``) has no model: steps of ``--step-ms`` for up to 32 requests, of
which ``--host-ms`` are Python under the interpreter lock, and chunks by the real schedule. It is driven
by the harness's own load worker over HTTP, in the server's process and in one of its own
(``reference.engine_process``), a fresh server each time, in turn; a row is the median of the rounds.

``engine alone``: the same load submitted beside the engine, without a socket. ``step``: as the engine
saw it. ``in``: from the client's start to the submission in the engine; ``out``: from the engine's first
chunk to the client; ``TTFP +ms``: both together. ``CPU``: processor time of the server's processes.
``lag``: the client's own.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import psutil
from tabulate import tabulate

from benchmarks.http_overhead.paced_engine import FRAME_S, SAMPLE_RATE_HZ, EnginePace, PacedEngine
from omni_bench.load.closed_plan import build_level_plans, prompts_needed
from omni_bench.load.runner import run_level
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.plan import LevelPlan
from omni_bench.records.prompt import Prompt
from omni_bench.records.timeline import Timeline
from omni_bench.subprocesses import LISTENING_ON, child_env
from omni_bench.targets.process import ServerProcess
from reference_impl.engine_api import AudioChunk, Event, SpeechRequest
from reference_impl.http.server import serve
from reference_impl.remote.client import EngineProcess
from reference_impl.remote.process import host_engine
from reference_impl.settings import ServerSettings

MODES = {"one process": "one", "two processes": "two"}
HEADERS = (
    "server",
    "c",
    "failed",
    "audio-s/s",
    "step ms",
    "step p99",
    "in p50 ms",
    "out p50 ms",
    "TTFP p95 +ms",
    "CPU ms/audio-s",
    "lag p99 ms",
)
BYTES_PER_S = SAMPLE_RATE_HZ * 2
CLIENT = ClientConfig(kind="openai_speech", model="paced")


def main() -> None:
    """Print one row a level and way of serving."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.http_overhead",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--levels", default="1,8,32", help="concurrencies (default: %(default)s)")
    parser.add_argument("--per-slot", type=int, default=4, help="requests a place, 16 at least (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="of everything (default: %(default)s)")
    parser.add_argument("--modes", nargs="+", default=list(MODES.values()), choices=list(MODES.values()))
    for one in fields(EnginePace):
        flag = f"--{one.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(one.default), default=one.default, help="default: %(default)s")
    parser.add_argument("--role", choices=("one", "two", "engine"), help=argparse.SUPPRESS)
    parser.add_argument("--records", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fd", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    pace = EnginePace(**{one.name: getattr(arguments, one.name) for one in fields(EnginePace)})
    if arguments.role == "engine":
        host_engine(arguments.fd, lambda settings: PacedEngine(pace, arguments.records))
    elif arguments.role:
        be_server(arguments.role, pace, arguments.records)
    else:
        levels = [int(level) for level in arguments.levels.split(",")]
        rows: dict[tuple, list[list]] = {}
        for _ in range(arguments.rounds):
            for plan in plans(levels, arguments.per_slot):
                ways = [alone(pace, plan)]
                ways += [served(name, mode, pace, plan) for name, mode in MODES.items() if mode in arguments.modes]
                for row in ways:
                    rows.setdefault(tuple(row[:2]), []).append(row[2:])
        table = [[*key, *map(middle, zip(*found, strict=True))] for key, found in rows.items()]
        print(tabulate(table, headers=HEADERS, floatfmt=".1f", missingval="n/a", tablefmt="github"))


def middle(values: tuple) -> float | None:
    """The median of those that there are."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def plans(levels: list[int], per_slot: int) -> list[LevelPlan]:
    """Closed loops, one a level."""
    load = LoadConfig(
        kind="closed_loop", concurrency=levels, requests_per_level=16, requests_per_slot=per_slot, warmup_per_slot=1
    )
    prompts = [
        Prompt(id=str(number), text=f"Sentence {number}.", ref_text=None, ref_audio=None, language="en")
        for number in range(prompts_needed(load))
    ]
    return build_level_plans(prompts, load, CLIENT)


def command(pace: EnginePace, records: Path, role: str) -> list[str]:
    """This script in another role."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in asdict(pace).items()]
    return [sys.executable, __file__, *options, "--records", str(records), "--role", role]


def be_server(role: str, pace: EnginePace, records: Path) -> None:
    """Serve until SIGTERM."""
    process = EngineProcess([*command(pace, records, "engine"), "--fd"])
    make = (lambda: process.load(ServerSettings())) if role == "two" else (lambda: PacedEngine(pace, records))
    logging.basicConfig(level=logging.INFO)
    try:
        serve(make, "127.0.0.1", 0)
    finally:
        process.end()


def served(name: str, mode: str, pace: EnginePace, plan: LevelPlan) -> list:
    """A row of a fresh server."""
    with tempfile.TemporaryDirectory() as folder:
        records_path = Path(folder) / "records.json"
        server = ServerProcess(command(pace, records_path, mode), Path(folder) / "server.log", child_env())
        server.launch()
        try:
            server.wait_until_ready(lambda: "ready: model" in server.output(), 60)
            address = re.search(re.escape(LISTENING_ON) + r"(\S+)", server.output())[1]
            before_s = cpu_s(server.pid)
            recording = run_level(
                plan, base_url=address, client=CLIENT, spool_dir=Path(folder), on_event=lambda event: None
            )
            used_s = cpu_s(server.pid) - before_s
        finally:
            server.stop()
        records = json.loads(records_path.read_text(encoding="utf-8"))
    timelines = [timeline for timeline in recording.timelines if timeline.ok]
    added_ms = np.array([added(timeline, *records["first_ns"][timeline.request_id]) for timeline in timelines])
    begun_ns = min(timeline.started_ns for timeline in recording.timelines)
    wall_s = (max(timeline.ended_ns or 0 for timeline in recording.timelines) - begun_ns) / 1e9
    measured_s = sum(sum(timeline.chunk_bytes) for timeline in timelines) / BYTES_PER_S
    lag_ms = recording.lag.p99_ms if recording.lag is not None else None
    failed = len(recording.timelines) - len(added_ms)
    ways_ms = [None] * 3
    if len(added_ms):
        ways_ms = [*np.median(added_ms, axis=0), np.percentile(added_ms.sum(axis=1), 95)]
    spoken_s = records["frames"] * FRAME_S
    return [
        name, plan.concurrency, failed, measured_s / wall_s, *steps(records["step_ms"]), *ways_ms,
        1e3 * used_s / spoken_s, lag_ms,
    ]  # fmt: skip


def added(timeline: Timeline, submitted_ns: int, first_ns: int) -> tuple[float, float]:
    """Milliseconds from the client to the engine, and from the engine's first chunk to the client."""
    return (submitted_ns - timeline.started_ns) / 1e6, (timeline.first_audio_ns - first_ns) / 1e6


def steps(step_ms: list[float]) -> tuple[float, float]:
    """Mean and 99th percentile of a step."""
    return float(np.mean(step_ms)), float(np.percentile(step_ms, 99))


def cpu_s(pid: int) -> float:
    """Processor seconds of a process and its children."""
    root = psutil.Process(pid)
    times = [process.cpu_times() for process in (root, *root.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def alone(pace: EnginePace, plan: LevelPlan) -> list:
    """The row without HTTP: the same number of requests, each place's next one submitted as one ends."""
    engine = PacedEngine(pace)
    places, left = threading.Semaphore(plan.concurrency), threading.Semaphore(0)

    def on_event(event: Event) -> None:
        if not isinstance(event, AudioChunk):
            places.release()
            left.release()

    began_s, used_s = time.perf_counter(), time.process_time()
    for number in range(len(plan.measured)):
        places.acquire()
        engine.submit(SpeechRequest(f"{number}.0", "", "tone", seed=number), on_event)
    for _ in plan.measured:
        left.acquire()
    wall_s, used_s = time.perf_counter() - began_s, time.process_time() - used_s
    engine.stop()
    spoken_s = engine.records.frames * FRAME_S
    row = ("engine alone", plan.concurrency, 0, spoken_s / wall_s, *steps(engine.records.step_ms), None, None, None)
    return [*row, 1e3 * used_s / spoken_s, None]


if __name__ == "__main__":
    main()
