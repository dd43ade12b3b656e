"""Writing the report of a run from its folder, again and again."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import run_factory as runs

from omni_bench.errors import StoreError
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline_json import timeline_to_dict
from omni_bench.report.write import write_report
from omni_bench.run.document import utterance_record


@pytest.fixture
def folder(tmp_path):
    with RunFolder.create(tmp_path / "run") as folder:
        timelines = [runs.timeline("c1-0000"), runs.failed_timeline("c1-0001")]
        for timeline in timelines:
            folder.append_request(timeline_to_dict(timeline))
        folder.write_utterances(
            utterance_record(score, concurrency=1, prompt_id="p") for score in runs.scores(["a", "b", "c"])
        )
        folder.write_run(runs.make_run((1, 4)))
        yield folder


def test_report_and_plots_from_disk(folder):
    path = write_report(folder.path)
    report = path.read_text(encoding="utf-8")
    assert path == folder.report_md
    for name in ("overview", "ttfp", "rtf", "e2el", "audio_per_s", "wer"):
        assert (folder.plots_dir / f"{name}.png").stat().st_size > 5_000
        assert f"plots/{name}.png" in report
    assert "connect: refused" in report and "~~the~~" in report


def test_writing_again_gives_the_same_report(folder):
    first = write_report(folder, plots=False).read_bytes()
    assert write_report(folder.run_json, plots=False).read_bytes() == first


def test_without_plots_old_ones_are_linked(folder):
    assert "plots/" not in write_report(folder, plots=False).read_text()
    folder.plots_dir.mkdir()
    (folder.plots_dir / "overview.png").write_bytes(b"of an earlier report")
    assert "![overview](plots/overview.png)" in write_report(folder, plots=False).read_text()


def test_the_backend_of_a_notebook_costs_no_plot(folder):
    """matplotlib is not even imported with it (kohya_ss 2521)."""
    code = "import sys; from omni_bench.report.write import write_report; write_report(sys.argv[1])"
    environment = os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder.path)], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "") and (folder.plots_dir / "overview.png").is_file()


@pytest.mark.parametrize("error", [RuntimeError("no font"), ImportError("no matplotlib"), StoreError("disk full")])
def test_a_plot_never_costs_a_report(folder, monkeypatch, capsys, error):
    def fails(*_):
        raise error

    monkeypatch.setattr("omni_bench.report.plots.draw_plots", fails)
    assert "plots/" not in write_report(folder).read_text()
    assert f"no plots, as drawing failed: {type(error).__name__}: {error}" in capsys.readouterr().err


def test_run_without_levels_has_a_report_and_no_plots(folder):
    folder.write_run(runs.make_run(levels=[]))
    assert "No level was measured" in write_report(folder).read_text()
    assert not folder.plots_dir.exists()


def test_only_run_json_is_needed(tmp_path):
    folder = RunFolder.create(tmp_path / "bare")
    folder.write_run(runs.make_run((1,)))
    assert "No utterance is on record" in write_report(folder, plots=False).read_text()


def test_unfinished_or_foreign_folders_are_refused(folder, tmp_path):
    folder.run_json.unlink()
    with pytest.raises(StoreError, match="did not finish"):
        write_report(folder.path)
    with pytest.raises(StoreError, match="not a run folder"):
        write_report(tmp_path / "elsewhere")
    folder.run_json.write_text(json.dumps({"schema_version": "9.0"}))
    with pytest.raises(StoreError, match="schema_version"):
        write_report(folder.path)
