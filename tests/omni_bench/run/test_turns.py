"""Two runs whose levels take turns: their order, what each is then, and what is left where one breaks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from omni_bench.errors import AccuracyError, StoreError, TargetError
from omni_bench.records.invalid_reason import Code, own_reasons
from omni_bench.records.run_folder import RunFolder
from omni_bench.run import load_phase, orchestrate, results
from omni_bench.run.orchestrate import run, run_in_turns
from omni_bench.run.progress import PartOf
from omni_bench.run.turns import Part
from omni_bench.targets.kept import KeptTarget


@pytest.fixture
def parts(config, tmp_path, target) -> list[Part]:
    """Two runs with two levels each; ``target`` is that of the second."""
    config.load = replace(config.load, concurrency=[1, 2], requests_per_level=4, warmup_per_slot=1)
    first = type(target)()
    first.base_url = "http://127.0.0.1:2"
    return [
        Part(config, tmp_path / name, ("omni-bench",), PartOf(name, 0, 2, lambda: "", name), server)
        for name, server in (("first", first), ("second", target))
    ]


def abba(turn: int) -> list[int]:
    return [0, 1] if turn % 2 == 0 else [1, 0]


def test_levels_take_turns_and_each_run_is_an_ordinary_one(parts, config, tmp_path, load, judge, capsys):
    ended = run_in_turns(parts, abba)
    assert [(url[-1], level) for url, level in zip(load.urls, load.levels, strict=True)] == [
        *[("2", 1), ("1", 1)],
        *[("1", 2), ("2", 2)],
    ]
    assert [part.target.started for part in parts] == [1, 1]
    alone = run(config, tmp_path / "alone", quiet=True).run
    for part, document in zip(parts, ended, strict=True):
        assert document["valid"] and RunFolder.open(part.folder).read_run()["levels"] == document["levels"]
        assert document["levels"] == alone["levels"]
        assert not (part.folder / ".spool").exists()
    assert "second: level 2/2, concurrency 2: requests 4/4" in capsys.readouterr().err


def test_a_server_that_stays_alive_is_not_said_to_be_started(parts, load, judge, capsys):
    run_in_turns([replace(part, target=KeptTarget(part.target)) for part in parts], abba)
    said = capsys.readouterr().err
    assert "the server at http://127.0.0.1:2 is alive and takes this run's load" in said
    assert "starting the target" not in said and "ready at" not in said


def test_a_run_does_not_last_while_others_have_their_turns(parts, load, judge, monkeypatch):
    clock = [0.0]
    for module in (orchestrate, results):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    real = load_phase.run_level

    def slow(plan: Any, **named: Any) -> Any:
        clock[0] += 10.0 if named["base_url"].endswith(":2") else 3.0
        return real(plan, **named)

    monkeypatch.setattr(load_phase, "run_level", slow)
    assert [document["duration_s"] for document in run_in_turns(parts, abba)] == [20.0, 6.0]


def test_where_one_breaks_both_end_and_what_they_measured_is_there(parts, target, load, judge):
    def die() -> None:
        target.alive = False

    load.after["c1-0003"] = lambda: load.after.update({"c1-0003": die})  # not in the first's level, but in the second's
    first, second = run_in_turns(parts, lambda turn: [0, 1])
    assert first is None and isinstance(second, TargetError) and "died during concurrency 1" in str(second)
    document = RunFolder.open(parts[0].folder).read_run()
    assert [level["completed"] for level in document["levels"]] == [4]
    assert [reason.code for reason in own_reasons(document)] == [Code.INTERRUPTED, Code.NOT_MEASURED]
    assert own_reasons(RunFolder.open(parts[1].folder).read_run())[0].code == Code.SERVER_BROKE
    assert load.levels == [1, 1] and judge.heard == []


def test_a_server_that_does_not_start_keeps_the_other_from_its_levels(parts, target, load, judge):
    target.start_error = TargetError("no such model")
    assert [type(one) for one in run_in_turns(parts, abba)] == [type(None), TargetError] and load.levels == []


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), StoreError("no space left"), AccuracyError("no judge")])
def test_an_interrupt_and_what_is_wrong_here_end_both(problem, parts, load, judge):
    if isinstance(problem, AccuracyError):
        judge.error = problem
    else:
        load.after["c1-0002"] = lambda: (_ for _ in ()).throw(problem)
    if isinstance(problem, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt, match=r"finished requests are in .*first"):
            run_in_turns(parts, abba)
    else:
        ended = run_in_turns(parts, abba)
        assert str(ended[0]) == str(problem) and ended[1] is None, "the second is not judged for nothing"
    assert all(not RunFolder.open(part.folder).read_run()["valid"] for part in parts)
