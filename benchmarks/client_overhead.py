"""What the load generator adds to the times it reports, at each concurrency.

    python benchmarks/client_overhead.py [--levels 1,4,8,16,32] [--requests 64]

Runs the real load worker against the paced null server (both in processes of their own) and
compares the client's TTFP and E2EL with the server's own account of the same requests: the
difference is connection handling, HTTP, the event loops of both ends, and waiting for a core.

"event max ms" is the longest that the worker took to turn one finished request into its JSON
event. That happens during the measured phase, in a thread but under the interpreter lock, so
it can delay a clock reading of a neighbour by this much; it grows with the reads of a
request (--chunks) and is the price of writing each request down the moment it has finished.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from tabulate import tabulate

from omni_bench.load.closed_plan import build_level_plans, prompts_needed
from omni_bench.load.events import RequestFinished, write_message
from omni_bench.load.null_server import NullServerProcess, Pace
from omni_bench.load.runner import run_level
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.prompt import Prompt
from omni_bench.records.timeline import Timeline

HEADERS = (
    "concurrency",
    "requests",
    "failed",
    "TTFP p50 +ms",
    "TTFP p99 +ms",
    "E2EL p50 +ms",
    "lag p99 ms",
    "event max ms",
    "in flight",
)


def main() -> None:
    """Print one row a level."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", default="1,4,8,16,32", help="concurrencies (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=64, help="measured requests a level (default: %(default)s)")
    parser.add_argument("--chunks", type=int, default=10, help="chunks a response, 20 ms apart (default: %(default)s)")
    arguments = parser.parse_args()
    levels = [int(level) for level in arguments.levels.split(",")]
    load = LoadConfig(
        kind="closed_loop", concurrency=levels, requests_per_level=arguments.requests, requests_per_slot=0
    )
    client = ClientConfig(kind="openai_speech")
    prompts = [
        Prompt(id=str(number), text=f"Sentence {number}.", ref_text=None, ref_audio=None, language="en")
        for number in range(prompts_needed(load))
    ]
    rows = []
    pace = Pace(first_ms=50, interval_ms=20, chunk_ms=80, chunks=arguments.chunks)
    with NullServerProcess(pace) as server, tempfile.TemporaryDirectory() as spool:
        for plan in build_level_plans(prompts, load, client):
            recording = run_level(
                plan, base_url=server.base_url, client=client, spool_dir=Path(spool), on_event=lambda event: None
            )
            with urllib.request.urlopen(f"{server.base_url}/records", timeout=10) as response:
                records = json.load(response)
            completed = [timeline for timeline in recording.timelines if timeline.ok]
            ttfp_ms, e2el_ms = [], []
            for timeline in completed:
                served = records[timeline.request_id]
                first_ns = served["first_sent_ns"] - served["received_ns"]
                whole_ns = served["last_sent_ns"] - served["received_ns"]
                ttfp_ms.append((timeline.first_audio_ns - timeline.started_ns - first_ns) / 1e6)
                e2el_ms.append((timeline.ended_ns - timeline.started_ns - whole_ns) / 1e6)
            added = [*np.percentile(ttfp_ms, (50, 99)), np.percentile(e2el_ms, 50)] if completed else [None] * 3
            lag_ms = recording.lag.p99_ms if recording.lag is not None else None
            failed = len(recording.timelines) - len(completed)
            event_ms = max(encoding_ms(timeline) for timeline in recording.timelines)
            rows.append(
                (plan.concurrency, len(plan.measured), failed, *added, lag_ms, event_ms, recording.peak_in_flight)
            )
    print(tabulate(rows, headers=HEADERS, floatfmt=".2f", missingval="n/a"))


def encoding_ms(timeline: Timeline) -> float:
    """What the worker does with a finished request, timed alone; the best of three leaves out other processes."""
    event = RequestFinished(timeline)

    def once() -> float:
        begun_ns = time.perf_counter_ns()
        write_message(event)
        return (time.perf_counter_ns() - begun_ns) / 1e6

    return min(once() for _ in range(3))


if __name__ == "__main__":
    main()
