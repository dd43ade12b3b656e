"""The check in a run: found, written, kept, told, derived again, and left out."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from reasons import said

from omni_bench.records.run_folder import RunFolder
from omni_bench.run import prepare, rejudge
from omni_bench.run.cross_talk import write_cross_talk
from omni_bench.run.judging import GOOD
from omni_bench.run.orchestrate import run
from omni_bench.run.progress import RunProgress
from omni_bench.run.rejudge import judge_again, redraw

VICTIM, SOURCE = "c2-0004", "c2-0002"


def document(path: Path) -> dict:
    return json.loads((path / "run.json").read_text())


def lines(path: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (path / name).read_text().splitlines()]


@pytest.fixture
def quiet(config):
    """The configuration without other reasons for a level to be invalid."""
    config.asr.wer_limit = 1.0
    config.checks = replace(config.checks, cross_talk=True)
    return config


@pytest.fixture
def spoiled(quiet, kept, tmp_path, target, load, judge):
    """A run in which one output begins with all of another's words, but ends with its own."""
    clean = kept.with_name("clean")
    if not clean.exists():
        run(quiet, clean)
    texts = {record["request_id"]: record["text"] for record in lines(clean, "requests.jsonl")}
    judge.mishears[VICTIM] = f"{texts[SOURCE]} {texts[VICTIM]}"
    if not kept.exists():
        run(quiet, kept)
    shutil.copytree(kept, tmp_path / "run")
    return tmp_path / "run"


def test_a_clean_run_has_no_hits_and_says_what_was_compared(quiet, tmp_path, target, load, judge):
    outcome = run(quiet, tmp_path / "run")
    (level,) = outcome.run["levels"]
    found = level["cross_talk"]
    assert outcome.run["valid"] and found["hits"] == 0 == level["accuracy"]["cross_talk_hits"]
    # six outputs, each beside five others and the prompts of the warm-up
    assert found["pairs"] == 6 * (5 + len({line["text"] for line in lines(tmp_path / "run", "warmup.jsonl")}))
    assert found["null_pairs"] > 1000 and found["expected_false_hits"] == 0
    assert found["chance"] is None and found["first"] is None
    assert (tmp_path / "run/cross_talk.jsonl").read_text() == ""


def test_a_hit_makes_the_level_invalid_and_names_both(spoiled):
    document_ = document(spoiled)
    (level,) = document_["levels"]
    assert not document_["valid"] and level["cross_talk"]["hits"] == 1 == level["accuracy"]["cross_talk_hits"]
    assert level["cross_talk"]["first"]["source"] == SOURCE
    (reason,) = said(level)
    assert f"request {VICTIM} speaks words of {SOURCE} (onset: " in reason


def test_the_hit_is_written_and_both_recordings_are_kept(spoiled):
    (hit,) = lines(spoiled, "cross_talk.jsonl")
    assert (hit["victim"], hit["source"], hit["position"], hit["concurrency"]) == (VICTIM, SOURCE, "onset", 2)
    assert hit["audio"] == f"audio/{VICTIM}.wav"
    kept = {path.name for path in (spoiled / "audio").iterdir()}
    assert {f"{VICTIM}.wav", f"{SOURCE}.wav"} <= kept and len(kept) == 2 + GOOD


def test_the_report_tells(spoiled):
    report = (spoiled / "report.md").read_text()
    section = report.partition("## Cross-talk")[2].partition("\n## ")[0]
    assert f"| {VICTIM}" in section and SOURCE in section and "onset" in section
    worst = report.partition("## Worst utterances")[2].partition("\n## ")[0]
    assert "words of" in worst and SOURCE in worst


def test_words_of_the_warm_up_are_found(quiet, tmp_path, target, load, judge):
    run(quiet, tmp_path / "first")
    warmup = lines(tmp_path / "first", "warmup.jsonl")[0]
    judge.mishears[VICTIM] = warmup["text"]
    run(quiet, tmp_path / "run")
    (hit,) = lines(tmp_path / "run", "cross_talk.jsonl")
    assert hit["source"] == warmup["request_id"] and hit["position"] == "whole"


def test_reference_texts_count_if_they_were_sent(quiet, tmp_path, target, load, judge):
    quiet.client = replace(quiet.client, send_reference=True)
    run(quiet, tmp_path / "first")
    victim = next(one for one in lines(tmp_path / "first", "requests.jsonl") if one["request_id"] == VICTIM)
    judge.mishears[VICTIM] = f"{victim['ref_text']} {victim['text']}"
    run(quiet, tmp_path / "run")
    (hit,) = lines(tmp_path / "run", "cross_talk.jsonl")
    assert (hit["source"], hit["kind"], hit["position"]) == (VICTIM, "reference", "onset")
    quiet.client = replace(quiet.client, send_reference=False)
    run(quiet, tmp_path / "unsent")
    assert lines(tmp_path / "unsent", "cross_talk.jsonl") == []
    assert all(one["ref_text"] is None for one in lines(tmp_path / "unsent", "requests.jsonl"))


def test_a_failed_request_is_no_victim_but_a_source(quiet, tmp_path, target, load, judge):
    run(quiet, tmp_path / "first")
    texts = {record["request_id"]: record["text"] for record in lines(tmp_path / "first", "requests.jsonl")}
    load.spoil[SOURCE] = "timeout"
    judge.mishears[VICTIM] = texts[SOURCE]
    run(quiet, tmp_path / "run")
    (hit,) = lines(tmp_path / "run", "cross_talk.jsonl")
    assert (hit["victim"], hit["source"]) == (VICTIM, SOURCE)


@pytest.mark.parametrize("off", ["checks", "judge"])
def test_without_the_check_or_a_judge_it_is_not_available(quiet, tmp_path, target, load, judge, off, monkeypatch):
    if off == "checks":
        quiet.checks = replace(quiet.checks, cross_talk=False)
    else:
        monkeypatch.setattr(prepare, "find_judge", lambda *_: None)
    outcome = run(quiet, tmp_path / "run")
    (level,) = outcome.run["levels"]
    assert level["cross_talk"] is None and not (tmp_path / "run/cross_talk.jsonl").exists()
    report = (tmp_path / "run/report.md").read_text()
    assert ("n/a: not checked" in report) is (off == "checks")


def test_a_report_drawn_again_finds_the_same(spoiled):
    before, hits = document(spoiled), (spoiled / "cross_talk.jsonl").read_bytes()
    (spoiled / "cross_talk.jsonl").unlink()
    _, after = redraw(spoiled)
    assert after == before and (spoiled / "cross_talk.jsonl").read_bytes() == hits


def test_another_judge_finds_anew(quiet, tmp_path, target, load, judge, judge_spec, monkeypatch):
    quiet.output.save_audio = "all"
    run(quiet, tmp_path / "run")
    texts = {record["request_id"]: record["text"] for record in lines(tmp_path / "run", "requests.jsonl")}
    judge.mishears[VICTIM] = texts[SOURCE]
    monkeypatch.setattr(rejudge, "find_judge", lambda *_: judge_spec)
    with RunProgress() as progress:
        _, after = judge_again(tmp_path / "run", [], progress)
    assert after["levels"][0]["cross_talk"]["hits"] == 1
    assert [hit["victim"] for hit in lines(tmp_path / "run", "cross_talk.jsonl")] == [VICTIM]


def test_all_requests_failed_leaves_nothing_to_check(quiet, tmp_path, target, load, judge):
    load.spoil.update({f"c2-{number:04d}": "timeout" for number in range(6)})
    outcome = run(quiet, tmp_path / "run")
    assert outcome.run["levels"][0]["cross_talk"] is None


def test_hits_of_an_older_check_do_not_outlive_it(tmp_path):
    folder = RunFolder(tmp_path)
    folder.cross_talk_jsonl.write_text('{"victim": "c4-0000"}\n')
    write_cross_talk(folder, {}, {})
    assert not folder.cross_talk_jsonl.exists()
    write_cross_talk(folder, {}, {})  # nothing to remove is fine
