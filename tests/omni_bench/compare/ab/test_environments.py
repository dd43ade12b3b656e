"""Environments from a tiny package in a local repository, with a stand-in for pip, and once with pip itself."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from omni_bench.compare.ab import environments
from omni_bench.compare.ab.environments import Recipe, build_environment, run_tool
from omni_bench.compare.ab.sources import find_source
from omni_bench.errors import ConfigError, TargetError
from omni_bench.targets.interpreter import ask_interpreter

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tiny-server"
version = "{version}"
"""


@pytest.fixture
def source(tmp_path):
    """A commit of a package whose module says its version."""
    folder = tmp_path / "repository"
    (folder / "tiny_server").mkdir(parents=True)

    def run(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)

    run("init", "--quiet", "--initial-branch=main")
    for version in ("1.0", "2.0"):
        (folder / "pyproject.toml").write_text(PYPROJECT.format(version=version))
        (folder / "constraints.txt").write_text(f"dependency=={version}\n")
        (folder / "tiny_server" / "__init__.py").write_text(f"VERSION = '{version}'\n")
        run("add", ".")
        run("commit", "--quiet", "-m", version)
        run("tag", f"v{version}")
    return find_source("git:v1.0", folder)


class FakeTool:
    """Runs git for real, makes an empty environment for venv, and remembers what pip was asked for."""

    def __init__(self, fails=None):
        self.calls, self.fails = [], fails

    def __call__(self, command, log):
        self.calls.append(list(command))
        name = "pip" if "pip" in command else "venv" if "venv" in command else "git"
        if self.fails == name:
            raise TargetError(f"{name} failed")
        if name == "git":
            run_tool(command, log)
        if name == "venv":
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.write_text("#!/bin/sh\n")
            (Path(command[-1]) / "lib" / "python3.11" / "site-packages").mkdir(parents=True)

    @property
    def pip(self):
        return next(call for call in self.calls if "pip" in call)


def test_a_ref_is_checked_out_and_installed_with_its_constraints(source, tmp_path):
    tool, said = FakeTool(), []
    python = build_environment(source, Recipe(tmp_path / "envs"), said.append, tool)
    checkout = python.parents[2] / "source"
    assert (checkout / "tiny_server" / "__init__.py").read_text() == "VERSION = '1.0'\n"
    assert tool.pip[:4] == [str(python), "-m", "pip", "install"] and tool.pip[-1] == str(checkout)
    assert tool.pip[tool.pip.index("--constraint") + 1] == str(checkout / "constraints.txt")
    assert "--no-deps" not in tool.pip
    assert "making its environment" in said[0]


def test_the_same_commit_is_made_once(source, tmp_path):
    tool, said = FakeTool(), []
    first = build_environment(source, Recipe(tmp_path / "envs"), said.append, tool)
    made = len(tool.calls)
    assert build_environment(source, Recipe(tmp_path / "envs"), said.append, tool) == first
    assert len(tool.calls) == made and "is there already" in said[-1]


def test_what_goes_into_an_environment_tells_it_apart(source, tmp_path):
    constraints = tmp_path / "c.txt"
    constraints.write_text("dependency==3\n")
    recipe = Recipe(tmp_path / "envs")
    kinds = [
        (source, recipe),
        (find_source("git:v2.0", Path(source.place)), recipe),
        (source, replace(recipe, constraints=constraints)),
        (source, replace(recipe, share_packages=True)),
    ]
    pythons = [build_environment(one, how, lambda _: None, FakeTool()) for one, how in kinds]
    constraints.write_text("dependency==4\n")
    pythons.append(build_environment(*kinds[2], lambda _: None, FakeTool()))
    assert len(set(pythons)) == 5


@pytest.mark.parametrize("step", ["git", "venv", "pip"])
def test_one_that_failed_half_way_is_made_anew(step, source, tmp_path):
    recipe = Recipe(tmp_path / "envs")
    with pytest.raises(TargetError, match=f"{step} failed"):
        build_environment(source, recipe, lambda _: None, FakeTool(fails=step))
    tool = FakeTool()
    python = build_environment(source, recipe, lambda _: None, tool)
    assert python.exists() and "pip" in tool.calls[-1]


def test_given_constraints_are_of_both(source, tmp_path):
    constraints = tmp_path / "c.txt"
    constraints.write_text("x==1\n")
    tool = FakeTool()
    build_environment(source, Recipe(tmp_path / "envs", constraints), lambda _: None, tool)
    assert tool.pip[tool.pip.index("--constraint") + 1] == str(constraints)
    with pytest.raises(ConfigError, match="there is no such file"):
        build_environment(source, Recipe(tmp_path / "envs", tmp_path / "no.txt"), lambda _: None, tool)


def test_a_wheel_is_installed_as_it_is(tmp_path):
    wheel = tmp_path / "server-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    tool = FakeTool()
    build_environment(find_source(wheel.name, tmp_path), Recipe(tmp_path / "envs"), lambda _: None, tool)
    assert tool.pip[-1] == str(wheel) and "--constraint" not in tool.pip
    assert not any("clone" in call for call in tool.calls)


def test_two_at_once_make_it_once(source, tmp_path):
    tool, pythons = FakeTool(), []

    def build():
        pythons.append(build_environment(source, Recipe(tmp_path / "envs"), lambda _: None, tool))

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(pythons)) == 1 and sum("pip" in call for call in tool.calls) == 1


def test_a_tool_that_fails_shows_the_end_of_its_log(tmp_path):
    log = tmp_path / "log"
    code = "import sys; [print('line', i) for i in range(50)]; sys.exit(7)"
    with pytest.raises(TargetError, match=r"(?s)ended with 7.*line 49") as caught:
        run_tool([sys.executable, "-c", code], log)
    assert "line 20" not in str(caught.value)
    with pytest.raises(TargetError, match="cannot execute nowhere"):
        run_tool(["nowhere"], log)


@pytest.mark.slow
def test_a_real_environment_offline(source, tmp_path):
    """venv and pip themselves, without a network: the package alone, all else from this environment."""
    pytest.importorskip("hatchling")
    assert environments._has_build_backend(Path(source.place))
    python = build_environment(source, Recipe(tmp_path / "envs", share_packages=True), lambda _: None)
    there = ask_interpreter(str(python))
    assert there.packages["tiny-server"] == "1.0" and there.settings is None
    assert "numpy" in there.packages, "what omni-bench runs with can be seen there"
    said = subprocess.run(
        [str(python), "-P", "-c", "import tiny_server; print(tiny_server.VERSION, tiny_server.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert said[0] == "1.0" and Path(said[1]).is_relative_to(python.parents[1])
