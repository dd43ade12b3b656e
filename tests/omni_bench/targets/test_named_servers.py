"""Servers that a command launches, by name or by the user's words: found, launched, and what goes wrong with them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from processes import gone, wait_until
from repository import ROOT

from omni_bench.errors import TargetError
from omni_bench.records.config import RunConfig, TargetConfig
from omni_bench.targets.create import TARGETS
from omni_bench.targets.launch import launch_command, launch_env
from omni_bench.targets.preflight import PROBLEM

SERVERS = {name: kind.server for name, kind in TARGETS.items() if kind.server is not None}
KINDS = ("vllm_omni", "sglang_omni", "command")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def launched(fake_environment, tmp_path):
    """A function that makes a target of the fake server; all of them are stopped after the test."""
    made = []

    def make(kind, manners="", **changes):
        config = RunConfig(target=fake_environment.target(kind, manners, **changes))
        made.append(TARGETS[kind].create(config, tmp_path / "server.log"))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def check(config):
    TARGETS[config.kind].check(RunConfig(target=config))


def speak(url):
    body = b'{"input": "Good morning."}'
    request = urllib.request.Request(f"{url}/v1/audio/speech", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return response.read()


def test_the_words_of_vllm_omni():
    config = TargetConfig(
        kind="vllm_omni",
        model="Qwen/X",
        deploy_config="deploy.yaml",
        stage_overrides={"0": {"max_num_seqs": 8}},
        extra_args=["--trust-remote-code", "--log-stats"],
    )
    assert launch_command(config, 8123, SERVERS["vllm_omni"]) == [
        *("vllm", "serve", "Qwen/X", "--omni", "--host", "127.0.0.1", "--port", "8123"),
        *("--deploy-config", "deploy.yaml"),
        "--stage-overrides",
        '{"0": {"max_num_seqs": 8}}',
        "--trust-remote-code",
        "--log-stats",
    ]
    assert launch_command(TargetConfig(kind="vllm_omni", model="m"), 1, SERVERS["vllm_omni"])[-2:] == ["--port", "1"]


def test_the_words_of_sglang_omni():
    config = TargetConfig(kind="sglang_omni", model="/models/x", deploy_config="p.yaml", extra_args=["--text-only"])
    words = "sgl-omni serve --model-path /models/x --host 127.0.0.1 --port 9 --config p.yaml --text-only"
    assert launch_command(config, 9, SERVERS["sglang_omni"]) == words.split()


def test_foreign_code_is_trusted_only_by_the_users_own_word():
    for kind in SERVERS:
        assert not [
            word for word in launch_command(TargetConfig(kind=kind, model="m"), 1, SERVERS[kind]) if "trust" in word
        ]


def test_the_devices_reach_the_server():
    config = TargetConfig(kind="vllm_omni", model="m", devices=["2", "GPU-ab"], env={"X": "y"})
    env = launch_env(config, SERVERS["vllm_omni"])
    assert env["CUDA_VISIBLE_DEVICES"] == "2,GPU-ab" and env["X"] == "y"
    assert env["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert launch_env(TargetConfig(kind="command", command="x"))["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_is_launched_described_and_stopped(kind, launched, fake_environment, tmp_path):
    target = launched(kind, "stray orphan", devices=["0"])
    info = target.start()
    assert info.kind == kind and info.command[1] == "serve" and "/" not in info.command[0]
    assert info.models["data"][0]["id"] == str(fake_environment.model)
    assert info.stated_version == {"version": "0.30.1"}
    named = kind in SERVERS
    assert (info.version, info.commit) == (("0.30.0", COMMIT) if named else (None, None))
    assert info.environment["packages"]["vllm-omni"] == "0.30.0"
    assert "devices: 0" in (tmp_path / "server.log").read_text()
    assert len(speak(info.base_url)) > 0
    target.stop()
    fake_environment.assert_nothing_runs(at_least=3)


def test_a_crash_at_start_up_is_told_and_leaves_nothing(launched, fake_environment):
    target = launched("vllm_omni", "stray orphan die:3")
    with pytest.raises(TargetError, match=r"(?s)ended during start-up: exit code 3.*no kernel image is available"):
        target.start()
    fake_environment.assert_nothing_runs(at_least=3)


def test_a_crash_in_the_middle_is_told_and_leaves_nothing(launched, fake_environment):
    """Before anybody calls stop."""
    target = launched("sglang_omni", "stray orphan die-at:1")
    info = target.start()
    with pytest.raises(OSError):
        speak(info.base_url)
    wait_until(lambda: not target.is_alive())
    assert "exit code 1" in target.failure() and "illegal memory access" in target.failure()
    fake_environment.assert_nothing_runs(at_least=3)
    target.stop()


def test_one_that_ignores_every_signal_is_ended_with_its_children(launched, fake_environment):
    target = launched("vllm_omni", "stray orphan ignore-term", stop_timeout_s=0.5)
    target.start()
    target.stop()
    assert [pid for pid in fake_environment.pids if not gone(pid)] == []
    fake_environment.assert_nothing_runs(at_least=3)


def test_one_that_is_never_ready_is_ended(launched, fake_environment):
    with pytest.raises(TargetError, match=r"not ready within target\.startup_timeout_s=1\.5"):
        launched("command", "stray never-ready", startup_timeout_s=1.5).start()
    fake_environment.assert_nothing_runs(at_least=2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_port_in_use_is_told_before_the_launch(kind, launched, fake_environment):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        target = launched(kind, port=port)
        with pytest.raises(TargetError, match=rf"target\.port={port}: already in use on 127\.0\.0\.1"):
            target.start()
        with pytest.raises(TargetError, match=rf"target\.port={port}: already in use"):
            check(fake_environment.target(kind, port=port))
    assert fake_environment.pids == []


def test_a_guardian_that_was_killed_leaves_its_mark(launched, fake_environment):
    """kill -9 of the process that holds all others together: they are known by what they inherited."""
    target = launched("vllm_omni", "stray ignore-term")
    target.start()
    os.kill(target._process.pid, signal.SIGKILL)
    wait_until(lambda: not target.is_alive())
    assert [pid for pid in fake_environment.pids if not gone(pid)], "it has no chance to end them itself"
    target.stop()
    fake_environment.assert_nothing_runs(at_least=2)


def test_a_harness_that_was_killed_leaves_no_server(fake_environment, tmp_path):
    config = fake_environment.target("vllm_omni", "stray orphan ignore-term")
    code = (
        "import sys, time; from pathlib import Path\n"
        "from omni_bench.records.config import RunConfig, TargetConfig\n"
        "from omni_bench.targets.named_servers import VLLM_OMNI as TARGET\n"
        f"target = TARGET.create(RunConfig(target=TargetConfig(kind='vllm_omni', model={config.model!r}, "
        f"python={config.python!r}, env={config.env!r}, stop_timeout_s=60)), Path({str(tmp_path / 'log')!r}))\n"
        "print(target.start().base_url, flush=True); time.sleep(600)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    harness = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env, text=True)
    assert harness.stdout.readline().startswith("http://")
    harness.kill()
    harness.wait()
    fake_environment.assert_nothing_runs(at_least=3)


def findings(config):
    return TARGETS[config.kind].findings(RunConfig(target=config))


def problems(config):
    return {finding.what: finding.detail for finding in findings(config) if finding.state == PROBLEM}


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_can_be_launched_has_no_problem(kind, fake_environment):
    config = fake_environment.target(kind)
    assert problems(config) == {}
    check(config)
    assert "port" in [finding.what for finding in findings(config)]


def test_what_is_installed_is_told_with_its_commit(fake_environment):
    first = next(findings(fake_environment.target("vllm_omni")))
    assert first.detail == f"0.30.0 of commit {COMMIT[:12]} is installed: {fake_environment.folder}/bin/vllm"


@pytest.mark.parametrize(
    ("kind", "title", "program"), [("vllm_omni", "vLLM-Omni", "vllm"), ("sglang_omni", "SGLang-Omni", "sgl-omni")]
)
def test_a_program_that_is_not_there(kind, title, program, launched, fake_environment, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (fake_environment.folder / "bin" / program).unlink()
    words = f"{title} is not installed: there is no program '{program}' in the environment of target.python="
    assert problems(fake_environment.target(kind))[SERVERS[kind].package].startswith(words)
    with pytest.raises(TargetError, match=f"{title} is not installed"):
        launched(kind).start()
    own = fake_environment.target(kind, python=None)
    assert "target.python=/PATH/TO/ENV/bin/python" in problems(own)[SERVERS[kind].package]


def test_a_user_s_program_that_is_not_there(fake_environment):
    config = fake_environment.target("command", command="no-such-server {port}")
    assert problems(config) == {
        "program": "target.command='no-such-server {port}': there is no program 'no-such-server'"
    }


@pytest.mark.parametrize("kind", SERVERS)
def test_a_program_without_its_package(kind, fake_environment):
    """vllm alone knows nothing of --omni."""
    package = SERVERS[kind].package
    (info,) = (fake_environment.folder / "site").glob(f"{package.replace('-', '_')}-*.dist-info")
    (info / "METADATA").unlink()
    assert f"knows no package {package}" in problems(fake_environment.target(kind))[package]


def test_an_interpreter_that_is_broken(fake_environment):
    Path(fake_environment.python).write_text("#!/bin/sh\nexit 9\n")
    found = problems(fake_environment.target("vllm_omni"))
    assert "exit code 9 when asked for its packages" in found["vllm-omni"]


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("/no/such/folder", "there is no such folder"),
        ("./no-such-folder", "there is no such folder"),
        ("~nobody-of-that-name/x", "there is no such folder"),
        ("no such name!", "there is no such folder"),
        ("Qwen/Never-Fetched", "downloads no models: fetch it first (hf download Qwen/Never-Fetched)"),
    ],
)
def test_a_model_that_is_not_here(kind, model, words, fake_environment, tmp_path):
    config = fake_environment.target(kind, model=model)
    config.env["HF_HOME"] = str(tmp_path)
    found = problems(config)
    assert list(found) == ["model"] and words in found["model"] and model in found["model"]


def test_a_folder_without_a_model(fake_environment):
    (fake_environment.model / "config.json").unlink()
    assert "the folder has no config.json" in problems(fake_environment.target("vllm_omni"))["model"]


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"])
def test_a_model_in_the_cache_of_the_hub(variable, fake_environment, tmp_path, monkeypatch):
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    below = {"HF_HOME": "hub", "HF_HUB_CACHE": ".", "XDG_CACHE_HOME": "huggingface/hub"}[variable]
    snapshot = tmp_path / below / "models--Qwen--X" / "snapshots" / ("0" * 40)
    config = fake_environment.target("vllm_omni", model="Qwen/X")
    config.env[variable] = str(tmp_path)
    assert "model" in problems(config)
    snapshot.mkdir(parents=True)
    assert "model" in problems(config), "an empty snapshot is no model"
    (snapshot / "config.json").write_text("{}")
    assert problems(config) == {}


def test_a_deploy_file_that_is_not_there(fake_environment, tmp_path):
    config = fake_environment.target("vllm_omni", deploy_config=str(tmp_path / "x.yaml"))
    assert problems(config) == {"deploy file": f"target.deploy_config={tmp_path}/x.yaml: there is no such file"}
    (tmp_path / "x.yaml").touch()
    assert problems(config) == {}


def test_every_problem_is_in_the_message(fake_environment):
    config = fake_environment.target("vllm_omni", model="/nope", deploy_config="/no.yaml")
    with pytest.raises(TargetError, match=r"(?s)target\.model, is /nope: .*target\.deploy_config=/no\.yaml: "):
        check(config)
