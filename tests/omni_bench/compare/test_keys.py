"""Comparability keys: what has to be equal, what may differ, and a refusal that lists every difference."""

from __future__ import annotations

import pytest
import run_factory as runs

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.keys import as_known_now, comparability_keys, differences, shown, versions_of
from omni_bench.compare.result import Advisory, ComparisonOutcome
from omni_bench.errors import ComparabilityError


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("prompts.sha256", "ef" * 32, "prompts.sha256"),
        ("prompts.dataset", "other", "prompts.dataset"),
        ("load.requests_per_level", 64, "load.requests_per_level"),
        ("load.warmup_per_slot", 0, "load.warmup_per_slot"),
        ("load.rotate_levels", 1, "load.rotate_levels"),
        ("client.seed", 7, "client.seed"),
        ("client.voice", "heart", "client.voice"),
        ("client.extra_body", {"temperature": 0.1}, "client.extra_body"),
        ("client.max_new_tokens", 100, "client.max_new_tokens"),
        ("judge.sha256", "01" * 32, "judge.sha256"),
        ("judge.name", "base", "judge.name"),
        ("judge.normaliser", 2, "judge.normaliser"),  # a run that names none is of the first
        ("hardware.cpu", "Slow CPU", "hardware.cpu"),
        ("hardware.cpu_cores", 4, "hardware.cpu_cores"),
        ("hardware.gpus", [{"name": "GPU", "memory_bytes": 1, "driver": "1"}], "hardware.gpus"),
    ],
)
def test_an_unequal_key_is_refused_with_both_values(make, name, value, key):
    before, after = make.view(), make.view(started=1, config={name: value})
    with pytest.raises(ComparabilityError) as refusal:
        compare_runs([before], [after])
    text = str(refusal.value)
    line = next(line for line in text.splitlines() if line.startswith(f"  {key}: "))
    assert line.endswith(f"| {shown(after.keys.get(key, value) if key in after.keys else value)}") or "driver" in line
    assert "--force" in text
    forced = compare_runs([before], [after], force=True)
    assert key in [one.name for one in forced.forced]
    assert Advisory.OTHER_KEYS in forced.advisory


def test_every_difference_is_listed(make):
    before = make.view()
    after = make.view(started=1, config={"client.seed": 7, "load.requests_per_level": 64, "hardware.cpu": "Slow"})
    with pytest.raises(ComparabilityError) as refusal:
        compare_runs([before], [after])
    text = str(refusal.value)
    assert "4 comparability key(s) differ" in text  # the server's hardware is that CPU too
    for line in ("client.seed: 0 | 7", "load.requests_per_level: 32 | 64", "hardware.cpu: Fast CPU 9000 | Slow"):
        assert f"\n  {line}\n" in text


def test_what_is_compared_may_differ_and_is_listed(make):
    before = make.arm("before", 2)
    after = make.arm(
        "after",
        2,
        start=3,
        config={"reference.predictor": "reprefill", "target.chaos": "slow", "harness.version": "9"},
    )
    comparison = compare_runs(before, after)
    assert [(one.name, one.before, one.after) for one in comparison.settings] == [
        ("target.chaos", None, "slow"),
        ("reference.predictor", "kv_cache", "reprefill"),
    ]
    assert [(one.name, one.after) for one in comparison.versions] == [("omni-bench.version", "9")]
    assert comparison.forced == ()


def test_packages_of_the_server_s_own_environment_are_listed():
    run = runs.make_run()
    assert not any(name.startswith("server.") for name in versions_of(run))
    run["provenance"]["target"]["description"]["environment"] = {"python": "3.12.1", "packages": {"torch": "2.14"}}
    found = versions_of(run)
    assert (found["server.package.torch"], found["server.python"]) == ("2.14", "3.12.1")
    assert found["package.torch"] == "2.13.0", "that of who measures"


@pytest.mark.parametrize(
    "config",
    [
        {"client.request_timeout_s": 1.0, "client.api_key_env": "KEY", "load.lag_budget_ms": 1.0},
        {"client.seed": 0, "load.requests_per_level": 32, "client.extra_body": {}},  # what a run without them did
        {"target.python": "/venv/bin/python", "target.label": "after: git:main", "target.revision": "c"},
        {"target.probe": False, "target.gpus": 2},
        {"target.port": 8091, "hardware.memory_bytes": 1, "software.python": "3.12.0"},
    ],
)
def test_what_does_not_matter_is_no_key(make, config):
    comparison = compare_runs([make.view()], [make.view(started=1, config=config)])
    assert comparison.outcome is ComparisonOutcome.ADVISORY and comparison.forced == ()


def test_a_judge_on_one_side_only_is_refused(make):
    with pytest.raises(ComparabilityError, match=r"judge\.name: tiny\.en \| null"):
        compare_runs([make.view()], [make.view(started=1, judge=False)])


def test_an_arm_has_to_be_of_one_thing(make):
    mixed = [make.view("a"), make.view("b", started=1, config={"reference.predictor": "reprefill"})]
    with pytest.raises(ComparabilityError, match=r"predictor within before \(runs 1 and 2\): kv_cache \| rep"):
        compare_runs(mixed, make.arm("after", 2, start=3))
    commits = [make.view("a"), make.view("b", started=1, config={"target.commit": "abc"})]
    with pytest.raises(ComparabilityError, match=r"target\.commit within after \(runs 1 and 2\)"):
        compare_runs(make.arm("before", 2), commits)
    seeds = [make.view("a"), make.view("b", started=1, config={"client.seed": 5})]
    with pytest.raises(ComparabilityError, match=r"client\.seed"):
        compare_runs(seeds, [make.view("c", started=2), make.view("d", started=3, config={"client.seed": 5})])


def test_pairs_may_begin_with_different_levels(make):
    before = [make.view("a"), make.view("b", started=1, config={"load.rotate_levels": 1})]
    after = [make.view("c", started=2), make.view("d", started=3, config={"load.rotate_levels": 1})]
    assert compare_runs(before, after).forced == ()


def test_other_levels_are_refused_and_forced_over_the_common_ones(make):
    before, after = make.view(levels=(1, 4)), make.view(levels=(4, 8), started=1)
    with pytest.raises(ComparabilityError, match=r"load\.concurrency: \[1, 4\] \| \[4, 8\]"):
        compare_runs([before], [after])
    assert compare_runs([before], [after], force=True).levels == (4,)
    with pytest.raises(ComparabilityError, match="no concurrency level in common"):
        compare_runs([make.view(levels=(1,))], [make.view(levels=(8,))], force=True)


def test_differences_of_plain_mappings():
    found = differences({"a": 1, "b": [1], "c": None}, {"a": 1, "b": [2], "d": 3})
    assert [(one.name, one.before, one.after) for one in found] == [("b", [1], [2]), ("d", None, 3)]
    assert shown("ab" * 32) == "abababababab" and shown("text") == "text" and shown({"b": 1}) == '{"b": 1}'


def test_a_key_that_is_gone_counts_as_its_default():
    old, now = runs.make_run(), runs.make_run()
    old["provenance"]["config"].setdefault("load", {})["trace_column"] = None
    assert comparability_keys(old) == comparability_keys(now)
    old["provenance"]["config"]["load"]["trace_column"] = "when"
    assert differences(comparability_keys(now), comparability_keys(old))[0].name == "load.trace_column"
    assert as_known_now({"reference.buffers": "device"}, {}) == {}
    assert as_known_now({"reference.buffers": "host_roundtrip"}, {}) != {}
