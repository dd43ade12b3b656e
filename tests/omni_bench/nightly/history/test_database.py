"""Runs in, series, alarms and baselines out."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import night_factory as made
import pytest
from reasons import because

from omni_bench.errors import ConfigError, StoreError
from omni_bench.nightly.history.database import History, HistoryAlarm
from omni_bench.nightly.history.records import Role
from omni_bench.records.invalid_reason import Code


def test_a_run_comes_back_as_it_went_in(tmp_path):
    path = tmp_path / "history.sqlite"
    run = made.night(1, concurrencies=(1, 4), hits=1, mismatches=2, faults=("reference.fault=slow_8",))
    with made.history_of([run], path):
        pass
    with History(path) as history:
        assert history.run(run.run_id) == run


def test_adding_again_changes_nothing():
    run = made.night(1)
    with History(None) as history:
        assert history.add(run) is True
        assert history.add(replace(run, source="elsewhere")) is False
        assert history.nights(run.series) == [run]


def test_a_run_has_one_role():
    run = made.night(1)
    with made.history_of([run]) as history, pytest.raises(ConfigError, match="as a night run and cannot be a pinned"):
        history.add(replace(run, role=Role.PINNED))


def test_another_version_of_the_same_run_is_refused():
    run = made.night(1)
    judged_again = replace(run, run_id="f" * 64, reasons=(because(Code.WER),), valid=False)
    with made.history_of([run]) as history:
        with pytest.raises(ConfigError, match="another version"):
            history.add(judged_again)
        other = replace(made.night(1, slower=1.5), run_id="e" * 64)
        assert history.add(other), "two runs may start in the same second"


def test_nights_are_in_order_of_time_and_of_one_series():
    runs = made.nights(3)
    other = made.night(2, keys={"judge.name": "base"})
    with made.history_of([runs[2], other, runs[0], runs[1]]) as history:
        assert history.nights(runs[0].series) == runs
        assert history.nights(runs[0].series, until=runs[2]) == runs[:2]
        assert history.nights(other.series) == [other]


def test_reruns_and_pinned_runs_are_no_nights():
    night = made.night(1)
    rerun, pinned = made.night(1, role=Role.RERUN, hour=1), made.night(1, role=Role.PINNED, hour=2)
    with made.history_of([night, rerun, pinned]) as history:
        history.record_verdict(night, "PASS", 0, [], pinned=pinned)
        assert history.nights(night.series) == [night]
        assert history.pinned(night.series) == {night.run_id: pinned}


def test_a_replaced_night_has_the_figures_of_the_second_run():
    night, rerun = made.night(1, slower=1.5), made.night(1, role=Role.RERUN, hour=1)
    with made.history_of([night, rerun]) as history:
        history.record_verdict(night, "PASS", 0, [], rerun=rerun, replaced=True)
        (stored,) = history.nights(night.series)
        assert stored.run_id == night.run_id and stored.levels == rerun.levels
        assert history.run(night.run_id) == night, "what was measured stays"


def test_a_verdict_replaces_the_one_before():
    runs = made.nights(3)
    alarm = HistoryAlarm("rtf", "c = 1", "acute", runs[1].run_id, runs[1].run_id, 0.08)
    series = runs[0].series
    with made.history_of(runs) as history:
        history.record_verdict(runs[1], "REGRESSION", 1, [alarm])
        assert history.alarms(series) == history.alarms(series, until=runs[2]) == [alarm]
        assert history.alarms(series, until=runs[1]) == [], "a night is not judged by its own alarm"
        history.record_verdict(runs[1], "PASS", 0, [])
        assert history.alarms(series) == [] and history.verdicts(series) == {runs[1].run_id: "PASS"}


def test_baselines_keep_their_runs_and_those_before_them():
    runs = made.nights(4)
    with made.history_of(runs) as history:
        assert history.baseline(runs[0].series) is None
        history.set_baseline([run.run_id for run in runs[:2]], "first")
        (second,) = history.set_baseline([runs[3].run_id, runs[2].run_id], "second")
        assert second.runs == (runs[2], runs[3]) and history.baseline(runs[0].series) == second
        assert [one.note for one in history.baselines(runs[0].series)] == ["first", "second"]


def test_a_baseline_is_of_valid_nights_alone():
    broken = made.night(1, reasons=(because(Code.INTERRUPTED),))
    rerun = made.night(2, role=Role.RERUN)
    good = made.night(3)
    with made.history_of([broken, rerun, good]) as history:
        for bad, why in ((broken, "invalid"), (rerun, "a rerun run")):
            with pytest.raises(ConfigError, match=why):
                history.set_baseline([good.run_id, bad.run_id])
        with pytest.raises(StoreError, match="no run"):
            history.set_baseline(["0" * 64])
        assert history.baseline(good.series) is None, "a refused baseline leaves nothing behind"


def test_series_and_scenarios():
    old, new = made.night(1), made.night(9, scenario="smoke")
    with made.history_of([old, new]) as history:
        assert history.series() == [new.series, old.series]
        assert history.series("qwen3_tts") == [old.series] and history.series("no") == []
        assert history.scenarios() == ["qwen3_tts", "smoke"]


WRITER = """
import sys
from pathlib import Path
sys.path.append(sys.argv[1])
import night_factory as made
from omni_bench.nightly.history.database import History
for number in range(int(sys.argv[3]), int(sys.argv[3]) + 12):
    with History(Path(sys.argv[2])) as history:
        history.add(made.night(number)); history.add(made.night(1))
"""


def test_several_processes_may_write_at_once(tmp_path):
    path = tmp_path / "history.sqlite"
    factory = Path(made.__file__).parent
    command = [sys.executable, "-c", WRITER, str(factory), str(path)]
    writers = [subprocess.Popen([*command, str(start)], stderr=subprocess.PIPE) for start in (100, 200, 300)]
    errors = [writer.communicate()[1].decode() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], errors
    with History(path) as history:
        assert len(history.nights(made.night(1).series)) == 37


def test_a_damaged_history_is_an_error_with_its_path(tmp_path):
    path = tmp_path / "history.sqlite"
    run = made.night(1)
    with made.history_of([run], path) as history:
        with sqlite3.connect(path) as connection:
            connection.execute("DROP TABLE figures")
        with pytest.raises(StoreError, match="cannot read the history"):
            history.run(run.run_id)
        with pytest.raises(StoreError, match="cannot write to the history"):
            history.add(made.night(2))
        assert [row["run_id"] for row in history._read("SELECT run_id FROM runs")] == [run.run_id]


@pytest.mark.parametrize(
    "damage",
    [
        "runs SET reasons = '[1]'",
        "runs SET keys = '[1]'",
        "runs SET keys = 'x'",
        "runs SET settings = '[1]'",
        "runs SET faults = '{}'",
        "runs SET started_utc = 'soon'",
        "runs SET started_utc = '2026-01-01T00:00:00'",
        "levels SET reasons = '[{}]'",
        "levels SET accuracy = '[1]'",
        "runs SET run_id = x'00ff'",
        "runs SET started_utc = x'00ff'",
        "figures SET mean = 'fast'",
        "figures SET p50 = x'00'",
    ],
)
def test_a_damaged_row_is_an_error_that_says_what_to_do(tmp_path, damage):
    with made.history_of([made.night(1)], tmp_path / "history.sqlite") as history:
        with sqlite3.connect(history.path) as connection:
            connection.execute(f"UPDATE {damage}")
        with pytest.raises(StoreError, match=r"history\.sqlite is damaged .* make it anew: history add"):
            history.nights(made.night(1).series)


def test_what_sqlite_cannot_hold_is_kept_and_found_as_its_escape():
    run = made.night(1, scenario="a\udcff")
    with made.history_of([run]) as history:
        assert history.series("a\udcff") == [run.series]
        history.set_baseline([run.run_id], "note \udcff")
        assert history.baseline(run.series).note == "note \\udcff"
