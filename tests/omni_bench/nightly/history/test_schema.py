"""Opening a history: new, old, newer, foreign, damaged."""

from __future__ import annotations

import sqlite3

import night_factory as made
import pytest

from omni_bench.errors import StoreError
from omni_bench.nightly.history import schema
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.records import Role


def pragma(path, name):
    with sqlite3.connect(path) as connection:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_new_file_gets_its_version_and_can_be_opened_again(tmp_path):
    path = tmp_path / "new" / "history.sqlite"
    schema.connect(path).close()
    schema.connect(path).close()
    assert pragma(path, "user_version") == schema.VERSION
    assert pragma(path, "application_id") == schema.APPLICATION_ID


def test_a_newer_file_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "history.sqlite"
    schema.connect(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"version {schema.VERSION + 1}; this omni-bench knows versions up to"):
        schema.connect(path)
    assert path.read_bytes() == before


def test_a_file_of_an_older_version_is_migrated(tmp_path, monkeypatch):
    path = tmp_path / "history.sqlite"
    schema.connect(path).close()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 2)
    first = schema.VERSION - 2
    steps = {
        first: lambda database: database.execute("ALTER TABLE runs ADD COLUMN mood TEXT"),
        first + 1: lambda database: database.execute("CREATE TABLE moods (mood TEXT)"),
    }
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    connection = schema.connect(path)
    assert connection.execute("SELECT mood FROM runs").fetchall() == []
    assert connection.execute("SELECT mood FROM moods").fetchall() == []
    connection.close()
    assert pragma(path, "user_version") == schema.VERSION


def test_a_migration_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "history.sqlite"
    schema.connect(path).close()
    version = schema.VERSION
    monkeypatch.setattr(schema, "VERSION", version + 1)

    def fail(database):
        database.execute("CREATE TABLE moods (mood TEXT)")
        database.execute("DROP TABLE nothing")

    monkeypatch.setattr(schema, "MIGRATIONS", {version: fail})
    with pytest.raises(StoreError, match="nothing"):
        schema.connect(path)
    assert pragma(path, "user_version") == version
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.OperationalError, match="no such table"):
        connection.execute("SELECT * FROM moods")


def test_a_file_of_version_3_learns_which_second_run_is_of_which_night(tmp_path):
    path = tmp_path / "history.sqlite"
    nights = [made.night(number) for number in (1, 2)]
    rerun = made.night(2, role=Role.RERUN, hour=1)
    made.history_of([*nights, rerun], path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE runs DROP COLUMN rerun_id")
        connection.execute("PRAGMA user_version = 3")
    with History(path) as history:
        assert [history.rerun(night) for night in nights] == [None, rerun]


def test_every_version_has_its_migration():
    assert sorted(schema.MIGRATIONS) == list(range(1, schema.VERSION))


def test_a_database_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(StoreError, match="something else"):
        schema.connect(path)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "history.sqlite"
    path.write_text("not a database, and long enough to be looked at as one" * 50)
    with pytest.raises(StoreError, match="cannot be used as a history"):
        schema.connect(path)
    assert path.read_text().startswith("not a database")


def test_a_folder_is_no_history(tmp_path):
    with pytest.raises(StoreError, match="cannot open"):
        schema.connect(tmp_path)
