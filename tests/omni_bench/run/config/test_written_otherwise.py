"""What people type who do not know Hydra's grammar: the message says what they meant, ready to be pasted."""

from __future__ import annotations

import shlex

import pytest

from omni_bench.commands.cli import main
from omni_bench.errors import EXIT_USAGE, ConfigError
from omni_bench.run.config.compose import compose


@pytest.mark.parametrize(
    "value",
    ["af_bella(2)+af_sky(1)", "http://[::1]:8191", "a=b?x=1", "~x, y", "什么=~?x", "it's(1)", "a$b(", 'say "x" ['],
)
def test_a_value_outside_the_grammar_comes_back_quoted(value):
    with pytest.raises(ConfigError) as caught:
        compose([f"client.voice={value}"])
    (pasted,) = shlex.split(str(caught.value).partition("need some: ")[2])
    assert compose([pasted]).client.voice == value


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["run", "smoke"], "did you mean scenario=smoke?"),
        (["run", "smok"], "did you mean scenario=smoke?"),
        (["run", "--scenario", "smoke"], "did you mean scenario=smoke?"),
        (["run", "--load.concurrency=[1]"], "did you mean load.concurrency=[1]?"),
        (["rnu"], "did you mean 'run'?"),
    ],
)
def test_other_ways_to_write_a_command_are_understood(capsys, typed, meant):
    assert main(typed) == EXIT_USAGE
    assert meant in capsys.readouterr().err
