"""What the words of ``omni-bench ab`` mean."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from omni_bench.compare.ab.words import quoted, read_words
from omni_bench.compare.stats.verdicts import StudyPlan
from omni_bench.errors import ConfigError
from omni_bench.run.config.compose import compose


def test_two_configurations():
    words = read_words(
        ["before.reference.predictor=reprefill", "after.reference.predictor=kv_cache", "scenario=smoke", "seed=7"]
    )
    assert [one.overrides for one in words.arms] == [
        ("reference.predictor=reprefill",),
        ("reference.predictor=kv_cache",),
    ]
    assert words.shared == ("scenario=smoke",) and words.seed == 7 and words.plan == StudyPlan(5, 8)


def test_one_arm_may_be_as_both():
    words = read_words(["after.reference.fault=slow_8"])
    assert words.arms[0].overrides == () and words.arms[1].overrides == ("reference.fault=slow_8",)


def test_a_seed_is_drawn_if_none_is_given():
    assert len({read_words(["before=reference"]).seed for _ in range(8)}) > 1


@pytest.mark.parametrize(
    "typed,overrides,source",
    [
        ("before=http://127.0.0.1:1/v1", ("target=external", "target.url='http://127.0.0.1:1/v1'"), None),
        ("before=git:main", (), "git:main"),
        ("before=dist/omni_bench-0.1.0-py3-none-any.whl", (), "dist/omni_bench-0.1.0-py3-none-any.whl"),
        ("before=reference", ("target=reference",), None),
        ("before.command=serve --port {port}", ("target=command", "target.command='serve --port {port}'"), None),
        ("before.health_path=/v1/models", ("target.health_path='/v1/models'",), None),
    ],
)
def test_kinds_of_targets(typed, overrides, source):
    arm = read_words([typed, "after=reference"]).arms[0]
    assert arm.overrides == overrides and arm.source == source and arm.typed == (typed,)


def test_a_git_ref_may_be_launched_by_a_command():
    arm = read_words(["before=git:v1", "before.command={python} -m served --port {port}", "after=reference"]).arms[0]
    assert arm.source == "git:v1" and arm.overrides[0] == "target=command"


@pytest.mark.parametrize(
    "words,plan",
    [
        (["pairs=3"], StudyPlan(3, None)),
        (["pairs=5"], StudyPlan(5, 8)),
        (["pairs=7"], StudyPlan(7, 8)),
        (["pairs=8"], StudyPlan(8, None)),
        (["pairs=3", "extend=6"], StudyPlan(3, 6)),
        (["extend=off"], StudyPlan(5, None)),
        (["looks=off"], StudyPlan(5, 8, early=False)),
    ],
)
def test_plans(words, plan):
    assert read_words(["before=reference", *words]).plan == plan


@pytest.mark.parametrize(
    "words,message",
    [
        ([], "nothing to compare"),
        (["scenario=smoke"], "nothing to compare"),
        (["before=refrence"], "nor a target; did you mean 'reference'. Targets: command"),
        (["before=reference", "before=external"], "before is given twice"),
        (["before=reference", "restart=once"], "restart='once'"),
        (["before=reference", "judging=later"], "judging='later'"),
        (["before=reference", "looks=2"], "looks='2'; valid: off, on"),
        (
            ["before=reference", "restrt=never"],
            "restrt=never: did you mean restart.* Keys of a study: .*, judging, seed",
        ),
        (["befor=reference"], "befor=reference: did you mean before"),
        (["before=reference", "aftr.reference.seed=1"], "aftr.reference.seed=1: did you mean after"),
        (["before=reference", "pairs"], "'pairs': not KEY=VALUE"),
        (["before=reference", "pairs=0"], "pairs=0: a whole number, 1 to 100"),
        (["before=reference", "pairs=five"], "pairs=five"),
        (["before=reference", "pairs=" + "9" * 4301], r"pairs=9{77}\.\.\.: a whole number, 1 to 100"),
        (["before=reference", "pairs=5", "extend=5"], "more than pairs=5, or off"),
        (["before=reference", "extend=0"], "extend=0: more than pairs=5, or off"),
        (["before=reference", "extend=no"], "extend=no: a whole number, 0 to 100, or off"),
        (["before=reference", "output.root=x"], "output.root=x: .* --out FOLDER"),
        (["before=reference", "seed=-1"], "seed=-1"),
        (["before=reference", "smoke"], "'smoke': not KEY=VALUE"),
        (["before.=1"], "not KEY=VALUE"),
    ],
)
def test_words_that_cannot_be_read(words, message):
    with pytest.raises(ConfigError, match=message):
        read_words(words)


@pytest.mark.parametrize(
    "text",
    [
        "python -m x --port {port} --json '{\"a\": 1}'",
        r"a\b c\\' d {port} \\",
        "${HOME} {port}",
        r"\${x} '\' {port}",
        "a,b [c] x=1 # no {port}",
        "über {port} — ok",
    ],
)
def test_a_text_reaches_the_configuration_as_it_was_typed(text):
    config = compose([f"target.label={quoted(text)}"])
    assert config.target.label == text


@given(st.text(alphabet="a'\\{}$ \",=[]", min_size=1, max_size=12))
def test_quoting_is_undone_by_hydra(text):
    value = OverridesParser.create().parse_override(f"a={quoted(text)}").value()
    assert OmegaConf.create({"a": str(value)}).a == text
