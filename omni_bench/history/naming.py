"""Series keep the name that this omni-bench gives them, whichever version wrote the file.

The name is a hash without what is at its default (:func:`omni_bench.history.records.series_id`). It would change with
how it is made; and where a default has changed, runs made with the old one and with the new one would share it.
So every file says by which defaults its series are named, and is named anew by another omni-bench.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from omni_bench.compare.keys import schema_defaults
from omni_bench.errors import StoreError
from omni_bench.history.records import content_hash, series_id


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
