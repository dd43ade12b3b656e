"""A level that several load processes share: one plan, one start, one recording."""

import os
import signal
from collections import Counter

import pytest
from sent import drive

from omni_bench.load.events import LevelDone, RequestFinished, RequestStarted, WarmupDone
from omni_bench.load.runner import LevelBroken, LevelInterrupted
from omni_bench.load.shares import STREAMS_PER_WORKER, drawn, share, tickets, workers_for
from omni_bench.targets.null_server import Pace


def test_one_worker_until_there_are_streams_and_cores_for_more(make_plan, open_plan):
    c512 = make_plan(512, 512, 0)
    assert workers_for(make_plan(STREAMS_PER_WORKER, 512, 0), None, 64) == 1
    assert [workers_for(c512, None, cores) for cores in (1, 2, 4, 64)] == [1, 1, 2, 8]
    assert workers_for(make_plan(2, 512, 0), 4, 64) == 2  # never one without a slot
    assert workers_for(make_plan(4, 3, 0), 4, 64) == 3  # nor one without a request
    assert workers_for(open_plan(130.0), None, 64) == 3
    assert workers_for(open_plan(max_in_flight=2), 4, 1) == 2


def test_shares_add_up_to_the_level(make_plan, open_plan):
    for plan, draws in ((make_plan(7, 20), True), (open_plan(max_in_flight=7), False)):
        shares = [share(plan, index, 3, all_measured=draws) for index in range(3)]
        plans = [one for one, _ in shares]
        assert Counter(r.request_id for one in plans for r in one.warmup) == Counter(r.request_id for r in plan.warmup)
        if draws:
            assert sum(slots for _, slots in shares) == 7 and all(one.measured == plan.measured for one in plans)
        else:
            assert sum(one.max_in_flight for one in plans) == 7
            due = sorted(r.scheduled_offset_ns for one in plans for r in one.measured)
            assert due == [r.scheduled_offset_ns for r in plan.measured]


def test_each_request_is_drawn_once_and_in_order():
    with tickets(300) as file:
        one, other = drawn(range(300), file.fileno()), drawn(range(300), os.dup(file.fileno()))
        assert [next(one), next(other), next(one)] == [0, 1, 2]
        assert [*other] == [*range(3, 300)] and [*one] == []


def test_three_workers_are_as_one(fault_server, make_plan, client_config, tmp_path):
    plan = make_plan(7, 23, warmup_per_slot=2)
    events = []
    with fault_server({"c7-0003": "cut"}, Pace(first_ms=40, interval_ms=20, chunk_ms=20, chunks=4)) as (server, url):
        recording = drive(plan, url, client_config, tmp_path, events.append, workers=3)
    assert server.seen == Counter(r.request_id for r in plan.warmup + plan.measured)
    assert server.peak_in_flight == 7 and len(server.peers) == 7 + 1  # one anew for the connection that was cut
    assert [t.request_id for t in recording.timelines] == [r.request_id for r in plan.measured]
    assert [t.request_id for t in recording.timelines if not t.ok] == ["c7-0003"]
    assert set(recording.audio) == {r.request_id for r in plan.measured}
    assert recording.audio["c7-0000"].read_bytes() == server.chunk * 4
    assert recording.lag.workers == 3
    # the plan's order is the order of the starts, and all begin at one moment, after the whole warm-up
    starts = [t.started_ns for t in recording.timelines]
    assert max(starts[:7]) < min(starts[7:])
    assert len({t.scheduled_ns for t in recording.timelines[:7]}) == 1
    assert recording.timelines[0].scheduled_ns >= max(t.ended_ns for t in recording.warmup)
    counted = Counter(type(event) for event in events)
    assert counted == {RequestStarted: 37, RequestFinished: 37, WarmupDone: 1, LevelDone: 1}
    assert WarmupDone(7, 14, 0) in events and events[-1].window_start_ns == recording.timelines[0].scheduled_ns


def test_an_open_loop_keeps_its_one_schedule(fault_server, open_plan, client_config, tmp_path):
    plan = open_plan(arrival="constant")
    with fault_server() as (_, url):
        recording = drive(plan, url, client_config, tmp_path, workers=2)
    start_ns = recording.timelines[0].scheduled_ns - plan.measured[0].scheduled_offset_ns
    assert [t.scheduled_ns - start_ns for t in recording.timelines] == [r.scheduled_offset_ns for r in plan.measured]
    assert all(t.ok and t.started_ns >= t.scheduled_ns for t in recording.timelines)


def test_ctrl_c_stops_all_and_every_request_is_accounted_for(fault_server, make_plan, client_config, tmp_path):
    hanging = {f"c4-{number:04d}": "hang" for number in range(4, 12)}
    started, finished = set(), Counter()

    def on_event(event):
        if isinstance(event, RequestFinished):
            finished[event.timeline.request_id] += 1
        if isinstance(event, RequestStarted) and event.request_id in hanging:
            started.add(event.request_id)
            if len(started) == 4:
                os.kill(os.getpid(), signal.SIGINT)

    with fault_server(hanging) as (_, url), pytest.raises(LevelInterrupted) as raised:
        drive(make_plan(4, 12, 0), url, client_config, tmp_path, on_event, workers=2)
    recording = raised.value.recording
    assert Counter(t.error.kind if t.error else "ok" for t in recording.timelines) == {"ok": 4, "cancelled": 8}
    assert set(finished) == {t.request_id for t in recording.timelines} and set(finished.values()) == {1}
    assert recording.lag is not None and len(recording.audio) == 4


def test_a_worker_that_is_killed_ends_the_level_and_keeps_what_is_finished(
    fault_server, make_plan, client_config, tmp_path, load_workers
):
    hanging = {f"c4-{number:04d}": "hang" for number in range(4, 12)}
    started = set()

    def on_event(event):
        if isinstance(event, RequestStarted) and event.request_id in hanging:
            started.add(event.request_id)
            if len(started) == 4:
                load_workers()[0].kill()

    with fault_server(hanging) as (_, url), pytest.raises(LevelBroken, match="status -9") as raised:
        drive(make_plan(4, 12, 0), url, client_config, tmp_path, on_event, workers=2)
    recording = raised.value.recording
    assert Counter(t.error.kind if t.error else "ok" for t in recording.timelines) == {"ok": 4, "cancelled": 8}
    assert {id for id, path in recording.audio.items() if path.stat().st_size} == {f"c4-{i:04d}" for i in range(4)}
    assert load_workers() == []
