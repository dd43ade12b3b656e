"""The workflows: well formed, bounded, with few permissions, safe from injection, and with commands that exist."""

from __future__ import annotations

import copy
import os
import re
import shlex
import subprocess
import sys

import pytest
import run_factory
import yaml
from repository import ROOT

from omni_bench.commands.cli import SUBCOMMANDS, build_parser, main
from omni_bench.records.run_folder import RunFolder

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
TOP_KEYS = {"name", "on", "permissions", "concurrency", "env", "jobs", "defaults"}
STEP_KEYS = {"name", "id", "if", "uses", "run", "with", "env", "timeout-minutes", "continue-on-error", "shell"}


def load(path):
    """The workflow; YAML 1.1 reads the key ``on`` as true."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["on"] = document.pop(True)
    return document


def steps(path):
    return [step for job in load(path)["jobs"].values() for step in job["steps"]]


def scripts(path):
    return [step["run"] for step in steps(path) if "run" in step]


def test_they_are_there():
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "nightly.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
class TestEach:
    def test_is_well_formed(self, path):
        document = load(path)
        assert set(document) <= TOP_KEYS and {"name", "on", "jobs", "permissions"} <= set(document)
        for name, job in document["jobs"].items():
            assert job["runs-on"] and isinstance(job["timeout-minutes"], int), f"{name} has no time limit"
            needs = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
            assert set(needs) <= set(document["jobs"])
        for step in steps(path):
            assert set(step) <= STEP_KEYS and ("uses" in step) != ("run" in step), step

    def test_may_do_little(self, path):
        document = load(path)
        assert document["permissions"] == {"contents": "read"}
        for job in document["jobs"].values():
            assert job.get("permissions", {}) in ({}, {"pull-requests": "write"})

    def test_uses_released_actions_of_github_alone(self, path):
        for step in steps(path):
            if "uses" in step:
                assert re.fullmatch(r"actions/[a-z-]+@v[0-9]+", step["uses"])

    def test_no_text_from_outside_gets_into_a_script(self, path):
        for script in scripts(path):
            assert not EXPRESSION.search(script), "expressions go through env"

    def test_scripts_are_shell(self, path):
        for script in scripts(path):
            done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr

    def test_commands_exist(self, path):
        for script in scripts(path):
            for line in script.replace("\\\n", " ").splitlines():
                words = shlex.split(line.partition("||")[0], comments=True)
                places = [number for number, word in enumerate(words) if word.endswith("bin/omni-bench")]
                for place in places:
                    command = words[place + 1 :]
                    assert command[0] in SUBCOMMANDS
                    if command[0] != "run":  # a Hydra application
                        build_parser().parse_args(command)


def test_a_night_is_not_measured_beside_another():
    nightly = load(FOLDER / "nightly.yml")
    assert nightly["concurrency"] == {"group": "nightly-gpu", "cancel-in-progress": False}
    (schedule,) = nightly["on"]["schedule"]
    fields = schedule["cron"].split()
    assert len(fields) == 5 and all(re.fullmatch(r"[\d*/,-]+", field) for field in fields)
    assert "self-hosted" in nightly["jobs"]["gate"]["runs-on"]


def test_a_night_has_every_part_and_keeps_its_run_whatever_happens():
    text = "\n".join(scripts(FOLDER / "nightly.yml"))
    for part in ("omni-bench run ", "omni-bench history ", "omni-bench gate ", "gh pr comment"):
        assert part in text
    uploads = [step for step in steps(FOLDER / "nightly.yml") if "upload-artifact" in step.get("uses", "")]
    assert len(uploads) == 2
    for upload in uploads:
        assert upload["if"] == "always()" and upload["with"]["path"] == "${{ env.RUN }}"


class TestANight:
    """The shell steps of the gate job, run as GitHub runs them (bash -e) on stored nights."""

    PROGRAM = """#!{python}
import os, shutil, sys
words = sys.argv[1:]
if words[0] == "run":
    night = os.environ["NIGHT"]
    folder = next(word.partition("=")[2] for word in words if word.startswith("hydra.run.dir="))
    if night:
        shutil.copytree(night, folder)
    sys.exit(0 if night else 3)
from omni_bench.commands.cli import main
from omni_bench.nightly.gate import rerun
os.environ["NIGHT"] = os.environ["AGAIN"]
rerun.rerun_command = lambda stored, out, custom: [sys.argv[0], "run", f"hydra.run.dir={out}"]
sys.exit(main(words))
"""

    @pytest.fixture
    def go(self, tmp_path):
        """A function that runs the job on a night and gives the exit code of each step; None: it was passed over."""
        program = tmp_path / ".venv" / "bin" / "omni-bench"
        program.parent.mkdir(parents=True)
        program.write_text(self.PROGRAM.replace("{python}", sys.executable))
        program.chmod(0o755)
        kept = [step for step in load(FOLDER / "nightly.yml")["jobs"]["gate"]["steps"] if "run" in step]

        def run(night, name, again=None):
            environment = os.environ | {
                "HOME": str(tmp_path),
                "HISTORY": "",
                "RUN": f"runs/{name}",
                "NIGHT": str(night or ""),
                "AGAIN": str(again or ""),
                "PYTHONPATH": str(ROOT),
                "GITHUB_ACTIONS": "true",
                "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            }
            codes, failed = {}, False
            for step in kept:
                if step["name"] == "Install" or (failed and step.get("if") not in ("always()", "!cancelled()")):
                    continue
                done = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=environment, check=False)
                codes[step["name"]] = done.returncode
                failed = failed or done.returncode != 0
            return codes

        return run

    @pytest.fixture
    def night(self, tmp_path):
        """A function that stores a night."""
        run = run_factory.make_run(concurrencies=(1,)) | {"scenario": "qwen3_tts"}

        def write(number, slower=1.0, hour=2):
            one = copy.deepcopy(run)
            one["started_utc"] = f"2026-01-{number:02d}T{hour:02d}:00:00Z"
            one["provenance"]["command"] = ["omni-bench", "run", "scenario=qwen3_tts"]
            for metric in ("ttfp_ms", "rtf"):
                one["levels"][0]["metrics"][metric]["p50"] *= slower * (1 + (-1) ** number * 0.005)
            folder = RunFolder(tmp_path / "stored" / f"{number:02d}-{hour}")
            folder.write_run(one)
            return folder.path

        return write

    def test_from_the_first_night_to_a_regression(self, go, night, tmp_path, capfd):
        assert go(night(1), "1") == {"Sweep": 0, "Gate": 0, "Trend": 0}, "too little history is a warning"
        assert "::warning title=gate::inconclusive" in capfd.readouterr().out
        history = str(tmp_path / "omni-bench" / "history.sqlite")
        assert main(["history", "add", "--db", history, *(str(night(number)) for number in range(2, 13))]) == 0
        assert go(night(13), "13") == {"Sweep": 0, "Gate": 0, "Trend": 0}
        again = night(14, 1.2, hour=3)
        assert go(night(14, 1.2), "14", again=again) == {"Sweep": 0, "Gate": 1, "Trend": 0}
        page = (tmp_path / "runs" / "14" / "gate.md").read_text()
        assert "omni-bench gate: REGRESSION\n" in page and "reproduced by the second run" in page
        assert "--note WHY`" in page and "runs/14/rerun" in page
        assert go(night(15, 1.2), "15") == {"Sweep": 0, "Gate": 0, "Trend": 0}
        assert "PASS: 1 change is open since 2026-01-14 (2 nights)" in (tmp_path / "summary.md").read_text()

    def test_a_night_without_a_run_leaves_a_verdict(self, go, tmp_path):
        codes = go(None, "1")
        assert codes["Sweep"] == codes["Gate"] == 3
        folder = tmp_path / "runs" / "1"
        assert sorted(path.name for path in folder.iterdir()) == ["gate.json", "gate.md", "junit.xml"]
        assert "NO NIGHT" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("code", "outcome", "ends"),
    [
        *((0, "PASS", 0), (1, "REGRESSION", 1), (3, "HARD FAILURE", 3)),
        *((2, "INCONCLUSIVE", 0), (2, "NOT CONFIRMED YET", 2)),  # the latter if --rerun were dropped
    ],
)
def test_only_inconclusive_is_let_through(code, outcome, ends, tmp_path):
    (step,) = [step for step in steps(FOLDER / "nightly.yml") if step.get("name") == "Gate"]
    program = tmp_path / ".venv" / "bin" / "omni-bench"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nmkdir r; echo \'  "outcome": "{outcome}",\' > r/gate.json; exit {code}\n')
    program.chmod(0o755)
    # as GitHub runs a step: bash -e
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "RUN": "r"},
    )
    assert done.returncode == ends
