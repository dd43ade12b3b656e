"""Hydra's shell completion, for a program whose Hydra application is a subcommand."""

from __future__ import annotations

import pytest

from omni_bench.commands.cli import main


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("omni-bench ", {"run", "serve", "doctor"}),
        ("omni-bench ser", {"serve"}),
        ("omni-bench run scenario=qwen3_tts_c1", {"scenario=qwen3_tts_c1", "scenario=qwen3_tts_c16"}),
        ("omni-bench run scen", {"scenario="}),
        ("omni-bench run load.", {"load.concurrency.", "load.requests_per_level="}),
        ("/usr/bin/omni-bench run target=ext", {"target=external"}),
    ],
)
def test_what_is_suggested(line, expected, monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", line)
    assert main(["-sc", "query=bash"]) == 0
    assert expected <= set(capsys.readouterr().out.split())


def test_nothing_is_suggested_for_other_subcommands(monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", "omni-bench report x")
    assert main(["-sc", "query=bash"]) == 0
    assert capsys.readouterr().out == ""


def test_the_script_is_for_this_program(monkeypatch, capsys):
    monkeypatch.delenv("COMP_LINE", raising=False)
    assert main(["run", "-sc", "install=bash"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("hydra_bash_completion omni-bench")
