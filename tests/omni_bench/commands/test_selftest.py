"""What the command refuses before it runs anything."""

from __future__ import annotations

import pytest

from omni_bench.commands.cli import main


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    def run_selftest(*_):
        raise AssertionError("the self-test was started")

    monkeypatch.setattr("omni_bench.commands.selftest.run_selftest", run_selftest)


def test_a_fault_that_only_ab_can_see_is_not_passed_off_as_caught(tmp_path, capsys):
    assert main(["selftest", "--only", "slow_5", "--out", str(tmp_path / "out")]) == 2
    assert "omni-bench ab" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_fault_lists_the_known_ones(tmp_path, capsys):
    assert main(["selftest", "--only", "slow_6", "--out", str(tmp_path / "out")]) == 2
    assert "slow_5" in capsys.readouterr().err


def test_a_file_is_no_folder(tmp_path, capsys):
    (tmp_path / "out").write_text("x")
    assert main(["selftest", "--out", str(tmp_path / "out")]) == 2
    assert "is a file" in capsys.readouterr().err


def test_resume_needs_the_folder_to_go_on_with(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["selftest", "--resume"]) == 2
    assert "--resume needs --out FOLDER" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_with_something_in_it_needs_resume(tmp_path, capsys):
    (tmp_path / "x").write_text("x")
    assert main(["selftest", "--out", str(tmp_path)]) == 2
    assert "--resume" in capsys.readouterr().err
