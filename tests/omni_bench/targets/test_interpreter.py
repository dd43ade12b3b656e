"""A server in another environment: what is asked of it, and what it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from repository import HELPERS

from omni_bench.errors import TargetError
from omni_bench.records.config import TargetConfig
from omni_bench.targets.interpreter import Interpreter, ask_interpreter, interpreter_env
from omni_bench.targets.reference import ReferenceTarget, server_command
from reference_impl.settings import ServerSettings

OLD = Interpreter("/old/bin/python", "3.11.0", {"omni-bench": "0.0.1"}, ("preset", "checkpoint", "device", "max_batch"))


def settings_of(command):
    return json.loads(command[command.index("--settings") + 1])


def test_this_interpreter_answers():
    answer = ask_interpreter(sys.executable)
    assert answer.version == ".".join(map(str, sys.version_info[:3])) and "numpy" in answer.packages
    assert answer.as_environment() == {"python": answer.version, "packages": answer.packages}


def fake_python(folder, script):
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "script,message",
    [
        ("echo broken >&2; exit 3", "exit code 3 when asked for its packages: broken"),
        ("exit 3", "it says nothing"),
        ("echo hello", "no answer that can be read: 'hello"),
        ("echo '{}'", "no answer that can be read"),
        ("true", "no answer that can be read"),
    ],
)
def test_an_interpreter_that_does_not_answer(script, message, tmp_path):
    with pytest.raises(TargetError, match=message):
        ask_interpreter(fake_python(tmp_path, script))


def test_an_interpreter_that_is_not_there(tmp_path):
    with pytest.raises(TargetError, match="cannot be executed: No such file"):
        ask_interpreter(str(tmp_path / "python"))


def test_nothing_of_this_environment_reaches_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "/here")
    monkeypatch.setenv("VIRTUAL_ENV", "/here/venv")
    monkeypatch.setenv("CARD", "0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text("")
    env = interpreter_env(str(tmp_path / "bin" / "python"), {"CARD": "1"})
    assert "PYTHONPATH" not in env and env["VIRTUAL_ENV"] == str(tmp_path) and env["CARD"] == "1"
    assert env["PATH"].split(os.pathsep)[0] == str(tmp_path / "bin")
    assert "VIRTUAL_ENV" not in interpreter_env(str(tmp_path / "python"), {})


def test_an_older_server_is_told_what_it_knows():
    command = server_command("127.0.0.1", 0, ServerSettings(max_batch=4), 7, OLD)
    assert command[:4] == ["/old/bin/python", "-P", "-m", "reference_impl"]
    assert command[-2:] == ["--parent-pid", "7"]
    assert settings_of(command) == {"preset": "tiny", "checkpoint": "bundled", "device": "auto", "max_batch": 4}
    assert "predictor" in settings_of(server_command("127.0.0.1", 0, ServerSettings()))


def test_an_older_server_cannot_follow_a_newer_setting():
    with pytest.raises(TargetError, match=r"reference\.predictor=reprefill: the reference server of .* no such"):
        server_command("127.0.0.1", 0, ServerSettings(predictor="reprefill"), None, OLD)


def test_an_environment_without_the_reference_server():
    there = Interpreter("/other/bin/python", "3.11.0", {}, None)
    with pytest.raises(TargetError, match="there is no reference_impl in that environment"):
        server_command("127.0.0.1", 0, ServerSettings(), None, there)


def test_the_server_of_another_environment_is_launched(tmp_path):
    """A stand-in for that environment's Python: it answers the question, then is the fake server."""
    fake_server = HELPERS / "fake_http_server.py"
    answer = json.dumps({"python": "3.11.0", "packages": {"omni-bench": "0.0.1"}, "settings": ["preset", "max_batch"]})
    script = f'test "$2" = -c && echo \'{answer}\' && exit\ntest -z "$PYTHONPATH" || exit 9\n'
    python = fake_python(tmp_path, f"{script}exec {sys.executable} {fake_server} 0")
    config = TargetConfig(kind="reference", python=python)
    target = ReferenceTarget(config, ServerSettings(), tmp_path / "server.log")
    try:
        info = target.start()
        assert info.environment == {"python": "3.11.0", "packages": {"omni-bench": "0.0.1"}}
        assert info.command[:4] == ("python", "-P", "-m", "reference_impl") and info.health["ready"]
    finally:
        target.stop()


COMMIT = "0123456789abcdef0123456789abcdef01234567"


def with_origin(origin, version="1.0"):
    return Interpreter("/x/bin/python", "3.11.0", {"vLLM_Omni": version}, None, {"vLLM_Omni": origin} if origin else {})


@pytest.mark.parametrize(
    ("origin", "version", "commit"),
    [
        ({"url": "https://x.invalid", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, "1.0", COMMIT),
        (None, "0.30.1.dev12+g0123abc", "0123abc"),
        (None, "0.30.1.dev12+cu129.g0123abcd", "0123abcd"),
        (None, "1.0", None),
        (None, "1.0+gold", None),
        ({"url": "https://x.invalid/a.whl", "archive_info": {}}, "1.0", None),
        ({"url": "file:///no/such/checkout", "dir_info": {"editable": True}}, "1.0", None),
        ({"vcs_info": {"commit_id": 3}}, "1.0", None),
        ({"vcs_info": "x", "dir_info": 7, "url": None}, "1.0", None),
    ],
)
def test_the_commit_of_a_package(origin, version, commit):
    found = with_origin(origin, version)
    assert found.package_commit("vllm-omni") == commit
    assert found.package_version("vllm-omni") == version, "names are compared as installers do"
    assert found.package_version("vllm") is None and found.package_commit("vllm") is None


def test_the_commit_of_an_editable_checkout(tmp_path):
    folder = tmp_path / "a checkout"
    folder.mkdir()
    (folder / "file").write_text("one")
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "file"], [*who, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    head = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    commit = head.stdout.strip()
    found = with_origin({"url": folder.as_uri(), "dir_info": {"editable": True}})
    assert found.package_commit("vllm-omni") == commit
    (folder / "file").write_text("two")
    assert found.package_commit("vllm-omni") == f"{commit}-dirty"


def test_origins_are_read_from_the_installation(fake_environment):
    found = ask_interpreter(fake_environment.python)
    assert found.package_version("vllm-omni") == "0.30.0" and found.package_commit("vllm-omni") == COMMIT
