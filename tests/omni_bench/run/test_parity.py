"""The parity check within a run: what is sent alone, what is written, and what ends it early."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reasons import said

from omni_bench.accuracy.parity.codes import FetchedCodes
from omni_bench.errors import ConfigError, StoreError, TargetError
from omni_bench.load.runner import LevelBroken, LevelInterrupted
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.run import load_phase, rejudge
from omni_bench.run import parity as alone
from omni_bench.run.judging import GOOD
from omni_bench.run.orchestrate import run
from omni_bench.run.parity import claims_determinism
from omni_bench.run.progress import RunProgress
from omni_bench.run.rejudge import judge_again, redraw

SOLO = ["solo-c2-0000", "solo-c2-0001", "solo-c2-0000-again", "solo-c2-0001-again", "solo-c2-0002"]


class FakeCodes:
    """In the place of the server's endpoint: each request has the same codes unless ``changed`` says otherwise."""

    def __init__(self) -> None:
        self.present = True
        self.changed: dict[str, tuple[int, int]] = {}
        self.asked: list[list[str]] = []

    def __call__(self, base_url: str, names: Any) -> FetchedCodes:
        self.asked.append(list(names))
        if not self.present:
            return FetchedCodes({}, "HTTP 404")
        codes = {name: np.zeros((20, 16), np.int32) for name in names}
        for name in set(names) & set(self.changed):
            codes[name][self.changed[name]] += 1
        return FetchedCodes(codes)


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> FakeCodes:
    fake = FakeCodes()
    monkeypatch.setattr(alone, "fetch_codes", fake)
    return fake


@pytest.fixture
def parity_config(config):
    """The smoke scenario with a parity check of three requests; the audio of the stand-ins is no speech."""
    config.checks.parity_requests = 3
    config.checks.signal = False
    config.checks.cross_talk = False
    config.asr.own_error = False
    return config


def lines(run_dir: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / name).read_text().splitlines()]


def parity_of(document: dict[str, Any]) -> dict[str, Any]:
    return document["levels"][0]["parity"]


def test_equal_answers_leave_a_valid_run_and_no_metric_counts_them(
    parity_config, tmp_path, target, load, judge, codes, capsys
):
    outcome = run(parity_config, tmp_path / "run")
    (level,) = outcome.run["levels"]
    assert outcome.exit_code == 0 and level["requests"] == 6 and load.levels == [2, 1]
    parity = level["parity"]
    assert (parity["kind"], parity["compared"], parity["mismatches"], parity["exact"]) == ("codes", 3, 0, 3)
    assert (parity["repeatable"], parity["repeats"], parity["sent"]) == (True, 2, 5)
    assert (parity["judged"], parity["mcnemar_p"]) == (3, 1.0)
    assert level["accuracy"]["parity_mismatches"] == 0 and level["accuracy"]["utterances"] == 6
    solos = lines(tmp_path / "run", "solo.jsonl")
    assert [record["request_id"] for record in solos] == SOLO
    assert set(solos[0]) == set(lines(tmp_path / "run", "requests.jsonl")[0])
    assert len(lines(tmp_path / "run", "parity.jsonl")) == 5
    assert len(lines(tmp_path / "run", "codes.jsonl")) == 3 + 5
    assert len(lines(tmp_path / "run", "utterances.jsonl")) == 6
    assert not [path for path in (tmp_path / "run" / "audio").iterdir() if path.name.startswith("solo")]
    err = capsys.readouterr().err
    assert "alone, for parity: requests 5/5" in err and "judging with fake-judge 11/11" in err


def test_the_requests_sent_alone_are_those_of_the_level(parity_config, tmp_path, target, load, judge, codes):
    run(parity_config, tmp_path / "run")
    company = {record["request_id"]: record for record in lines(tmp_path / "run", "requests.jsonl")}
    for record in lines(tmp_path / "run", "solo.jsonl"):
        twin = company[record["request_id"].removeprefix("solo-").removesuffix("-again")]
        assert (record["text"], record["seed"], record["prompt_id"]) == (twin["text"], twin["seed"], twin["prompt_id"])
        assert record["concurrency"] == 1


def test_without_the_check_nothing_is_sent_or_written(parity_config, tmp_path, target, load, judge, codes):
    parity_config.checks.parity_requests = 0
    outcome = run(parity_config, tmp_path / "run")
    assert load.levels == [2] and codes.asked == [] and parity_of(outcome.run) is None
    assert outcome.run["levels"][0]["accuracy"]["parity_mismatches"] is None
    assert not list((tmp_path / "run").glob("solo.jsonl")) + list((tmp_path / "run").glob("parity.jsonl"))


def test_a_code_that_differs_in_company_is_located_and_both_recordings_are_kept(
    parity_config, tmp_path, target, load, judge, codes
):
    codes.changed["c2-0001"] = (11, 4)
    outcome = run(parity_config, tmp_path / "run")
    parity = parity_of(outcome.run)
    assert parity["mismatches"] == 1 and outcome.exit_code == 0, "a finding, not an error, of such a server"
    first = parity["first"]
    assert (first["request_id"], first["solo_id"]) == ("c2-0001", "solo-c2-0001")
    assert (first["first_frame"], first["first_codebook"]) == (11, 4)
    assert {one["request_id"] for one in first["neighbours"]} == {f"c2-000{i}" for i in (0, 2, 3, 4, 5)}
    kept = {path.name for path in (tmp_path / "run" / "audio").iterdir()}
    assert {name for name in kept if name.startswith("solo")} == {"solo-c2-0001.wav"} and "c2-0001.wav" in kept
    report = (tmp_path / "run" / "report.md").read_text()
    assert "## Parity" in report and "(frame 11, codebook 4)" in report and "2/3" in report


def test_the_same_difference_is_an_error_of_a_server_that_claims_determinism(
    parity_config, tmp_path, target, load, judge, codes
):
    target.health = {"deterministic": True}
    codes.changed["c2-0001"] = (11, 4)
    outcome = run(parity_config, tmp_path / "run")
    assert outcome.exit_code == 1
    assert any("parity: 1 of 3 answers differ" in reason for reason in said(outcome.run))


def test_a_server_without_codes_is_asked_once_and_compared_by_samples(
    parity_config, tmp_path, target, load, judge, codes
):
    codes.present = False
    load.spoil["solo-c2-0002"] = (9000 * np.sin(0.02 * np.arange(60000))).astype("<i2").tobytes()
    parity = parity_of(run(parity_config, tmp_path / "run").run)
    assert [len(names) for names in codes.asked] == [3, 0]
    assert (parity["kind"], parity["compared"], parity["mismatches"]) == ("pcm", 3, 1)
    assert parity["first"]["request_id"] == "c2-0002" and parity["first"]["first_sample"] is not None
    assert not (tmp_path / "run" / "codes.jsonl").exists()


def test_a_server_that_does_not_repeat_itself_is_compared_by_transcripts(
    parity_config, tmp_path, target, load, judge, codes
):
    codes.changed = {name: (i, 0) for i, name in enumerate([*SOLO, "c2-0000"])}
    outcome = run(parity_config, tmp_path / "run")
    parity = parity_of(outcome.run)
    assert outcome.exit_code == 0 and parity["repeatable"] is False
    assert (parity["kind"], parity["differ"], parity["mismatches"], parity["first"]) == ("transcript", 3, 0, None)
    assert "**Not repeatable**" in (tmp_path / "run" / "report.md").read_text()
    kept = {path.stem for path in (tmp_path / "run" / "audio").iterdir()}
    assert kept == {f"c2-000{i}" for i in range(GOOD)}, "differences that prove nothing keep no recordings"


def test_words_damaged_in_company_only_are_seen(parity_config, tmp_path, target, load, judge, codes):
    parity_config.asr.wer_limit = 1.0
    for name in ("c2-0000", "c2-0002"):
        codes.changed[name] = (1, 1)
        judge.mishears[name] = "nothing of the kind was ever said here"
    outcome = run(parity_config, tmp_path / "run")
    assert outcome.exit_code == 1
    (reason,) = said(outcome.run["levels"][0])
    assert "2 of 3 utterances are corrupted in company and none alone" in reason
    damaged, fine, *_ = lines(tmp_path / "run", "parity.jsonl")
    assert damaged["worse"] and damaged["wer_between"] > 0.5 and damaged["heard"].startswith("nothing of the kind")
    assert fine["wer_between"] == 0 and not fine["worse"]


def test_a_request_that_fails_alone_is_a_failure_of_its_level(parity_config, tmp_path, target, load, judge, codes):
    load.spoil["solo-c2-0001"] = "timeout"
    outcome = run(parity_config, tmp_path / "run")
    (level,) = outcome.run["levels"]
    assert level["failed"] == 0 and level["parity"]["failed"] == {"timeout": 1} and level["parity"]["compared"] == 2
    assert said(level) == ["1 of 5 requests failed when sent alone (timeout 1)"]


def test_a_request_that_failed_in_company_is_replaced_by_the_next(parity_config, tmp_path, target, load, judge, codes):
    load.spoil["c2-0000"] = "timeout"
    parity = parity_of(run(parity_config, tmp_path / "run").run)
    assert parity["compared"] == 3
    assert [record["request_id"] for record in lines(tmp_path / "run", "parity.jsonl")][:3] == [
        "c2-0001",
        "c2-0002",
        "c2-0003",
    ]


@pytest.mark.parametrize("held_back", [True, False], ids=["by the level", "at once"])
def test_ctrl_c_in_the_phase_leaves_the_levels(
    parity_config, tmp_path, target, load, judge, codes, monkeypatch, held_back
):
    load.spoil["solo-c2-0002"] = "cancelled"

    def interrupted(plan: Any, **named: Any) -> LevelRecording:
        if plan.concurrency != 1:
            return load(plan, **named)
        raise LevelInterrupted(load(plan, **named)) if held_back else KeyboardInterrupt

    monkeypatch.setattr(load_phase, "run_level", interrupted)
    with pytest.raises(KeyboardInterrupt, match="6 finished requests are in"):
        run(parity_config, tmp_path / "run")
    document = RunFolder.open(tmp_path / "run").read_run()
    assert target.stopped >= 1 and not document["valid"]
    (reason,) = said(document)
    assert reason.startswith("the run was interrupted while requests were sent alone for the parity check")
    (level,) = document["levels"]
    assert level["valid"] and level["completed"] == 6
    assert (tmp_path / "run" / "audio" / "c2-0005.wav").is_file(), "all audio, for omni-bench judge"
    if held_back:
        assert level["parity"]["compared"] == 2 and level["parity"]["failed"] == {"cancelled": 1}
    else:
        assert level["parity"] is None


def test_a_client_that_dies_in_the_phase_leaves_the_levels(
    parity_config, tmp_path, target, load, judge, codes, monkeypatch
):
    def broken(plan: Any, **named: Any) -> LevelRecording:
        if plan.concurrency != 1:
            return load(plan, **named)
        raise LevelBroken("the load worker ended early", load(plan, **named))

    monkeypatch.setattr(load_phase, "run_level", broken)
    with pytest.raises(LevelBroken):
        run(parity_config, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    (level,) = folder.read_run()["levels"]
    assert level["concurrency"] == 2 and level["completed"] == 6
    names = [json.loads(line)["request_id"] for line in folder.requests_jsonl.read_text().splitlines()]
    assert not [name for name in names if name.startswith("solo")]


def test_a_server_that_dies_in_the_phase_leaves_the_levels(parity_config, tmp_path, target, load, judge, codes):
    load.after["solo-c2-0002"] = lambda: setattr(target, "alive", False)
    with pytest.raises(TargetError, match="the server died while requests were sent alone for the parity check"):
        run(parity_config, tmp_path / "run")
    document = RunFolder.open(tmp_path / "run").read_run()
    assert document["levels"][0]["valid"] and not document["valid"]
    assert any("while requests were sent alone" in reason for reason in said(document))
    assert document["levels"][0]["parity"]["compared"] == 3
    assert len(list((tmp_path / "run" / "audio").iterdir())) == 11


def test_a_report_drawn_again_says_the_same(parity_config, tmp_path, target, load, judge, codes):
    codes.changed["c2-0001"] = (11, 4)
    run(parity_config, tmp_path / "run")
    before = RunFolder.open(tmp_path / "run").read_run()
    report = (tmp_path / "run" / "report.md").read_text()
    _, after = redraw(tmp_path / "run")
    assert after == before and (tmp_path / "run" / "report.md").read_text() == report


def test_another_judge_hears_the_requests_sent_alone_too(
    parity_config, tmp_path, target, load, judge, codes, judge_spec, monkeypatch
):
    parity_config.output.save_audio = "all"
    run(parity_config, tmp_path / "run")
    monkeypatch.setattr(rejudge, "find_judge", lambda *_: judge_spec)
    judge.mishears["solo-c2-0000"] = "quite another sentence than that"
    _, document = judge_again(tmp_path / "run", [], RunProgress())
    assert len(judge.heard) == 11
    parity = parity_of(document)
    assert (parity["kind"], parity["mismatches"], parity["worse"], parity["worse_alone"]) == ("codes", 0, 0, 1)
    assert lines(tmp_path / "run", "parity.jsonl")[0]["heard_alone"] == "quite another sentence than that"


def test_a_recording_sent_alone_that_was_not_kept_is_missed(parity_config, tmp_path, target, load, judge, codes):
    parity_config.output.save_audio = "all"
    run(parity_config, tmp_path / "run")
    (tmp_path / "run" / "audio" / "solo-c2-0001.wav").unlink()
    with pytest.raises(ConfigError, match=r"1 of 11 recordings .* such as that of solo-c2-0001"):
        judge_again(tmp_path / "run", [], RunProgress())


def test_a_line_of_parity_that_is_broken_is_named(parity_config, tmp_path, target, load, judge, codes):
    run(parity_config, tmp_path / "run")
    path = tmp_path / "run" / "parity.jsonl"
    path.write_text(path.read_text().replace('"repeat": false', '"repeat": 0', 1))
    with pytest.raises(StoreError, match=r"parity\.jsonl, line 1: .*repeat is 0; expected bool"):
        redraw(tmp_path / "run")


@pytest.mark.parametrize(
    ("health", "claims"),
    [({"deterministic": True}, True), ({"deterministic": "yes"}, False), ({}, False), (None, False), ([], False)],
)
def test_only_the_server_itself_can_claim_determinism(health, claims):
    assert claims_determinism({"target": {"description": {"health": health}}}) is claims
