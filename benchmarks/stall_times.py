"""When requests of a run stalled, and when its client itself was late, in seconds from the first scheduled start.

python -m benchmarks.stall_times RUN

A stall that falls together with a late client need not be the server's. For an open loop: its starts are decided
before anything is sent, so that a start after its time is the client's own doing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omni_bench.metrics.stalls import stall_spans_ns
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline_json import timeline_from_dict

LATE_NS = 50_000_000


def main() -> int:
    """Print the two lines; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stall_times", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run folder with its requests.jsonl")
    print(stall_times(RunFolder.open(parser.parse_args().run).read_requests()))
    return 0


def stall_times(records: Iterable[Mapping[str, Any]]) -> str:
    """The stalls and the late starts of the lines of requests.jsonl: how many, from when to when."""
    timelines = [timeline_from_dict(record) for record in records]
    zero_ns = min(one.scheduled_ns for one in timelines)
    stalls = [
        ((since - zero_ns) / 1e9, (until - zero_ns) / 1e9)
        for one in timelines
        if one.sample_rate_hz
        for since, until in stall_spans_ns(one.chunk_arrived_ns, one.chunk_samples, one.sample_rate_hz)
    ]
    late = [
        ((one.scheduled_ns - zero_ns) / 1e9, (one.started_ns - zero_ns) / 1e9)
        for one in timelines
        if one.started_ns is not None and one.started_ns - one.scheduled_ns >= LATE_NS
    ]
    return f"{_told('stalls', stalls)}\n{_told('starts at least 50 ms late', late)}"


def _told(what: str, spans: list[tuple[float, float]]) -> str:
    if not spans:
        return f"0 {what}"
    since, until = min(since for since, _ in spans), max(until for _, until in spans)
    return f"{len(spans)} {what}, from {since:.2f} to {until:.2f} s"


if __name__ == "__main__":
    raise SystemExit(main())
