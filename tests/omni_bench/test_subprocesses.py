"""Children run this package's modules, whatever lies in the current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import omni_bench
from omni_bench import subprocesses
from omni_bench.subprocesses import child_env, module_command, start_module

ROOT = str(Path(omni_bench.__file__).resolve().parents[1])


@pytest.mark.parametrize("module", ["json", "omni_bench"])
def test_a_file_of_the_current_folder_stands_in_for_nothing(tmp_path, monkeypatch, module):
    (tmp_path / f"{module}.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with start_module("omni_bench", "--version") as child:
        out, _ = child.communicate(timeout=60)
    assert out.decode().strip() == f"omni-bench {omni_bench.__version__}" and child.returncode == 0


def test_a_child_has_a_session_of_its_own():
    with start_module("json.tool") as child:
        assert os.getsid(child.pid) == child.pid != os.getsid(0)
        child.stdin.close()
        child.wait(60)


def test_the_environment_is_inherited(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("OMNI_BENCH_TEST", "kept")
    env = child_env(MORE="1")
    assert env["OMNI_BENCH_TEST"] == "kept" and env["MORE"] == "1"
    assert env["PYTHONPATH"].split(os.pathsep) == [ROOT, "/elsewhere"]
    assert os.environ["PYTHONPATH"] == "/elsewhere"


def test_site_packages_do_not_go_before_the_standard_library(monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(subprocesses.sysconfig, "get_path", lambda _: ROOT)
    assert "PYTHONPATH" not in child_env()


def test_the_command():
    assert module_command("a.b", "--x", "1") == [sys.executable, "-P", "-m", "a.b", "--x", "1"]
