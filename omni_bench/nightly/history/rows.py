"""Rows of the database, as records and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from omni_bench.compare.keys import schema_defaults
from omni_bench.errors import StoreError
from omni_bench.nightly.history.records import StoredLevel, StoredRun, content_hash, series_id
from omni_bench.records.convert import structure
from omni_bench.records.invalid_reason import InvalidReason
from omni_bench.records.old_reasons import reasons_of_a_run, recognise

FIGURES = ("mean", "std", "p50", "p90", "p95", "p99")
LEVEL_FACTS = ("accuracy", "cross_talk", "parity")
RUN_DOCUMENTS = ("keys", "settings", "versions", "command", "faults")
LEVEL_COLUMNS = ("load", "concurrency", "arrival", "requests", "failed", "faulty")


def insert_row(connection: sqlite3.Connection, table: str, values: Mapping[str, Any]) -> None:
    """One row, by column."""
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", storable(values.values()))


def storable(values: Iterable[Any]) -> list[Any]:
    """``values`` for SQLite, which cannot hold a lone surrogate: in texts it becomes its escape."""
    return [one.encode("utf-8", "backslashreplace").decode() if isinstance(one, str) else one for one in values]


def insert_run(connection: sqlite3.Connection, run: StoredRun) -> None:
    """Write a run with its levels and figures."""
    values = {
        "run_id": run.run_id,
        "kind": run.kind,
        "role": run.role.value,
        "scenario": run.scenario,
        "series": run.series,
        "target": run.target,
        "hardware": run.hardware,
        "target_commit": run.versions.get("target.commit"),
        "harness_commit": run.versions.get("omni-bench.commit"),
        "started_utc": run.started_utc,
        "added_utc": now_utc(),
        "valid": int(run.valid),
        "source": run.source,
    }
    for name in RUN_DOCUMENTS:
        values[name] = json_column(getattr(run, name))
    values["reasons"] = reasons_to_json(run.reasons)
    insert_row(connection, "runs", values)
    for position, level in enumerate(run.levels):
        fields = {name: getattr(level, name) for name in LEVEL_COLUMNS}
        fields |= {name: json_column(getattr(level, name)) for name in LEVEL_FACTS}
        fields |= {
            "reasons": reasons_to_json(level.reasons),
            "run_id": run.run_id,
            "position": position,
            "valid": int(level.valid),
        }
        insert_row(connection, "levels", fields)
        for metric, summary in level.metrics.items():
            figures = {name: summary.get(name) for name in ("unit", "better", "n", *FIGURES)}
            key = {"run_id": run.run_id, "load": level.load, "metric": metric}
            insert_row(connection, "figures", key | figures)


def run_of(row: sqlite3.Row, levels: Sequence[StoredLevel]) -> StoredRun:
    """A row of ``runs`` with its levels. Raises ValueError, TypeError or StoreError for damaged columns."""
    stored = {name: json.loads(row[name]) for name in (*RUN_DOCUMENTS, "reasons")}
    run = structure({**dict(row), **stored, "valid": bool(row["valid"]), "levels": ()}, StoredRun, "a run")
    if run.started_utc is not None and datetime.fromisoformat(run.started_utc).tzinfo is None:
        raise ValueError(f"started_utc {run.started_utc!r} has no time zone")
    return replace(run, levels=tuple(levels))


def stored_level(row: sqlite3.Row, metrics: Mapping[str, Mapping[str, Any]]) -> StoredLevel:
    """A row of ``levels`` with its figures by metric. Raises as :func:`run_of` does."""
    stored = {name: row[name] and json.loads(row[name]) for name in (*LEVEL_FACTS, "reasons")}
    level = structure({**dict(row), **stored, "valid": bool(row["valid"]), "metrics": {}}, StoredLevel, "a level")
    return replace(level, metrics=metrics)


def in_place(night: StoredRun, rerun: StoredRun) -> StoredRun:
    """``night`` as an event, with the figures of ``rerun``."""
    return replace(night, levels=rerun.levels, valid=rerun.valid, reasons=rerun.reasons)


def timing(run: StoredRun) -> list[tuple[Any, ...]]:
    """Figures that no second judgement changes."""
    names = ("queue_ms", "ttfp_ms", "e2el_ms")
    return [(level.load, level.requests, *(level.figure(name, "mean") for name in names)) for level in run.levels]


def json_column(value: Any) -> str | None:
    """A value as the text of a column; None stays None."""
    return None if value is None else json.dumps(value, ensure_ascii=True, allow_nan=False, default=list)


def reasons_to_json(reasons: Iterable[InvalidReason]) -> str | None:
    """Reasons as the text of a column."""
    return json_column([reason.to_json() for reason in reasons])


def code_reasons(connection: sqlite3.Connection) -> None:
    """Give the reasons of a file before version 3, which were sentences, their codes; inside a transaction."""
    for row in connection.execute("SELECT run_id, reasons FROM runs").fetchall():
        levels = connection.execute("SELECT load, reasons FROM levels WHERE run_id = ?", (row["run_id"],)).fetchall()
        titles: dict[str, list[str]] = {}
        for level in levels:
            texts = json.loads(level["reasons"])
            titles |= {level["load"]: texts, level["load"].replace("c = ", "concurrency "): texts}
            connection.execute(
                "UPDATE levels SET reasons = ? WHERE run_id = ? AND load = ?",
                (reasons_to_json(map(recognise, texts)), row["run_id"], level["load"]),
            )
        found = reasons_of_a_run(json.loads(row["reasons"]), titles)
        connection.execute("UPDATE runs SET reasons = ? WHERE run_id = ?", (reasons_to_json(found), row["run_id"]))


def link_reruns(connection: sqlite3.Connection) -> None:
    """Say of a file before version 4 which second run is that of which night: the last within a day after it."""
    connection.execute("ALTER TABLE runs ADD COLUMN rerun_id TEXT REFERENCES runs (run_id)")
    connection.execute(
        "UPDATE runs SET rerun_id = coalesce(replaced_by, (SELECT run_id FROM runs AS other WHERE other.role = 'rerun' "
        "AND other.series = runs.series AND julianday(other.started_utc) - julianday(runs.started_utc) BETWEEN 0 AND 1 "
        "ORDER BY other.started_utc DESC LIMIT 1)) WHERE role = 'night'"
    )


def now_utc() -> str:
    """This moment, as run.json writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Series keep the name that this omni-bench gives them, whichever version wrote the file.


def is_named(connection: sqlite3.Connection) -> bool:
    """Whether the series of this file have the names that a run gets now."""
    row = connection.execute("SELECT 1 FROM named_by WHERE defaults = ?", (_defaults(),)).fetchone()
    return row is not None


def name_series(connection: sqlite3.Connection) -> None:
    """Name every run's series anew, and with them alarms and baselines; inside a transaction of the caller's.

    Raises StoreError for keys that cannot be read.
    """
    runs = connection.execute("SELECT run_id, scenario, target, keys FROM runs").fetchall()
    names = [(series_id(row["scenario"], row["target"], _keys(row)), row["run_id"]) for row in runs]
    connection.executemany("UPDATE runs SET series = ? WHERE run_id = ?", names)
    connection.execute("UPDATE alarms SET series = (SELECT series FROM runs WHERE run_id = alarms.raised_by)")
    connection.execute(
        "UPDATE baselines SET series = coalesce((SELECT runs.series FROM baseline_runs JOIN runs USING (run_id) "
        "WHERE baseline_runs.baseline_id = baselines.baseline_id ORDER BY run_id LIMIT 1), series)"
    )
    connection.execute("DELETE FROM named_by")
    connection.execute("INSERT INTO named_by (defaults) VALUES (?)", (_defaults(),))


def _keys(row: sqlite3.Row) -> dict[str, Any]:
    try:
        keys = json.loads(row["keys"])
    except ValueError:
        keys = None
    if not isinstance(keys, dict):
        raise StoreError(f"the history is damaged: the keys of run {row['run_id'][:12]} are no JSON object")
    return keys


def _defaults() -> str:
    return content_hash(dict(schema_defaults()))
