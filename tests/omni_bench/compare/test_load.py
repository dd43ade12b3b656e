"""Runs from disk: what a user may type, and that a folder gives what its run measured."""

from __future__ import annotations

import json

import pytest

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.load import load_arm, load_run
from omni_bench.compare.result import ComparisonOutcome
from omni_bench.compare.stats.length_guard import PER_REQUEST
from omni_bench.errors import ConfigError, StoreError

TAILS = ("ttfp_tail_ms", "stalled")


def sources(spec):
    return [run.source for run in load_arm(str(spec))]


def test_a_run_folder_is_read_whole(make):
    view = load_run(make.folder("run", levels=(4, 1), cross_talk=0, corrupted=(3,)))
    assert [level.concurrency for level in view.levels] == [1, 4]
    assert len(view.requests) == 28 and len({request.key for request in view.requests}) == 28
    assert [request.corrupted for request in view.requests].count(True) == 2
    first = next(request for request in view.requests if request.key == (1, "prompt-c1-0000", 0, 0))
    assert first.audio_s == pytest.approx(1.0) and first.e2el_ms == pytest.approx(50 + 9 * 25)
    assert (first.edits, first.words) == (0, 13)
    assert view.level(4).accuracy["cross_talk_hits"] == 0 and view.invalid == ()
    assert view.facts.prompts.startswith("seed_tts_mini (en), 60 prompts, sha256 abab")


def test_failed_requests_have_no_length_but_count_as_corrupted(make):
    view = load_run(make.folder("run", levels=(1,), failures=1))
    failed = [request for request in view.requests if request.audio_s is None]
    assert len(failed) == 1 and failed[0].e2el_ms is None and failed[0].corrupted and failed[0].edits == 13
    assert any("1 of 15 requests failed" in str(reason) for reason in view.invalid)


def test_prompts_that_repeat_without_seeds_stay_apart(make):
    path = make.folder("run", levels=(1,), requests=8)
    lines = [json.loads(line) for line in (path / "requests.jsonl").read_text().splitlines()]
    for line in lines:
        line |= {"prompt_id": "same", "seed": None}
    (path / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [request.key.occurrence for request in load_run(path).requests] == list(range(8))


def test_folders_of_runs_become_arms_and_compare(make):
    before, after = make.folders("before", 5), make.folders("after", 5, slower=1.1, start=3)
    comparison = compare_runs(load_arm(str(before)), load_arm(str(after)))
    assert comparison.outcome is ComparisonOutcome.REGRESSION and comparison.guard.basis == PER_REQUEST
    assert comparison.accuracy.flags.utterances == 28 and comparison.accuracy.flags.p == 1.0


def test_what_a_user_may_type(make):
    root = make.folders("runs", 3)
    runs = [str(root / str(i)) for i in range(3)]
    assert sources(root) == runs
    assert sources(f"{root}/*") == runs
    assert sources(f"{root}/[12]") == runs[1:]
    assert sources(",".join(reversed(runs))) == runs[::-1]
    assert sources(f"{root}/0/run.json") == runs[:1]
    assert sources(f"{runs[2]}, {runs[0]},") == [runs[2], runs[0]]


def test_a_folder_without_requests_is_read_from_its_summary(make):
    path = make.folder("run")
    (path / "requests.jsonl").unlink()
    view = load_run(path)
    assert view.requests is None and view.level(1).value("ttfp_ms") > 0


def test_a_run_of_an_older_version_gets_its_tail_from_its_requests(make):
    path = make.folder("old", requests=14)
    run = json.loads((path / "run.json").read_text())
    wanted = [[level["metrics"].pop(name)["mean"] for name in TAILS] for level in run["levels"]]
    (path / "run.json").write_text(json.dumps(run))
    view = load_run(path)
    assert [[level.value(name) for name in TAILS] for level in view.levels] == wanted
    assert wanted[0][0] > view.levels[0].value("ttfp_ms") and wanted[0][1] == 0


def test_what_is_no_run_is_refused(make, tmp_path):
    root = make.folders("runs", 2)
    with pytest.raises(ConfigError, match="no such file or folder"):
        load_arm(str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="no run fits the pattern"):
        load_arm(f"{tmp_path}/none*")
    with pytest.raises(ConfigError, match="names no run"):
        load_arm(" , ")
    with pytest.raises(ConfigError, match="listed twice"):
        load_arm(f"{root},{root}/1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="is not a run folder and holds none"):
        load_arm(str(tmp_path / "empty"))
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ConfigError, match="neither a run folder nor a JSON file"):
        load_arm(str(tmp_path / "notes.txt"))


def test_a_killed_run_is_not_skipped(make):
    root = make.folders("runs", 2)
    (root / "1" / "run.json").unlink()
    with pytest.raises(StoreError, match="did not finish"):
        load_arm(str(root))


def test_a_damaged_line_is_named(make):
    path = make.folder("run", levels=(1,))
    lines = (path / "requests.jsonl").read_text().splitlines()
    lines[2] = "{}"
    (path / "requests.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(StoreError):
        load_run(path)
