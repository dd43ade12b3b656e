"""Events and jobs survive the pipe between worker and parent."""

import json

import msgspec
import pytest

from omni_bench.load.clients.session import WireOptions
from omni_bench.load.events import (
    LevelDone,
    LevelJob,
    RequestFinished,
    RequestStarted,
    WarmupDone,
    WorkerError,
    read_event,
    read_job,
    write_message,
)
from omni_bench.records.level import Rate
from omni_bench.records.recording import LoopLag, unsent_timeline
from omni_bench.records.timeline import RequestError

LAG = LoopLag(p50_ms=0.1, p99_ms=1.0, max_ms=2.5, samples=7)
DONE = LevelDone(concurrency=4, window_start_ns=1, window_end_ns=2, lag=LAG)


without_lag = msgspec.structs.replace(DONE, lag=None)


@pytest.mark.parametrize(
    "event",
    [
        RequestStarted("r", "p", True),
        WarmupDone(4, 7, 1),
        DONE,
        without_lag,
        WorkerError("full"),
    ],
)
def test_events_round_trip(event):
    assert read_event(write_message(event)) == event


def test_a_finished_request_round_trips(make_plan):
    timeline = unsent_timeline(make_plan(2, 1).warmup[0], 2, RequestError("cancelled", "why"), now_ns=9)
    assert timeline.warmup and not timeline.ok
    assert (timeline.scheduled_ns, timeline.started_ns, timeline.failed_ns, timeline.finished_ns) == (9, 9, 9, 9)
    event = RequestFinished(timeline)
    assert read_event(write_message(event)) == event


def test_a_job_round_trips(make_plan):
    options = WireOptions(sample_rate_hz=24_000, request_timeout_s=1.5, connect_timeout_s=2.5, max_audio_s=3.5)
    job = LevelJob(
        make_plan(3, 5), "openai_speech", "http://h/s", "http://h/health", "/spool", options, "KEY", "api-key"
    )
    assert read_job(write_message(job)) == job


def test_broken_text_of_a_server_travels(make_plan):
    planned = make_plan(2, 1).warmup[0]
    event = RequestFinished(unsent_timeline(planned, Rate(0.5), RequestError("in_band_error", "\ud800"), now_ns=9))
    assert read_event(write_message(event)) == event


@pytest.mark.parametrize("values", [{}, {"event": "new"}, {"event": "started"}, {"event": "finished", "timeline": {}}])
def test_anything_else_is_refused(values):
    with pytest.raises(ValueError):
        read_event(json.dumps(values).encode())
