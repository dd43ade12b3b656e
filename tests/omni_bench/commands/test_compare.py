"""``omni-bench compare`` from the command line to files and exit codes."""

from __future__ import annotations

import json

import pytest
from compare_factory import Factory

from omni_bench.commands.cli import main


@pytest.fixture
def make(tmp_path):
    """The factory of run folders."""
    return Factory(tmp_path)


def test_a_regression_exits_with_1_and_writes_everything(make, tmp_path, capsys):
    before, after = make.folders("before", 5), make.folders("after", 5, slower=1.1, start=3)
    out = tmp_path / "new" / "out"
    assert main(["compare", str(before), str(after), "--out", str(out)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("REGRESSION\nSlower: TTFP +") and f"{out / 'pull_request.md'}\n" in text
    written = (out / "compare.md").read_text()
    assert written.startswith("## 🔴 omni-bench: REGRESSION\n") and "](plots/before_after.png)" in written
    assert "![" not in (out / "pull_request.md").read_text()
    assert (out / "compare.csv").read_text().startswith("concurrency,metric,")
    assert f"omni-bench compare {before} {after}\n" in written
    assert json.loads((out / "compare.json").read_text())["outcome"] == "REGRESSION"
    drawn = {path.name for path in (out / "plots").iterdir()}
    assert drawn == {f"{name}.{kind}" for name in ("before_after", "e2el_over_audio") for kind in ("png", "svg")}


def test_a_plot_that_cannot_be_drawn_costs_no_comparison(make, tmp_path, capsys, monkeypatch):
    def fails(*_):
        raise ValueError("no such backend")

    monkeypatch.setattr("omni_bench.compare.plots.draw_comparison", fails)
    out = tmp_path / "out"
    assert main(["compare", str(make.folder("a")), str(make.folder("b", started=1)), "--out", str(out)]) == 0
    assert "plots/" not in (out / "compare.md").read_text() and (out / "compare.json").is_file()
    assert "no plots, as drawing failed: ValueError: no such backend" in capsys.readouterr().err


def test_single_runs_exit_with_0(make, capsys):
    arguments = ["compare", str(make.folder("a")), str(make.folder("b", slower=3.0, started=1))]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("ADVISORY\nSingle runs, so") and "--for-pr" in captured.err
    assert main([*arguments, "--for-pr"]) == 0
    assert capsys.readouterr().out.startswith("## ❔ omni-bench: ADVISORY\n")
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "ADVISORY"


def test_invalid_runs_exit_with_1(make, capsys):
    good, bad, worse = make.folder("a"), *(make.folder(name, failures=1, started=1) for name in "bc")
    assert main(["compare", str(good), str(bad)]) == 1
    assert "AFTER IS BROKEN" in capsys.readouterr().out
    assert main(["compare", str(bad), str(worse)]) == 1
    assert "NO PERFORMANCE CLAIM" in capsys.readouterr().out


def test_a_study_is_said_to_be_one(tmp_path, capsys):
    (tmp_path / "ab.json").write_text("{}")
    for spec in (tmp_path, tmp_path / "ab.json"):
        assert main(["compare", str(spec), str(spec)]) == 2
        assert f"is a study of omni-bench ab: its table is {tmp_path / 'compare.md'}" in capsys.readouterr().err


def test_unequal_keys_exit_with_2_unless_forced(make, capsys):
    arguments = ["compare", str(make.folder("a")), str(make.folder("b", started=1, config={"client.seed": 5}))]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "client.seed: 0 | 5" in captured.err and "Traceback" not in captured.err
    assert main([*arguments, "--force"]) == 0
    assert "NOT COMPARABLE" in capsys.readouterr().out


def test_what_is_not_there_exits_with_2(tmp_path, capsys):
    assert main(["compare", str(tmp_path / "no"), str(tmp_path / "no")]) == 2
    assert "there is no such file or folder" in capsys.readouterr().err


def test_the_folder_of_a_run_is_not_written_into(make, capsys):
    run = make.folder("run")
    (run / "report.html").write_text("of the run")
    assert main(["compare", str(run), str(run), "--out", str(run)]) == 2
    assert f"--out {run}: is the folder of a run" in capsys.readouterr().err
    assert (run / "report.html").read_text() == "of the run" and not (run / "compare.md").exists()
