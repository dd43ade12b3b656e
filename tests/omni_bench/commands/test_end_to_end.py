"""The real command line in a process of its own, against a speech server without a model."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from processes import fake_server

from omni_bench.targets.probe import get
from omni_bench.targets.reference import server_env

ENV = {**server_env(), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
SMALL = ["scenario=smoke", "load.requests_per_level=4", "asr=none", "output.plots=false", "output.save_audio=all"]
SMALL += ["load.lag_budget_ms=10000"]  # a busy machine is no failure of the product


@pytest.fixture
def serve() -> Iterator:
    with ExitStack() as servers:

        def start(seconds: float) -> str:
            port, _ = servers.enter_context(fake_server("fake_speech_server.py", seconds))
            return f"http://127.0.0.1:{port}"

        yield start


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "omni_bench", *arguments]


def omni_bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(*arguments), cwd=folder, env=ENV, capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    """The command in the background; a test that fails does not leave it (or its server) running."""
    process = subprocess.Popen(
        command(*arguments), cwd=folder, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def first_line_of_requests(process: subprocess.Popen, folder: Path) -> Path:
    """Wait until the first measured request is written down; its file."""
    while True:
        assert process.poll() is None
        for requests in folder.glob("reports/runs/smoke/*/requests.jsonl"):
            if b"\n" in requests.read_bytes():
                return requests
        time.sleep(0.02)


def child_with(pid: int, argument: str) -> psutil.Process | None:
    """The child process that has ``argument`` on its command line, if there is one at the moment."""
    for child in psutil.Process(pid).children():
        with suppress(psutil.Error):  # it may be ending
            if argument in child.cmdline():
                return child
    return None


def run_folder(folder: Path) -> Path:
    (found,) = (folder / "reports" / "runs" / "smoke").iterdir()
    return found


def document(folder: Path) -> dict:
    return json.loads((run_folder(folder) / "run.json").read_text())


def test_a_run_in_an_empty_folder(tmp_path, serve):
    url = serve(0.05)
    done = omni_bench(tmp_path, "run", *SMALL, "target=external", f"target.url={url}")
    assert done.returncode == 0, done.stderr
    assert "smoke: external" in done.stdout and "4/4" in done.stdout
    assert f"connecting to {url}\n" in done.stderr
    assert "requests 4/4" in done.stderr and "HYDRA" not in done.stderr and "\x1b" not in done.stderr + done.stdout
    run = document(tmp_path)
    assert run["valid"] and run["provenance"]["command"][:3] == ["omni-bench", "run", "scenario=smoke"]
    assert run["provenance"]["target"]["description"]["health"]["model"] == "tone"
    assert (run_folder(tmp_path) / ".hydra" / "config.yaml").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reports"]
    assert get(f"{url}/health", 1.0).status == 200, "a server that was not launched here is left running"

    again = omni_bench(tmp_path, "report", str(run_folder(tmp_path)))
    assert again.returncode == 0 and "4/4" in again.stdout
    assert document(tmp_path) == run


def test_ctrl_c_keeps_what_was_finished(tmp_path, serve):
    arguments = ["run", *SMALL, "load.requests_per_level=40", "target=external", f"target.url={serve(0.3)}"]
    with running(tmp_path, *arguments) as process:
        requests = first_line_of_requests(process, tmp_path)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "omni-bench: error: interrupted; " in err and "Traceback" not in err
    assert f"finished requests are in {run_folder(tmp_path)}" in err
    assert children and not psutil.wait_procs(children, timeout=10)[1]
    run = document(tmp_path)
    assert not run["valid"] and run["invalid_reasons"][0]["code"] == "interrupted"
    finished = [json.loads(line) for line in requests.read_text().splitlines()]
    kept = [record for record in finished if record["error"] is None]
    assert kept and len(list((run_folder(tmp_path) / "audio").iterdir())) >= len(kept)


@pytest.mark.parametrize("launcher", [[], ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]])
def test_a_multirun_does_every_job_and_tells_the_first_failure(launcher, tmp_path, serve):
    if launcher and importlib.util.find_spec("joblib") is None:
        pytest.skip("the extra launchers is not installed")
    done = omni_bench(
        tmp_path,
        "run",
        "-m",
        *launcher,
        *SMALL,
        "target=external",
        f"target.url={serve(0.0)}",
        "client.max_audio_s=0.001,300",
        "target.probe=false",
    )
    assert done.returncode == 1, done.stderr
    assert "makes no performance claim" in done.stdout and "4 of 4 requests failed (too_large 4)" in done.stdout
    assert "job 0: " in done.stderr and "job 1: " in done.stderr and "Traceback" not in done.stderr
    runs = sorted((tmp_path / "reports" / "runs" / "multirun").glob("*/*/run.json"))
    assert [path.parent.name for path in runs] == ["0_smoke", "1_smoke"]
    assert [json.loads(path.read_text())["valid"] for path in runs] == [False, True]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_reference_server_killed_in_the_middle(tmp_path):
    arguments = ["run", *SMALL, "load.requests_per_level=500", "dataset.allow_repeats=true", "load.warmup_per_slot=0"]
    arguments.remove("output.save_audio=all")  # all audio is kept anyway
    with running(tmp_path, *arguments) as process:
        first_line_of_requests(process, tmp_path)
        server = child_with(process.pid, "reference_impl")
        assert server is not None
        server.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    assert "omni-bench: error: the server died during concurrency 2: killed by SIGKILL; the end of its log" in err
    assert not document(tmp_path)["valid"]
    records = [json.loads(line) for line in (run_folder(tmp_path) / "requests.jsonl").read_text().splitlines()]
    finished = [record for record in records if record["error"] is None]
    assert finished and all((run_folder(tmp_path) / record["audio"]).is_file() for record in finished)
    assert os.path.getsize(run_folder(tmp_path) / "server.log") > 0
