"""A server by its launch command: found ready, refused, and gone at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from repository import HELPERS, ROOT

from omni_bench.errors import TargetError
from omni_bench.records.config import RunConfig, TargetConfig
from omni_bench.run.config.compose import compose
from omni_bench.targets import command as command_module
from omni_bench.targets.command import CommandTarget
from omni_bench.targets.create import create_target
from omni_bench.targets.launch import launch_command
from omni_bench.targets.probe import free_port, get

FAKE_SERVER = str(HELPERS / "fake_http_server.py")
POLL_S = 0.02


@pytest.fixture
def target(tmp_path):
    """A function that makes a target of the fake server; all of them are gone after the test."""
    made = []

    def make(*manners, **changes):
        words = " ".join(manners)
        config = TargetConfig(kind="command", command=f"{{python}} {FAKE_SERVER} {{port}} {words}", stop_timeout_s=1.0)
        for name, value in changes.items():
            setattr(config, name, value)
        made.append(CommandTarget(config, tmp_path / "server.log"))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def processes_of(text):
    """Pids of live processes with ``text`` in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if text in " ".join(process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def gone(pid):
    """Whether a process has ended; a zombie has, nobody waits for it here."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


def test_a_server_is_launched_on_a_free_port_and_stopped(target, tmp_path):
    one = target("late:0.3", f"grandchild:{tmp_path}/child")
    info = one.start()
    assert info.kind == "command" and info.health["ready"] and one.is_alive()
    assert info.command[0] == Path(sys.executable).name and str(info.command[2]) in info.base_url
    child = int((tmp_path / "child").read_text())
    one.stop()
    assert not one.is_alive() and get(info.base_url, 1.0).status is None
    assert gone(child)


def test_it_can_be_made_from_a_configuration(tmp_path):
    config = RunConfig(target=TargetConfig(kind="command", command="serve {port}"))
    assert isinstance(create_target(config, tmp_path / "log"), CommandTarget)


def test_a_crash_at_start_tells_the_log(target):
    one = target("die:3")
    with pytest.raises(TargetError, match=r"(?s)ended during start-up: exit code 3.*hopeless"):
        one.start()
    assert not one.is_alive()


def test_one_that_is_never_ready_is_ended(target, tmp_path):
    one = target("late:600", f"grandchild:{tmp_path}/child", "ignore-term", startup_timeout_s=1.5)
    with pytest.raises(TargetError, match=r"not ready within target\.startup_timeout_s=1\.5"):
        one.start()
    assert processes_of(f"grandchild:{tmp_path}/child") == []
    assert gone(int((tmp_path / "child").read_text()))


def test_a_server_without_a_health_path_is_ready_when_it_lists_its_models(target):
    assert target(health_path="/nowhere").start().health is None


def test_a_server_that_has_neither_path_is_not_waited_for(target, monkeypatch):
    """Not the 900 s of a server that loads: it listens, and answers 404 to both."""
    monkeypatch.setattr(command_module, "NO_PATH_S", 0.2)
    with pytest.raises(TargetError, match=r"listens, but for 0\.2 s /health answers 404.*set target\.health_path"):
        target("status:404").start()


@pytest.mark.parametrize(
    ("key", "advice"), [(None, "name the variable .*client.api_key_env=NAME"), ("x", "other than")]
)
@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_key_says_so_at_once(target, status, key, advice):
    one = target(f"status:{status}")
    one._key = key
    with pytest.raises(TargetError, match=rf"answers {status} at /health: it wants a key .*{advice}"):
        one.start()
    assert not one.is_alive()


def test_a_port_in_use_is_an_error_before_the_launch(target, tmp_path):
    port = free_port("127.0.0.1")
    other = subprocess.Popen([sys.executable, FAKE_SERVER, str(port)], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: get(f"http://127.0.0.1:{port}/health", 1.0).status == 200)
        with pytest.raises(TargetError, match=rf"target\.port={port}: already in use"):
            target(port=port).start()
        assert not (tmp_path / "server.log").exists()
    finally:
        other.kill()
        other.wait()


def test_a_stranger_at_the_port_is_not_measured(target, monkeypatch):
    """A server from before the launch answers, while ours listens elsewhere and stays alive."""
    port = free_port("127.0.0.1")
    other = subprocess.Popen([sys.executable, FAKE_SERVER, str(port)], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: get(f"http://127.0.0.1:{port}/health", 1.0).status == 200)
        monkeypatch.setattr(command_module, "check_port_free", lambda *_: None)
        one = target(command=f"{{python}} {FAKE_SERVER} 0", port=port)
        with pytest.raises(TargetError, match=rf"port {port} is answered by process {other.pid}"):
            one.start()
        assert not one.is_alive()
    finally:
        other.kill()
        other.wait()


def test_a_program_that_is_not_there(target):
    with pytest.raises(TargetError, match="there is no program 'no-such-server'"):
        target(command="no-such-server {port}").start()


def test_a_death_is_told(target):
    one = target()
    one.start()
    (server,) = psutil.Process(one._process.pid).children()
    server.send_signal(signal.SIGKILL)
    wait_until(lambda: not one.is_alive())
    assert one.failure().startswith("killed by SIGKILL")


def test_a_harness_that_was_killed_leaves_no_server(tmp_path):
    """kill -9 of the launching process: stop is not called."""
    code = (
        "import sys, time; from pathlib import Path\n"
        "from omni_bench.records.config import TargetConfig\n"
        "from omni_bench.targets.command import CommandTarget\n"
        f"command = '{{python}} {FAKE_SERVER} {{port}} grandchild:{tmp_path}/child'\n"
        f"target = CommandTarget(TargetConfig(kind='command', command=command), Path('{tmp_path}/log'))\n"
        "print(target.start().base_url, flush=True); time.sleep(600)"
    )
    root = str(ROOT)
    env = {**os.environ, "PYTHONPATH": root}
    harness = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env, text=True)
    url = harness.stdout.readline().strip()
    assert url.startswith("http://")
    harness.kill()
    harness.wait()
    wait_until(lambda: processes_of(f"grandchild:{tmp_path}/child") == [])
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: gone(child))
    assert get(url, 1.0).status is None


def test_words_are_filled_in_and_nothing_else():
    config = TargetConfig(
        kind="command", command="serve --bind '{host}:{port}' --json '{\"a\": {}}' $HOME ~", python="/venv/bin/python"
    )
    words = launch_command(config, 8123)
    assert words == ["serve", "--bind", "127.0.0.1:8123", "--json", json.dumps({"a": {}}), "$HOME", "~"]


def test_environment_variables_reach_it(target, tmp_path):
    code = f"import os, pathlib; pathlib.Path('{tmp_path}/seen').write_text(os.environ['CARD'])"
    one = target(command=f'{{python}} -c "{code}" {{port}}', env={"CARD": "3"})
    with pytest.raises(TargetError, match="exit code 0"):
        one.start()
    assert (tmp_path / "seen").read_text() == "3"


def test_the_group_of_the_configuration():
    config = compose(["target=command", "target.command='serve --port {port}'"])
    assert config.target.kind == "command" and config.target.startup_timeout_s == 900
