"""From words to configurations, and how a run is worth."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from omni_bench.compare.ab import arms as arms_module
from omni_bench.compare.ab.arms import StudyArm, level_in_turn, resolve_arms, rotated, same_server
from omni_bench.compare.ab.notes import opening, study_notes
from omni_bench.compare.ab.order import RunRecord, RunState
from omni_bench.compare.ab.pace import Pace
from omni_bench.compare.ab.sources import Source
from omni_bench.compare.ab.study import assess
from omni_bench.compare.ab.words import read_words
from omni_bench.compare.stats.verdicts import StudyPlan
from omni_bench.errors import ConfigError, TargetError
from omni_bench.records.invalid_reason import Code, InvalidReason
from omni_bench.run.config.compose import compose

SOURCE = Source("git", "/repository", "c" * 40, "git:main (cccccccccccc)")


def never(source):
    raise AssertionError(f"nothing is to be built: {source}")


def resolve(*words, build=never):
    return resolve_arms(read_words(words), Path.cwd(), build)


def test_two_configurations():
    before, after = resolve("before.reference.predictor=reprefill", "scenario=smoke", "after.reference.threads=1")
    assert before.config.reference.predictor == "reprefill" and after.config.reference.predictor == "kv_cache"
    assert after.config.reference.threads == 1 and before.config.scenario.name == after.config.scenario.name == "smoke"
    assert before.title == "reference.predictor=reprefill"
    assert before.config.target.label == "before: reference.predictor=reprefill", "the name lands in the provenance"
    assert before.fresh and not same_server(before, after)
    kept = "output.save_audio=all"  # of so few answers
    assert before.run_command == ("omni-bench", "run", "scenario=smoke", kept, "reference.predictor=reprefill")


def test_two_urls_have_no_fresh_servers(new_state):
    arms = resolve("before=http://127.0.0.1:1", "after=http://127.0.0.1:2/v1", "client.model=m")
    assert [arm.config.target.url for arm in arms] == ["http://127.0.0.1:1", "http://127.0.0.1:2/v1"]
    assert not any(arm.fresh for arm in arms)
    state = replace(new_state(), arms=arms)
    assert any("No fresh servers: both arms are servers that ran already" in note for note in study_notes(state))
    assert not any("a fresh server for every run" in note for note in study_notes(state))
    assert any("No fresh servers" in line for line in opening(state, Pace()))


def test_one_url(new_state):
    arms = resolve("before=http://127.0.0.1:1", "after=reference")
    assert any("before is a server that ran already" in note for note in study_notes(replace(new_state(), arms=arms)))


def test_two_commands():
    before, after = resolve(
        "before.command=serve-v1 --port {port} --json '{\"a\": 1}'",
        "after.command=serve-v2 --port {port}",
        "after.health_path=/v1/models",
    )
    assert before.config.target.command == "serve-v1 --port {port} --json '{\"a\": 1}'"
    assert before.config.target.kind == after.config.target.kind == "command"
    assert after.config.target.health_path == "/v1/models"


def test_a_study_of_one_server_is_said_to_be_one(new_state):
    arms = resolve("before=reference", "after=reference")
    assert same_server(*arms)
    assert any(note.startswith("An A/A study") for note in study_notes(replace(new_state(), arms=arms)))
    assert not any("A/A" in note for note in study_notes(new_state()))


def test_a_source_gets_its_interpreter(monkeypatch):
    monkeypatch.setattr(arms_module, "find_source", lambda text, folder: SOURCE)
    built = []

    def build(source):
        built.append(source)
        return Path("/environments/it's here/bin/python")

    before, after = resolve("before=git:main", "after=reference", build=build)
    assert built == [SOURCE]
    target = before.config.target
    assert target.kind == "reference" and target.python == "/environments/it's here/bin/python"
    assert target.revision == SOURCE.revision and target.label == f"before: {SOURCE.title}"
    assert before.run_command == (), "no command alone repeats it"
    assert after.config.target.python is None and after.config.target.revision is None


def test_what_is_wrong_is_said_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(arms_module, "find_source", lambda text, folder: SOURCE)
    with pytest.raises(ConfigError, match="predictor"):
        resolve("before=git:main", "after.reference.predictor=nonsense")
    with pytest.raises(ConfigError, match=r"is a server to launch, but its target is an URL"):
        resolve("before=git:main", "before.target=external", "before.target.url=http://127.0.0.1:1")


@pytest.mark.parametrize(
    "word,message",
    [
        ("after.client.seed=3", r"client\.seed: 0 \| 3"),
        ("after.load.requests_per_level=8", r"load\.requests_per_level: 6 \| 8"),
        ("after.asr=none", r"asr\.kind"),
        ("after.checks.parity_requests=1", r"checks\.parity_requests"),
        ("after.dataset.seed=1", r"dataset\.seed"),
    ],
)
def test_the_arms_differ_in_the_server_alone(word, message):
    with pytest.raises(ConfigError, match=message):
        resolve("before=reference", "scenario=smoke", word)


def test_each_may_have_its_own_key():
    _, after = resolve("before=http://127.0.0.1:1", "after=http://127.0.0.1:2", "after.client.api_key_env=KEY")
    assert after.config.client.api_key_env == "KEY"


def test_an_arm_survives_json():
    for arm in resolve("before.command=serve ${HOME} {port}", "after=reference", "+client.extra_body.a={b:1}"):
        assert StudyArm.from_json(asdict(arm)) == arm
    arm = replace(arm, source=SOURCE)
    assert StudyArm.from_json(asdict(arm)) == arm
    stale = asdict(arm)
    stale["config"]["target"]["no_such_key"] = 1
    with pytest.raises(ConfigError, match="another version of omni-bench"):
        StudyArm.from_json(stale)


def test_levels_rotate_from_where_the_user_put_them():
    config = compose(["scenario=smoke", "load.concurrency=[1,2,4]", "load.rotate_levels=1"])
    assert [rotated(config, pair).load.rotate_levels for pair in (1, 2, 3, 4)] == [1, 2, 0, 1]
    assert [level_in_turn(rotated(config, 2), turn) for turn in (0, 1, 2)] == [2, 0, 1]
    search = replace(config, load=replace(config.load, kind="rate_search", rate_hz=[1.0], rotate_levels=0))
    assert rotated(search, 3) == search and [level_in_turn(search, turn) for turn in (0, 1, 7)] == [0, 1, 7]


RECORD = RunRecord(1, 1, 1, "after", "01-after", RunState.RUNNING, "")


def level(*codes):
    reasons = [InvalidReason(code, code.blame, "x").to_json() for code in codes]
    return {"valid": not codes, "invalid_reasons": reasons}


@pytest.mark.parametrize(
    "levels,content",
    [
        ([level(Code.REQUESTS_FAILED)], True),
        ([level(Code.CLIENT_LAG)], False),
        ([level(Code.CLIENT_LAG, Code.WER)], True),
        ([level(), level(Code.WER)], True),
        ([level(Code.CLIENT_LATE)], False),
        ([level(Code.CLIENT_LAG, Code.CLIENT_LATE)], False),
        ([level(Code.CLIENT_LATE, Code.WER)], True),
        ([level(Code.CLIENT_LAG_UNKNOWN)], False),
        ([], False),
    ],
)
def test_whose_fault_an_invalid_run_is(levels, content):
    reason = InvalidReason(Code.UNKNOWN, Code.UNKNOWN.blame, "because").to_json()
    run = {"valid": False, "invalid_reasons": [reason], "levels": levels}
    found = assess(RECORD, run)
    assert (found.state, found.reasons, found.content) == (RunState.INVALID, ("because",), content)
    assert assess(RECORD, {"valid": True, "invalid_reasons": [], "levels": []}).state is RunState.DONE


def test_what_is_about_to_happen_is_said(new_state):
    lines = opening(new_state(), Pace(60.0))
    assert lines[0] == "3, 5 or 8 pairs, until a look can tell; ABBA from before (seed=1)"
    assert lines[1:] == [
        "6 to 16 runs, about 6 min to about 16 min",
        "before: reference.predictor=reprefill",
        " after: reference.predictor=kv_cache",
        "TTFP tail is not judged: it needs at least 10 requests a level (load.requests_per_level), so that there is a "
        "slowest tenth.",
    ]
    few = opening(new_state(StudyPlan(3, None)), Pace())
    assert few[0].startswith("3 pairs (advisory: fewer than 5); ABBA")
    assert few[1] == "6 runs; how long they take is known after the first"


def test_a_build_that_fails_ends_it(monkeypatch):
    monkeypatch.setattr(arms_module, "find_source", lambda text, folder: SOURCE)

    def build(source):
        raise TargetError("pip failed")

    with pytest.raises(TargetError, match="pip failed"):
        resolve("before=git:main", "after=reference", build=build)
