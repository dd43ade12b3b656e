"""Every configuration key is explained, in the code and in the help."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest
from omegaconf import OmegaConf

from omni_bench.commands.cli import RUN_HELP
from omni_bench.commands.run import composed_help, run_command
from omni_bench.records.config import DatasetConfig, RunConfig
from omni_bench.run.config.compose import compose
from omni_bench.run.config.keys import config_keys, groups, help_text, written
from omni_bench.terminal import say_help


@pytest.mark.parametrize("group", [item.name for item in fields(RunConfig)])
def test_every_key_has_a_line_of_explanation(group):
    assert groups()[group].endswith(".")
    for item in fields(get_type_hints(RunConfig)[group]):
        explanation = item.metadata.get("help", "")
        assert explanation.strip() and "\n" not in explanation and not explanation.endswith("."), item.name


def test_the_help_of_run_shows_every_key_with_its_value_and_explanation(capsys):
    assert run_command(["scenario=smoke", "dataset.root='/tmp/$HOME'", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for group in groups():
        for key in config_keys(group):
            assert f" {key.name}=" in shown and key.explanation in shown
    assert "load.concurrency=[2] closed_loop: requests in flight" in shown
    assert "dataset.root=/tmp/$HOME seed_tts: the folder" in shown


def test_the_lines_of_the_help_fit_a_terminal(capsys):
    say_help(help_text(OmegaConf.structured(compose(["scenario=smoke"]))))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_the_help_that_is_kept_is_the_composed_one():
    kept = RUN_HELP.read_text(encoding="utf-8")
    assert kept == composed_help(["--help"]), "python -m omni_bench.commands.run writes it anew"


def test_values_are_written_as_they_are_typed():
    assert [written(value) for value in (None, True, 0.5, "a", [1, 4], {"b": 1, "a": 2})] == [
        "null", "true", "0.5", "a", "[1, 4]", "{b: 1, a: 2}",
    ]  # fmt: skip


def test_defaults_are_not_shared():
    DatasetConfig().hf_columns["id"] = "other"
    assert DatasetConfig().hf_columns["id"] == "id"
