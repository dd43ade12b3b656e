"""compare.json: fits its schema, which is itself valid and documented; missing is null."""

from __future__ import annotations

import json

import pytest
from json_schema import nodes
from jsonschema import Draft202012Validator

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.document import COMPARE_SCHEMA_VERSION, compare_schema, to_document, validate_comparison
from omni_bench.compare.result import ComparisonOutcome, Mark
from omni_bench.errors import StoreError


def test_the_schema_is_valid_and_documented():
    schema = compare_schema()
    Draft202012Validator.check_schema(schema)
    found = dict(nodes(schema))
    assert len(found) > 80
    assert [path for path, node in found.items() if "$ref" not in node and not node.get("description")] == []
    assert schema["properties"]["outcome"]["enum"] == list(ComparisonOutcome)
    assert sorted(schema["$defs"]["cell"]["properties"]["mark"]["enum"]) == sorted(Mark)


def test_a_regression_as_json(make):
    comparison = compare_runs(
        make.arm("before", 5, cross_talk=0), make.arm("after", 5, slower=1.1, start=3, cross_talk=0)
    )
    document = json.loads(json.dumps(to_document(comparison), allow_nan=False))
    assert document["schema_version"] == COMPARE_SCHEMA_VERSION and document["outcome"] == "REGRESSION"
    ttfp = document["primaries"][0]
    assert ttfp["metric"] == "ttfp_ms" and ttfp["verdict"] == "REGRESSION" and ttfp["pairs"] == 5
    assert ttfp["interval"][0] < ttfp["change"] < ttfp["interval"][1]
    assert document["used_pairs"] == [1, 2, 3, 4, 5] and document["before"]["sources"][0] == "before/0"
    assert document["accuracy"]["cross_talk_after"] == 0 and document["accuracy"]["parity_after"] is None
    assert {cell["mark"] for cell in document["cells"]} == {"worse"}


def test_single_runs_and_missing_values_are_null(make):
    document = to_document(compare_runs([make.view(judge=False)], [make.view(judge=False, started=1)]))
    assert document["outcome"] == "ADVISORY" and document["gives_verdicts"] is False
    assert {primary["verdict"] for primary in document["primaries"]} == {None}
    assert document["accuracy"]["wer"] is document["accuracy"]["flags"] is document["accuracy"]["wer_before"] is None


def test_what_does_not_fit_is_named(make):
    document = to_document(compare_runs([make.view()], [make.view(started=1)]))
    with pytest.raises(StoreError, match=r"\$\.outcome.*'GREAT' is not one of"):
        validate_comparison({**document, "outcome": "GREAT"})
