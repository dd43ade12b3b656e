"""Requests of an open loop."""

from dataclasses import replace

import pytest
import run_factory as runs

from omni_bench.records.level import Rate


@pytest.fixture
def request_at():
    """A request of an open loop: ``request_at(number, due_ms, late_ms)``: four chunks of 0.25 s; it lasts 251 ms."""

    def make(number, due_ms, late_ms=0, *, ttfp_ms=100, gap_ms=50):
        one = runs.timeline(
            f"r5-{number:04d}", concurrency=Rate(5.0), start_ms=due_ms + late_ms, ttfp_ms=ttfp_ms, gap_ms=gap_ms
        )
        return replace(one, scheduled_ns=due_ms * 1_000_000)

    return make
