"""Old runs: results derived again from raw data, and another judge."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from omni_bench.errors import AccuracyError, ConfigError, StoreError
from omni_bench.load.runner import LevelInterrupted
from omni_bench.records.invalid_reason import Code, invalid, reasons_of
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.schema import SCHEMA_VERSION
from omni_bench.run import load_phase, rejudge
from omni_bench.run.orchestrate import run
from omni_bench.run.progress import RunProgress
from omni_bench.run.rejudge import judge_again, redraw


@pytest.fixture
def finished(config, kept, tmp_path, target, load, judge, judge_spec, monkeypatch):
    """A run with all audio, one silent request and one misheard one; and the same fake judge for ``judge_again``."""
    config.output.save_audio = "all"
    config.asr.wer_limit = 1.0
    load.spoil["c2-0001"] = bytes(48000 * 3)
    judge.mishears["c2-0004"] = "something else entirely"
    if not kept.exists():
        run(config, kept)
    shutil.copytree(kept, tmp_path / "run")
    monkeypatch.setattr(rejudge, "find_judge", lambda asr, *_: replace(judge_spec, name=f"fake {asr.model}"))
    return tmp_path / "run"


def document(path: Path) -> dict:
    return json.loads((path / "run.json").read_text())


def edit_lines(path: Path, change) -> None:
    records = [json.loads(line) for line in (path / "requests.jsonl").read_text().splitlines()]
    (path / "requests.jsonl").write_text("".join(json.dumps(change(record)) + "\n" for record in records))


def test_a_report_is_derived_from_the_raw_data_alone(finished):
    before = document(finished)
    broken = json.loads(json.dumps(before))
    broken["levels"][0]["metrics"]["ttfp_ms"]["p50"] = 12345.0
    (finished / "run.json").write_text(json.dumps(broken))
    (finished / "report.md").unlink()
    _, after = redraw(finished)
    assert after == before == document(finished)
    assert "TTFP" in (finished / "report.md").read_text()


def test_a_changed_timeline_changes_the_metrics(finished):
    def later(record):
        if record["request_id"] == "c2-0000":
            record["first_audio_ns"] += 50_000_000
        return record

    before = document(finished)["levels"][0]["metrics"]["ttfp_ms"]["mean"]
    edit_lines(finished, later)
    _, after = redraw(finished)
    assert after["levels"][0]["metrics"]["ttfp_ms"]["mean"] == pytest.approx(
        before + 50 / 5
    )  # the silent one does not count


def test_the_reasons_of_the_run_itself_are_carried_over(finished):
    edited = document(finished)
    edited["invalid_reasons"].append(invalid(Code.INTERRUPTED).to_json())
    (finished / "run.json").write_text(json.dumps(edited))
    _, after = redraw(finished)
    assert sorted(map(str, reasons_of(after))) == sorted(map(str, reasons_of(edited)))


def test_requests_that_are_missing_are_noticed(finished):
    text = (finished / "requests.jsonl").read_text().splitlines(keepends=True)
    (finished / "requests.jsonl").write_text("".join(text[:-1]))
    with pytest.raises(StoreError, match=r"has 5 requests of concurrency 2, run\.json says 6"):
        redraw(finished)


def test_utterances_that_are_missing_are_noticed(finished):
    text = (finished / "utterances.jsonl").read_text().splitlines(keepends=True)
    (finished / "utterances.jsonl").write_text("".join(text[:-2]))
    with pytest.raises(StoreError, match=r"utterances\.jsonl lacks 2 of 6 requests, such as c2-0004; .*judge"):
        redraw(finished)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            Path.unlink,
            r"utterances\.jsonl is missing, though the run was judged by fake-judge, as run\.json says; .*judge",
        ),
        (lambda path: path.write_bytes(b""), r"utterances\.jsonl lacks 6 of 6 requests, such as c2-0000; .*judge"),
    ],
)
def test_utterances_that_are_all_gone_are_noticed(finished, damage, message):
    before = document(finished)
    damage(finished / "utterances.jsonl")
    with pytest.raises(StoreError, match=message):
        redraw(finished)
    assert document(finished) == before
    again(finished)  # what the message advises
    redraw(finished)


def test_a_run_whose_judging_did_not_finish_lacks_no_utterances(config, tmp_path, target, load, judge):
    judge.error = AccuracyError("a judging process died")
    with pytest.raises(AccuracyError):
        run(config, tmp_path / "run")
    before = document(tmp_path / "run")
    assert before["provenance"]["judge"] is not None and not (tmp_path / "run" / "utterances.jsonl").exists()
    assert redraw(tmp_path / "run")[1] == before


def test_a_run_that_ended_before_any_request_has_nothing_to_report(config, tmp_path, target, load, judge):
    target.start_error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "run")
    assert document(tmp_path / "run")["levels"] == []
    with pytest.raises(StoreError, match=r"no request was finished in the run .*nothing to report") as caught:
        redraw(tmp_path / "run")
    assert str(tmp_path / "run") in str(caught.value)


def test_requests_of_a_measured_run_that_are_gone_are_named(finished):
    (finished / "requests.jsonl").unlink()
    with pytest.raises(StoreError, match=r"cannot read .*requests\.jsonl"):
        redraw(finished)


def test_a_recording_outside_the_run_folder_is_refused(finished):
    edit_lines(finished, lambda record: {**record, "audio": "../../secret.wav"})
    with pytest.raises(StoreError, match=r"line 1: its recording '\.\./\.\./secret\.wav' is outside the run folder"):
        redraw(finished)


def test_a_configuration_of_another_version_is_named(finished):
    edited = document(finished)
    edited["provenance"]["config"]["load"]["shape"] = "square"
    (finished / "run.json").write_text(json.dumps(edited))
    with pytest.raises(StoreError, match=r"run\.json: provenance\.config: .*unknown key 'load\.shape'"):
        redraw(finished)


def again(path: Path, *overrides: str) -> dict:
    with RunProgress() as progress:
        return judge_again(path, overrides, progress)[1]


def test_another_judge_replaces_the_accuracy(finished, judge):
    before = document(finished)
    assert before["levels"][0]["accuracy"]["above_50"] == 2
    judge.mishears.clear()
    after = again(finished, "asr.model=base", "asr.batch_size=4")
    assert after == document(finished)
    accuracy = after["levels"][0]["accuracy"]
    assert accuracy["judge"] == "fake base" and accuracy["above_50"] == accuracy["forced"] == 1
    assert after["provenance"]["judge"]["name"] == "fake base"
    assert after["provenance"]["config"]["asr"]["batch_size"] == 4
    assert after["levels"][0]["metrics"] == before["levels"][0]["metrics"]
    assert "c2-0001" not in judge.heard and len(judge.heard) == 5
    heard = {record["request_id"]: record for record in RunFolder.open(finished).read_utterances()}
    assert heard["c2-0004"]["wer"] == 0 and heard["c2-0004"]["audio"] == "audio/c2-0004.wav"
    again(finished)  # and the result can be judged again


def test_a_limit_is_applied_anew(finished):
    assert not any(reason["code"] == "wer" for reason in document(finished)["invalid_reasons"])
    after = again(finished, "asr.wer_limit=0.001")
    assert any("is above asr.wer_limit=0.001" in reason["text"] for reason in after["invalid_reasons"])
    assert not any(reason["code"] == "wer" for reason in again(finished, "asr.wer_limit=1")["invalid_reasons"])


def test_a_run_whose_judge_died_becomes_valid(config, tmp_path, target, load, judge, judge_spec, monkeypatch):
    monkeypatch.setattr(rejudge, "find_judge", lambda *_: judge_spec)
    judge.error = AccuracyError("a judging process died")
    with pytest.raises(AccuracyError):
        run(config, tmp_path / "run")
    assert not document(tmp_path / "run")["valid"]
    judge.error = None
    assert again(tmp_path / "run")["valid"]


def test_a_run_that_was_interrupted_in_its_load_phase_can_be_judged(
    config, tmp_path, target, load, judge, judge_spec, monkeypatch
):
    monkeypatch.setattr(rejudge, "find_judge", lambda *_: judge_spec)
    load.spoil["c2-0005"] = "cancelled"

    def interrupted(plan, **named):
        raise LevelInterrupted(load(plan, **named))

    monkeypatch.setattr(load_phase, "run_level", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "run")
    after = again(tmp_path / "run")
    assert not after["valid"] and "interrupted" in [reason["code"] for reason in after["invalid_reasons"]]
    assert len(judge.heard) == 5 and after["levels"][0]["accuracy"]["forced"] == 1


def test_a_warm_up_that_failed_stays_with_its_level(config, tmp_path, target, load, judge):
    load.spoil["c2-w0001"] = "http_status"
    before = run(config, tmp_path / "run").run
    assert redraw(tmp_path / "run")[1]["levels"] == before["levels"]


def test_a_run_of_schema_1_0_can_be_drawn_again(finished):
    old = document(finished)
    old["schema_version"] = "1.0"
    del old["levels"][0]["faulty"], old["levels"][0]["warmup"]
    (finished / "run.json").write_text(json.dumps(old))
    edit_lines(finished, lambda record: {name: value for name, value in record.items() if name != "chunk_ends"})
    _, after = redraw(finished)
    assert after["schema_version"] == SCHEMA_VERSION
    assert after["levels"][0]["faulty"] == 1 and after["levels"][0]["warmup"] is None


def test_a_run_without_a_judge_gets_one(config, tmp_path, target, load, judge, judge_spec, monkeypatch):
    config.asr.kind, config.output.save_audio = "none", "all"
    monkeypatch.setattr("omni_bench.run.prepare.find_judge", lambda *_: None)
    monkeypatch.setattr(rejudge, "find_judge", lambda *_: judge_spec)
    assert run(config, tmp_path / "run").run["provenance"]["judge"] is None
    redraw(tmp_path / "run")  # its lack of utterances is no damage
    assert again(tmp_path / "run")["levels"][0]["accuracy"]["wer"] == 0


def test_the_report_says_how_a_run_was_judged_later(config, tmp_path, target, load, judge, judge_spec, monkeypatch):
    config.asr.kind, config.output.save_audio = "none", "all"
    monkeypatch.setattr("omni_bench.run.prepare.find_judge", lambda *_: None)
    monkeypatch.setattr(rejudge, "find_judge", lambda *_: judge_spec)
    command = ["omni-bench", "run", "scenario=smoke", "asr=none", "output.save_audio=all"]
    run(config, tmp_path / "run", command)
    report, own = tmp_path / "run" / "report.md", " ".join(command)
    assert f"```sh\n{own}\n```" in report.read_text()
    again(tmp_path / "run", "asr.model=base", "asr.batch_size=4")
    assert f"```sh\n{own}\nomni-bench judge RUN asr.model=base asr.batch_size=4\n```" in report.read_text()
    redraw(tmp_path / "run")
    assert "omni-bench judge RUN" in report.read_text()


def test_audio_that_was_not_kept_is_an_error(finished):
    (finished / "audio" / "c2-0003.wav").unlink()
    with pytest.raises(ConfigError, match=r"1 of 5 recordings of .* were not kept, such as that of c2-0003; .*=all"):
        again(finished)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("asr=none", "judge takes asr.KEY=VALUE only"),
        ("asr.modle=base", "unknown key 'asr.modle'; did you mean 'model'"),
    ],
)
def test_a_bad_override(finished, override, message):
    with pytest.raises(ConfigError) as caught:
        again(finished, override)
    assert message in str(caught.value)


def test_a_request_that_is_there_twice_is_named(finished):
    edit_lines(finished, lambda record: {**record, "request_id": record["request_id"].replace("0002", "0000")})
    with pytest.raises(StoreError, match=r"requests\.jsonl, line 3: .*request 'c2-0000' is on line 1 already"):
        redraw(finished)


def test_judging_without_a_judge_is_refused(finished):
    with pytest.raises(ConfigError, match=r"asr\.kind=none: judge needs a judge"):
        again(finished, "asr.kind=none")


def test_texts_of_a_configuration_are_no_names_of_other_values(finished):
    """A command with a variable of the shell, say, or a stranger's run that names one of ours."""
    document = json.loads((finished / "run.json").read_text())
    config = document["provenance"]["config"]
    config["target"]["label"], config["client"]["voice"] = "serve ${HOME} ${oc.env:HOME}", "${"
    (finished / "run.json").write_text(json.dumps(document))
    assert redraw(finished)[1]["provenance"]["config"] == config
    assert again(finished, "asr.batch_size=4")["provenance"]["config"]["client"]["voice"] == "${"
    config["target"]["of_a_later_version"] = 1
    (finished / "run.json").write_text(json.dumps(document))
    with pytest.raises(StoreError, match=r"provenance\.config: unknown key 'target\.of_a_later_version'"):
        redraw(finished)
