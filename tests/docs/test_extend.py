"""The examples of docs/extend.md, run as they stand there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from aiohttp import web

from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.plugins import PluginError
from omni_bench.run.config.compose import compose
from omni_bench.selftest import detectors
from omni_bench.selftest.cases import all_faults, clean_case
from omni_bench.selftest.evidence import StoredAnswer
from omni_bench.selftest.matrix import CaseRun, SelftestResult, group_by_case
from omni_bench.targets.chaos_proxy import catalogue as wire_catalogue
from omni_bench.targets.chaos_proxy import passing
from omni_bench.targets.chaos_proxy.proxy import ChaosProxy, serving
from omni_bench.targets.create import TARGETS
from reference_impl.engine.engine import Engine
from reference_impl.engine.stages import Stages
from reference_impl.faults import audio as model_faults
from reference_impl.faults import catalogue as model_catalogue
from reference_impl.faults.engines import with_fault
from tests.helpers.repository import ROOT

PAGE = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
SERVER = """#!{python}
import argparse, http.server, json
parser = argparse.ArgumentParser()
for name in ("--model", "--host", "--port"):
    parser.add_argument(name)
options = parser.parse_args()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer("application/json", b"{{}}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/tts" and set(body) == {{"text", "seed"}}
        self.answer("audio/pcm", bytes(range(1, 201)) * 240)


http.server.ThreadingHTTPServer((options.host, int(options.port)), Handler).serve_forever()
"""


def blocks(section: str, language: str = "python") -> list[str]:
    """The code of a section."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def site(tmp_path) -> Path:
    """A folder in which the page's package is installed, with a server in ``bin`` and a model."""
    (project,) = blocks("A package of your own", "toml")
    project = tomllib.loads(project)["project"]
    package = tmp_path / "my_speech"
    info = tmp_path / f"my_speech-{project['version']}.dist-info"
    for folder in (package, info, tmp_path / "bin", tmp_path / "model"):
        folder.mkdir()
    (package / "__init__.py").touch()
    (package / "wire.py").write_text(*blocks("A wire form"))
    (package / "target.py").write_text(*blocks("A server"))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [[f"[{group}]", *(f"{name} = {value}" for name, value in points.items())] for group, points in groups]
    (info / "entry_points.txt").write_text("\n".join(line for group in lines for line in group))
    (tmp_path / "model" / "config.json").write_text("{}")
    python = f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n'
    for name, text in (("my-server", SERVER.format(python=sys.executable)), ("python", python)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def installed(site, monkeypatch) -> Path:
    """The same, within this process."""

    def forget():
        passing._forms.cache_clear()
        for registry in (FORMS, TARGETS):
            registry.__dict__.pop("entry_points", None)
        for name in [name for name in sys.modules if name.partition(".")[0] == "my_speech"]:
            del sys.modules[name]

    monkeypatch.syspath_prepend(site)
    for registry in (FORMS, TARGETS):
        monkeypatch.setattr(registry, "_loaded", {})
    forget()
    yield site
    forget()


def omni_bench(site: Path, *words: str) -> str:
    """What a command says to somebody who has the package installed."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), str(site), os.environ.get("PYTHONPATH")))),
        "PATH": f"{site}/bin:{os.environ['PATH']}",
    }
    command = [sys.executable, "-m", "omni_bench", *words]
    done = subprocess.run(command, cwd=site, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode in (0, 1), done.stderr  # 1: what the server says is no speech
    return done.stdout


def test_a_package_brings_a_target_and_a_wire_form(site):
    sizes = ["load.concurrency=[1]", "load.requests_per_level=2", "load.requests_per_slot=1", "load.warmup_per_slot=0"]
    off = ["asr=none", "checks.parity_requests=0", "output.plots=false", "target.probe=false", "target.gpus=0"]
    chosen = ["target=my_server", "client=tts_raw", f"client.model={site}/model", f"output.root={site}/runs"]
    omni_bench(site, "run", *chosen, *sizes, *off)
    (path,) = site.glob("runs/*/*/run.json")
    run = json.loads(path.read_text())
    target = run["provenance"]["target"]["description"]
    assert target["kind"] == "my_server" and target["command"][0] == "my-server"
    (level,) = run["levels"]
    assert level["completed"] == 2
    lines = (path.parent / "requests.jsonl").read_text().splitlines()
    assert [json.loads(line)["error"] for line in lines] == [None, None]


def test_what_a_package_brings_is_listed_and_a_scenario_is_a_file(site):
    listed = omni_bench(site, "list")
    assert re.search(r"^  tts_raw +POST /tts, raw 16-bit PCM$", listed, re.MULTILINE)
    assert re.search(r"^  my_server +My Server, launched for the run: my-server --model MODEL$", listed, re.MULTILINE)
    (scenario,) = blocks("A scenario", "yaml")
    (site / "my_scenarios" / "scenario").mkdir(parents=True)
    (site / "my_scenarios" / "scenario" / "mine.yaml").write_text(scenario)
    (command,) = blocks("A scenario", "sh")
    composed = omni_bench(site, *command.split()[1:], "--cfg", "job")
    assert "name: mine" in composed and "requests_per_level: 8" in composed


async def speak(port: int) -> bytes:
    async with aiohttp.ClientSession() as session, session.post(f"http://127.0.0.1:{port}/tts", json={}) as answer:
        return await answer.read()


async def test_a_fault_of_the_wire_damages_the_new_wire_form(installed, monkeypatch):
    function, entry = blocks("A fault of the wire")
    namespace = vars(wire_catalogue).copy()
    exec(function, namespace)
    fault = eval(entry, namespace)
    first, second = b"\x01\x02" * 100, b"\x03\x04" * 200

    async def say(request):
        response = web.StreamResponse(headers={"Content-Type": "audio/pcm"})
        await response.prepare(request)
        for chunk in (first, second):
            await response.write(chunk)
            await asyncio.sleep(0.1)  # longer than the proxy waits for the rest of a chunk
        return response

    app = web.Application()
    app.router.add_post("/tts", say)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with serving(ChaosProxy(f"http://127.0.0.1:{port}", fault, on_crash=pytest.fail), "127.0.0.1", 0) as (
            _,
            broken,
        ):
            assert await speak(port) == first + second
            assert await speak(broken) == first + bytes(len(second))
    finally:
        await runner.cleanup()
    monkeypatch.setitem(wire_catalogue.WIRE_FAULTS, fault.name, fault)
    assert compose(["target.chaos=late_silence"]).target.chaos == fault.name
    assert fault.name in [case.name for case in all_faults()]


def test_a_fault_of_the_model_can_be_chosen(monkeypatch):
    code, entry = blocks("A fault of the model")
    namespace = vars(model_faults).copy()
    exec(code, namespace)
    worker = namespace["LoudWorker"]
    monkeypatch.setattr(model_faults, "LoudWorker", worker, raising=False)
    fault = eval(entry, vars(model_catalogue).copy())
    monkeypatch.setitem(model_catalogue.FAULTS, fault.name, fault)
    engine, stages = with_fault(fault.name, Stages())
    assert engine is Engine and stages == Stages(code2wav=worker, fault="too_loud")
    sent = []
    monkeypatch.setattr(worker.__base__, "_send", lambda self, job, pcm: sent.append(pcm))
    worker._send(object.__new__(worker), None, np.array([100, -300], dtype=np.int16))
    assert sent[0].tolist() == [200, -600] and sent[0].dtype == np.int16
    assert fault.name in [case.name for case in all_faults()]


def test_a_detector_is_a_column_of_the_matrix(monkeypatch):
    function, line = blocks("A detector")
    namespace = vars(detectors).copy()
    exec(function, namespace)
    monkeypatch.setattr(detectors, "DETECTORS", (*detectors.DETECTORS, eval(line, namespace)))
    answers = [
        StoredAnswer(f"c4-{audio_s}", "p", 1, 4, "Hi.", "en", None, (), None, 24_000, audio_s, 90.0, 0.0)
        for audio_s in (0.1, 0.3)
    ]
    evidence = detectors.RunEvidence(None, answers, None, [], [], pytest.fail, 0.15)
    (alarm,) = detectors.alarms_of(clean_case(), evidence)
    assert (alarm.detector, alarm.concurrency, alarm.detail) == ("too_short", 4, "c4-0.1: 0.10 s of audio")
    runs = group_by_case([CaseRun(clean_case(), 0, "clean/0", (alarm,), 1.0)])
    assert SelftestResult(runs, (), 1.0, {}).detectors == ["too_short"]


def test_a_package_that_cannot_be_imported_is_named(installed):
    (installed / "my_speech" / "wire.py").write_text("import no_such_module")
    with pytest.raises(PluginError, match=r"of the package my-speech: my_speech\.wire:FORM cannot be loaded \(Module"):
        FORMS["tts_raw"]
    assert FORMS["openai_speech"].name == "openai_speech", "others are not affected"
