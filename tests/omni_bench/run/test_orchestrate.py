"""The whole run over stand-ins: what is on disk, and what is raised, in good times and bad."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reasons import said

from omni_bench.errors import AccuracyError, ConfigError, StoreError, TargetError
from omni_bench.load.runner import LevelInterrupted
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.run import judging, load_phase, orchestrate, prepare, results
from omni_bench.run.judging import GOOD
from omni_bench.run.orchestrate import run


def read(run_dir: Path) -> dict[str, Any]:
    return RunFolder.open(run_dir).read_run()


def lines(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "requests.jsonl").read_text().splitlines()]


def test_a_good_run_leaves_everything_and_stops_the_server(config, tmp_path, target, load, judge, capsys):
    outcome = run(config, tmp_path / "run", ["omni-bench", "run", "scenario=smoke"])
    assert outcome.exit_code == 0
    assert target.started == 1 and target.stopped >= 1
    document = read(tmp_path / "run")
    assert document["valid"] and document["invalid_reasons"] == []
    (level,) = document["levels"]
    assert level["concurrency"] == 2 and level["requests"] == level["completed"] == 6 and level["failed"] == 0
    assert level["accuracy"]["wer"] == 0 and level["accuracy"]["judge"] == "fake-judge"
    assert level["metrics"]["ttfp_ms"]["p50"] == pytest.approx(99)
    assert document["provenance"]["command"] == ["omni-bench", "run", "scenario=smoke"]
    assert document["provenance"]["target"]["version"] == "7"
    assert document["provenance"]["prompts"]["count"] == 10
    assert (document["provenance"]["prompts"]["measured"], document["provenance"]["prompts"]["warmup"]) == (6, 4)
    assert level["warmup"] == {"completed": 4, "failed": 0, "errors": {}} and level["faulty"] == 0
    assert document["provenance"]["judge"]["sha256"] == "0" * 64
    names = {path.name for path in (tmp_path / "run").iterdir()}
    raw = {"requests.jsonl", "warmup.jsonl", "utterances.jsonl", "cross_talk.jsonl"}
    assert names == {"run.json", "report.md", "report.html", "audio"} | raw
    assert len(list((tmp_path / "run" / "audio").iterdir())) == GOOD
    assert len(lines(tmp_path / "run")) == 6, "warm-up is not among the requests"
    out, err = capsys.readouterr()
    assert "0.00 %" in out and str(tmp_path / "run" / "report.html") in out.replace("\n", "")
    assert "level 1/1, concurrency 2: requests 6/6" in err and "judging with fake-judge 14/14" in err, (
        "6 answers, 8 references"
    )
    assert "\x1b" not in out + err, "no control sequences off a terminal"


@pytest.mark.parametrize(
    ("kind", "environment", "version", "commit"),
    [
        ("reference", {"python": "3.11.0", "packages": {"omni-bench": "0.0.9"}}, "0.0.9", "c" * 40),
        ("reference", {"python": "3.11.0", "packages": {}}, None, "c" * 40),
        ("command", None, None, "c" * 40),
    ],
)
def test_a_server_of_another_environment_is_of_its_own_version(
    kind, environment, version, commit, config, tmp_path, target, load, judge, monkeypatch
):
    info = replace(target.start(), health={}, environment=environment)
    monkeypatch.setattr(target, "start", lambda: info)
    settings = {"kind": kind, "python": "/venv/bin/python", "revision": commit, "command": "sh {port}"}
    run(replace(config, target=replace(config.target, **settings)), tmp_path / "run")
    found = read(tmp_path / "run")["provenance"]["target"]
    assert (found["version"], found["commit"]) == (version, commit)
    assert found["description"]["environment"] == environment


def test_requests_are_on_disk_as_they_finish(config, tmp_path, target, load, judge):
    seen = []
    load.after["c2-0002"] = lambda: seen.extend(record["request_id"] for record in lines(tmp_path / "run"))
    run(config, tmp_path / "run")
    assert seen == ["c2-0000", "c2-0001", "c2-0002"]


def test_the_server_is_stopped_before_the_judge_begins(config, tmp_path, target, load, judge, monkeypatch):
    original, states = judge.transcribe, []

    def transcribe(*arguments: Any, **named: Any) -> Any:
        states.append(target.alive)
        return original(*arguments, **named)

    monkeypatch.setattr("omni_bench.run.judging.transcribe", transcribe)
    run(config, tmp_path / "run")
    assert states == [False]


def test_a_failed_request_makes_its_level_invalid(config, tmp_path, target, load, judge):
    load.spoil["c2-0003"] = "http_status"
    outcome = run(config, tmp_path / "run")
    assert outcome.exit_code == 1
    (level,) = outcome.run["levels"]
    assert not level["valid"] and level["failed"] == 1 and level["errors"] == {"http_status": 1}
    assert any("1 of 6 requests failed" in reason for reason in said(outcome.run))
    assert "c2-0003" not in judge.heard
    assert level["accuracy"]["forced"] == 1 and level["accuracy"]["above_50"] == 1
    report = (tmp_path / "run" / "report.md").read_text()
    assert "makes no performance claim" in report


def test_silent_audio_is_invalid_counts_as_wholly_wrong_and_is_kept(config, tmp_path, target, load, judge):
    load.spoil["c2-0001"] = bytes(48000 * 3)
    outcome = run(config, tmp_path / "run")
    assert outcome.exit_code == 1 and outcome.run["levels"][0]["invalid"] == {"silent": 1}
    kept = {path.name for path in (tmp_path / "run" / "audio").iterdir()}
    assert "c2-0001.wav" in kept and len(kept) == 1 + GOOD
    assert "c2-0001" not in judge.heard and outcome.run["levels"][0]["accuracy"]["forced"] == 1


def test_an_empty_answer_is_invalid_and_has_no_recording(config, tmp_path, target, load, judge):
    load.spoil["c2-0001"] = b""
    config.output.save_audio = "all"
    outcome = run(config, tmp_path / "run")
    assert outcome.run["levels"][0]["invalid"] == {"empty": 1}
    assert len(list((tmp_path / "run" / "audio").iterdir())) == 5


def test_every_utterance_that_differs_is_kept_the_worst_first_as_far_as_the_limit_goes(
    config, tmp_path, target, load, judge
):
    config.asr.wer_limit = 1.0
    differ = [f"c2-000{i}" for i in (0, 1, 2, 4)]
    for name in differ:
        judge.mishears[name] = "something else entirely"
    run(config, tmp_path / "all")
    good = {"c2-0003.wav", "c2-0005.wav"}  # there are no more
    names = {path.name: path.stat().st_size for path in (tmp_path / "all" / "audio").iterdir()}
    assert set(names) == {f"{name}.wav" for name in differ} | good
    judge.mishears["c2-0004"] = "something else entirely " * 9
    config.output.kept_audio_mb = (sum(names[one] for one in good) + 1.5 * names["c2-0004.wav"]) / 1e6
    run(config, tmp_path / "run")
    kept = {path.name for path in (tmp_path / "run" / "audio").iterdir()}
    assert kept == {"c2-0004.wav"} | good


def test_no_audio_is_kept_if_none_is_wanted(config, tmp_path, target, load, judge):
    config.output.save_audio = "none"
    run(config, tmp_path / "run")
    assert not (tmp_path / "run" / "audio").exists()


def test_what_the_judge_the_client_and_the_warm_up_say_makes_the_level_invalid(config, tmp_path, target, load, judge):
    config.asr.wer_limit, config.load.lag_budget_ms = 0.01, 0.1
    judge.mishears["c2-0000"] = "wrong"
    load.spoil["c2-w0001"] = "http_status"
    outcome = run(config, tmp_path / "run")
    assert outcome.exit_code == 1
    assert outcome.run["levels"][0]["warmup"] == {"completed": 3, "failed": 1, "errors": {"http_status": 1}}
    for part in ("is above asr.wer_limit=0.01 (1.0%)", "lagged", "warm-up failed: 1 of 4 requests (http_status 1)"):
        assert any(part in reason for reason in said(outcome.run))


def test_without_a_judge_accuracy_is_missing_and_the_run_is_valid(config, tmp_path, target, load):
    config.asr.kind = "none"
    outcome = run(config, tmp_path / "run")
    assert outcome.exit_code == 0
    assert outcome.run["levels"][0]["accuracy"] is None and outcome.run["provenance"]["judge"] is None
    assert not (tmp_path / "run" / "utterances.jsonl").exists()


def test_levels_run_in_the_rotated_order_and_are_written_in_the_configured_one(config, tmp_path, target, load, judge):
    config.load.concurrency, config.load.rotate_levels = [1, 2, 4], 1
    outcome = run(config, tmp_path / "run")
    assert load.levels == [2, 4, 1]
    assert [level["concurrency"] for level in outcome.run["levels"]] == [1, 2, 4]
    assert len(lines(tmp_path / "run")) == 6 + 6 + 8  # two a slot at least


def test_no_judge_is_an_error_before_anything_is_launched(config, tmp_path, target, load, monkeypatch):
    def none_to_be_had(*_: Any) -> None:
        raise AccuracyError("there is no Whisper to judge with")

    monkeypatch.setattr(prepare, "find_judge", none_to_be_had)
    with pytest.raises(AccuracyError, match="no Whisper"):
        run(config, tmp_path / "run")
    assert target.started == 0 and list((tmp_path / "run").iterdir()) == []


def test_texts_that_no_judge_can_compare_are_an_error_before_anything_is_launched(
    config, tmp_path, target, load, judge
):
    config.asr.kind, config.dataset.language = "whisper", "hi"
    with pytest.raises(ConfigError, match=r"dataset.language='hi': .* texts are not written in the language 'hi'"):
        run(config, tmp_path / "run")
    config.dataset.language = "klingon"
    with pytest.raises(ConfigError, match=r"^dataset\.language='klingon'"):
        run(config, tmp_path / "run")
    assert target.started == 0


def test_a_full_disk_is_an_error_before_anything_is_launched(config, tmp_path, target, load, judge, monkeypatch):
    usage = namedtuple("usage", "total used free")(1 << 40, 1 << 40, 5 << 20)
    monkeypatch.setattr(prepare.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StoreError, match=r"has 5 MiB free, the run may need \d+ MiB; free some space"):
        run(config, tmp_path / "run")
    assert target.started == 0


def test_a_folder_that_holds_a_run_is_refused(config, tmp_path, target, load, judge):
    run(config, tmp_path / "run")
    with pytest.raises(StoreError, match="already holds a run"):
        run(config, tmp_path / "run")
    assert target.started == 1


def test_a_server_that_does_not_start(config, tmp_path, target, load, judge, capsys):
    target.start_error = TargetError("the server ended during start-up: exit code 3; the end of its log:\n    boom")
    with pytest.raises(TargetError, match="boom"):
        run(config, tmp_path / "run")
    assert target.stopped >= 1
    assert "during start-up" not in capsys.readouterr().err, "whoever catches the error says it"
    document = read(tmp_path / "run")
    assert not document["valid"] and document["levels"] == []
    assert said(document) == [
        "the server ended during start-up: exit code 3; the end of its log",
        "not measured: concurrency 2",
        "no level was measured",
    ]
    assert (tmp_path / "run" / "report.md").exists() and not (tmp_path / "run" / "requests.jsonl").exists()


@pytest.mark.parametrize("log", ["", "boom"])
def test_a_target_that_never_answered_leaves_its_log_alone_if_no_report_is_asked_for(
    config, tmp_path, target, load, judge, log
):
    target.start_error = TargetError("the server ended during start-up: exit code 3")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "server.log").write_text(log)
    with pytest.raises(TargetError, match="during start-up"):
        run(config, tmp_path / "run", keep_unanswered=False)
    assert target.stopped >= 1
    assert [path.name for path in (tmp_path / "run").iterdir()] == (["server.log"] if log else [])


def test_a_server_that_dies_in_the_middle(config, tmp_path, target, load, judge):
    config.load.concurrency = [2, 4]
    load.spoil = {"c2-0004": "disconnected", "c2-0005": "connect"}
    load.target_died = True
    with pytest.raises(TargetError, match="the server died during concurrency 2: exit code 9"):
        run(config, tmp_path / "run")
    assert target.stopped >= 1 and load.levels == [2]
    document = read(tmp_path / "run")
    assert not document["valid"] and document["levels"][0]["failed"] == 2
    assert "not measured: concurrency 4" in said(document)
    assert document["levels"][0]["accuracy"] is None and judge.heard == []
    assert len(list((tmp_path / "run" / "audio").iterdir())) == 4  # all that was finished, for another judge
    assert len(lines(tmp_path / "run")) == 6


def test_a_server_that_dies_after_its_last_request_is_noticed(config, tmp_path, target, load, judge):
    load.after["c2-0005"] = target.stop
    with pytest.raises(TargetError, match="died during concurrency 2"):
        run(config, tmp_path / "run")


@pytest.mark.parametrize("save_audio", ["worst", "all", "none"])
def test_ctrl_c_in_a_level(config, tmp_path, target, load, judge, monkeypatch, save_audio):
    config.load.concurrency = [2, 4]
    load.spoil["c2-0005"] = "cancelled"

    def interrupted(plan: Any, **named: Any) -> LevelRecording:
        raise LevelInterrupted(load(plan, **named))

    monkeypatch.setattr(load_phase, "run_level", interrupted)
    config.output.save_audio = save_audio
    with pytest.raises(KeyboardInterrupt, match=rf"5 finished requests are in {re.escape(str(tmp_path / 'run'))}"):
        run(config, tmp_path / "run")
    assert target.stopped >= 1
    document = read(tmp_path / "run")
    assert not document["valid"] and said(document)[0] == "the run was interrupted"
    assert len(lines(tmp_path / "run")) == 6
    assert len(list((tmp_path / "run").glob("audio/*"))) == (0 if save_audio == "none" else 5)
    assert (tmp_path / "run" / ".spool" / "journal.jsonl").is_file(), "it can be gone on with"


def press_ctrl_c(times: int = 1) -> None:
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_the_server_stops_leaves_a_run_for_the_judge(config, tmp_path, target, load, judge, monkeypatch):
    stop = target.stop
    monkeypatch.setattr(target, "stop", lambda: (press_ctrl_c(), stop()))
    with pytest.raises(KeyboardInterrupt, match="6 finished requests"):
        run(config, tmp_path / "run")
    assert not target.alive and judge.heard == []
    document = read(tmp_path / "run")
    assert said(document) == ["judging did not finish: the run was interrupted"]
    assert document["levels"][0]["completed"] == 6
    assert len(list((tmp_path / "run" / "audio").iterdir())) == 6


def test_ctrl_c_while_metrics_are_made(config, tmp_path, target, load, monkeypatch):
    real = results.measure_level
    monkeypatch.setattr(results, "measure_level", lambda *some, **named: (press_ctrl_c(), real(*some, **named))[1])
    config.asr.kind = "none"
    with pytest.raises(KeyboardInterrupt, match="6 finished requests"):
        run(config, tmp_path / "run")
    assert said(read(tmp_path / "run")) == ["the run was interrupted"]
    assert len(list((tmp_path / "run" / "audio").iterdir())) == 6


def test_ctrl_c_while_files_are_written_is_told_when_they_are(config, tmp_path, target, load, judge, monkeypatch):
    real = results.write_run
    monkeypatch.setattr(results, "write_run", lambda outcome: (press_ctrl_c(), real(outcome))[1])
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="6 finished requests"):
        run(config, tmp_path / "run")
    assert read(tmp_path / "run")["valid"] and (tmp_path / "run" / "report.md").exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_much_audio_is_checked_aloud_and_what_is_there_can_be_reported(
    config, tmp_path, target, load, monkeypatch, capsys
):
    """Before the checks begin every request is on disk, and it is said how to go on; one Ctrl-C waits for their end."""
    config.asr.kind = "none"
    monkeypatch.setattr(orchestrate, "is_much", lambda _: True)
    real, seen = results.measure_level, []

    def measure_level(*some: Any, **named: Any) -> Any:
        seen.append(len(lines(tmp_path / "run")))
        press_ctrl_c()
        return real(*some, **named)

    monkeypatch.setattr(results, "measure_level", measure_level)
    with pytest.raises(KeyboardInterrupt, match="6 finished requests"):
        run(config, tmp_path / "run")
    printed = capsys.readouterr().err
    assert seen == [6] and f"omni-bench run --resume {tmp_path / 'run'}" in printed
    assert f"omni-bench report {tmp_path / 'run'}; neither needs the server" in printed
    assert printed.count("once more to stop at once") == 1


def test_a_second_ctrl_c_takes_effect_at_once(config, tmp_path, target, load, judge, monkeypatch):
    monkeypatch.setattr(results, "write_run", lambda _: (press_ctrl_c(2), pytest.fail("still running")))
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists() and len(lines(tmp_path / "run")) == 6


def test_a_ctrl_c_while_judging_takes_effect_at_once(config, tmp_path, target, load, judge, monkeypatch):
    monkeypatch.setattr(judging, "transcribe", lambda *_, **__: (press_ctrl_c(), pytest.fail("still judging")))
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "run")
    assert said(read(tmp_path / "run")) == ["judging did not finish: the run was interrupted"]


def test_a_progress_bar_that_fails_does_not_leave_the_server_running(
    config, tmp_path, target, load, judge, monkeypatch
):
    def broken(_: Any) -> None:
        raise OSError("no terminal any more")

    load.after["c2-0005"] = lambda: monkeypatch.setattr(orchestrate.RunProgress, "end", broken)
    with pytest.raises(OSError, match="no terminal any more"):
        run(config, tmp_path / "run")
    assert target.stopped >= 1 and not read(tmp_path / "run")["valid"]


def test_a_server_that_cannot_be_stopped_loses_no_result(config, tmp_path, target, load, judge, monkeypatch):
    def stuck() -> None:
        raise TargetError("the server does not end")

    monkeypatch.setattr(target, "stop", stuck)
    with pytest.raises(TargetError, match="does not end"):
        run(config, tmp_path / "run")
    document = read(tmp_path / "run")
    assert "the server does not end" in said(document) and document["levels"][0]["completed"] == 6


def test_audio_that_was_lost_is_unchecked_and_not_clean(config, tmp_path, target, load, judge, monkeypatch):
    """The worker was killed before it had written any audio, so that it cannot be checked."""

    def killed(plan: Any, **named: Any) -> LevelRecording:
        raise LevelInterrupted(replace(load(plan, **named), audio={}, lag=None, interrupted=True))

    monkeypatch.setattr(load_phase, "run_level", killed)
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "run")
    (level,) = read(tmp_path / "run")["levels"]
    assert level["invalid"] == {"unchecked": 6} and level["faulty"] == 6
    assert said(level)[1] == "client lag was not measured"
    assert level["metrics"]["e2el_ms"]["n"] == 0
    assert {tuple(record["faults"]) for record in lines(tmp_path / "run")} == {("unchecked",)}


def test_ctrl_c_while_the_server_starts(config, tmp_path, target, load, judge):
    target.start_error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt, match="0 finished requests"):
        run(config, tmp_path / "run")
    assert target.stopped >= 1 and not read(tmp_path / "run")["valid"]


@pytest.mark.parametrize(
    "error", [AccuracyError("a judging process died"), KeyboardInterrupt()], ids=["died", "ctrl-c"]
)
def test_a_judge_that_does_not_finish_leaves_all_audio_for_another(config, tmp_path, target, load, judge, error):
    judge.error = error
    with pytest.raises(type(error)):
        run(config, tmp_path / "run")
    document = read(tmp_path / "run")
    assert not document["valid"] and said(document)[0].startswith("judging did not finish: ")
    assert document["levels"][0]["valid"] and document["levels"][0]["accuracy"] is None
    assert len(list((tmp_path / "run" / "audio").iterdir())) == 6


def test_a_disk_that_fills_up_in_the_middle_keeps_what_was_written(config, tmp_path, target, load, judge, monkeypatch):
    real, count = RunFolder.append_request, []

    def append(folder: RunFolder, record: Any) -> None:
        count.append(1)
        if len(count) > 3:
            raise StoreError("cannot write requests.jsonl: no space left on device")
        real(folder, record)

    monkeypatch.setattr(RunFolder, "append_request", append)
    with pytest.raises(StoreError, match="no space left"):
        run(config, tmp_path / "run")
    assert target.stopped >= 1
    assert [record["request_id"] for record in lines(tmp_path / "run")] == ["c2-0000", "c2-0001", "c2-0002"]
    document = read(tmp_path / "run")
    assert document["levels"] == [] and "no space left" in said(document)[0]


def test_the_first_problem_is_told_even_if_the_end_cannot_be_written(
    config, tmp_path, target, load, judge, monkeypatch
):
    def full(*_: Any) -> None:
        raise StoreError("no space for run.json")

    monkeypatch.setattr(RunFolder, "write_run", full)
    target.start_error = TargetError("the first problem")
    with pytest.raises(TargetError, match="the first problem"):
        run(config, tmp_path / "run")
    target.start_error = None
    with pytest.raises(StoreError, match=r"no space for run\.json"):
        run(config, tmp_path / "another")


def test_a_bug_in_the_metrics_loses_no_request(config, tmp_path, target, load, judge, monkeypatch):
    def bug(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(results, "measure_level", bug)
    with pytest.raises(ZeroDivisionError):
        run(config, tmp_path / "run")
    assert target.stopped >= 1 and len(lines(tmp_path / "run")) == 6
    assert {record["audio"] for record in lines(tmp_path / "run")} == {f"audio/c2-000{i}.wav" for i in range(6)}
    assert len(list((tmp_path / "run" / "audio").iterdir())) == 6
    assert "internal error: ZeroDivisionError: a bug" in said(read(tmp_path / "run"))


def test_a_reader_that_has_gone_does_not_change_the_result(config, tmp_path, target, load, judge, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr("sys.stdout", gone)
        assert run(config, tmp_path / "run").exit_code == 0
        gone.flush()
        monkeypatch.undo()


def test_a_second_run_in_the_folder_of_one_that_goes_on_is_refused(config, tmp_path, target, load, judge):
    refused = []

    def second():
        with pytest.raises(StoreError, match="already holds a run"):
            run(config, tmp_path / "run")
        refused.append((tmp_path / "run" / ".spool" / "1" / "c2-0000.pcm").is_file())

    load.after["c2-0000"] = second
    assert run(config, tmp_path / "run").exit_code == 0
    assert refused == [True], "nothing of the first run was deleted"


def test_a_key_that_is_not_set_is_noticed_before_the_launch(config, tmp_path, target, load, judge, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    config.client = replace(config.client, api_key_env="NO_SUCH_KEY")
    with pytest.raises(ConfigError, match=r"client\.api_key_env=NO_SUCH_KEY: that environment variable is not set"):
        run(config, tmp_path / "run")
    assert target.started == 0
    config.client = replace(config.client, api_key_env="sk-abc123")
    with pytest.raises(ConfigError, match="not the key itself") as caught:
        run(config, tmp_path / "again")
    assert "sk-abc123" not in str(caught.value)
