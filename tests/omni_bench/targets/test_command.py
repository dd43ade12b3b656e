"""A server by its launch command: found ready, refused, and gone at the end."""

from __future__ import annotations

import json

import pytest
from processes import fake_server
from repository import HELPERS

from omni_bench.errors import TargetError
from omni_bench.records.api_key import ApiKey
from omni_bench.records.config import TargetConfig
from omni_bench.targets import command as command_module
from omni_bench.targets.command import CommandTarget
from omni_bench.targets.launch import launch_command

FAKE_SERVER = str(HELPERS / "fake_http_server.py")


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


def test_a_server_without_a_health_path_is_ready_when_it_lists_its_models(target):
    assert target(health_path="/nowhere").start().health is None


def test_a_server_that_has_neither_path_is_not_waited_for(target, monkeypatch):
    """Not the 900 s of a server that loads: it listens, and answers 404 to both."""
    monkeypatch.setattr(command_module, "NO_PATH_S", 0.2)
    with pytest.raises(TargetError, match=r"listens, but for 0\.2 s /health answers 404.*set target\.health_path"):
        target("status:404").start()


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        (None, "name the variable .*client.api_key_env=NAME"),
        (ApiKey("x", "api-key"), "other than .*another header than api-key: client.api_key_header=NAME"),
    ],
)
@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_key_says_so_at_once(target, status, key, advice):
    one = target(f"status:{status}")
    one._key = key
    with pytest.raises(TargetError, match=rf"answers {status} at /health: it wants a key .*{advice}"):
        one.start()
    assert not one.is_alive()


def test_a_stranger_at_the_port_is_not_measured(target, monkeypatch):
    """A server from before the launch answers, while ours listens elsewhere and stays alive."""
    with fake_server("fake_http_server.py") as (port, other):
        monkeypatch.setattr(command_module, "check_port_free", lambda *_: None)
        one = target(command=f"{{python}} {FAKE_SERVER} 0", port=port)
        with pytest.raises(TargetError, match=rf"port {port} is answered by process {other.pid}"):
            one.start()
        assert not one.is_alive()


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
