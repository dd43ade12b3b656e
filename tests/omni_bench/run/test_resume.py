"""A run that was cut short is gone on with: what is kept, what is sent again, and what it may claim."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reasons import said

from omni_bench.errors import AccuracyError, ConfigError, StoreError, TargetError
from omni_bench.load.events import RequestFinished
from omni_bench.load.runner import INTERRUPTED, LevelInterrupted
from omni_bench.records.invalid_reason import Code, own_reasons, reasons_of
from omni_bench.records.recording import LevelRecording, unsent_timeline
from omni_bench.records.run_folder import RunFolder
from omni_bench.run import load_phase, orchestrate
from omni_bench.run.orchestrate import resume, run
from omni_bench.run.rebuild import rebuild
from omni_bench.run.rejudge import redraw


class Killed(BaseException):
    """In the place of SIGKILL: nothing is written after it."""


@pytest.fixture
def sent(load, monkeypatch) -> list[str]:
    """The measured requests that were sent, in order."""
    real, names = load_phase.run_level, []

    def noting(plan: Any, **named: Any) -> LevelRecording:
        names.extend(one.request_id for one in plan.measured)
        return real(plan, **named)

    monkeypatch.setattr(load_phase, "run_level", noting)
    return names


@pytest.fixture
def two_levels(config) -> Any:
    config.load = replace(config.load, concurrency=[1, 2], requests_per_level=4, warmup_per_slot=1)
    return config


def killed_run(config: Any, folder: Path, monkeypatch: Any, where: Any) -> None:
    """A run that is killed: as if no handler of it had run."""
    with monkeypatch.context() as patch:
        where(patch)
        for name in ("judged_results", "write_down"):
            patch.setattr(orchestrate, name, _dead)
        patch.setattr(RunFolder, "end", lambda *_, **__: None)
        with pytest.raises(Killed):
            run(config, folder, ["omni-bench", "run"])


def _dead(*_: Any, **__: Any) -> Any:
    raise Killed


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]


def kill_at(load: Any, request_id: str) -> None:
    def kill() -> None:
        del load.after[request_id]
        raise Killed

    load.after[request_id] = kill


@pytest.mark.parametrize("done", [2, 4], ids=["in the middle", "after the last request"])
def test_a_killed_run_repeats_nothing_and_its_begun_level_claims_no_speed(
    two_levels, tmp_path, target, load, sent, judge, monkeypatch, done
):
    folder = tmp_path / "run"
    kill_at(load, f"c2-000{done - 1}")
    killed_run(two_levels, folder, monkeypatch, lambda patch: None)
    before = lines(folder)
    assert len(before) == 4 + done and not (folder / "run.json").exists()
    sent.clear()
    outcome = resume(folder)
    assert sent == ["c2-0002", "c2-0003"][: 4 - done], "what had finished is not sent again"
    assert [one["request_id"] for one in lines(folder)] == [f"c{c}-000{i}" for c in (1, 2) for i in range(4)]
    assert [one["ended_ns"] for one in lines(folder)][: 4 + done] == [one["ended_ns"] for one in before]
    first, second = outcome.run["levels"]
    assert outcome.exit_code == 1 and first["valid"] and first["accuracy"]["wer"] == second["accuracy"]["wer"] == 0
    assert [reason.code for reason in reasons_of(second)] == [Code.IN_PARTS, Code.CLIENT_LAG_UNKNOWN]
    assert f"{done} of 4 requests were measured before" in said(second)[0]
    scalars = {name for name, one in first["metrics"].items() if one["mean"] is not None and one["std"] is None}
    assert scalars and all(second["metrics"][name]["mean"] is None for name in scalars)
    assert own_reasons(outcome.run) == () and outcome.run["duration_s"] is None
    assert ", in parts (`--resume`), which took n/a s together" in (folder / "report.md").read_text(encoding="utf-8")
    assert not (folder / ".spool").exists()
    assert redraw(folder)[1]["levels"][1]["invalid_reasons"] == second["invalid_reasons"]
    with pytest.raises(ConfigError, match="the run has ended"):
        resume(folder)


def test_a_level_that_had_not_begun_claims_its_speed(two_levels, tmp_path, target, load, sent, judge, monkeypatch):
    """Killed in its warm-up: it is measured in one go, also after a report of what was there."""
    folder = tmp_path / "run"
    kill_at(load, "c2-w0000")
    killed_run(two_levels, folder, monkeypatch, lambda patch: None)
    assert [level["concurrency"] for level in rebuild(folder)[1]["levels"]] == [1]
    sent.clear()
    outcome = resume(folder)
    assert outcome.exit_code == 0 and sent == [f"c2-000{i}" for i in range(4)]


def test_an_interrupted_run_goes_on_more_than_once(two_levels, tmp_path, target, load, sent, judge, monkeypatch):
    folder = tmp_path / "run"
    real, cuts = load_phase.run_level, ["c1-0002", "c2-0001"]

    def interrupted(plan: Any, **named: Any) -> LevelRecording:
        names = [one.request_id for one in plan.measured]
        if not cuts or cuts[0] not in names:
            return real(plan, **named)
        at = names.index(cuts.pop(0))
        first = real(replace(plan, measured=plan.measured[:at]), **named)
        rest = tuple(unsent_timeline(one, plan.concurrency, INTERRUPTED, 10) for one in plan.measured[at:])
        for one in rest:
            named["on_event"](RequestFinished(one))
        raise LevelInterrupted(replace(first, timelines=first.timelines + rest, interrupted=True))

    monkeypatch.setattr(load_phase, "run_level", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"2 finished requests are in .*; go on with: omni-bench run --resume"):
        run(two_levels, folder)
    with pytest.raises(KeyboardInterrupt, match="5 finished requests"):
        resume(folder)
    outcome = resume(folder)
    assert sorted(sent) == sorted({*sent}) and len(sent) == 8
    assert [level["completed"] for level in outcome.run["levels"]] == [4, 4]
    assert [reasons_of(level)[0].figures["before"] for level in outcome.run["levels"]] == [2, 1]


@pytest.mark.parametrize("parity", [0, 2])
def test_a_run_that_was_killed_while_judging_needs_no_server(
    two_levels, tmp_path, target, load, sent, judge, monkeypatch, parity
):
    two_levels.checks = replace(two_levels.checks, parity_requests=parity)
    folder = tmp_path / "run"
    killed_run(two_levels, folder, monkeypatch, lambda patch: None)
    started = target.started
    sent.clear()
    outcome = resume(folder)
    assert outcome.exit_code == 0 and sent == [] and target.started == started
    assert outcome.run["provenance"]["target"]["version"] == "7"
    assert [bool(level["parity"]) for level in outcome.run["levels"]] == [bool(parity)] * 2


def test_a_judge_that_died_is_asked_again(two_levels, tmp_path, target, load, sent, judge):
    judge.error = AccuracyError("a judging process died")
    with pytest.raises(AccuracyError):
        run(two_levels, tmp_path / "run")
    judge.error = None
    assert resume(tmp_path / "run").exit_code == 0


def test_answers_whose_audio_was_lost_are_asked_for_again(two_levels, tmp_path, target, load, sent, judge, monkeypatch):
    folder = tmp_path / "run"
    kill_at(load, "c2-0002")
    killed_run(two_levels, folder, monkeypatch, lambda patch: None)
    (folder / ".spool" / "1" / "c2-0000.pcm").unlink()
    (folder / ".spool" / "1" / "c2-0001.pcm").write_bytes(b"half")
    sent.clear()
    outcome = resume(folder)
    assert sent == ["c2-0000", "c2-0001", "c2-0003"] and len(lines(folder)) == 8
    assert outcome.run["levels"][1]["faulty"] == 0


def test_a_begun_level_of_an_open_loop_is_measured_anew(config, tmp_path, target, load, sent, judge, monkeypatch):
    """Half of a schedule is another load."""
    config.load = replace(config.load, kind="open_loop", arrival="constant", rate_hz=[2.0], requests_per_level=4)
    folder = tmp_path / "run"
    kill_at(load, "r2-0002")
    killed_run(config, folder, monkeypatch, lambda patch: None)
    sent.clear()
    outcome = resume(folder)
    assert sent == [f"r2-000{i}" for i in range(4)] and len(lines(folder)) == 4
    assert Code.IN_PARTS not in [reason.code for reason in reasons_of(outcome.run["levels"][0])]


def test_what_would_mix_two_things_is_refused(two_levels, tmp_path, target, load, judge, monkeypatch):
    folder = tmp_path / "run"
    kill_at(load, "c2-0001")
    killed_run(two_levels, folder, monkeypatch, lambda patch: None)
    with monkeypatch.context() as patch:
        patch.setattr("omni_bench.run.journal.harness", lambda: {"version": "9", "commit": None, "dirty": None})
        with pytest.raises(ConfigError, match="began with another omni-bench"):
            resume(folder)
    with monkeypatch.context() as patch:
        patch.setattr(target, "health", {"model": "another", "version": "7"})
        with pytest.raises(TargetError, match="the server has another model"):
            resume(folder)
    with RunFolder(folder) as going_on, pytest.raises(StoreError, match="goes on in another process"):
        going_on.claim()
        resume(folder)
    with pytest.raises(ConfigError, match=r"it has no \.spool/journal\.jsonl"):
        resume(tmp_path)
    assert resume(folder).run["levels"][1]["completed"] == 4


def no_target(*_: Any) -> None:
    raise TargetError("no GPU here")


@pytest.mark.parametrize("kind", ["closed_loop", "open_loop", "rate_search"])
def test_a_run_whose_last_answer_had_come_needs_no_server(config, tmp_path, target, load, sent, monkeypatch, kind):
    """Killed before it was written down that the level, let alone the load, had ended."""
    config.asr.kind = "none"
    config.load = replace(
        config.load, kind=kind, arrival="constant", concurrency=[2], rate_hz=[2.0], requests_per_level=4
    )
    if kind == "rate_search":
        config.slo = replace(config.slo, ttfp_ms=1000.0)
        config.load = replace(
            config.load, rate_hz=[1.0], min_rate_hz=1.0, max_rate_hz=1.0, probe_requests=4, probe_s=1.0
        )
    last = {"closed_loop": "c2-0003", "open_loop": "r2-0003", "rate_search": "r1-0003"}[kind]
    kill_at(load, last)
    folder = tmp_path / "run"
    killed_run(config, folder, monkeypatch, lambda patch: None)
    before, started = lines(folder), target.started
    sent.clear()
    monkeypatch.setattr("omni_bench.run.orchestrate.check_target", no_target)
    outcome = resume(folder)
    assert (
        sent == []
        and target.started == started
        and [one["ended_ns"] for one in lines(folder)] == [one["ended_ns"] for one in before]
    )
    (level,) = outcome.run["levels"]
    assert level["completed"] == len(before) == 4 and level["metrics"]["ttfp_ms"]["n"] == 4
    assert [reason.code for reason in reasons_of(level)] == [Code.IN_PARTS, Code.CLIENT_LAG_UNKNOWN]
    assert (folder / "report.html").is_file()


def test_a_profile_that_is_missing_needs_the_server(config, tmp_path, target, load, sent, judge, monkeypatch):
    config.output.profile = True
    folder = tmp_path / "run"
    killed_run(config, folder, monkeypatch, lambda patch: patch.setattr(load_phase, "_profile", _dead))
    assert len(lines(folder)) == 6
    monkeypatch.setattr(orchestrate, "check_target", no_target)
    with pytest.raises(TargetError, match="no GPU here"):
        resume(folder)
    assert len(lines(folder)) == 6, "nothing is taken away before it is known that the rest can be sent"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (("started_utc", "soon"), "line 1: begun.started_utc is 'soon'; Invalid RFC3339 encoded datetime"),
        (("directory", 7), "line 1: begun.directory is 7; expected str"),
        (("harness", []), "line 1: begun.harness is "),
        ("[1]", "line 2: server is "),
        ('"x"', "line 2: server is 'x'; expected object | null"),
    ],
)
def test_a_damaged_journal_is_named(config, tmp_path, target, load, judge, monkeypatch, damage, message):
    folder = tmp_path / "run"
    kill_at(load, "c1-0001")
    killed_run(config, folder, monkeypatch, lambda patch: None)
    path = folder / ".spool/journal.jsonl"
    first, *_ = path.read_text().splitlines()
    if isinstance(damage, tuple):
        begun = json.loads(first)
        begun["begun"][damage[0]] = damage[1]
        path.write_text(json.dumps(begun) + "\n")
    else:
        path.write_text(f'{first}\n{{"server": {damage}}}\n')
    with pytest.raises(StoreError, match=re.escape(message)):
        resume(folder)
