"""What a run records of its code and its machine."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
import torch

from omni_bench import __version__
from omni_bench.records.schema import run_schema
from omni_bench.run import provenance as module
from omni_bench.run.provenance import cpu_model, hardware, harness, package_version, provenance, software


def test_the_parts_are_those_of_the_schema(config):
    made = provenance(config, command=["omni-bench"], target={}, prompts={}, judge=None)
    assert sorted(made) == sorted(run_schema()["$defs"]["provenance"]["required"])
    assert made["config"]["load"]["concurrency"] == [2]


def test_hardware_and_software_are_of_this_machine():
    machine = hardware()
    assert machine["cpu_cores"] >= 1 and machine["memory_bytes"] > 1 << 28
    assert all(gpu["name"] for gpu in machine["gpus"])
    assert software()["packages"]["torch"] == package_version("torch") is not None
    assert package_version("no-such-package-of-anyone") is None
    assert cpu_model() is None or cpu_model().strip() == cpu_model()


def test_gpus_are_named_with_their_driver(monkeypatch):
    one = SimpleNamespace(name="NVIDIA H200", total_memory=7)
    monkeypatch.setattr(module, "may_have_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: one)
    monkeypatch.setattr(module, "_output", lambda command: "570.1\n570.1")
    assert hardware()["gpus"] == [{"name": "NVIDIA H200", "memory_bytes": 7, "driver": "570.1"}] * 2


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    package = tmp_path / "omni_bench" / "run"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.setattr(module, "__file__", str(package / "provenance.py"))
    return tmp_path


def git(folder, *arguments):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_a_checkout_states_its_commit_and_whether_it_was_changed(checkout):
    git(checkout, "init", "-q")
    git(checkout, "add", "pyproject.toml")
    git(checkout, "commit", "-q", "-m", "x")
    stated = harness()
    assert len(stated["commit"]) == 40 and stated["dirty"] is False and stated["version"] == __version__
    (checkout / "pyproject.toml").write_text("changed")
    assert harness()["dirty"] is True


def test_an_installation_has_no_commit(checkout):
    assert harness() == {"version": __version__, "commit": None, "dirty": None}


def test_an_archive_knows_its_commit(checkout):
    git(checkout, "init", "-q")
    (checkout / "omni_bench" / "archive_commit.txt").write_text("$Format:%H$\n")
    (checkout / ".gitattributes").write_text("omni_bench/archive_commit.txt export-subst\n")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "x")
    commit = harness()["commit"]
    git(checkout, "archive", "--format=tar", "-o", "archive.tar", "HEAD")
    (checkout / ".git").rename(checkout / "no git")
    assert harness()["commit"] is None, "the placeholder itself is none"
    subprocess.run(["tar", "xf", "archive.tar"], cwd=checkout, check=True)
    assert harness() == {"version": __version__, "commit": commit, "dirty": None}


def test_a_checkout_without_git_has_no_commit(checkout, monkeypatch):
    git(checkout, "init", "-q")
    monkeypatch.setenv("PATH", "")
    assert harness()["commit"] is None
