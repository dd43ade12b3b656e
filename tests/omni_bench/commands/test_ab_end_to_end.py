"""A real study over a server without a model, killed in the middle and gone on with."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
import time

import pytest
from processes import fake_server
from repository import HELPERS

from omni_bench.commands.cli import main
from omni_bench.subprocesses import child_env, module_command
from omni_bench.targets.probe import get

FAKE_SERVER = str(HELPERS / "fake_speech_server.py")
LOAD = [
    "scenario=smoke",
    "asr=none",
    "checks.signal=false",
    "output.plots=false",
    "load.requests_per_level=4",
    "load.lag_budget_ms=10000",
]


@pytest.fixture
def url():
    """A server that runs already."""
    with fake_server("fake_speech_server.py", 0.05) as (port, _):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.slow
def test_a_killed_study_goes_on(tmp_path, capsys):
    """Two launch commands; kill -9 in the second run, wherever it is then."""
    study = tmp_path / "study"
    command = f"{{python}} {shlex.quote(FAKE_SERVER)} {{port}}"
    arms = [f"before.command={command} 0.05", f"after.command={command} 0.1"]
    words = [*arms, "pairs=1", "seed=1", *LOAD, "--out", str(study)]
    process = subprocess.Popen(module_command("omni_bench", "ab", *words), env=child_env(), stderr=subprocess.DEVNULL)
    state = study / "ab.json"
    while not state.exists() or '"02-' not in state.read_text():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    first = json.loads(state.read_text())
    assert [record["state"] for record in first["records"]] == ["done", "running"]
    assert main(["ab", "--resume", str(study)]) == 2, "one pair is advisory"
    assert "The study was interrupted and resumed before run 3." in capsys.readouterr().out
    records = json.loads(state.read_text())["records"]
    assert records[0] == first["records"][0], "what was whole is kept"
    assert [record["state"] for record in records[1:]] in (["interrupted", "done"], ["done"])
    assert json.loads((study / "compare.json").read_text())["pairs"] == 1
    target = json.loads((study / "runs" / "01-before" / "run.json").read_text())["provenance"]["target"]
    assert target["kind"] == "command" and get(target["url"] + "/health", 1.0).status is None


@pytest.mark.slow
def test_servers_that_are_kept_alive_are_measured_level_by_level_in_turns(tmp_path, capsys):
    """kill -9 while the second run has its first level, and on."""
    study = tmp_path / "study"
    command = f"{{python}} {shlex.quote(FAKE_SERVER)} {{port}}"
    arms = [f"before.command={command} 0.05", f"after.command={command} 0.1"]
    words = [*arms, "pairs=1", "seed=1", "restart=never", *LOAD, "load.concurrency=[1,2]", "--out", str(study)]
    process = subprocess.Popen(module_command("omni_bench", "ab", *words), env=child_env(), stderr=subprocess.DEVNULL)
    while not list(study.glob("runs/02-*/requests.jsonl")):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert main(["ab", "--resume", str(study), "--json"]) == 2, "one pair is advisory"
    printed = json.loads(capsys.readouterr().out)
    assert printed["restart"] == {"asked": "never", "fallback": None} and printed["comparison"]["pairs"] == 1
    records = json.loads((study / "ab.json").read_text())["records"]
    assert [(record["state"], record["in_turns"]) for record in records] == [
        *[("interrupted", True)] * 2,
        *[("done", True)] * 2,
    ]
    started = []
    for record in records[2:]:
        for line in (study / "runs" / record["folder"] / "requests.jsonl").read_text().splitlines():
            request = json.loads(line)
            started.append((request["started_ns"], record["arm"], request["concurrency"]))
    first, other = (record["arm"] for record in records[2:])
    assert [key for key, _ in itertools.groupby(sorted(started), key=lambda one: one[1:])] == [
        (first, 1),
        (other, 1),
        (other, 2),
        (first, 2),
    ]
    runs = [json.loads((study / "runs" / record["folder"] / "run.json").read_text()) for record in records[2:]]
    for url in {run["provenance"]["target"]["url"] for run in runs}:
        assert get(url + "/health", 1.0).status is None, "nothing is left behind"


@pytest.mark.slow
def test_every_seventh_request_late_is_a_regression_of_the_tail(tmp_path, capsys):
    command = f"{{python}} {shlex.quote(FAKE_SERVER)} {{port}} 0.3 0.065"
    words = [f"before.command={command}", f"after.command={command} 0.3", "pairs=5", "extend=off", "seed=1", *LOAD]
    more = ["load.concurrency=[8]", "load.requests_per_level=32", "--out", str(tmp_path / "study")]
    assert main(["ab", *words, *more]) == 1
    found = {one["metric"]: one for one in json.loads((tmp_path / "study" / "compare.json").read_text())["primaries"]}
    tail = found["ttfp_tail_ms"]
    assert tail["verdict"] == "REGRESSION" and tail["interval"][0] > 0.5 and abs(found["ttfp_ms"]["change"]) < 0.2
    assert "TTFP tail +" in capsys.readouterr().out


@pytest.mark.slow
def test_two_urls(url, tmp_path, capsys):
    assert main(["ab", f"before={url}", f"after={url}/v1", "pairs=1", *LOAD, "--out", str(tmp_path / "study")]) == 2
    captured = capsys.readouterr()
    assert "No fresh servers: both arms are servers that ran already" in captured.out
    assert "No fresh servers" in captured.err, "and before it begins"
    assert get(f"{url}/health", 1.0).status == 200, "a server that was not launched here is left running"
