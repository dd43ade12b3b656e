"""What is printed at the end, whoever reads it."""

from __future__ import annotations

import os
import sys

import pytest
import run_factory as runs

from omni_bench.records.invalid_reason import Code, invalid
from omni_bench.report.console import print_summary


def test_the_table_the_verdict_and_the_report_are_on_stdout_and_not_squeezed(tmp_path, capsys):
    run = runs.make_run((1, 4), own=[invalid(Code.INTERRUPTED)])
    report = tmp_path / ("a" * 100) / "report.md"
    print_summary(run, report)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"report: {report}"
    assert "  - the run was interrupted" in lines and f"  next: {Code.INTERRUPTED.next_step}" in lines
    assert max(len(line) for line in lines[:-1]) > 100


def test_a_reader_that_has_gone_changes_nothing(tmp_path, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        with pytest.raises(BrokenPipeError):
            print("nobody reads this", flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), gone.fileno())
        gone.flush()
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        print_summary(runs.make_run((1,)), tmp_path / "report.md")
        print("and what follows is dropped", flush=True)
