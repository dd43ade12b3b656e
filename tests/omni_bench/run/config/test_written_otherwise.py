"""What people type who do not know Hydra's grammar: the message says what they meant, ready to be pasted."""

from __future__ import annotations

import json
import shlex

import pytest

from omni_bench.commands.cli import main
from omni_bench.errors import EXIT_USAGE, ConfigError
from omni_bench.run.config.compose import compose
from omni_bench.run.config.words import as_meant


@pytest.mark.parametrize(
    "value",
    [
        "af_bella(2)+af_sky(1)",
        "http://[::1]:8191",
        "~x, y",
        "it's(1)",
        "a$b(",
        'say "x" [',
        "Speak slowly, please",
        "a${b",
    ],
)
def test_a_value_outside_the_grammar_comes_back_quoted(value):
    with pytest.raises(ConfigError) as caught:
        compose([f"client.voice={value}"])
    (pasted,) = shlex.split(str(caught.value).partition("need some: ")[2])
    assert compose([pasted]).client.voice == value


def test_quotes_that_a_shell_passed_on_are_understood():
    with pytest.raises(ConfigError, match=r"need some: \"client\.voice='Ann Bob'\""):
        compose([r"client.voice=\'Ann Bob\'"])


@pytest.mark.parametrize("value", ["1e5", "true", "1_000", "NaN", "007", "a b", "-1"])
def test_a_text_is_the_word_as_it_is_written(value):
    config = compose([f"client.voice={value}", f"target.env.X={value}"])
    assert config.client.voice == config.target.env["X"] == value
    assert compose(["client.voice=null"]).client.voice is None


@pytest.mark.parametrize(
    "word",
    [
        "target.env={A: 1e5, B: 007, C: true, D: 'a, 1', E: x:y}",
        'target.env={"A": 1e5, "B": "007", "C": true, "D": "a, 1", "E": "x:y"}',
    ],
)
def test_so_it_is_within_a_mapping_and_a_list(word):
    assert compose([word]).target.env == {"A": "1e5", "B": "007", "C": "true", "D": "a, 1", "E": "x:y"}
    assert as_meant([r"target.extra_args=[--a, 1e5,b\,1, '1,2']"]) == [r"target.extra_args=[--a,'1e5',b\,1, '1,2']"]
    assert as_meant(["load.concurrency=[1, 4]"]) == ["load.concurrency=[1, 4]"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ('client.extra_body={"a": "b?c=1", "k": [1,2]}', {"a": "b?c=1", "k": [1, 2]}),
        ('client.extra_body={"a": "it\'s", "d": {"e": null, "f": true, "g": -1.5}}', None),
        ("client.extra_body={speed: 1.5}", {"speed": 1.5}),
        ("+client.extra_body={speed: 1.5}", {"speed": 1.5}),
        ("client.extra_body.a.b=1", {"a": {"b": 1}}),
    ],
)
def test_a_mapping_takes_new_entries_and_json(word, meant):
    assert compose([word]).client.extra_body == (meant or json.loads(word.partition("=")[2]))


def test_what_is_a_sweep_is_none_of_a_multirun():
    assert as_meant(["load.concurrency=[1],[2]", "client.voice=a,b"], multirun=True) == [
        "load.concurrency=[1],[2]",
        "client.voice=a,b",
    ]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["run", "smoke"], "did you mean scenario=smoke?"),
        (["run", "smok"], "did you mean scenario=smoke?"),
        (["run", "--scenario", "smoke"], "did you mean scenario=smoke?"),
        (["run", "--load.concurrency=[1]"], "did you mean load.concurrency=[1]?"),
        (["run", "concurrency=[4]"], "did you mean load.concurrency?"),
        (["run", "target.devices=0,1"], "a list has brackets: target.devices=[0,1]"),
        (["run", "client.model"], "'client.model' has no value; valid: client.model=VALUE"),
        (["run", "model=x"], "did you mean target.model or client.model or asr.model?"),
        (["run", "load.concurrency=[1,4"], "load.concurrency takes a list of integers"),
        (["run", "load.concurrency=[1.5]"], "load.concurrency[0] takes an integer"),
        (["run", "target.env={A: null}"], "target.env.A takes a string"),
        (["run", "--resme", "x"], "did you mean '--resume'?"),
        (["rnu"], "did you mean 'run'?"),
    ],
)
def test_other_ways_to_write_a_command_are_understood(capsys, typed, meant):
    assert main(typed) == EXIT_USAGE
    assert meant in capsys.readouterr().err
