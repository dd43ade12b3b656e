"""The open loop through the real worker process and a server."""

import os
import signal
from collections import Counter

import numpy as np
import pytest
from sent import drive

from omni_bench.load.events import LevelDone, RequestFinished, RequestStarted, WarmupDone
from omni_bench.load.runner import LevelInterrupted
from omni_bench.metrics.open_loop import open_loop_facts
from omni_bench.metrics.request import request_metrics
from omni_bench.records.level import Rate
from omni_bench.records.timeline_json import timeline_from_dict, timeline_to_dict
from omni_bench.targets.null_server import Pace

# 0.6 s a request: at 25 requests a second some fifteen are in flight
PACE = Pace(first_ms=300, interval_ms=100, chunk_ms=20, chunks=4)


def test_requests_go_out_on_schedule_though_none_has_ended(fault_server, open_plan, client_config, tmp_path):
    plan = open_plan(25.0, 20)
    events = []
    with fault_server(pace=PACE) as (server, base_url):
        recording = drive(plan, base_url, client_config, tmp_path, events.append)
    assert all(one.ok for one in recording.timelines) and recording.concurrency == Rate(25.0)
    assert server.peak_in_flight > 5
    first_ns = recording.timelines[0].scheduled_ns - plan.measured[0].scheduled_offset_ns
    due = [first_ns + one.scheduled_offset_ns for one in plan.measured]
    assert [one.scheduled_ns for one in recording.timelines] == due
    assert all(one.started_ns >= one.scheduled_ns for one in recording.timelines)
    done = [event for event in events if isinstance(event, (WarmupDone, LevelDone))]
    assert [event.concurrency for event in done] == [Rate(25.0), Rate(25.0)]
    assert len(recording.warmup) == 2 and all(one.warmup for one in recording.warmup)
    assert all(timeline_from_dict(timeline_to_dict(one)) == one for one in recording.timelines)


def test_a_server_that_takes_one_at_a_time_cannot_hide_it(fault_server, open_plan, client_config, tmp_path):
    """With one slot a closed loop would see a constant latency; from the schedule on it grows."""
    plan = open_plan(20.0, 12, max_in_flight=1, arrival="constant")
    with fault_server(pace=PACE) as (server, base_url):
        recording = drive(plan, base_url, client_config, tmp_path)
    assert server.peak_in_flight == 1
    metrics = [request_metrics(one, None) for one in recording.timelines]
    waits = np.diff([one["ttfp_sched_ms"] for one in metrics])
    assert (waits > 400).all()  # each waits for 0.6 s more and is due 0.05 s later
    assert max(one["ttfp_ms"] for one in metrics) < metrics[-1]["ttfp_sched_ms"] / 4
    facts = open_loop_facts(recording.timelines, plan.max_in_flight)
    assert facts.waited == 11 and facts.achieved_hz < 2 < facts.offered_hz


def test_an_interrupt_ends_a_level_whose_next_request_is_due_in_an_hour(
    open_plan, fault_server, client_config, tmp_path
):
    plan = open_plan(1 / 3600, 4, arrival="constant", warmup_requests=0)

    def on_event(event):
        if isinstance(event, RequestFinished) and event.timeline.ok:
            os.kill(os.getpid(), signal.SIGINT)

    with fault_server() as (_, base_url), pytest.raises(LevelInterrupted) as error:
        drive(plan, base_url, client_config, tmp_path, on_event)
    recording = error.value.recording
    assert [one.ok for one in recording.timelines] == [True, False, False, False]
    assert Counter(one.error.kind for one in recording.timelines if one.error) == {"cancelled": 3}


def test_a_server_that_dies_ends_it_too(open_plan, fault_server, client_config, tmp_path):
    plan = open_plan(1 / 3600, 3, arrival="constant", warmup_requests=0)
    started = []

    with fault_server({"r0.000277778-0000": "hang"}) as (_, base_url):
        recording = drive(
            plan,
            base_url,
            client_config,
            tmp_path,
            lambda event: started.append(event) if isinstance(event, RequestStarted) else None,
            is_target_alive=lambda: not started,
        )
    assert recording.target_died
    assert Counter(one.error.kind for one in recording.timelines) == {"disconnected": 1, "connect": 2}


def test_a_server_that_was_never_there_is_given_up(open_plan, client_config, tmp_path):
    recording = drive(open_plan(200.0, 100, warmup_requests=0), "http://127.0.0.1:9", client_config, tmp_path)
    assert {one.error.kind for one in recording.timelines} == {"connect"}
    assert "requests in a row got no connection" in recording.timelines[-1].error.message
