"""The workflows: well formed, bounded, with few permissions, safe from injection, and with commands that exist."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
import yaml
from repository import ROOT

from omni_bench.commands.cli import SUBCOMMANDS, build_parser

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


@pytest.mark.parametrize(("code", "ends"), ((0, 0), (1, 1), (2, 0), (3, 3)))
def test_only_inconclusive_is_let_through(code, ends, tmp_path):
    (step,) = [step for step in steps(FOLDER / "nightly.yml") if step.get("name") == "Gate"]
    program = tmp_path / ".venv" / "bin" / "omni-bench"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)
    # as GitHub runs a step: bash -e
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "RUN": "r"},
    )
    assert done.returncode == ends
