"""The worker process by itself: what it imports, and that it never outlives its parent."""

import json
import queue
import subprocess
import sys

from omni_bench.load.events import write_message
from omni_bench.load.process import WorkerProcess, start_module
from omni_bench.load.runner import make_job

HEAVY = {"numpy", "scipy", "pandas", "torch", "omegaconf", "hydra", "datasets", "rich", "matplotlib", "whisper"}


def test_the_worker_imports_only_light_modules():
    code = "import sys, omni_bench.load.worker; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    modules = {name.split(".")[0] for name in done.stdout.split()}
    assert "aiohttp" in modules
    assert not modules & HEAVY


def test_without_a_job_it_ends_with_its_stdin():
    process = start_module("omni_bench.load.worker", stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (3, b"", b"")


def test_a_job_that_is_no_job_is_a_crash_with_a_traceback():
    lines = queue.SimpleQueue()
    with WorkerProcess(b'{"plan": 1}\n', lines) as worker:
        assert lines.get(timeout=30) == (worker, b"")
        assert worker.wait(30) == 1
        assert "ValidationError" in worker.stderr_tail()


def test_a_stop_at_once_leaves_nothing_behind():
    with WorkerProcess(b'{"plan": 1}\n', queue.SimpleQueue()) as worker:
        worker.kill()
        worker.send({"more": "x" * 10_000_000})
    assert worker.wait(0) is not None


def test_json_lines_are_whole(fault_server, make_plan, client_config, tmp_path):
    """Every line the worker writes is one JSON object with an event name."""
    with fault_server() as (_, base_url):
        job = make_job(make_plan(4, 8), base_url, client_config, tmp_path, "/health")
        events, lines = [], queue.SimpleQueue()
        with WorkerProcess(write_message(job), lines):
            while line := lines.get(timeout=60)[1]:
                events.append(json.loads(line)["event"])
    assert events.count("finished") == events.count("started") == 12
    assert events[-1] == "level_done"
    assert events.index("warmup_done") == 8
