"""The tables of the history, their version, and how a database file is opened.

SQLite, from Python's standard library: any number of processes may write to one file (each waits for its turn), a file
written today can be read in ten years, and nothing has to be installed. DuckDB would be quicker over millions of rows;
it lets only one process open a file for writing, and a history has a few thousand rows a year. The
rollback journal stays on (no WAL), which also works on network file systems that have locks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from omni_bench.errors import StoreError
from omni_bench.nightly.history.rows import code_reasons, link_reruns
from omni_bench.terminal import say_aside

T = TypeVar("T")
VERSION = 4
APPLICATION_ID = 0x6F6D6E69  # "omni": tells the file from other SQLite databases
LOCK_WAIT_S = 60.0
SAY_AFTER_S = 1.0
"""How long the lock is waited for before that is said."""

TABLES = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    role TEXT NOT NULL,
    scenario TEXT NOT NULL,
    series TEXT NOT NULL,
    target TEXT NOT NULL,
    hardware TEXT NOT NULL,
    target_commit TEXT,
    harness_commit TEXT,
    started_utc TEXT,
    added_utc TEXT NOT NULL,
    valid INTEGER NOT NULL,
    reasons TEXT NOT NULL,
    keys TEXT NOT NULL,
    settings TEXT NOT NULL,
    versions TEXT NOT NULL,
    command TEXT NOT NULL,
    faults TEXT NOT NULL,
    source TEXT NOT NULL,
    pinned_id TEXT REFERENCES runs (run_id),
    replaced_by TEXT REFERENCES runs (run_id),
    rerun_id TEXT REFERENCES runs (run_id)
);
CREATE INDEX runs_by_series ON runs (series, started_utc);
CREATE TABLE levels (
    run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    load TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    arrival TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failed INTEGER,
    faulty INTEGER,
    valid INTEGER NOT NULL,
    reasons TEXT NOT NULL,
    accuracy TEXT,
    cross_talk TEXT,
    parity TEXT,
    PRIMARY KEY (run_id, load)
);
CREATE TABLE figures (
    run_id TEXT NOT NULL,
    load TEXT NOT NULL,
    metric TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT,
    n INTEGER NOT NULL,
    mean REAL,
    std REAL,
    p50 REAL,
    p90 REAL,
    p95 REAL,
    p99 REAL,
    PRIMARY KEY (run_id, load, metric),
    FOREIGN KEY (run_id, load) REFERENCES levels (run_id, load) ON DELETE CASCADE
);
CREATE TABLE alarms (
    series TEXT NOT NULL,
    metric TEXT NOT NULL,
    load TEXT NOT NULL,
    kind TEXT NOT NULL,
    onset_run TEXT NOT NULL REFERENCES runs (run_id),
    raised_by TEXT NOT NULL REFERENCES runs (run_id),
    change REAL NOT NULL,
    PRIMARY KEY (raised_by, metric, load)
);
CREATE TABLE verdicts (
    run_id TEXT PRIMARY KEY REFERENCES runs (run_id),
    judged_utc TEXT NOT NULL,
    outcome TEXT NOT NULL,
    exit_code INTEGER NOT NULL
);
CREATE TABLE baselines (
    baseline_id INTEGER PRIMARY KEY AUTOINCREMENT,
    series TEXT NOT NULL,
    set_utc TEXT NOT NULL,
    note TEXT NOT NULL
);
CREATE TABLE baseline_runs (
    baseline_id INTEGER NOT NULL REFERENCES baselines (baseline_id),
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    PRIMARY KEY (baseline_id, run_id)
);
CREATE TABLE named_by (
    defaults TEXT NOT NULL
);
"""

MIGRATIONS: dict[int, Callable[[sqlite3.Connection], object]] = {
    1: lambda connection: connection.execute("CREATE TABLE named_by (defaults TEXT NOT NULL)"),
    2: code_reasons,
    3: link_reruns,
}
"""What makes version n + 1 out of version n, by n."""


def connect(path: Path | None) -> sqlite3.Connection:
    """Open a history, making it if it is not there; None: in memory.

    Raises StoreError for a file that is no history, one of a newer version, or one that cannot be opened.
    """
    where = str(path) if path is not None else "the history"
    if path is not None and path.is_dir():
        raise StoreError(f"cannot open {where}: it is a folder; name a file, such as {path / 'history.sqlite'}")
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path if path is not None else ":memory:", timeout=LOCK_WAIT_S)
    except OSError as error:
        raise StoreError(f"cannot open {where}: {(error.strerror or str(error)).lower()}") from error
    except sqlite3.Error as error:
        raise StoreError(f"cannot open {where}: {error}") from error
    try:
        connection.isolation_level = None  # transactions are started by hand, as writers
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        _prepare(connection, where)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"{where} cannot be used as a history: {error}; is it a database of omni-bench?") from error
    except ValueError as error:
        connection.close()
        raise StoreError(f"{where} is damaged: its reasons are no JSON: {error}") from error
    except StoreError:
        connection.close()
        raise
    return connection


def begin_writing(connection: sqlite3.Connection, where: str) -> None:
    """BEGIN IMMEDIATE; says that it waits if another process has the lock. Raises sqlite3.Error."""
    _patiently(connection, where, lambda: connection.execute("BEGIN IMMEDIATE"))


def _patiently(connection: sqlite3.Connection, where: str, act: Callable[[], T]) -> T:
    """What ``act`` gives, which may have to wait for another process; says so. Raises sqlite3.Error."""
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * SAY_AFTER_S)}")
    try:
        return act()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:  # the low byte of an extended code is the plain one
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * LOCK_WAIT_S)}")
    say_aside(f"waiting for the lock of {where}: another process writes to it (for {LOCK_WAIT_S:g} s at most)")
    return act()


def _prepare(connection: sqlite3.Connection, where: str) -> None:
    """Make the tables of a new file, migrate an old one, refuse a newer or foreign one."""
    version = _patiently(connection, where, lambda: _pragma(connection, "user_version"))
    if version == VERSION and _pragma(connection, "application_id") == APPLICATION_ID:
        return
    begin_writing(connection, where)  # another process may be making the same file
    try:
        version, application = _pragma(connection, "user_version"), _pragma(connection, "application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application != APPLICATION_ID and (tables or version):
            raise StoreError(f"{where} is a database of something else, not a history of omni-bench")
        if version > VERSION:
            raise StoreError(
                f"{where} has version {version}; this omni-bench knows versions up to {VERSION}: "
                "use the omni-bench that wrote it, or a newer one"
            )
        if application == APPLICATION_ID:
            for number in range(version, VERSION):
                MIGRATIONS[number](connection)
        else:
            for statement in filter(str.strip, TABLES.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
