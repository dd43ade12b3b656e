"""The two kinds of target against a fake server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from processes import fake_server
from repository import HELPERS

from omni_bench.errors import ConfigError, TargetError
from omni_bench.records.config import RunConfig, TargetConfig
from omni_bench.targets import external as external_module
from omni_bench.targets import reference as reference_module
from omni_bench.targets.base import PROBLEM
from omni_bench.targets.command import CommandTarget
from omni_bench.targets.create import create_target
from omni_bench.targets.external import TARGET, ExternalTarget
from omni_bench.targets.probe import ProbeAnswer, free_port, get
from omni_bench.targets.process import ServerProcess
from omni_bench.targets.reference import ReferenceTarget, check_checkpoint, server_command
from reference_impl.settings import ServerSettings

FAKE_SERVER = str(HELPERS / "fake_http_server.py")


@pytest.fixture
def running():
    with fake_server("fake_http_server.py") as server:
        yield server


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_an_external_server_is_found_and_left_running(running, suffix):
    port, process = running
    target = ExternalTarget(TargetConfig(kind="external", url=f"http://127.0.0.1:{port}{suffix}"))
    info = target.start()
    assert info.base_url == f"http://127.0.0.1:{port}"
    assert info.as_dict()["health"] == {"path": "/health", "ready": True}
    assert info.models["path"] == "/v1/models"
    target.stop()
    assert process.poll() is None and target.is_alive()


def test_an_external_server_without_a_health_endpoint_is_accepted(running):
    port, _ = running
    config = TargetConfig(kind="external", url=f"http://127.0.0.1:{port}", health_path="/nowhere")
    assert ExternalTarget(config).start().health is None


def test_an_external_server_that_does_not_answer():
    url = f"http://127.0.0.1:{free_port('127.0.0.1')}"
    target = ExternalTarget(TargetConfig(kind="external", url=url, startup_timeout_s=0.1))
    with pytest.raises(TargetError, match=rf"no server answers at target.url={url} within 0.1 s .*refused"):
        target.start()


def test_an_external_server_that_answers_but_is_not_healthy(tmp_path):
    """It is there: the way out is its own log, not its address."""
    with fake_server("fake_http_server.py", "late:600", status=503) as (port, _):
        config = TargetConfig(kind="external", url=f"http://127.0.0.1:{port}", startup_timeout_s=0.1)
        with pytest.raises(
            TargetError, match=rf"url=http://127.0.0.1:{port} answers 503 \(unhealthy\) .* within 0.1 s .*; wait longer"
        ):
            ExternalTarget(config).start()
        (finding,) = TARGET.findings(RunConfig(target=config))
        assert finding.state == PROBLEM and finding.detail.endswith("/health answers 503 (unhealthy)")


@pytest.mark.parametrize(
    ("health", "models", "problem"), [(401, 401, "server"), (200, 403, "key"), (404, 200, None), (200, None, None)]
)
def test_the_doctor_says_how_to_give_a_key(monkeypatch, health, models, problem):
    def get(url, timeout_s, key):
        return ProbeAnswer(health if url.endswith("/health") else models, b"", None, key)

    monkeypatch.setattr(external_module, "get", get)
    found = TARGET.findings(RunConfig(target=TargetConfig(kind="external", url="http://127.0.0.1:1")))
    problems = {one.what: one.detail for one in found if one.state == PROBLEM}
    assert list(problems) == [problem] * (problem is not None)
    assert all("client.api_key_env=NAME" in detail for detail in problems.values())


@pytest.fixture
def fake_reference(monkeypatch, tmp_path):
    """The reference target, with the fake server in the place of the real one."""

    def build(config: TargetConfig, *manners: str) -> ReferenceTarget:
        monkeypatch.setattr(
            reference_module,
            "server_command",
            lambda host, port, *_, **__: [sys.executable, FAKE_SERVER, str(port), *manners],
        )
        return ReferenceTarget(config, ServerSettings(), tmp_path / "server.log")

    return build


def test_the_reference_server_is_launched_and_stopped(fake_reference):
    target = fake_reference(TargetConfig(kind="reference"), "late:0.2")
    info = target.start()
    assert target.is_alive() and info.health["ready"] and info.startup_s > 0
    assert info.command[0] == Path(sys.executable).name, "no path of this machine in what is published"
    target.stop()
    assert not target.is_alive()
    assert get(info.base_url, 1.0).status is None


def test_a_failed_start_leaves_no_process_and_tells_the_log(fake_reference):
    target = fake_reference(TargetConfig(kind="reference"), "die:3")
    with pytest.raises(TargetError, match="hopeless"):
        target.start()
    assert not target.is_alive()


def test_a_port_taken_after_the_check_is_not_measured(fake_reference, running, monkeypatch):
    """Another server that answers 200 at the configured port while ours fails to bind it."""
    port, _ = running
    monkeypatch.setattr(reference_module, "check_port_free", lambda *_: None)
    target = fake_reference(TargetConfig(kind="reference", port=port))
    with pytest.raises(TargetError, match="ended during start-up"):
        target.start()
    assert target.base_url == ""


def test_an_older_address_in_the_log_is_passed_over(fake_reference, running, tmp_path):
    port, _ = running
    (tmp_path / "server.log").write_text(f"INFO listening on http://127.0.0.1:{port}\n")
    target = fake_reference(TargetConfig(kind="reference"))
    assert target.start().base_url != f"http://127.0.0.1:{port}"
    target.stop()


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("INFO x: listening on http://127.0.0.1:81\n", "http://127.0.0.1:81"),
        ("listening on http://0.0.0.0:8091\nlistening on http://[::1]:2\n", "http://127.0.0.1:8091"),
        ("listening on http://[::1]:82\n", "http://[::1]:82"),
        ("listening on http://127.0.0.1:8", None),  # the line may still grow
        ("listening on http://127.0.0.1:\n", None),
        ("", None),
    ],
)
def test_the_address_is_read_from_the_log(line, url, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        reference_module, "get", lambda address, _: asked.append(address) or ProbeAnswer(200, b"", None)
    )
    target = ReferenceTarget(TargetConfig(kind="reference"), ServerSettings(), tmp_path / "server.log")
    target._process = ServerProcess(["x"], tmp_path / "server.log")
    (tmp_path / "server.log").write_text(line)
    assert (target._unready() is None) == (url is not None)
    assert asked == ([f"{url}/health"] if url else [])


@pytest.mark.parametrize("checkpoint", ["bundled", "random", "."])
def test_a_checkpoint_that_can_be_there(checkpoint):
    check_checkpoint(ServerSettings(checkpoint=checkpoint))


@pytest.mark.parametrize("checkpoint", ["bundle", "/nowhere", __file__])
def test_a_checkpoint_that_is_not_there(checkpoint):
    with pytest.raises(ConfigError, match=rf"checkpoint='{checkpoint}': there is no folder .*valid: bundled"):
        check_checkpoint(ServerSettings(checkpoint=checkpoint))


def test_the_command_line_of_the_server_carries_every_setting():
    command = server_command("127.0.0.1", 8000, ServerSettings(chunk_frames=4, threads=1), parent_pid=42)
    assert command[:4] == [sys.executable, "-P", "-m", "reference_impl"]
    options = dict(zip(command[4::2], command[5::2], strict=True))
    assert options["--host"] == "127.0.0.1" and options["--port"] == "8000" and options["--parent-pid"] == "42"
    settings = ServerSettings.from_json(options["--settings"])
    assert settings.chunk_frames == 4 and settings.threads == 1


def test_create_target(tmp_path):
    config = RunConfig()
    config.target = TargetConfig(kind="reference")
    assert isinstance(create_target(config, tmp_path / "server.log"), ReferenceTarget)
    config.target = TargetConfig(kind="external", url="http://127.0.0.1:1")
    assert isinstance(create_target(config, tmp_path / "server.log"), ExternalTarget)
    config.target = TargetConfig(kind="vllm_omni", model="m")
    assert isinstance(create_target(config, tmp_path / "server.log"), CommandTarget)
    config.target = TargetConfig(kind="vllm_omnii")
    with pytest.raises(ConfigError, match=r"target\.kind='vllm_omnii'; did you mean 'vllm_omni'\?"):
        create_target(config, tmp_path / "server.log")
