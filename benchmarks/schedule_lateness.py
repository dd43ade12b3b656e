"""How late the open loop starts its requests, at each rate.

    python benchmarks/schedule_lateness.py [--rates 20,200] [--seconds 10]

"alone": the scheduler in a process that does nothing else, with the polling before each start
that it uses, and without (a sleep of asyncio ends up to a millisecond late). "with requests": the
real load worker against the paced null server, both in processes of their own, so that the
event loop also reads the answers of the requests before. Poisson arrivals.

"CPU": the share of a core that the scheduler takes, most of it for polling (SPIN_NS before each start at most).
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import numpy as np
from tabulate import tabulate

from omni_bench.load.arrivals import POISSON, RateProfile, arrival_offsets_ns
from omni_bench.load.null_server import NullServerProcess, Pace
from omni_bench.load.open_loop import SPIN_NS, run_open_loop
from omni_bench.load.plan import plan_levels, size_load
from omni_bench.load.runner import run_level
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.level import rate_of
from omni_bench.records.plan import PlannedRequest
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import unsent_timeline
from omni_bench.records.timeline import Timeline

HEADERS = ("rate (req/s)", "what", "requests", "late p50 (µs)", "late p99 (µs)", "late max (µs)", "CPU", "lag p99 (ms)")


def main() -> None:
    """Print three rows a rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="20,200", help="requests a second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement (default: %(default)s)")
    arguments = parser.parse_args()
    rows = []
    with NullServerProcess(Pace(first_ms=50, interval_ms=100, chunk_ms=400, chunks=4)) as server:
        for rate_hz in (float(rate) for rate in arguments.rates.split(",")):
            rows.append(alone(rate_hz, arguments.seconds, SPIN_NS, "alone"))
            rows.append(alone(rate_hz, arguments.seconds, 0, "alone, without polling"))
            rows.append(with_requests(rate_hz, arguments.seconds, server.base_url))
    print(tabulate(rows, headers=HEADERS, tablefmt="github", floatfmt=".0f"))


def alone(rate_hz: float, seconds: float, spin_ns: int, what: str) -> list[object]:
    """The scheduler with requests that end at once."""
    offsets_ns = arrival_offsets_ns(POISSON, RateProfile.constant(rate_hz), seed="0", duration_s=seconds)
    planned = [PlannedRequest(f"r-{number}", "", {}, None, False, at_ns) for number, at_ns in enumerate(offsets_ns)]
    late_ns = []

    async def send(request: PlannedRequest, scheduled_ns: int) -> Timeline:
        now_ns = time.perf_counter_ns()
        late_ns.append(now_ns - scheduled_ns)
        return unsent_timeline(request, rate_of(rate_hz), None, now_ns)  # type: ignore[arg-type]

    begun, cpu = time.perf_counter(), time.process_time()
    asyncio.run(run_open_loop(planned, 1000, send, spin_ns=spin_ns))
    share = (time.process_time() - cpu) / (time.perf_counter() - begun)
    return [rate_hz, what, len(late_ns), *figures(late_ns), f"{share:.0%}", None]


def with_requests(rate_hz: float, seconds: float, base_url: str) -> list[object]:
    """The real worker and client."""
    load = LoadConfig(kind="open_loop", rate_hz=[rate_hz], duration_s=seconds, warmup_requests=16)
    client = ClientConfig(kind="openai_speech")
    size = size_load(load)
    prompts = [Prompt(f"p{number}", "Some text.", None, None, "en") for number in range(size.prompts)]
    (plan,) = plan_levels(prompts, size, load, client)
    with tempfile.TemporaryDirectory() as folder:
        recording = run_level(
            plan, base_url=base_url, client=client, spool_dir=Path(folder), on_event=lambda event: None
        )
    late_ns = [one.started_ns - one.scheduled_ns for one in recording.timelines]
    lag = recording.lag.p99_ms if recording.lag is not None else None
    return [rate_hz, "with requests", len(late_ns), *figures(late_ns), "", f"{lag:.1f}" if lag is not None else "n/a"]


def figures(late_ns: list[int]) -> list[float]:
    """p50, p99 and maximum in µs."""
    return [float(value) / 1e3 for value in (*np.percentile(late_ns, (50, 99)), max(late_ns))]


if __name__ == "__main__":
    main()
