"""A whole study with hand-made runs: extension, broken runs, and a kill at every point."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from fake_runner import FakeJudging

from omni_bench.compare.ab.order import BEFORE, RunState, pair_order
from omni_bench.compare.ab.state import Ending, StudyState, check_restart, claimed
from omni_bench.compare.ab.study import Study, verdict_of
from omni_bench.compare.ab.words import Restart
from omni_bench.compare.markdown import render_for_pull_request
from omni_bench.compare.result import Advisory, ComparisonOutcome
from omni_bench.compare.stats.verdicts import StudyPlan
from omni_bench.errors import AccuracyError, ComparabilityError, ConfigError, StoreError, TargetError
from omni_bench.records import files
from omni_bench.targets.base import TargetInfo
from omni_bench.targets.process import OutOfMemory
from omni_bench.targets.room import FreeMemory

RECORD = {"number": 1, "pair": 1, "attempt": 1, "arm": "before", "folder": "01-before", "state": "invalid"}
RECORD |= {"started_utc": "2026-11-28T00:00:00Z", "reasons": ["late"], "content": True}


class Killed(BaseException):
    """The process is gone: nothing after it happens."""


@pytest.fixture
def study(tmp_path, new_state):
    """A function that begins, or goes on with, the study in one folder; and what it said."""
    folder = tmp_path / "study"

    def begin(runner, state=None):
        if state is None:
            state = StudyState.read(folder) if (folder / "ab.json").is_file() else new_state()
        state.write(folder)
        said = []
        return Study(folder, state, runner, said.append), said

    return begin


def runs_of(result_study):
    return [(one.number, one.arm, one.state) for one in result_study.state.records]


def test_a_clear_change_stops_at_the_first_look(study, fake_runner):
    result = study(fake_runner(slower=(1.0, 1.5)))[0].go()
    assert result.ending == Ending("REGRESSION", 1) and result.comparison.look.number == 1
    assert result.comparison.alpha == pytest.approx(0.05 * 3 / 8, rel=0.02) and not result.comparison.advisory


def test_without_early_looks_it_stops_at_the_planned_pairs(study, fake_runner, new_state):
    runner = fake_runner(slower=(1.2, 1.0))
    one, said = study(runner, new_state(StudyPlan(early=False)))
    result = one.go()
    assert result.ending == Ending("IMPROVEMENT", 0)
    assert result.comparison.pairs == 5 and result.comparison.alpha == 0.025
    order = [arm for pair in range(1, 6) for arm in pair_order(pair, BEFORE)]
    assert [call.arm for call in runner.calls] == order
    assert [call.folder.name for call in runner.calls] == [f"{i:02d}-{arm}" for i, arm in enumerate(order, start=1)]
    looks = [line for line in said if line.startswith("after ")]
    assert len(looks) == 5 and looks[0].startswith("after 1 pair: TTFP -") and "[" in looks[1]
    assert not any("IMPROVEMENT" in line or "REGRESSION" in line for line in looks), "no verdict before the end"


def test_both_arms_of_a_pair_run_alike_and_levels_rotate(study, fake_runner, new_state):
    runner = fake_runner(slower=(1.2, 1.0))
    study(runner, new_state(StudyPlan(early=False)))[0].go()
    configs = [call.config for call in runner.calls]
    assert [config.load.rotate_levels for config in configs] == [0, 0, 1, 1, 0, 0, 1, 1, 0, 0]
    for first, second in zip(configs[::2], configs[1::2], strict=True):
        same = replace(second, target=first.target, reference=first.reference)
        assert asdict(first) == asdict(same), "prompts, seeds, load, judge: only the server differs"
        assert {first.reference.predictor, second.reference.predictor} == {"reprefill", "kv_cache"}
    assert {call.command[:2] for call in runner.calls} == {("omni-bench", "run")}


def test_a_regression_ends_with_1(study, fake_runner):
    assert study(fake_runner(slower=(1.0, 1.2)))[0].go().ending == Ending("REGRESSION", 1)


def test_inconclusive_is_extended_once(study, fake_runner):
    noisy = (0.0, 0.2, -0.15, 0.1, 0.3, -0.2, 0.05, 0.25, -0.1, 0.15, 0.02)
    runner = fake_runner(wobble=noisy)
    one, said = study(runner)
    result = one.go()
    assert result.comparison.pairs == 8 and len(runner.calls) == 16
    assert [line for line in said if "no verdict" in line] == [
        "no verdict after 3 pairs: on to 5",
        "no verdict after 5 pairs: on to 8",
    ]
    assert result.ending == Ending("INCONCLUSIVE", 2)


def test_without_an_extension_it_stops(study, fake_runner, new_state):
    noisy = (0.0, 0.2, -0.15, 0.1, 0.3, -0.2, 0.05)
    runner = fake_runner(wobble=noisy)
    result = study(runner, new_state(StudyPlan(5, None, early=False)))[0].go()
    assert len(runner.calls) == 10 and result.comparison.alpha == 0.05 and result.ending.exit_code == 2


def test_three_pairs_are_advisory_and_one_is_no_verdict(study, fake_runner, new_state):
    result = study(fake_runner(slower=(1.0, 1.3)), new_state(StudyPlan(3, None)))[0].go()
    assert list(result.comparison.advisory) == [Advisory.FEW_PAIRS] and result.ending == Ending("REGRESSION", 1)


def test_one_pair(study, fake_runner, new_state):
    result = study(fake_runner(), new_state(StudyPlan(1, None)))[0].go()
    assert result.ending == Ending("ADVISORY", 2) and verdict_of(result.comparison) is None


SHORT = StudyPlan(2, None)
"""Two pairs: four runs, each of which can be killed."""


@pytest.mark.parametrize("number", range(1, 5))
def test_a_kill_in_a_run_costs_that_run_alone(number, study, fake_runner, new_state):
    """kill -9 while run ``number`` goes on."""

    def kill(folder):
        folder.mkdir(parents=True)
        (folder / "requests.jsonl").write_text('{"cut')
        raise Killed

    runner = fake_runner(ends={number: kill})
    with pytest.raises(Killed):
        study(runner, new_state(SHORT))[0].go()
    again, _ = study(runner)
    result = again.go()
    assert len(runner.calls) == 5 and result.comparison.used == (0, 1)
    states = [one.state for one in again.state.records]
    assert states.count(RunState.INTERRUPTED) == 1 and states[number - 1] is RunState.INTERRUPTED
    left = sorted(path.name for path in (again.folder / "runs").iterdir())
    assert f"{number:02d}-{runner.calls[number - 1].arm}.interrupted" in left and len(left) == 5
    assert any(f"resumed before run {number + 1}." in note for note in result.comparison.notes)


@pytest.mark.parametrize("write", range(1, 11))
def test_a_kill_at_any_write_of_the_state_loses_nothing(write, study, fake_runner, new_state, monkeypatch):
    """The state on disk is that before or after the write; the runs on disk are as they were."""
    runner = fake_runner()
    one, _ = study(runner, new_state(SHORT))
    writes = iter(range(1, 1000))
    real = files.write_atomically

    def die(path, function):
        if path.name == "ab.json" and next(writes) == write:
            raise Killed
        real(path, function)

    with monkeypatch.context() as patched:
        patched.setattr("omni_bench.records.files.write_atomically", die)
        try:
            one.go()
        except Killed:
            assert write <= 9
        else:
            assert write == 10, "four runs are eight writes, the ending is one more"
    again, _ = study(runner)
    result = again.go()
    assert result.ending.outcome is not None and result.comparison.used == (0, 1)
    assert len(runner.calls) == 4, "a run that was whole is not made again"


def test_a_kill_while_the_folder_is_put_aside(study, fake_runner, monkeypatch):
    runner = fake_runner(slower=(1.2, 1.0), ends={3: KeyboardInterrupt()})
    one, _ = study(runner)
    real = StudyState.write

    def die(state, folder):
        if any(record.state is RunState.INTERRUPTED for record in state.records):
            raise Killed
        real(state, folder)

    with monkeypatch.context() as patched:
        patched.setattr(StudyState, "write", die)
        with pytest.raises(Killed):
            one.go()
    again, _ = study(runner)
    assert again.state.records[2].state is RunState.RUNNING
    assert again.go().ending == Ending("IMPROVEMENT", 0)


def test_a_study_that_is_resumed_twice_before_the_same_run_says_so_once(study, fake_runner, monkeypatch):
    runner = fake_runner(ends={2: KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        study(runner)[0].go()
    again, _ = study(runner)
    with monkeypatch.context() as patched:
        patched.setattr(again, "_run", lambda step, wanted: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            again.go()
    assert again.state.resumed == (3,)
    last, _ = study(runner)
    last.go()
    assert last.state.resumed == (3,)


def test_ctrl_c_is_gone_on_with(study, fake_runner):
    runner = fake_runner(slower=(1.2, 1.0), ends={4: KeyboardInterrupt("2 finished requests"), 5: KeyboardInterrupt()})
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            study(runner)[0].go()
    again, _ = study(runner)
    assert again.go().ending == Ending("IMPROVEMENT", 0)
    assert again.state.resumed == (5, 6)


def test_a_disk_that_is_full_is_gone_on_with(study, fake_runner):
    runner = fake_runner(slower=(1.2, 1.0), ends={2: StoreError("no space left")})
    with pytest.raises(StoreError, match="no space"):
        study(runner)[0].go()
    assert study(runner)[0].go().ending == Ending("IMPROVEMENT", 0)


def test_an_ended_study_gives_its_result_again(study, fake_runner):
    runner = fake_runner(slower=(1.0, 1.2))
    first = study(runner)[0].go()
    second = study(runner)[0].go()
    assert second.ending == first.ending and len(runner.calls) == 6
    assert second.comparison.primaries == first.comparison.primaries


def test_a_dead_server_repeats_its_pair(study, fake_runner):
    runner = fake_runner(slower=(1.2, 1.0), ends={2: TargetError("the server died during concurrency 4:\n  log")})
    one, said = study(runner)
    result = one.go()
    assert result.ending == Ending("IMPROVEMENT", 0)
    assert [call.arm for call in runner.calls[:4]] == ["before", "after", "before", "after"], "the pair in its order"
    assert "pair 1 is repeated once" in said
    assert "Run 02-after.failed (pair 1) is failed: the server died during concurrency 4:." in result.comparison.notes


def test_a_server_that_dies_twice_is_infrastructure(study, fake_runner):
    dead = TargetError("the server died")
    runner = fake_runner(slower=(1.2, 1.0), ends={3: dead, 4: dead})
    one, _ = study(runner)
    result = one.go()
    assert result.ending.exit_code == 3 and len(runner.calls) == 4
    assert result.ending.why == "pair 2 came to nothing in 2 attempts: after: the server died"
    assert result.comparison.pairs == 1, "what there is, is shown"


def test_without_any_pair_there_is_no_comparison(study, fake_runner):
    dead = TargetError("no such checkpoint")
    result = study(fake_runner(ends={1: dead, 2: dead}))[0].go()
    assert result.comparison is None and result.ending.exit_code == 3 and result.ending.outcome is None


def test_an_invalid_run_is_kept_and_its_pair_repeated(study, fake_runner):
    runner = fake_runner(slower=(1.2, 1.0), ends={1: "invalid"})
    one, _ = study(runner)
    result = one.go()
    assert result.ending == Ending("IMPROVEMENT", 0) and len(runner.calls) == 8
    assert (one.folder / "runs" / "01-before" / "run.json").is_file()
    assert result.before[0].source == "runs/03-before", "the pair is the one of the repetition"
    assert any(note.startswith("Run 01-before (pair 1) is invalid: ") for note in result.comparison.notes)


def test_an_after_that_is_broken_twice_is_its_own_failure(study, fake_runner):
    result = study(fake_runner(ends={2: "invalid", 4: "invalid"}))[0].go()
    assert result.ending.exit_code == 1 and result.ending.why.count("requests failed") == 1
    assert "in 2 attempts, as after is broken where before is not: after: " in result.ending.why
    assert result.comparison.outcome is ComparisonOutcome.AFTER_BROKEN
    assert "The study stopped after 1 of 5 pairs, as after is broken: " in render_for_pull_request(result.comparison)


def test_a_before_that_is_broken_twice_is_infrastructure(study, fake_runner):
    result = study(fake_runner(ends={1: "invalid", 3: "invalid"}))[0].go()
    assert result.ending.exit_code == 3 and result.comparison.outcome is ComparisonOutcome.NO_CLAIM


def test_a_broken_run_without_any_level_is_left_out_of_what_is_shown(study, fake_runner, make, monkeypatch):
    runner = fake_runner(slower=(1.2, 1.0), ends={4: "invalid", 6: "invalid"})
    real = make.folder

    def folder(name, **arguments):
        if arguments["failures"]:
            arguments["levels"] = (16,)  # none in common with the others
        return real(name, **arguments)

    monkeypatch.setattr(make, "folder", folder)
    result = study(runner)[0].go()
    assert result.ending.exit_code == 3 and result.comparison.pairs == 1


def test_runs_that_are_not_comparable_end_at_the_first_look(study, fake_runner, make, monkeypatch):
    runner = fake_runner()
    real = make.folder

    def folder(name, **arguments):
        other = {"hardware.cpu": "Slow CPU"} if name.name == "02-after" else {}
        return real(name, config=other, **arguments)

    monkeypatch.setattr(make, "folder", folder)
    with pytest.raises(ComparabilityError, match=r"hardware\.cpu: Fast CPU 9000 \| Slow CPU"):
        study(runner)[0].go()
    assert len(runner.calls) == 2


def test_the_state_survives_the_disk(study, fake_runner, tmp_path, new_state):
    one, _ = study(fake_runner(slower=(1.2, 1.0), ends={3: "invalid"}))
    one.go()
    assert StudyState.read(one.folder) == one.state
    document = json.loads((one.folder / "ab.json").read_text())
    assert document["arms"]["after"]["config"]["reference"]["predictor"] == "kv_cache"


def test_a_damaged_state_is_named(tmp_path, new_state):
    with pytest.raises(ConfigError, match=r"is not the folder of a study: it has no ab\.json"):
        StudyState.read(tmp_path)
    new_state().write(tmp_path)
    text = (tmp_path / "ab.json").read_text()
    (tmp_path / "ab.json").write_text(text[: len(text) // 2])
    with pytest.raises(StoreError, match=r"ab\.json is damaged"):
        StudyState.read(tmp_path)
    (tmp_path / "ab.json").write_text(text.replace('"schema_version": "1.3"', '"schema_version": "2.0"'))
    with pytest.raises(StoreError, match=r"schema_version '2\.0'"):
        StudyState.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "x"}, "seed is 'x'; expected int"),
        ({"start": "middle"}, "start is 'middle'; must be one of before, after"),
        ({"command": "omni-bench ab"}, "command is 'omni-bench ab'; expected array"),
        ({"plan": {"pairs": 0, "extended": None}}, "pairs=0"),
        ({"records": [RECORD | {"number": "1"}]}, "records[0].number is '1'; expected int"),
        ({"records": [RECORD | {"state": "fine"}]}, "records[0].state is 'fine'; Invalid enum value"),
        ({"records": [RECORD | {"arm": "between"}]}, "run 1: arm is 'between'; must be one of before, after"),
        ({"records": [RECORD | {"folder": "../../elsewhere"}]}, "run 1: folder is '../../elsewhere'; must be a name"),
        ({"fallback": {"code": "no reason", "text": "", "run": 1}}, "fallback.code is 'no reason'; Invalid enum"),
    ],
)
def test_a_state_that_no_study_can_have_written_is_named(tmp_path, new_state, change, message):
    new_state().write(tmp_path)
    path = tmp_path / "ab.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"records": [RECORD]}))
    assert StudyState.read(tmp_path).records[0].reasons == ("late",)
    path.write_text(json.dumps(document | change))
    with pytest.raises(StoreError, match=re.escape(message)):
        StudyState.read(tmp_path)


def test_a_study_is_one_process_s(tmp_path):
    with claimed(tmp_path), pytest.raises(StoreError, match="another process"), claimed(tmp_path):
        pass
    with claimed(tmp_path):
        pass


class FakeServer:
    """A server that counts its starts and stops."""

    log_path = None

    def __init__(self, config, log_path, alive, dies):
        self.base_url, self.alive, self.dies = f"http://{config.reference.predictor}", alive, dies

    def start(self):
        if self.dies is not None:
            raise self.dies
        self.alive.append(self.base_url)
        return TargetInfo("reference", self.base_url, 1.0, None, None, None)

    def is_alive(self):
        return self.base_url in self.alive

    def failure(self):
        return "gone"

    def stop(self):
        if self.is_alive():
            self.alive.remove(self.base_url)


@pytest.fixture
def servers(monkeypatch):
    """What :class:`KeptServers` makes instead of real ones: (alive now, all that were started)."""
    alive, started = [], []

    def create(config, log_path):
        dies = dead.get(config.reference.predictor)
        started.append(log_path.stem)
        return FakeServer(config, log_path, alive, dies)

    dead, free = {}, []
    monkeypatch.setattr("omni_bench.targets.kept.create_target", create)
    monkeypatch.setattr(
        "omni_bench.compare.ab.study.free_memory", lambda: FreeMemory(free.pop(0) if free else 100 << 30)
    )
    return SimpleNamespace(alive=alive, started=started, dead=dead, free=free)


@pytest.mark.parametrize(("restart", "starts"), [("pair", 6), ("never", 2), ("run", 0)])
def test_servers_are_kept_alive_side_by_side(restart, starts, study, fake_runner, new_state, servers):
    both = []
    runner = fake_runner(
        slower=(1.0, 1.5), ends=dict.fromkeys(range(1, 7), lambda folder: both.append(servers.alive[:]))
    )
    state = replace(new_state(), restart=Restart(restart))
    one, _ = study(runner, state)
    result = one.go()
    assert result.ending == Ending("REGRESSION", 1) and StudyState.read(one.folder) == one.state
    assert len(servers.started) == starts and servers.alive == [], "nothing is left behind"
    assert {record.in_turns for record in one.state.records} == {restart != "run"}
    if restart != "run":
        assert runner.turns == [  # level by level; the second pair begins with the second level
            [["01-before", "02-after"], ["02-after", "01-before"]],
            [["04-before", "03-after"], ["03-after", "04-before"]],
            [["06-after", "05-before"], ["05-before", "06-after"]],
        ]
        names = [call.part_of.name for call in runner.calls[:4]]
        assert names[:2] == ["run 1/6, pair 1/3, before", "run 2/6, pair 1/3, after"] and names[3].startswith("run 4/6")
        assert all(len(alive) == 2 for alive in both), "each has its neighbour from the first run on"
        urls = {(call.arm, call.url) for call in runner.calls}
        assert urls == {("before", "http://reprefill"), ("after", "http://kv_cache")}
        assert any(
            note.startswith(f"restart={restart}: the servers were started once") for note in result.comparison.notes
        )
        assert not any("a fresh server for every run" in note for note in result.comparison.notes)


def test_kept_servers_end_with_ctrl_c_and_start_again_after_a_failed_run(study, fake_runner, new_state, servers):
    died = TargetError("the server died")
    runner = fake_runner(slower=(1.0, 1.5), ends={2: died, 6: KeyboardInterrupt()})
    state = replace(new_state(), restart=Restart.NEVER)
    one, said = study(runner, state)
    with pytest.raises(KeyboardInterrupt):
        one.go()
    assert servers.alive == [] and servers.started == ["before", "after"] * 2
    states = [(record.folder, record.state) for record in StudyState.read(one.folder).records]
    assert states == [
        ("01-before.interrupted", RunState.INTERRUPTED),
        ("02-after.failed", RunState.FAILED),
        ("03-before", RunState.DONE),
        ("04-after", RunState.DONE),
        ("05-after.interrupted", RunState.INTERRUPTED),
        ("06-before.interrupted", RunState.INTERRUPTED),
    ]
    assert "pair 1 is repeated once" in said and not any("interrupted" in line for line in said)
    again, _ = study(runner)
    assert again.go().ending == Ending("REGRESSION", 1) and again.state.resumed == (7,)
    assert servers.alive == [] and servers.started == ["before", "after"] * 3


def test_a_kill_between_two_that_took_turns_costs_both(study, fake_runner, new_state, servers):
    def kill(folder):
        raise Killed

    runner = fake_runner(slower=(1.0, 1.5), ends={2: kill})
    with pytest.raises(Killed):
        study(runner, replace(new_state(), restart=Restart.NEVER))[0].go()
    again, _ = study(runner)
    assert again.go().ending == Ending("REGRESSION", 1) and len(runner.calls) == 8
    assert [record.state for record in again.state.records[:3]] == [*[RunState.INTERRUPTED] * 2, RunState.DONE]


GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "dies", "code", "text"),
    [
        ([100 * GIB, 40 * GIB], None, "too_little_memory", "the first server took 60.0 GiB, and this machine has 40.0"),
        ([], OutOfMemory("exit code 1"), "out_of_memory", "the server of after ran out of memory at its start, beside"),
    ],
)
def test_servers_that_do_not_fit_beside_each_other_run_alone(
    free, dies, code, text, study, fake_runner, new_state, servers
):
    servers.free += free
    servers.dead["kv_cache"] = dies
    runner = fake_runner(slower=(1.0, 1.5))
    one, said = study(runner, replace(new_state(), restart=Restart.NEVER))
    result = one.go()
    assert result.ending == Ending("REGRESSION", 1) and servers.alive == [] and len(servers.started) <= 2
    found = StudyState.read(one.folder).fallback
    assert found.code == code and found.text.startswith(text) and found.run == 1
    assert {call.url for call in runner.calls} == {None} and [call.arm for call in runner.calls[:3]][1:] == [
        "after"
    ] * 2
    notes = "\n".join(result.comparison.notes)
    assert f"restart=never was not possible ({code}): {text}" in notes and "every run had the machine alone" in notes
    assert "a fresh server for every run" in notes and "stayed alive" not in notes
    assert any(text in line for line in said)


def test_what_is_not_known_of_the_room_is_said_and_tried(study, fake_runner, new_state, servers):
    servers.free += [None, None]
    one, said = study(fake_runner(slower=(1.0, 1.5)), replace(new_state(), restart=Restart.NEVER))
    assert one.go().ending == Ending("REGRESSION", 1) and one.state.fallback is None and one.state.records[0].in_turns
    assert "whether two servers fit beside each other is tried, as how much memory is free is not known" in said


def test_a_server_that_does_not_start_beside_the_other_says_so(study, fake_runner, new_state, servers):
    servers.dead["kv_cache"] = TargetError("no such model")
    result = study(fake_runner(), replace(new_state(), restart=Restart.NEVER))[0].go()
    assert result.ending.exit_code == 3 and servers.alive == [] and servers.started == ["before", "after"] * 2
    assert "attempts: after: restart=never, beside the other one (restart=run gives each" in result.ending.why
    assert result.ending.why.endswith("no such model")


@pytest.fixture
def beside(monkeypatch):
    """A function that lets runs be judged beside later ones, and gives what is done in their order."""

    def put(runner, error=None):
        judging = FakeJudging(runner.log, error)
        monkeypatch.setattr("omni_bench.compare.ab.study.spare_cores", lambda configs: (4, 5))
        monkeypatch.setattr("omni_bench.compare.ab.study.JudgingBeside", lambda cores, log: judging)
        return runner

    return put


def test_runs_are_judged_beside_later_ones_and_a_look_waits_for_them(study, fake_runner, new_state, beside):
    first, _ = study(fake_runner(slower=(1.0, 1.5)), new_state())
    in_place = first.go()
    shutil.rmtree(first.folder)
    first.folder.mkdir()
    runner = beside(fake_runner(slower=(1.0, 1.5)))
    one, said = study(runner, new_state())
    result = one.go()
    names = ["01-before", "02-after", "03-after", "04-before", "05-before", "06-after"]
    assert runner.log == [*names, *(f"{name} judged" for name in names)]
    assert result.ending == in_place.ending and result.comparison.primaries == in_place.comparison.primaries
    assert "run 1, pair 1/3, before: measured" in said[0] and "waiting until 6 runs are judged" in said
    note = "6 runs were judged beside later ones, at the lowest priority on 2 cores that neither the servers nor the"
    assert any(text.startswith(note) for text in result.comparison.notes)
    assert "Each run was judged in place, while nothing was measured." in in_place.comparison.notes


def test_a_pair_that_turns_out_to_be_invalid_is_repeated_once_the_next_is_whole(study, fake_runner, beside):
    runner = beside(fake_runner(slower=(1.2, 1.0), ends={2: "invalid"}))
    one, said = study(runner)
    result = one.go()
    assert result.ending == Ending("IMPROVEMENT", 0) and said.count("pair 1 is repeated once") == 1
    assert runner.log[12:14] == ["07-before", "08-after"] and len(runner.calls) == 8
    assert [(record.pair, record.attempt) for record in one.state.records[6:]] == [(1, 2), (1, 2)]


def test_an_after_that_is_broken_is_found_at_the_look(study, fake_runner, beside):
    runner = beside(fake_runner(ends=dict.fromkeys((2, 3, 6, 8), "invalid")))
    result = study(runner)[0].go()
    assert result.ending.exit_code == 1 and "pair 1 came to nothing in 2 attempts, as after is" in result.ending.why


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), AccuracyError("no judge")])
def test_what_was_measured_is_judged_when_the_study_goes_on(problem, study, fake_runner, beside):
    runner = fake_runner(slower=(1.0, 1.5), ends={6: problem} if isinstance(problem, KeyboardInterrupt) else None)
    beside(runner, problem if isinstance(problem, AccuracyError) else None)
    with pytest.raises(type(problem)):
        study(runner)[0].go()
    again, _ = study(runner)
    states = [record.state for record in again.state.records]
    assert states[:5] == [RunState.MEASURED] * 5
    assert again.go().ending == Ending("REGRESSION", 1)
    assert len(runner.calls) == 6 + isinstance(problem, KeyboardInterrupt), (
        "nothing that was measured is measured again"
    )


def test_a_measured_run_that_is_damaged_is_made_again(study, fake_runner, beside):
    runner = beside(fake_runner(slower=(1.0, 1.5), ends={4: KeyboardInterrupt()}))
    one, _ = study(runner)
    with pytest.raises(KeyboardInterrupt):
        one.go()
    shutil.rmtree(one.folder / "runs" / "02-after" / ".spool")
    again, _ = study(runner)
    assert again.go().ending == Ending("REGRESSION", 1)
    assert again.state.records[1].state is RunState.INTERRUPTED


def test_what_cannot_be_kept_alive_is_refused(new_state):
    state = replace(new_state(), restart=Restart.NEVER)
    for arm in state.arms:
        arm.config.target.port = 8000
    with pytest.raises(
        ConfigError, match=r"restart=never keeps both servers alive, and target\.port=8000 is that of both"
    ):
        check_restart(state)
    for arm in state.arms:
        arm.config.target.kind = "external"
    with pytest.raises(ConfigError, match="both arms are servers that run already"):
        check_restart(state)
