"""The frames: what is in them, what is missing, and that the command line starts without pandas."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pandas as pd
import pytest
from compare_factory import Factory
from night_factory import history_of, nights
from repository import ROOT

import omni_bench
from omni_bench.compare.ab.arms import resolve_arms
from omni_bench.compare.ab.order import RunRecord, RunState
from omni_bench.compare.ab.state import Ending, StudyState
from omni_bench.compare.ab.words import read_words
from omni_bench.errors import ConfigError, StoreError
from omni_bench.export.columns import FRAMES, STUDY
from omni_bench.export.csv_files import write_csv
from omni_bench.export.frames import named
from omni_bench.nightly.history.database import HistoryAlarm
from omni_bench.records.level import Rate
from omni_bench.records.run_folder import RunFolder


@pytest.fixture
def make(tmp_path):
    return Factory(tmp_path)


@pytest.fixture
def make_study(make, tmp_path):
    """A study of one pair that was repeated, after an invalid after."""

    def study(name="study"):
        folder, records = tmp_path / name, []
        for number, (attempt, arm, failures) in enumerate(((1, "before", 0), (1, "after", 1), (2, "after", 0)), 1):
            make.folder(f"{name}/runs/{number:02d}-{arm}", failures=failures, started=number, levels=(2,))
            state = RunState.INVALID if failures else RunState.DONE
            one = RunRecord(number, 1, attempt, arm, f"{number:02d}-{arm}", state, "2026-11-28T00:00:00Z")
            records.append(one)
        make.folder(f"{name}/runs/04-before", started=4, levels=(2,))
        records.append(RunRecord(4, 1, 2, "before", "04-before", RunState.DONE, "2026-11-28T00:00:00Z"))
        words = read_words(["before=http://127.0.0.1:1", "after=http://127.0.0.1:2", "pairs=1", "asr=none"])
        arms = resolve_arms(words, tmp_path, lambda source: None)
        StudyState(
            ("omni-bench", "ab"), "2026-11-28T00:00:00Z", {"version": "0.1.0"}, words.plan, 0, "before", arms,
            tuple(records), ending=Ending("INCONCLUSIVE", 2),
        ).write(folder)  # fmt: skip
        return folder

    return study


def test_a_run(make):
    path = make.folder("run", levels=(1, 4), corrupted=(3,), failures=1)
    frames, run = omni_bench.load_run(path), json.loads((path / "run.json").read_text())
    for name, frame in named(frames).items():
        assert list(frame.columns) == [column.name for column in FRAMES["run"][name]]
        assert set(frame["run"]) == {"run"}
    level, first = run["levels"][1], frames.levels.iloc[1]
    assert (first.concurrency, first.failed, first.valid) == (4, 1, False)
    assert first.invalid_reasons == level["invalid_reasons"][0]["code"]
    assert first.ttfp_ms_p50 == level["metrics"]["ttfp_ms"]["p50"] and first.ttfp_ms_n == 14
    assert first.audio_per_s == level["metrics"]["audio_per_s"]["mean"] and first.wer == level["accuracy"]["wer"]
    assert pd.isna(first.rate_hz) and pd.isna(first.cross_talk) and pd.isna(first.ttfp_ms_p99)
    requests = frames.requests
    assert len(requests) == 30 and requests.valid.sum() == 28
    of_level = requests[(requests.concurrency == 4) & requests.valid]
    assert of_level.ttfp_ms.median() == pytest.approx(first.ttfp_ms_p50)
    failed = requests[requests.error_kind.notna()].iloc[0]
    assert failed.error_kind == "connect" and pd.isna(failed.ttfp_ms) and pd.isna(failed.ended_ns)
    one = frames.chunks[frames.chunks.request_id == of_level.iloc[0].request_id]
    assert len(one) == of_level.iloc[0].http_chunks and one.audio_ms.sum() / 1000 == of_level.iloc[0].audio_s
    assert one.after_start_ms.iloc[0] == pytest.approx(of_level.iloc[0].ttfp_ms)
    assert frames.utterances.corrupted.sum() == 4  # one a level, and the failed
    assert re.fullmatch(
        r"RunFrames\(requests 30 x \d+, chunks \d+ x \d+, utterances 30 x \d+, levels 2 x \d+\)", repr(frames)
    )


def test_a_recording_opens_from_anywhere_and_none_outside_of_the_run(make):
    path = make.folder("run", levels=(1,))
    (path / "audio").mkdir()
    (path / "audio" / "a.wav").write_bytes(b"RIFF")
    (path / "loop").symlink_to("loop")
    frames = omni_bench.load_run(path)
    row = frames.utterances.iloc[0].copy()
    row["audio"] = "audio/a.wav"
    assert frames.recording(row) == (path / "audio" / "a.wav").resolve()
    for audio in (None, "audio/gone.wav", "../run/../../../etc/passwd", "/etc/passwd", "a\0b", "loop/a.wav"):
        row["audio"] = audio
        assert frames.recording(row) is None


def test_an_open_loop_has_rates(make):
    frames = omni_bench.load_run(make.folder("run", levels=(Rate(2.5),)))
    for frame in named(frames).values():
        assert set(frame.rate_hz) == {2.5} and frame.concurrency.isna().all()


def test_a_run_that_is_committed_without_its_requests():
    frames = omni_bench.load_run(ROOT / "reports/qwen3_tts_cpu")
    assert len(frames.levels) == 5 and frames.requests.empty and "ttfp_ms" in frames.requests


def test_a_lone_surrogate_of_a_server(make):
    path = make.folder("run", levels=(1,))
    lines = (path / "requests.jsonl").read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "server_request_id": "\udc80"})
    (path / "requests.jsonl").write_text("\n".join(lines) + "\n")
    assert omni_bench.load_run(path).requests.server_request_id[0] == "\\udc80"


def test_a_study(make_study):
    frames = omni_bench.load_study(make_study() / "ab.json")
    names = [column.name for column in STUDY]
    assert all(list(frame.columns[:4]) == names for frame in named(frames).values())
    assert frames.levels[["run", "arm", "pair", "attempt", "counts"]].to_numpy().tolist() == [
        ["01-before", "before", 1, 1, False], ["02-after", "after", 1, 1, False],
        ["03-after", "after", 1, 2, True], ["04-before", "before", 1, 2, True],
    ]  # fmt: skip
    assert frames.requests.groupby("run").size().to_dict() == frames.levels.set_index("run").requests.to_dict()


def test_a_history(tmp_path):
    history = history_of(found := nights(3, concurrencies=(1, 4)), tmp_path / "h.sqlite")
    alarm = HistoryAlarm("ttfp_ms", "c = 1", "acute", found[1].run_id, found[2].run_id, 0.24)
    history.record_verdict(found[2], "REGRESSION", 1, [alarm])
    history.set_baseline([found[0].run_id, found[1].run_id], "=why")
    history.close()
    frames = omni_bench.load_history(tmp_path / "h.sqlite")
    for name, frame in named(frames).items():
        assert list(frame.columns) == [column.name for column in FRAMES["history"][name]]
    assert frames.nights.outcome.fillna("").tolist() == ["", "", "REGRESSION"]
    assert frames.nights.started_utc[1] == pd.Timestamp("2026-01-02T02:00:00Z")
    of_load = frames.levels[frames.levels.load == "c = 4"]
    assert of_load.ttfp_ms_p50.tolist() == [night.levels[1].value("ttfp_ms") for night in found]
    assert frames.alarms.raised_by.tolist() == [found[2].run_id] and frames.alarms.change.tolist() == [0.24]
    assert frames.baselines.run_id.tolist() == [found[0].run_id, found[1].run_id]


def test_folders_that_are_something_else(make, make_study, tmp_path):
    study, run = make_study(), make.folder("run")
    for load, path, message in (
        (omni_bench.load_run, study, "load_study"),
        (omni_bench.load_run, tmp_path / "nope", "no such file or folder; runs lie in"),
        (omni_bench.load_run, tmp_path, f"such as {run}"),
        (omni_bench.load_study, run, "is not the folder of a study"),
        (omni_bench.load_study, tmp_path / "nope", "there is no such folder; studies lie in"),
        (omni_bench.load_history, tmp_path / "nope", "history add RUN makes one"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            load(path)
    assert not (tmp_path / "nope").exists()
    (run / "run.json").unlink()
    with pytest.raises(StoreError, match="did not finish"):
        omni_bench.load_run(run)
    with pytest.raises(StoreError, match="not a database"):
        omni_bench.load_history(study / "ab.json")


def test_csv_of_hostile_texts(make, tmp_path):
    path = make.folder("run", levels=(2,))
    folder = RunFolder(path)
    risky = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\tx", 'a "quoted"\nline', "fine"]
    lines = folder.read_requests()
    folder.write_lines(folder.requests_jsonl, [{**one, "text": risky[i % 7]} for i, one in enumerate(lines)])
    frames = omni_bench.load_run(path)
    assert frames.requests.text[:7].tolist() == risky
    files = write_csv(frames, tmp_path / "csv")
    assert [file.name for file in files] == ["requests.csv", "chunks.csv", "utterances.csv", "levels.csv"]
    back = pd.read_csv(files[0])
    assert back.text[:7].tolist() == [f"'{text}" for text in risky[:5]] + risky[5:]
    assert back.ttfp_ms.tolist() == frames.requests.ttfp_ms.tolist() and back.ref_text.isna().all()
    assert pd.read_csv(files[3]).ttfp_ms_p50.tolist() == frames.levels.ttfp_ms_p50.tolist()


def test_the_notebook_of_the_docs(make, make_study, tmp_path, monkeypatch, capsys):
    make.folder("reports/runs/smoke/2026-01-31T12-00-00.000Z", corrupted=(3,))
    make_study("reports/runs/ab/2026-01-31T12-00-00.000Z")
    history_of(nights(3), tmp_path / "reports/runs/history.sqlite").close()
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {})
    printed = capsys.readouterr().out
    assert "ttfp_ms_p50" in printed and "before" in printed and "2026-01-03" in printed


def test_the_import_is_light():
    code = "import omni_bench, sys; omni_bench.__version__; print('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    with pytest.raises(AttributeError, match="nope"):
        omni_bench.nope  # noqa: B018
