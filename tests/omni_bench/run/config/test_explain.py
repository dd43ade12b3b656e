"""A wrong override gives one line that names the bad value and the valid ones."""

from __future__ import annotations

import pytest

from omni_bench.errors import ConfigError, alternatives
from omni_bench.run.config.compose import compose
from omni_bench.run.config.explain import type_name, valid_keys

CASES = [
    ("scenario=smok", "unknown scenario 'smok'; did you mean 'smoke'? Valid: qwen3_omni_random, "),
    ("scenario=zzz", "unknown scenario 'zzz'; valid: qwen3_omni_random, "),
    ("target=refrence", "unknown target 'refrence'; did you mean 'reference'? Valid: command, external, reference"),
    ("asr=wisper", "did you mean 'whisper'? Valid: faster_whisper, none, whisper"),
    ("scenaro=smoke", "unknown key 'scenaro'; did you mean 'scenario'? Valid top-level keys: asr, checks, client"),
    ("zed=1", "unknown key 'zed'; valid top-level keys: asr, checks, client, dataset"),
    ("load.concurency=[3]", "unknown key 'load.concurency'; did you mean 'concurrency'? Valid keys of load: "),
    ("+load.foo=1", "unknown key 'load.foo'; valid keys of load: "),
    ("+zed.foo=1", "unknown key 'zed'; valid top-level keys"),
    ("load.kind.x=1", "load.kind"),
    ("load.concurrency=16", "load.concurrency=16: load.concurrency takes a list of integers, such as [1,4,16]"),
    ("load.concurrency=[1,a]", "load.concurrency[1] takes an integer"),
    ("load.concurrency=null", "takes a list of integers"),
    ("load.requests_per_level=abc", "load.requests_per_level=abc: load.requests_per_level takes an integer"),
    ("reference.chunk_frames=1.5", "reference.chunk_frames takes an integer"),
    ("reference.deterministic=7up", "reference.deterministic takes true or false"),
    ("reference.threads=many", "reference.threads takes an integer, or null"),
    ("scenario.name=null", "scenario.name takes a string"),
    ("load.concurrency=[1,", "cannot read the override 'load.concurrency=[1,'"),
    ("load.concurrency=1,2", "load.concurrency=1,2: a list has brackets: load.concurrency=[1,2]"),
    ("load.requests_per_level=1,2", "omni-bench run --multirun load.requests_per_level=1,2"),
    ('client.extra_body={"a b": 1}', "cannot be read as a mapping; valid: client.extra_body={name: value"),
    ("client.voice='a${x'", r"written \${, within the shell's single quotes: 'client.voice=\${x}'"),
    ("~load.kind", "~load.kind"),
    ("client.voice=${oc.env:OMNI_BENCH_NO_SUCH_VARIABLE}", "client.voice: "),
    ("client.voice=${nowhere}", "client.voice: Interpolation key 'nowhere' not found"),
    ("dataset.kind=???", "dataset.kind has no value and needs one"),
    ("load.concurrency.x=1", "'x'"),
    ("load=null", "Config group override"),
]


@pytest.mark.parametrize(("override", "message"), CASES, ids=[case[0] for case in CASES])
def test_a_wrong_override_is_explained_in_one_line(override, message):
    with pytest.raises(ConfigError) as caught:
        compose([override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_valid_keys_of_a_prefix():
    assert valid_keys("load.concurency") == ("load", valid_keys("load")[1])
    assert "requests_per_level" in valid_keys("load.x")[1]
    assert valid_keys("nowhere.x")[0] == "" and "load" in valid_keys("nowhere.x")[1]
    assert valid_keys("load.concurrency.x")[0] == "load"


def test_types_in_words():
    assert type_name("load.concurrency[1]") == "an integer"
    assert type_name("client.seed") == "an integer, or null"
    assert type_name("client.extra_body") == "a mapping, such as {key: value}"
    assert type_name("load.nowhere") is None
    assert type_name("load") == "a group of keys"


def test_alternatives_are_in_a_natural_order():
    assert alternatives("x9", ["c16", "c4", "a"]) == "; valid: a, c4, c16"
    assert alternatives("c17", ["c16", "c4"]).startswith("; did you mean 'c16'? Valid: c4, c16")
