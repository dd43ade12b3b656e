"""The load phase end to end: a worker process, a server, and everything that can go wrong between."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from sent import drive

from omni_bench.errors import ConfigError, OmniBenchError, StoreError
from omni_bench.load.events import LevelDone, RequestFinished, RequestStarted, WarmupDone
from omni_bench.load.process import WorkerProcess
from omni_bench.load.runner import LevelInterrupted
from omni_bench.targets.null_server import Pace, null_server_process

SLOW = Pace(first_ms=50, interval_ms=50, chunk_ms=50, chunks=10_000)  # does not end within a test


def kinds(timelines):
    return Counter(timeline.error.kind if timeline.error else "ok" for timeline in timelines)


def workers():
    return [child for child in psutil.Process().children() if "omni_bench.load.worker" in child.cmdline()]


def test_a_level_from_plan_to_recording(fault_server, make_plan, client_config, tmp_path):
    plan = make_plan(4, 10, warmup_per_slot=2)
    events = []
    with fault_server() as (server, base_url):
        recording = drive(plan, base_url, client_config, tmp_path / "a" / "b", events.append)
    assert recording.concurrency == 4 and not recording.interrupted and not recording.target_died
    assert [t.request_id for t in recording.timelines] == [r.request_id for r in plan.measured]
    assert [t.request_id for t in recording.warmup] == [r.request_id for r in plan.warmup]
    assert all(t.ok and not t.warmup for t in recording.timelines)
    assert all(t.ok and t.warmup for t in recording.warmup)
    assert server.seen == Counter(r.request_id for r in plan.warmup + plan.measured)
    assert server.peak_in_flight == 4
    assert len(server.peers) == 4  # the pool that was opened beforehand, and no other connection
    assert recording.lag.samples > 0
    assert set(recording.audio) == {r.request_id for r in plan.measured}
    for timeline in recording.timelines:
        audio = recording.audio[timeline.request_id].read_bytes()
        assert audio == server.chunk * 4
        assert len(audio) == timeline.audio_bytes
    last_warmup = max(t.ended_ns for t in recording.warmup)
    assert last_warmup <= min(t.scheduled_ns for t in recording.timelines)

    assert Counter(type(event) for event in events) == {
        RequestStarted: 18,
        RequestFinished: 18,
        WarmupDone: 1,
        LevelDone: 1,
    }
    assert isinstance(events[-1], LevelDone) and events[-1].window_start_ns < events[-1].window_end_ns
    (warm,) = (event for event in events if isinstance(event, WarmupDone))
    assert warm == WarmupDone(concurrency=4, completed=8, failed=0)
    assert workers() == []


def test_no_warmup_and_more_slots_than_requests(fault_server, make_plan, client_config, tmp_path):
    with fault_server() as (_, base_url):
        recording = drive(make_plan(8, 3, warmup_per_slot=0), base_url, client_config, tmp_path)
    assert kinds(recording.timelines) == {"ok": 3} and recording.warmup == ()


def test_failures_are_kept_by_kind_and_do_not_stop_the_level(
    fault_server, make_plan, client_config, tmp_path, monkeypatch
):
    monkeypatch.setenv("BENCH_KEY", "sk-secret")
    client = replace(client_config, api_key_env="BENCH_KEY")
    faults = {"c2-0001": "http_500", "c2-0002": "cut", "c2-w0000": "http_500"}
    with fault_server(faults) as (server, base_url):
        recording = drive(make_plan(2, 6), base_url, client, tmp_path)
    by_id = {t.request_id: t for t in recording.timelines}
    assert kinds(recording.timelines) == {"ok": 4, "http_status": 1, "disconnected": 1}
    assert by_id["c2-0001"].error.message == "HTTP 500: boom for key Bearer ***"
    assert by_id["c2-0002"].error.kind == "disconnected"
    assert kinds(recording.warmup) == {"ok": 1, "http_status": 1}
    assert set(recording.audio) == {"c2-0000", "c2-0002", "c2-0003", "c2-0004", "c2-0005"}
    assert recording.audio["c2-0002"].read_bytes() == server.chunk


@pytest.mark.parametrize(("warmup_per_slot", "measured_were_sent"), [(0, True), (2, False)])
def test_a_server_that_was_never_there(make_plan, client_config, tmp_path, warmup_per_slot, measured_were_sent):
    recording = drive(make_plan(4, 64, warmup_per_slot), "http://127.0.0.1:9", client_config, tmp_path)
    assert kinds(recording.timelines) == {"connect": 64}
    assert "requests in a row got no connection" in recording.timelines[-1].error.message
    assert recording.audio == {} and not recording.interrupted
    assert (recording.lag is None) or measured_were_sent


@pytest.mark.parametrize("watched", [True, False])
def test_a_server_that_is_killed_in_the_middle(make_plan, client_config, tmp_path, watched):
    with null_server_process(SLOW) as (process, base_url):

        def on_event(event):
            if isinstance(event, RequestStarted) and event.request_id == "c4-0003":
                process.kill()

        recording = drive(
            make_plan(4, 30, warmup_per_slot=0),
            base_url,
            replace(client_config, request_timeout_s=3600.0),
            tmp_path,
            on_event,
            is_target_alive=(lambda: process.poll() is None) if watched else None,
        )
    counted = kinds(recording.timelines)
    assert set(counted) == {"disconnected", "connect"} and counted.total() == 30


def test_a_dead_target_whose_connections_hang_does_not_wait_for_the_timeout(
    fault_server, make_plan, client_config, tmp_path
):
    """A machine that is gone sends no reset: only ``is_target_alive`` can know."""
    faults = {f"c3-{number:04d}": "hang" for number in range(9)}
    started = threading.Event()

    def on_event(event):
        if isinstance(event, RequestStarted) and event.request_id == "c3-0002":
            started.set()

    with fault_server(faults) as (_, base_url):
        recording = drive(
            make_plan(3, 9, warmup_per_slot=0),
            base_url,
            replace(client_config, request_timeout_s=3600.0),
            tmp_path,
            on_event,
            is_target_alive=lambda: not started.is_set(),
        )
    assert recording.target_died and not recording.interrupted
    assert kinds(recording.timelines) == {"disconnected": 3, "connect": 6}
    assert workers() == []


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_finished(fault_server, make_plan, client_config, tmp_path, signal_number):
    faults = {f"c2-{number:04d}": "hang" for number in range(2, 9)}
    hanging = set()

    def on_event(event):
        if isinstance(event, RequestStarted) and event.request_id in faults:
            hanging.add(event.request_id)
            if len(hanging) == 2:
                os.kill(os.getpid(), signal_number)

    def usual(*_):
        raise AssertionError("the signal was not held back")

    original = signal.signal(signal_number, usual)
    with fault_server(faults) as (server, base_url), pytest.raises(LevelInterrupted) as raised:
        drive(make_plan(2, 9, warmup_per_slot=0), base_url, client_config, tmp_path, on_event)
    recording = raised.value.recording
    assert isinstance(raised.value, KeyboardInterrupt)
    assert recording.interrupted and recording.lag is not None
    assert kinds(recording.timelines) == {"ok": 2, "cancelled": 7}
    assert recording.audio["c2-0000"].read_bytes() == server.chunk * 4
    assert set(recording.audio) == {"c2-0000", "c2-0001"}
    assert signal.signal(signal_number, original) is usual
    assert workers() == []


def test_an_interrupt_before_the_worker_is_up(make_plan, client_config, tmp_path, monkeypatch):
    """SIGTERM then ends the worker outright; the recording is complete all the same."""
    start = WorkerProcess.__init__

    def start_and_interrupt(self, *arguments):
        start(self, *arguments)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(WorkerProcess, "__init__", start_and_interrupt)
    with pytest.raises(LevelInterrupted) as raised:
        drive(make_plan(2, 5), "http://127.0.0.1:9", client_config, tmp_path)
    recording = raised.value.recording
    assert kinds(recording.timelines) == {"cancelled": 5} and kinds(recording.warmup) == {"cancelled": 2}
    assert recording.interrupted and recording.lag is None and recording.audio == {}
    assert workers() == []


def test_a_second_interrupt_ends_at_once(fault_server, make_plan, client_config, tmp_path):
    def on_event(event):
        if isinstance(event, RequestStarted):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with fault_server() as (_, base_url), pytest.raises(KeyboardInterrupt) as raised:
        drive(make_plan(1, 3), base_url, client_config, tmp_path, on_event)
    assert not isinstance(raised.value, LevelInterrupted)
    assert workers() == []


def test_it_also_runs_outside_the_main_thread(fault_server, make_plan, client_config, tmp_path):
    recordings = []
    with fault_server() as (_, base_url):
        thread = threading.Thread(
            target=lambda: recordings.append(drive(make_plan(2, 4), base_url, client_config, tmp_path))
        )
        thread.start()
        thread.join(60)
    assert kinds(recordings[0].timelines) == {"ok": 4}


def test_a_worker_that_is_killed_is_an_error_with_its_status(fault_server, make_plan, client_config, tmp_path):
    def on_event(event):
        if isinstance(event, RequestStarted):
            for worker in workers():
                worker.kill()

    with fault_server() as (_, base_url), pytest.raises(OmniBenchError, match="status -9"):
        drive(make_plan(1, 3), base_url, client_config, tmp_path, on_event)


def test_an_exception_of_the_listener_ends_the_worker(fault_server, make_plan, client_config, tmp_path):
    def on_event(event):
        raise StoreError("disk full")

    with fault_server(pace=SLOW) as (_, base_url), pytest.raises(StoreError, match="disk full"):
        drive(make_plan(1, 3), base_url, client_config, tmp_path, on_event)
    assert workers() == []


def test_audio_that_cannot_be_written_is_a_store_error(fault_server, make_plan, client_config, tmp_path):
    (tmp_path / "c1-0001.pcm").mkdir()
    with fault_server() as (_, base_url), pytest.raises(StoreError, match=r"c1-0001\.pcm"):
        drive(make_plan(1, 2), base_url, client_config, tmp_path)


def test_a_spool_folder_that_is_a_file_is_a_store_error(make_plan, client_config, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="file"):
        drive(make_plan(1, 2), "http://127.0.0.1:9", client_config, tmp_path / "file")


@pytest.mark.parametrize("url", ["localhost:8000", "http://h:99999"])
def test_a_bad_url_is_a_config_error(make_plan, client_config, tmp_path, url):
    with pytest.raises(ConfigError, match="target's URL"):
        drive(make_plan(1, 1), url, client_config, tmp_path)


@pytest.mark.parametrize("value", [None, "", "  ", "two\nlines", "naïve"])
def test_a_bad_key_is_a_config_error_that_does_not_show_it(make_plan, client_config, tmp_path, monkeypatch, value):
    monkeypatch.delenv("BENCH_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("BENCH_KEY", value)
    with pytest.raises(ConfigError, match="BENCH_KEY") as raised:
        drive(make_plan(1, 1), "http://127.0.0.1:9", replace(client_config, api_key_env="BENCH_KEY"), tmp_path)
    assert not value or not value.strip() or value not in str(raised.value)


@pytest.mark.timeout(60)
def test_the_worker_dies_with_a_parent_that_is_killed(tmp_path):
    """A program that runs a level is killed outright; the worker notices the end of its stdin."""
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        import psutil
        from omni_bench.records.config import ClientConfig
        from omni_bench.load.events import RequestStarted
        from omni_bench.load.closed_plan import LevelPlan, PlannedRequest
        from omni_bench.load.runner import run_level

        def on_event(event):
            if isinstance(event, RequestStarted):
                print(psutil.Process().children()[0].pid, flush=True)

        request = PlannedRequest("c1-0000", "p", {}, None, False, None)
        run_level(LevelPlan(1, (), (request,)), base_url=sys.argv[1], client=ClientConfig(kind="openai_speech"),
                  spool_dir=Path(sys.argv[2]), on_event=on_event)
        """
    )
    with null_server_process(SLOW) as (_, base_url):
        parent = subprocess.Popen(
            [sys.executable, "-c", program, base_url, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.communicate()
        with contextlib.suppress(psutil.NoSuchProcess):
            while worker.status() != psutil.STATUS_ZOMBIE:  # gone; who reaps it depends on the machine
                time.sleep(0.05)


def test_the_worker_survives_the_terminals_ctrl_c(tmp_path):
    """SIGINT to the parent's whole process group, as a terminal sends it: finished audio is still kept."""
    program = textwrap.dedent(
        """
        import json, os, signal, sys
        from pathlib import Path
        from omni_bench.records.config import ClientConfig
        from omni_bench.load.events import RequestFinished
        from omni_bench.load.closed_plan import LevelPlan, PlannedRequest
        from omni_bench.load.runner import LevelInterrupted, run_level

        def on_event(event):
            if isinstance(event, RequestFinished) and event.timeline.request_id == "c1-0002":
                os.killpg(0, signal.SIGINT)

        requests = tuple(PlannedRequest(f"c1-{i:04d}", "p", {}, None, False, None) for i in range(500))
        try:
            run_level(LevelPlan(1, (), requests), base_url=sys.argv[1], client=ClientConfig(kind="openai_speech"),
                      spool_dir=Path(sys.argv[2]), on_event=on_event)
        except LevelInterrupted as interrupted:
            print(json.dumps([t.ok for t in interrupted.recording.timelines]))
        """
    )
    with null_server_process(Pace(first_ms=20, interval_ms=5, chunk_ms=10, chunks=2)) as (_, base_url):
        done = subprocess.run(
            [sys.executable, "-c", program, base_url, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            timeout=60,
        )
    finished = json.loads(done.stdout)
    assert finished[:3] == [True, True, True] and not finished[-1]
    spooled = {Path(path).stem for path in os.listdir(tmp_path)}
    assert {f"c1-{i:04d}" for i, ok in enumerate(finished) if ok} <= spooled
