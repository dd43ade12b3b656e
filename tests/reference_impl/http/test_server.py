"""The life of the server process: start, loading, signals, errors, the death of its parent."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from processes import gone, wait_until
from repository import HELPERS, ROOT

ONE, TWO = '{"engine_process": false}', '{"engine_process": true}'
SCRIPT = HELPERS / "fake_engine_server.py"
DEADLINE_S = 30.0
STREAM = json.dumps({"input": "Hello.", "stream_format": "audio", "response_format": "pcm"})


class Server:
    """One process of ``fake_engine_server.py``, its log in a file."""

    def __init__(self, folder: Path, kind: str, *arguments: str, host: str = "127.0.0.1", port: str = "0"):
        self.log_path = folder / f"server-{kind.partition(':')[0]}.log"
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(SCRIPT), kind, "--host", host, "--port", port, *arguments]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command, env=env, stdout=log, stderr=log, cwd=folder, start_new_session=True
            )

    def log(self) -> str:
        return self.log_path.read_text()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait for a line of the log."""
        deadline = time.monotonic() + DEADLINE_S
        while not (match := re.search(pattern, self.log())):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.02)
        return match

    @property
    def port(self) -> int:
        return int(self.wait_for(r"listening on http://\S+:(\d+)")[1])

    @property
    def engine_pid(self) -> int:
        """The process of the engine."""
        (child,) = psutil.Process(self.process.pid).children()
        return child.pid

    def request(self, method: str, path: str, body: str | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        connection.request(method, path, body)
        return connection.getresponse()

    def exit_code(self) -> int:
        return self.process.wait(DEADLINE_S)


@pytest.fixture
def launch(tmp_path):
    servers = []

    def _launch(kind, *arguments, **options):
        servers.append(Server(tmp_path, kind, *arguments, **options))
        return servers[-1]

    yield _launch
    for server in servers:
        server.process.kill()
        server.process.wait()


@pytest.fixture(params=[ONE, TWO], ids=["one-process", "two-processes"])
def launch_both(launch, request):
    return lambda kind: launch(kind, "--settings", request.param)


def test_loading_then_ready_then_a_clean_stop(launch_both, tmp_path):
    flag = tmp_path / "loaded"
    server = launch_both(f"wait:{flag}")
    response = server.request("GET", "/health")
    assert (response.status, json.load(response)) == (503, {"status": "loading"})
    flag.touch()
    server.wait_for("ready: model tiny, voices alba, bruno")
    response = server.request("GET", "/health")
    assert (response.status, json.load(response)["status"]) == (200, "ok")
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0
    assert "stopping: SIGTERM" in server.log() and "Traceback" not in server.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_request_streams_breaks_it_off(launch_both, number):
    server = launch_both("gated")
    server.wait_for("ready")
    response = server.request("POST", "/v1/audio/speech", STREAM)
    assert len(response.read(3840)) == 3840
    server.process.send_signal(number)
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    assert server.exit_code() == 0
    assert "Traceback" not in server.log()


def test_a_signal_while_loading_does_not_wait_for_the_load(launch_both, tmp_path):
    server = launch_both(f"wait:{tmp_path / 'never'}")
    assert server.port
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0
    assert "Traceback" not in server.log()


def test_an_engine_that_does_not_stop_is_left_behind(launch_both):
    server = launch_both("hang")
    server.wait_for("ready")
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0
    assert "did not stop within" in server.log() and "Traceback" not in server.log()


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("config", 2, "error: reference.preset='tiny' is unknown"),
        ("checkpoint", 3, "error: talker.safetensors: no such file"),
        ("bug", 3, "error: the engine could not be loaded: RuntimeError: out of memory"),
    ],
)
def test_an_engine_that_cannot_be_loaded(launch_both, kind, code, message):
    server = launch_both(kind)
    assert server.exit_code() == code
    assert server.log().splitlines()[-1] == message
    assert ("Traceback" in server.log()) == (kind == "bug")


def test_a_port_in_use(launch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = launch("ok", port=str(taken.getsockname()[1]))
        assert server.exit_code() == 3
    (line,) = server.log().splitlines()
    assert line.startswith("error: cannot listen on host '127.0.0.1', port ") and "Address already in use" in line


def test_a_host_that_is_not_there(launch):
    server = launch("ok", host="203.0.113.1")  # TEST-NET-3 of RFC 5737
    assert server.exit_code() == 3
    assert server.log().startswith("error: cannot listen on host '203.0.113.1'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--settings", "{"], "--settings is not JSON"),
        (["--settings", '{"batch": 4}'], "unknown key(s) batch; valid: preset"),
        (["--settings", "[1]"], "--settings must be a JSON object"),
        (["--settings", '{"max_batch": "4"}'], "max_batch"),
        (["--settings", '{"engine_process": "yes"}'], "reference.engine_process='yes'; valid: auto, true, false"),
        (["--port", "70000"], "'70000' is not a port; valid: 0 to 65535"),
        (["--parent-pid", "-1"], "--parent-pid"),
    ],
)
def test_bad_arguments(launch, arguments, words):
    server = launch("ok", *arguments)
    assert server.exit_code() == 2
    assert words in server.log() and "Traceback" not in server.log()


def test_the_server_ends_with_its_parent(launch):
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    server = launch("ok", "--parent-pid", str(parent.pid))
    server.wait_for("ready")
    assert server.process.poll() is None
    parent.kill()  # not yet waited for: a zombie is gone too
    assert server.exit_code() == 0
    assert f"the parent process {parent.pid} is gone" in server.log()
    parent.wait()
    parent.stdin.close()


def test_a_parent_that_is_gone_already(launch):
    parent = subprocess.Popen([sys.executable, "-c", ""])
    parent.wait()
    assert launch("ok", "--parent-pid", str(parent.pid)).exit_code() == 0


def test_the_engine_is_in_the_process_that_was_asked_for(launch):
    for settings, children in ((ONE, 0), (TWO, 1)):
        server = launch("ok", "--settings", settings)
        server.wait_for("ready")
        health = json.load(server.request("GET", "/health"))
        assert health["engine_process"] is (children == 1) and health["device_name"] == "fake"
        assert len(psutil.Process(server.process.pid).children()) == children


def test_ctrl_c_in_a_terminal_reaches_both_processes_and_ends_them_in_order(launch):
    server = launch("gated", "--settings", TWO)
    server.wait_for("ready")
    response, engine = server.request("POST", "/v1/audio/speech", STREAM), server.engine_pid
    assert len(response.read(3840)) == 3840
    os.killpg(server.process.pid, signal.SIGINT)
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    assert server.exit_code() == 0
    wait_until(lambda: gone(engine))
    assert "stopping: SIGINT" in server.log() and "Traceback" not in server.log()
    assert "the engine was stopped" in server.log() and "killed" not in server.log()


def test_a_killed_engine_fails_its_requests_and_is_told(launch):
    server = launch("gated", "--settings", TWO)
    server.wait_for("ready")
    response = server.request("POST", "/v1/audio/speech", STREAM)
    assert len(response.read(3840)) == 3840
    os.kill(server.engine_pid, signal.SIGKILL)
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    server.wait_for("stream broken off: the engine has ended")
    server.wait_for("the engine's process was killed by SIGKILL")
    response = server.request("GET", "/health")
    assert (response.status, json.load(response)["status"]) == (503, "dead")
    response = server.request("POST", "/v1/audio/speech", STREAM)
    assert (response.status, json.load(response)["error"]["code"]) == (503, "engine_dead")
    assert "omni_reference_engine_up 0.0" in server.request("GET", "/metrics").read().decode()
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_code() == 0
    assert "Traceback" not in server.log()


@pytest.mark.parametrize("kind", ["gated", "hang"])
def test_a_killed_server_leaves_no_engine(launch, kind):
    server = launch(kind, "--settings", TWO)
    server.wait_for("ready")
    response, engine = server.request("POST", "/v1/audio/speech", STREAM), server.engine_pid
    assert len(response.read(3840)) == 3840
    server.process.kill()
    wait_until(lambda: gone(engine))


def test_a_server_killed_while_it_loads_leaves_no_engine(launch, tmp_path):
    server = launch(f"wait:{tmp_path / 'never'}", "--settings", TWO)
    assert server.port
    wait_until(psutil.Process(server.process.pid).children)
    engine = server.engine_pid
    server.process.kill()
    wait_until(lambda: gone(engine))


def test_an_engine_process_that_vanishes_while_it_loads(launch):
    server = launch("vanish", "--settings", TWO)
    assert server.exit_code() == 3
    assert server.log().splitlines()[-1] == "error: the engine's process was killed by SIGKILL while it loaded"


def test_a_fault_is_told_from_the_other_process(launch):
    server = launch("ok", "--settings", json.dumps({"engine_process": True, "fault": "empty_ok"}))
    server.wait_for("ready")
    line = 'omni_reference_fault_injected{fault="empty_ok"} 1.0'
    assert line in server.request("GET", "/metrics").read().decode()
