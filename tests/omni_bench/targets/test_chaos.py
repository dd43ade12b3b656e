"""A target behind the proxy: what it says of itself, how it ends, and a run over it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import psutil
import pytest
from processes import fake_server

from omni_bench.errors import ConfigError, TargetError
from omni_bench.records.config import RunConfig, TargetConfig
from omni_bench.run.config.compose import compose
from omni_bench.run.orchestrate import run
from omni_bench.targets.base import TargetInfo
from omni_bench.targets.chaos import ChaosTarget, proxy_command
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from omni_bench.targets.create import create_target
from omni_bench.targets.probe import get


class Inner:
    """A target that remembers what was asked of it, at ``base_url``."""

    def __init__(self, base_url):
        self.base_url = base_url
        self.log_path = None
        self.alive, self.stopped = True, 0
        self.start_error = None

    def start(self):
        if self.start_error is not None:
            raise self.start_error
        return TargetInfo("reference", self.base_url, 0.1, ("server",), {"model": "m"}, None)

    def is_alive(self):
        return self.alive

    def failure(self):
        return "exit code 9 of the server itself"

    def stop(self):
        self.stopped += 1


@pytest.fixture(scope="module")
def served():
    """The URL of a server that answers speech with a tone."""
    with fake_server("fake_speech_server.py", 0.2) as (port, _):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def make(served, tmp_path):
    made = []

    def build(fault="cut", **config):
        inner = Inner(served)
        settings = TargetConfig(kind="reference", **{"startup_timeout_s": 30.0, **config})
        target = ChaosTarget(inner, WIRE_FAULTS[fault], settings, tmp_path / "chaos.log")
        made.append(target)
        return target, inner

    yield build
    for target in made:
        target.stop()


def proxies():
    return [child for child in psutil.Process().children() if "omni_bench.targets.chaos_proxy" in child.cmdline()]


def test_it_stands_before_the_target_and_says_so(make, served, tmp_path, capsys):
    target, inner = make("odd_bytes")
    info = target.start()
    assert "FAULT INJECTED at the wire: odd_bytes" in capsys.readouterr().err
    assert info.base_url == target.base_url != served and info.base_url.startswith("http://127.0.0.1:")
    assert (info.kind, info.command, info.health) == ("reference", ("server",), {"model": "m"})
    assert info.chaos["name"] == "odd_bytes" and info.chaos["upstream"] == served
    assert json.dumps(info.as_dict()["chaos"])
    assert get(f"{target.base_url}/health", 5.0).json() == {"status": "ok", "model": "tone"}
    assert "FAULT INJECTED at the wire: odd_bytes" in (tmp_path / "chaos.log").read_text()
    assert target.is_alive() and len(proxies()) == 1
    target.stop()
    assert not target.is_alive() and inner.stopped == 1 and proxies() == []
    assert get(f"{target.base_url}/health", 1.0).status is None


def test_either_of_the_two_can_die(make):
    target, inner = make()
    target.start()
    inner.alive = False
    assert not target.is_alive() and target.failure() == "exit code 9 of the server itself"
    inner.alive = True
    (proxy,) = proxies()
    os.kill(proxy.pid, signal.SIGKILL)
    while target.is_alive():
        time.sleep(0.01)
    assert target.failure().startswith(
        "FAULT INJECTED at the wire: cut: the proxy before the server: killed by SIGKILL"
    )


def test_a_target_that_does_not_start_leaves_nothing(make):
    target, inner = make()
    inner.start_error = TargetError("no weights")
    assert target.failure() == "the proxy of injected faults was not launched" and not target.is_alive()
    with pytest.raises(TargetError, match="no weights"):
        target.start()
    assert inner.stopped == 1 and proxies() == []


def test_a_proxy_that_does_not_start_stops_the_target(make, monkeypatch):
    target, inner = make()
    monkeypatch.setattr("omni_bench.targets.chaos.proxy_command", lambda *_: [sys.executable, "-c", "exit(4)"])
    with pytest.raises(TargetError, match="ended during start-up: exit code 4"):
        target.start()
    assert inner.stopped == 1 and proxies() == []


def test_the_command_line():
    command = proxy_command("http://127.0.0.1:1", "stall", 42)
    assert command[:4] == [sys.executable, "-P", "-m", "omni_bench.targets.chaos_proxy"]
    options = dict(zip(command[4::2], command[5::2], strict=True))
    assert options == {
        "--upstream": "http://127.0.0.1:1",
        "--chaos": "stall",
        "--host": "127.0.0.1",
        "--port": "0",
        "--parent-pid": "42",
    }


def test_any_kind_of_target_can_be_behind_it(tmp_path):
    config = RunConfig()
    for kind, url in (("reference", None), ("external", "http://127.0.0.1:1")):
        config.target = TargetConfig(kind=kind, url=url, chaos="cut")
        assert isinstance(create_target(config, tmp_path / "server.log"), ChaosTarget)
    config.target = TargetConfig(kind="reference", chaos="cutt")
    with pytest.raises(ConfigError, match=r"target\.chaos='cutt'; did you mean 'cut'\?"):
        create_target(config, tmp_path / "server.log")


def overrides(served, *more):
    return compose(
        [
            "scenario=smoke",
            "target=external",
            f"target.url={served}",
            "asr=none",
            "output.plots=false",
            "load.requests_per_level=4",
            "load.requests_per_slot=0",
            "load.warmup_per_slot=0",
            *more,
        ]
    )


def test_a_crash_ends_the_run_as_a_dead_server_does(served, tmp_path):
    config = overrides(served, "target.chaos=crash_at_c3", "load.concurrency=[4]", "load.requests_per_level=8")
    with pytest.raises(
        TargetError, match=r"died during concurrency 4: FAULT INJECTED.*crash_at_c3: .*exit code 86"
    ) as error:
        run(config, tmp_path / "run")
    assert error.value.exit_code == 3
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert not document["valid"]
    (level,) = document["levels"]
    assert level["completed"] == 0 and {"disconnected"} <= set(level["errors"]) <= {"disconnected", "connect"}
    assert level["metrics"]["rtf"]["n"] == 0
    assert proxies() == []


def test_below_its_concurrency_a_crash_is_not_seen(served, tmp_path):
    config = overrides(served, "target.chaos=crash_at_c3", "load.concurrency=[2]", "load.lag_budget_ms=10000")
    assert run(config, tmp_path / "run").run["valid"]


@pytest.mark.parametrize("fault", ["slow_drip", "silence_on_200", "odd_bytes", "http_500", "header_first", "stall"])
def test_a_fault_makes_the_run_invalid_by_name_and_is_in_its_provenance(served, tmp_path, fault, capsys):
    config = overrides(served, f"target.chaos={fault}", "load.concurrency=[2]", "client.stall_timeout_s=0.5")
    outcome = run(config, tmp_path / "run")
    assert outcome.exit_code == 1
    (level,) = outcome.run["levels"]
    hit = 4 if WIRE_FAULTS[fault].every == 1 else 2
    (detector,) = WIRE_FAULTS[fault].detectors
    assert {**level["errors"], **level["invalid"]} == {detector: hit}
    assert outcome.run["provenance"]["target"]["description"]["chaos"]["name"] == fault
    assert outcome.run["provenance"]["config"]["target"]["chaos"] == fault
    lines = [json.loads(line) for line in (tmp_path / "run" / "requests.jsonl").read_text().splitlines()]
    named = [line for line in lines if (line["error"] or {}).get("kind") == detector or detector in line["faults"]]
    assert len(named) == hit and all(line["request_id"].startswith("c2-") for line in named)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    assert "FAULT INJECTED at the wire" in captured.err
    assert proxies() == []
