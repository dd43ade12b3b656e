"""The contract of run.json: its JSON schema and its version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from omni_bench.errors import StoreError, shorten
from omni_bench.records.config import RunConfig
from omni_bench.records.convert import structure

SCHEMA_VERSION = "2.3"
_READ = ("1", "2")
"""Major versions that can be read; a run of the first has to be upgraded before it fits the schema."""
_MAX_LISTED = 5
_LARGEST = 2**63 - 1
"""Of an integer that a history can keep: SQLite has 64 bits with a sign."""


@cache
def run_schema() -> dict[str, Any]:
    """The JSON schema of run.json (``omni_bench/records/run.schema.json``)."""
    return json.loads((resources.files("omni_bench.records") / "run.schema.json").read_text(encoding="utf-8"))


@cache
def _validator() -> Draft202012Validator:
    checker = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
    return extend(Draft202012Validator, type_checker=checker)(run_schema())


def _is_integer(_: object, value: object) -> bool:
    return type(value) is int and abs(value) <= _LARGEST


def _is_number(checker: object, value: object) -> bool:
    return isinstance(value, float) or _is_integer(checker, value)


def misfits(validator: Draft202012Validator, document: Mapping[str, Any]) -> str:
    """The first few places where a document does not fit its schema, with how many more there are; "" if it fits."""
    errors = sorted(validator.iter_errors(dict(document)), key=lambda error: [str(part) for part in error.path])
    listed = "; ".join(f"{error.json_path}: {shorten(error.message, 160)}" for error in errors[:_MAX_LISTED])
    return listed + (f"; and {len(errors) - _MAX_LISTED} more" if len(errors) > _MAX_LISTED else "")


def validate_run(run: object, where: str = "run.json") -> None:
    """Check a run dictionary, as built or as read; ``where`` begins the message.

    Raises StoreError if it has another major schema version (before anything else is
    looked at), or does not fit the schema, or the types of the configuration; the message names the first few places.
    Nor may levels be of two kinds.
    """
    if not isinstance(run, Mapping):
        raise StoreError(f"{where} is not a JSON object but {type(run).__name__}")
    version = run.get("schema_version")
    if not isinstance(version, str) or version.partition(".")[0] not in _READ:
        raise StoreError(
            f"{where} has schema_version {version!r}; this omni-bench reads {'.x and '.join(_READ)}.x; "
            "use the version of omni-bench that wrote the run"
        )
    if listed := misfits(_validator(), run):
        raise StoreError(f"{where} does not fit the schema of run.json {SCHEMA_VERSION}: {listed}")
    try:
        datetime.fromisoformat(run["started_utc"])
    except ValueError as error:
        raise StoreError(f"{where}: started_utc {run['started_utc']!r} is no time: {error}") from None
    if len({level.get("rate_hz") is None for level in run["levels"]}) > 1:
        raise StoreError(f"{where} has levels of request rates beside levels of concurrencies; a run has one kind")
    groups = {name: group for name, group in run["provenance"]["config"].items() if group is not None}
    structure(groups, RunConfig, f"{where}: provenance.config")
