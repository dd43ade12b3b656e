"""The schema of run.json: itself valid, documented throughout, and strict where it matters."""

from __future__ import annotations

import copy

import pytest
import run_factory as runs
from json_schema import nodes
from jsonschema import Draft202012Validator

from omni_bench.errors import StoreError
from omni_bench.metrics.definitions import summarised
from omni_bench.records.schema import SCHEMA_VERSION, run_schema, validate_run


def test_is_a_json_schema_of_2020_12():
    schema = run_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


def test_every_field_is_documented():
    found = dict(nodes(run_schema()))
    assert len(found) > 70
    undocumented = [path for path, node in found.items() if "$ref" not in node and not node.get("description")]
    assert undocumented == []
    for name, node in run_schema()["$defs"].items():
        assert node["description"], name


def test_a_built_run_fits():
    run = runs.make_run((1, 4, 16))
    validate_run(run)
    assert run["schema_version"] == SCHEMA_VERSION
    assert set(run["levels"][0]["metrics"]) == {metric.name for metric in summarised()}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("levels", 0, "concurrency"), 0),
        (("levels", 0, "valid"), "yes"),
        (("levels", 0, "invalid"), {"empty": 0}),
        (("levels", 0, "metrics"), {"TTFP": {}}),
        (("levels", 0, "metrics", "rtf", "better"), "bigger"),
        (("levels", 0, "accuracy", "wer"), "2 %"),
        (("provenance", "prompts", "sha256"), "abc"),
        (("started_utc",), "2026-11-27 23:40"),
    ],
)
def test_wrong_values_are_named(path, value):
    run = copy.deepcopy(runs.make_run((1,)))
    parent = run
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    with pytest.raises(StoreError) as caught:
        validate_run(run, "here")
    assert str(caught.value).startswith("here does not fit the schema")
    assert f"{path[-1]}" in str(caught.value)


def test_a_time_that_cannot_be_is_named():
    run = runs.make_run((1,)) | {"started_utc": "2026-99-99T23:40:00Z"}
    with pytest.raises(StoreError, match="here: started_utc '2026-99-99T23:40:00Z' is no time: month must be"):
        validate_run(run, "here")


@pytest.mark.parametrize("key", ["levels", "provenance", "valid", "invalid_reasons", "started_utc", "duration_s"])
def test_missing_fields_are_named(key):
    run = runs.make_run((1,))
    del run[key]
    with pytest.raises(StoreError, match=key):
        validate_run(run)


def test_many_errors_are_cut():
    run = runs.make_run((1,))
    run["levels"] = [{} for _ in range(9)]
    with pytest.raises(StoreError, match=r"and \d+ more"):
        validate_run(run)


def test_fields_of_a_later_minor_version_are_let_through():
    run = runs.make_run((1,))
    run.update(schema_version="2.7", new_field=1)
    run["levels"][0]["new_field"] = {"x": None}
    validate_run(run)


def test_a_run_of_schema_1_0_still_fits():
    run = runs.make_run((1,))
    run["schema_version"] = "1.0"
    del run["levels"][0]["faulty"], run["levels"][0]["warmup"]
    del run["provenance"]["prompts"]["measured"], run["provenance"]["prompts"]["warmup"]
    validate_run(run)


@pytest.mark.parametrize("version", ["0.9", "3.0", "10.0", "", None, 1, 1.0])
def test_other_versions_are_refused_before_anything_else(version):
    with pytest.raises(StoreError, match="schema_version"):
        validate_run({"schema_version": version})


def test_levels_are_of_one_kind():
    run = runs.make_run((1, 4))
    run["levels"][1] |= {"rate_hz": 4.0}
    with pytest.raises(StoreError, match="here has levels of request rates beside levels of concurrencies"):
        validate_run(run, "here")
