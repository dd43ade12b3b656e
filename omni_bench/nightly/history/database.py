"""The history: runs in, series, alarms and baselines out. Every method is one transaction and raises StoreError."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from omni_bench.errors import ConfigError, StoreError, shorten
from omni_bench.nightly.history import schema
from omni_bench.nightly.history.records import Role, StoredLevel, StoredRun
from omni_bench.nightly.history.rows import (
    FIGURES,
    in_place,
    insert_row,
    insert_run,
    is_named,
    name_series,
    now_utc,
    run_of,
    storable,
    stored_level,
    timing,
)

NUMBERS = frozenset(
    (*FIGURES, "n", "change", "exit_code", "valid", "position", "concurrency", "requests", "failed", "faulty")
)
"""Columns of numbers; SQLite itself takes anything in any column."""


@dataclass(frozen=True)
class HistoryAlarm:
    """A change that was alarmed once. ``onset_run``: the first night of it; ``raised_by``: the night that alarmed.

    ``kind``: acute, drift, or joined (another series of the same change). ``change``: as a fraction.
    """

    metric: str
    load: str
    kind: str
    onset_run: str
    raised_by: str
    change: float


@dataclass(frozen=True)
class Baseline:
    """What someone declared to be normal: the runs it comes from, oldest first. ``note``: in their words."""

    series: str
    set_utc: str
    note: str
    runs: tuple[StoredRun, ...]


class History:
    """One database file, open; close it, or use it in a ``with``. ``path`` None: in memory."""

    def __init__(self, path: Path | None):
        self.path = path
        self._connection = schema.connect(path)
        try:
            self._name_series()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; more than once is fine."""
        self._connection.close()

    def add(self, run: StoredRun) -> bool:
        """Keep a run; False if it is there already, which changes nothing.

        Raises ConfigError if it is there in another role, or if it is another version (judged again, for
        instance) of a run that is there: a night counts once.
        """
        with self._writing() as connection:
            row = connection.execute("SELECT role FROM runs WHERE run_id = ?", (run.run_id,)).fetchone()
            if row is not None:
                if row["role"] != run.role:
                    raise ConfigError(
                        f"{run.source} is in the history as a {row['role']} run and cannot be a {run.role} run too"
                    )
                return False
            self._refuse_other_version(run)
            insert_run(connection, run)
        return True

    def _refuse_other_version(self, run: StoredRun) -> None:
        rows = self._read("SELECT run_id FROM runs WHERE series = ? AND started_utc = ?", (run.series, run.started_utc))
        for row in rows:
            other = self.run(row["run_id"])
            if timing(other) == timing(run):
                raise ConfigError(
                    f"{run.source} is another version (judged or reported again?) of a run that is in the history, "
                    f"{other.source} of {other.started_utc}; a night counts once"
                )

    def _name_series(self) -> None:
        """See :mod:`omni_bench.nightly.history.rows`; most files need nothing, and are not written to."""
        if is_named(self._connection):
            return
        with self._writing() as connection:
            if not is_named(connection):  # another process may have been quicker
                name_series(connection)

    def run(self, run_id: str) -> StoredRun:
        """The run with this id. Raises StoreError if it is not there."""
        found = self._runs("run_id = ?", (run_id,))
        if not found:
            raise StoreError(f"the history has no run {run_id[:12]}")
        return found[0]

    def nights(self, series: str, *, until: StoredRun | None = None) -> list[StoredRun]:
        """The nights of a series by time; those before ``until`` only, which may or may not be in the history.

        A night that was not reproduced has the figures of the run that took its place.
        """
        nights = self._runs("series = ? AND role = ?", (series, Role.NIGHT.value))
        if until is not None:
            before = (until.started_utc or "", until.run_id)
            nights = [night for night in nights if (night.started_utc or "", night.run_id) < before]
        taken = self._column("replaced_by", series)
        return [in_place(night, self.run(taken[night.run_id])) if night.run_id in taken else night for night in nights]

    def pinned(self, series: str) -> dict[str, StoredRun]:
        """Night -> the pinned reference run of that night."""
        return {night: self.run(run_id) for night, run_id in self._column("pinned_id", series).items()}

    def rerun(self, night: StoredRun) -> StoredRun | None:
        """The second run that a night was judged with; None if there was none."""
        run_id = self._column("rerun_id", night.series).get(night.run_id)
        return None if run_id is None else self.run(run_id)

    def series(self, scenario: str | None = None) -> list[str]:
        """The series that have nights, the one with the newest first; those of a scenario only."""
        rows = self._read(
            "SELECT series FROM runs WHERE role = ? AND (? IS NULL OR scenario = ?) "
            "GROUP BY series ORDER BY max(coalesce(started_utc, added_utc)) DESC, series",
            (Role.NIGHT.value, scenario, scenario),
        )
        return [row["series"] for row in rows]

    def newest(self) -> list[tuple[StoredRun, int]]:
        """The last night of every series, and how many nights it has."""
        rows = self._read(
            "SELECT series, count(*) AS nights FROM runs WHERE role = ? GROUP BY series", (Role.NIGHT.value,)
        )
        found = []
        for row in rows:
            last = self._runs(
                "run_id = (SELECT run_id FROM runs WHERE series = ? AND role = ? "
                "ORDER BY coalesce(started_utc, '') DESC, run_id DESC LIMIT 1)",
                (row["series"], Role.NIGHT.value),
            )
            found.append((last[0], row["nights"]))
        return found

    def scenarios(self) -> list[str]:
        """The scenarios in the history."""
        rows = self._read("SELECT DISTINCT scenario FROM runs ORDER BY scenario")
        return [row["scenario"] for row in rows]

    def alarms(self, series: str, *, until: StoredRun | None = None) -> list[HistoryAlarm]:
        """What was alarmed in a series, in order of time; only by nights before ``until``, if it is given."""
        rows = self._read(
            "SELECT alarms.* FROM alarms JOIN runs ON runs.run_id = alarms.raised_by WHERE alarms.series = ? "
            "AND (? IS NULL OR (coalesce(runs.started_utc, ''), runs.run_id) < (coalesce(?, ''), ?)) "
            "ORDER BY runs.started_utc, runs.run_id, alarms.metric, alarms.load",
            (series, until and until.run_id, until and until.started_utc, until and until.run_id),
        )
        names = ("metric", "load", "kind", "onset_run", "raised_by", "change")
        return [HistoryAlarm(**{name: row[name] for name in names}) for row in rows]

    def record_verdict(
        self,
        run: StoredRun,
        outcome: str,
        exit_code: int,
        alarms: Sequence[HistoryAlarm],
        *,
        pinned: StoredRun | None = None,
        rerun: StoredRun | None = None,
        replaced: bool = False,
    ) -> None:
        """Keep how a night was judged, in place of an earlier judgement of it.

        ``rerun``: the second run it was judged with; None keeps an earlier one. ``replaced``: it stands for the night.
        """
        again = None if rerun is None else rerun.run_id
        with self._writing() as connection:
            connection.execute(
                "UPDATE runs SET pinned_id = ?, replaced_by = ?, rerun_id = coalesce(?, rerun_id) WHERE run_id = ?",
                (pinned and pinned.run_id, again if replaced else None, again, run.run_id),
            )
            connection.execute("DELETE FROM alarms WHERE raised_by = ?", (run.run_id,))
            connection.execute("DELETE FROM verdicts WHERE run_id = ?", (run.run_id,))
            for alarm in alarms:
                insert_row(connection, "alarms", {"series": run.series, **vars(alarm)})
            verdict = {"run_id": run.run_id, "judged_utc": now_utc(), "outcome": outcome, "exit_code": exit_code}
            insert_row(connection, "verdicts", verdict)

    def verdicts(self, series: str) -> dict[str, str]:
        """Night -> the outcome of its judgement."""
        rows = self._read(
            "SELECT verdicts.run_id, outcome FROM verdicts JOIN runs USING (run_id) WHERE series = ?", (series,)
        )
        return {row["run_id"]: row["outcome"] for row in rows}

    def set_baseline(self, run_ids: Sequence[str], note: str = "") -> list[Baseline]:
        """Declare these nights to be normal, one baseline a series; what was before them is not judged by any more.

        Raises ConfigError for a run that is invalid, advisory, not a night, or not in the history.
        """
        by_series: dict[str, list[StoredRun]] = {}
        with self._writing() as connection:
            for run_id in dict.fromkeys(run_ids):
                run = self.run(run_id)
                if run.role is not Role.NIGHT or not run.valid or run.advisory:
                    reason = run.advisory or (f"a {run.role} run" if run.role is not Role.NIGHT else "invalid")
                    raise ConfigError(f"{run.source} cannot be part of a baseline: it is {reason}")
                by_series.setdefault(run.series, []).append(run)
            for series, runs in by_series.items():
                now = now_utc()
                cursor = connection.execute(
                    "INSERT INTO baselines (series, set_utc, note) VALUES (?, ?, ?)", storable((series, now, note))
                )
                for run in runs:
                    insert_row(connection, "baseline_runs", {"baseline_id": cursor.lastrowid, "run_id": run.run_id})
        found = [self.baseline(series) for series in by_series]
        return [baseline for baseline in found if baseline is not None]

    def baseline(self, series: str) -> Baseline | None:
        """The baseline that was set last, None if there is none."""
        found = self.baselines(series)
        return found[-1] if found else None

    def baselines(self, series: str) -> list[Baseline]:
        """Every baseline that was ever set for a series, in that order."""
        rows = self._read("SELECT * FROM baselines WHERE series = ? ORDER BY baseline_id", (series,))
        return [
            Baseline(
                series,
                row["set_utc"],
                row["note"],
                tuple(
                    self._runs(
                        "run_id IN (SELECT run_id FROM baseline_runs WHERE baseline_id = ?)", (row["baseline_id"],)
                    )
                ),
            )
            for row in rows
        ]

    def _read(self, query: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        try:
            rows = self._connection.execute(query, storable(parameters)).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"cannot read the history {self.path}: {error}") from error
        for row in rows:
            for name, value in zip(row.keys(), row, strict=True):
                number = name in NUMBERS and not isinstance(value, (int, float, type(None)))
                if isinstance(value, bytes) or number:
                    raise self._damaged(f"{name} is {shorten(repr(value), 40)}")
        return rows

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"the history {self.path} is damaged ({what}); make it anew: history add RUN...")

    def _column(self, name: str, series: str) -> dict[str, str]:
        rows = self._read(
            f"SELECT run_id, {name} AS other FROM runs WHERE series = ? AND {name} IS NOT NULL", (series,)
        )
        return {row["run_id"]: row["other"] for row in rows}

    def _runs(self, where: str, parameters: Sequence[Any]) -> list[StoredRun]:
        order = "ORDER BY coalesce(started_utc, ''), run_id"
        rows = self._read(f"SELECT * FROM runs WHERE {where} {order}", parameters)
        if not rows:
            return []
        inside = f"run_id IN (SELECT run_id FROM runs WHERE {where})"
        figures: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
        for row in self._read(f"SELECT * FROM figures WHERE {inside}", parameters):
            summary = {name: row[name] for name in ("unit", "better", "n", *FIGURES)}
            figures.setdefault((row["run_id"], row["load"]), {})[row["metric"]] = summary
        levels: dict[str, list[StoredLevel]] = {}
        stored = self._read(f"SELECT * FROM levels WHERE {inside} ORDER BY position", parameters)
        try:
            for row in stored:
                level = stored_level(row, figures.get((row["run_id"], row["load"]), {}))
                levels.setdefault(row["run_id"], []).append(level)
            return [run_of(row, levels.get(row["run_id"], [])) for row in rows]
        except (ValueError, TypeError, RecursionError, StoreError) as error:
            raise self._damaged(str(error)) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the file's write lock from its start, so that what it read stays true."""
        try:
            schema.begin_writing(self._connection, str(self.path))
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StoreError(f"cannot write to the history {self.path}: {error}") from error
