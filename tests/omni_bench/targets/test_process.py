"""A launched server becomes ready, or says why not, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from processes import gone
from repository import HELPERS

from omni_bench.errors import StoreError, TargetError
from omni_bench.targets.probe import free_port, get
from omni_bench.targets.process import ServerProcess

FAKE_SERVER = HELPERS / "fake_http_server.py"


class Launched:
    def __init__(self, tmp_path: Path, *manners: str):
        self.port = free_port("127.0.0.1")
        self.server = ServerProcess(
            [sys.executable, str(FAKE_SERVER), str(self.port), *manners], tmp_path / "server.log"
        )

    def unready(self) -> str | None:
        answer = get(f"http://127.0.0.1:{self.port}/health", 1.0)
        return None if answer.status == 200 else answer.said


@pytest.fixture
def launch(tmp_path: Path):
    made: list[ServerProcess] = []

    def build(*manners: str) -> Launched:
        launched = Launched(tmp_path, *manners)
        made.append(launched.server)
        launched.server.launch()
        return launched

    yield build
    for server in made:
        server.stop(0)


def read_pid(path: Path) -> int:
    while not (path.exists() and path.read_text()):
        time.sleep(0.01)
    return int(path.read_text())


def test_a_server_that_is_late_is_waited_for(launch):
    launched = launch("late:0.4")
    waited_s = launched.server.wait_until_ready(launched.unready, 30)
    assert waited_s > 0
    assert launched.unready() is None and launched.server.is_alive()
    pid = launched.server.pid
    launched.server.stop(10)
    assert gone(pid) and not launched.server.is_alive() and launched.server.pid is None
    assert "killed by SIGTERM" in launched.server.failure()
    launched.server.stop(10)  # again, harmless


def test_a_server_that_dies_during_start_up_is_noticed_at_once_with_its_log(launch):
    launched = launch("die:7")
    with pytest.raises(TargetError, match=r"ended during start-up: exit code 7(.|\n)*no such checkpoint: hopeless"):
        launched.server.wait_until_ready(launched.unready, 600)


def test_a_server_that_is_never_ready_meets_the_deadline(launch):
    launched = launch("late:600")
    while launched.server.log_path.stat().st_size == 0:
        time.sleep(0.01)
    with pytest.raises(TargetError, match=r"startup_timeout_s=0.2: answers 503 \(unhealthy\);(.|\n)*listening"):
        launched.server.wait_until_ready(launched.unready, 0.2)


def test_sigterm_ignored_ends_in_sigkill(launch):
    launched = launch("ignore-term")
    launched.server.wait_until_ready(launched.unready, 30)
    pid = launched.server.pid
    launched.server.stop(0.2)
    assert gone(pid)
    assert "SIGKILL" in launched.server.failure()


@pytest.mark.parametrize("kind", ["grandchild", "stray"])
def test_children_go_with_the_server(launch, tmp_path, kind):
    pid_file = tmp_path / "pid"
    launched = launch(f"{kind}:{pid_file}")
    launched.server.wait_until_ready(launched.unready, 30)
    child = read_pid(pid_file)
    assert not gone(child)
    launched.server.stop(0.2)
    assert gone(child)


def test_children_of_a_server_that_is_already_dead_go_too(launch, tmp_path):
    pid_file = tmp_path / "pid"
    launched = launch(f"grandchild:{pid_file}")
    launched.server.wait_until_ready(launched.unready, 30)
    child = read_pid(pid_file)
    os.kill(launched.server.pid, signal.SIGKILL)
    while launched.server.is_alive():
        time.sleep(0.01)
    assert not gone(child)
    assert "killed by SIGKILL" in launched.server.failure()
    launched.server.stop(0.2)
    assert gone(child)


def test_an_interrupt_during_the_stop_still_leaves_nothing_behind(launch, monkeypatch):
    launched = launch("ignore-term")
    launched.server.wait_until_ready(launched.unready, 30)
    pid = launched.server.pid
    real_sleep, calls = time.sleep, []

    def interrupted_once(seconds: float) -> None:
        calls.append(seconds)
        if len(calls) == 1:
            raise KeyboardInterrupt
        real_sleep(seconds)

    monkeypatch.setattr("omni_bench.targets.process.time.sleep", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        launched.server.stop(60)
    assert gone(pid)


def test_a_command_that_does_not_exist(tmp_path):
    server = ServerProcess([str(tmp_path / "no-such-program")], tmp_path / "server.log")
    with pytest.raises(TargetError, match=r"cannot execute .*no-such-program: No such file"):
        server.launch()
    server.stop()
    assert "not launched" in server.failure()


def test_a_log_that_cannot_be_written(tmp_path):
    server = ServerProcess([sys.executable, "-c", ""], tmp_path / "missing" / "server.log")
    with pytest.raises(StoreError, match="cannot write the server log"):
        server.launch()
