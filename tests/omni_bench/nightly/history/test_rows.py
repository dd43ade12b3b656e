"""Series of files that another version wrote, or that know other defaults."""

from __future__ import annotations

import sqlite3

import night_factory as made
import pytest

from omni_bench.compare.keys import schema_defaults
from omni_bench.errors import StoreError
from omni_bench.nightly.history import records
from omni_bench.nightly.history.database import History, HistoryAlarm


def as_version_1(path, old_name):
    """Make the file what the first version wrote, with series named in another way."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE named_by")
        connection.execute("ALTER TABLE runs DROP COLUMN rerun_id")
        for table in ("runs", "alarms", "baselines"):
            connection.execute(f"UPDATE {table} SET series = ?", (old_name,))
        connection.execute("PRAGMA user_version = 1")


def test_nights_baseline_and_alarms_of_an_older_file_go_on(tmp_path):
    path = tmp_path / "history.sqlite"
    nights = [made.night(number) for number in (1, 2, 3)]
    series = nights[0].series
    alarm = HistoryAlarm("rtf", "c = 1", "drift", nights[1].run_id, nights[2].run_id, 0.05)
    with made.history_of(nights, path) as history:
        history.set_baseline([nights[0].run_id], "as it was")
        history.record_verdict(nights[2], "REGRESSION", 1, [alarm])
    as_version_1(path, "8a1479bdff417348")
    for _ in range(2):
        with History(path) as history:
            assert history.nights(series) == nights
            assert history.baseline(series).runs == (nights[0],)
            assert history.alarms(series) == [alarm]
            assert history.series() == [series]


def test_runs_made_with_the_old_and_the_new_default_do_not_share_a_series(tmp_path, monkeypatch):
    path = tmp_path / "history.sqlite"
    old_default = made.night(1, keys={"load.burstiness": 1.0})
    with made.history_of([old_default], path):
        pass
    defaults = dict(schema_defaults()) | {"load.burstiness": 2.0}
    monkeypatch.setattr(records, "schema_defaults", lambda: defaults)
    monkeypatch.setattr("omni_bench.nightly.history.rows.schema_defaults", lambda: defaults)
    new_default = made.night(2, keys={"load.burstiness": 2.0})
    assert new_default.series == old_default.series, "each is at its time's default, which no name tells"
    with History(path) as history:
        history.add(new_default)
        assert [night.run_id for night in history.nights(new_default.series)] == [new_default.run_id]
        assert len(history.series()) == 2


def test_a_file_with_the_names_of_now_is_not_written_to(tmp_path):
    path = tmp_path / "history.sqlite"
    with made.history_of([made.night(1)], path):
        pass
    before = path.read_bytes()
    with History(path) as history:
        assert len(history.series()) == 1
    assert path.read_bytes() == before


def test_keys_that_cannot_be_read_are_said(tmp_path):
    path = tmp_path / "history.sqlite"
    with made.history_of([made.night(1)], path):
        pass
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM named_by")
        connection.execute("UPDATE runs SET keys = '{'")
    with pytest.raises(StoreError, match=r"keys of run .* are no JSON"):
        History(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM named_by").fetchone() == (0,)
