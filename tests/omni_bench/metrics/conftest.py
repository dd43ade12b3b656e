"""Hand-made timelines: times in ms after a base, chunks in samples."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from omni_bench.records.level import Rate
from omni_bench.records.timeline import RequestError, Timeline

settings.register_profile("no_deadline", deadline=None)  # a shared machine may be slow
settings.load_profile("no_deadline")

# the tests are no package: this makes `from voices import speech` work in the tests of the signal checks
_SPEC = importlib.util.spec_from_file_location("voices", Path(__file__).with_name("voices.py"))
sys.modules["voices"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["voices"])

BASE_NS = 5_000_000_000
RATE_HZ = 24_000


@pytest.fixture(scope="session")
def make_timeline():
    """``make_timeline("r", started, ended, chunks=[(arrival ms, samples), ...], failed=kind or None)``."""

    def make(
        request_id="r",
        started=0.0,
        ended=1000.0,
        chunks=(),
        failed=None,
        scheduled=None,
        concurrency=1,
        rate_hz=RATE_HZ,
        extra_bytes=0,
        ends=(),
    ):
        def ns(milliseconds):
            return BASE_NS + round(milliseconds * 1e6)

        arrived = tuple(ns(at) for at, _ in chunks)
        sizes = [samples * 2 for _, samples in chunks]
        if sizes:
            sizes[-1] += extra_bytes
        return Timeline(
            request_id=request_id,
            prompt_id=f"prompt of {request_id}",
            concurrency=concurrency,
            seed=0,
            scheduled_ns=ns(started if scheduled is None else scheduled),
            started_ns=ns(started),
            headers_ns=arrived[0] if arrived else None,
            first_byte_ns=arrived[0] if arrived else None,
            first_audio_ns=arrived[0] if arrived else None,
            ended_ns=None if failed else ns(ended),
            failed_ns=ns(ended) if failed else None,
            chunk_arrived_ns=arrived,
            chunk_bytes=tuple(sizes),
            sample_rate_hz=rate_hz,
            sample_width_bytes=2,
            http_status=200,
            error=RequestError(failed, "made up") if failed else None,
            chunk_ends=tuple(ends),
        )

    return make


@pytest.fixture
def request_at(runs):
    """A request of an open loop: ``request_at(number, due_ms, late_ms)``: four chunks of 0.25 s; it lasts 251 ms."""

    def make(number, due_ms, late_ms=0, *, ttfp_ms=100, gap_ms=50):
        one = runs.timeline(
            f"r5-{number:04d}", concurrency=Rate(5.0), start_ms=due_ms + late_ms, ttfp_ms=ttfp_ms, gap_ms=gap_ms
        )
        return replace(one, scheduled_ns=due_ms * 1_000_000)

    return make
