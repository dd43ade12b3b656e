"""``omni-bench history`` and ``omni-bench gate`` from the command line to files and exit codes."""

from __future__ import annotations

import copy
import json
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
import run_factory as runs

from omni_bench.commands.cli import main
from omni_bench.nightly.history import schema
from omni_bench.records.invalid_reason import Code, InvalidReason
from omni_bench.records.run_folder import RunFolder


@pytest.fixture
def night(tmp_path):
    """A function that writes the run folder of a night and returns its path."""
    run = runs.make_run(concurrencies=(1,))

    def write(number, *, slower=1.0, name=None, **changes):
        one = copy.deepcopy(run)
        started = datetime(2026, 1, 1, 2, tzinfo=UTC) + timedelta(days=number, hours=1 if name else 0)
        one["started_utc"] = started.strftime("%Y-%m-%dT%H:%M:%SZ")
        wobble = slower * (1 + ((-1) ** number) * 0.005)
        for metric in ("ttfp_ms", "rtf", "e2el_ms"):
            summary = one["levels"][0]["metrics"][metric]
            one["levels"][0]["metrics"][metric] = summary | {"p50": summary["p50"] * wobble}
        rate = one["levels"][0]["metrics"]["audio_per_s"]
        one["levels"][0]["metrics"]["audio_per_s"] = rate | {"mean": rate["mean"] / wobble}
        folder = RunFolder(tmp_path / "runs" / (name or f"{number:02d}"))
        folder.write_run(one | changes)
        return str(folder.path)

    return write


@pytest.fixture
def db(tmp_path):
    return str(tmp_path / "history.sqlite")


def test_a_night_from_history_to_verdict(night, db, tmp_path, capsys, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    first = [night(number) for number in range(12)]
    assert main(["history", "--db", db, "add", *first]) == 0
    assert capsys.readouterr().out.count("added: ") == 12
    assert main(["history", "add", "--db", db, first[0]]) == 0
    assert "already there: " in capsys.readouterr().out

    good = night(12)
    assert main(["gate", good, "--db", db]) == 0
    assert "PASS (exit 0)" in capsys.readouterr().out
    assert (tmp_path / "runs" / "12" / "junit.xml").is_file()

    slow, again = night(13, slower=1.3), night(13, slower=1.3, name="again")
    assert main(["gate", slow, "--db", db]) == 2, "acute, and nobody looked again"
    out = tmp_path / "out"
    assert main(["gate", slow, "--db", db, "--reproduced-by", again, "--out", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "::error title=regression%2C rtf%2C c = 1::" in printed and "REGRESSION (exit 1)" in printed
    assert json.loads((out / "gate.json").read_text())["outcome"] == "REGRESSION"
    assert main(["gate", slow, "--db", db, "--until-accepted", "--out", str(out)]) == 1, "its second run is known"
    assert json.loads((out / "gate.json").read_text())["outcome"] == "REGRESSION"
    assert sorted(path.name for path in out.iterdir()) == ["gate.json", "gate.md", "junit.xml"]
    assert "omni-bench gate: REGRESSION" in summary.read_text()

    assert main(["history", "show", "--db", db, "--out", str(tmp_path / "out" / "gate.md")]) == 0  # no folder
    assert "no plots, as drawing failed" in capsys.readouterr().err
    assert main(["history", "show", "--db", db, "--out", str(tmp_path / "plots")]) == 0
    printed = capsys.readouterr().out
    assert "14 nights" in printed and "acute RTF p50 c = 1 +29" in printed
    assert len(list((tmp_path / "plots").glob("*.png"))) == 5

    assert main(["history", "--db", db, "baseline", "set", *first[:2], "--note", "seed"]) == 0
    assert main(["history", "baseline", "show", "--db", db]) == 0
    assert "(seed)" in capsys.readouterr().out


def test_a_terminal_of_80_columns_has_no_longer_line(night, db, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    main(["history", "add", "--db", db, *(night(number) for number in range(12))])
    again = night(12, slower=1.3, name="again")
    capsys.readouterr()
    assert main(["gate", night(12, slower=1.3), "--db", db, "--reproduced-by", again, "--out", "out"]) == 1
    assert main(["history", "show", "--db", db]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [line for line in lines if line.startswith("    omni-bench ")]
    assert commands[0].endswith("--note WHY"), "in one piece, to be copied"
    long = [line for line in lines if len(line) > 80 and line not in commands and max(map(len, line.split())) < 60]
    assert long == [] and any(line.startswith("REGRESSION (exit 1)") for line in lines)


def test_a_broken_night_exits_with_3(night, db, capsys):
    run = json.loads((RunFolder.open(night(0)).run_json).read_text())
    reason = InvalidReason(Code.INVALID_AUDIO, Code.INVALID_AUDIO.blame, "x").to_json()
    level = run["levels"][0] | {"valid": False, "invalid_reasons": [reason], "faulty": 1}
    broken = night(1, levels=[level], valid=False, invalid_reasons=[reason | {"level": "concurrency 1"}])
    assert main(["gate", broken, "--db", db]) == 3
    assert "HARD FAILURE (exit 3)" in capsys.readouterr().out
    assert main(["history", "--db", db, "baseline", "set", broken, "--note", "x"]) == 2
    assert "it is invalid" in capsys.readouterr().err


def test_a_new_history_is_reported_once(night, db, tmp_path, capsys):
    told = f"a new history was started at {db}"
    assert main(["gate", night(0), "--db", db, "--out", str(tmp_path / "out")]) == 2
    assert " ".join(capsys.readouterr().out.split()).count(told) == 1
    assert json.loads((tmp_path / "out" / "gate.json").read_text())["notes"][0] == told
    assert "a new history was started at " in (tmp_path / "out" / "gate.md").read_text()
    for again in (0, 1):
        assert main(["gate", night(again), "--db", db]) == 2
        assert "a new history" not in capsys.readouterr().out


def test_a_history_that_nights_were_added_to_is_not_new(night, db, capsys):
    assert main(["history", "add", "--db", db, night(0)]) == 0
    assert main(["gate", night(1), "--db", db]) == 2
    assert "a new history" not in capsys.readouterr().out


def test_what_goes_wrong_at_the_gate_is_3_and_never_inconclusive(night, db, tmp_path, capsys):
    assert main(["gate", str(tmp_path / "no"), "--db", db]) == 3
    assert (
        "no is not a run folder: there is no such file or folder; runs lie in reports/runs/SCENARIO/TIME\n"
        in capsys.readouterr().err
    )
    assert main(["gate", night(0), "--db", str(tmp_path)]) == 3
    assert main(["gate", night(1), "--db", db, "--pinned", night(5)]) == 3
    for wrong in (["--no-such-option"], [night(0), night(1)]):
        with pytest.raises(SystemExit) as end:
            main(["gate", *wrong])
        assert end.value.code == 3
    assert "Traceback" not in capsys.readouterr().err


def test_what_goes_wrong_with_the_history(night, db, tmp_path, capsys):
    assert main(["history", "show", "--db", db]) == 2
    assert "there is no such history" in capsys.readouterr().err
    assert main(["history", "add", "--db", db, str(tmp_path / "no")]) == 2
    (tmp_path / "empty.sqlite").touch()
    assert main(["history", "show", "--db", str(tmp_path / "empty.sqlite")]) == 2
    assert "holds no nights; add runs with" in capsys.readouterr().err
    assert main(["history", "add", "--db", db, night(0)]) == 0
    assert main(["history", "show", "--db", db, "--scenario", "smoke"]) == 2
    assert "there are: qwen3_tts" in capsys.readouterr().err


def test_a_night_that_cannot_be_read_leaves_every_file(db, tmp_path, capsys, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    assert main(["gate", str(broken), "--db", db]) == 3
    assert "::error title=gate::" in capsys.readouterr().out
    assert sorted(path.name for path in broken.iterdir()) == ["gate.json", "gate.md", "junit.xml", "run.json"]
    root = ElementTree.fromstring((broken / "junit.xml").read_bytes())
    assert root[0].attrib["errors"] == "1" and "is not JSON" in root[0][0][0].get("message")
    assert "NO NIGHT" in summary.read_text()
    missing, out = str(tmp_path / "none"), tmp_path / "out"
    assert main(["gate", missing, "--db", db, "--out", str(out), "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((out / "gate.json").read_text())
    assert document["run"] is None and document["exit_code"] == 3 and document["error"]["code"] == "no_night"
    assert main(["gate", missing, "--db", db]) == 3
    assert "--out FOLDER names one" in capsys.readouterr().err and not (tmp_path / "none").exists()


def test_bad_runs_do_not_keep_good_ones_out_of_the_history(night, db, tmp_path, capsys):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    specs = [str(tmp_path / "bad"), night(1), str(tmp_path / "none"), night(0)]
    assert main(["history", "add", "--db", db, *specs]) == 3
    captured = capsys.readouterr()
    assert captured.out.count("added: ") == 2 and "dated before 1 nights of the history" in captured.out
    assert captured.err.count("not added: ") == 2 and "2 of 4 runs were not added" in captured.err
    assert main(["history", "add", "--db", db, "--json", *specs]) == 3
    states = [one["state"] for one in json.loads(capsys.readouterr().out)]
    assert states == ["not added", "already there", "not added", "already there"]


def test_everything_is_there_as_json(night, db, capsys):
    assert main(["history", "add", "--db", db, *(night(number) for number in range(3))]) == 0
    capsys.readouterr()
    assert main(["gate", night(3), "--db", db, "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["outcome"] == "INCONCLUSIVE" and document["changes"] == document["next_steps"] == []
    assert main(["history", "baseline", "set", "--db", db, "--json", night(0), "--note", "seed"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["note"] == "seed"
    assert main(["history", "show", "--db", db, "--json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)
    assert [one["outcome"] for one in series["nights"]] == [None, None, None, "INCONCLUSIVE"]
    assert {one["metric"] for one in series["trends"]} == {"ttfp_ms", "rtf", "audio_per_s", "ttfp_tail_ms", "stalled"}
    assert series["trends"][0]["values"][0]["value"] > 0 and series["baseline"]["note"] == "seed"
    assert main(["history", "baseline", "show", "--db", db, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_a_doubtful_baseline_is_said_and_a_single_refused_run_once(night, db, tmp_path, capsys):
    run = runs.make_run(concurrencies=(1,))
    run["provenance"]["harness"]["dirty"] = True
    run["provenance"]["target"]["description"]["chaos"] = {"name": "drop_chunk"}
    odd = night(1, provenance=run["provenance"])
    assert main(["history", "--db", db, "add", odd]) == 0
    assert main(["history", "--db", db, "baseline", "set", odd, "--note", "x"]) == 0
    warned = capsys.readouterr().err
    assert f"warning: {odd}" in warned and "target.chaos=drop_chunk, uncommitted changes" in warned
    assert main(["history", "--db", db, "add", str(tmp_path / "no")]) == 2
    assert "the others" not in capsys.readouterr().err
    assert main(["history", "--db", db, "add", str(tmp_path / "no"), str(tmp_path / "none")]) == 2
    assert "2 of 2 runs were not added; nothing was added" in capsys.readouterr().err


def test_a_baseline_needs_a_reason(night, db, capsys):
    with pytest.raises(SystemExit):
        main(["history", "baseline", "set", "--db", db, night(0)])
    assert "--note" in capsys.readouterr().err


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])  # of a writer that has begun, and of one that ends
def test_the_lock_of_a_history_is_waited_for_and_that_is_said(night, db, capsys, monkeypatch, lock):
    monkeypatch.setattr(schema, "SAY_AFTER_S", 0.05)
    assert main(["history", "add", "--db", db, night(0)]) == 0
    other = sqlite3.connect(db, isolation_level=None, check_same_thread=False)
    other.execute(f"BEGIN {lock}")
    timer = threading.Timer(0.5, other.execute, ["COMMIT"])
    timer.start()
    try:
        assert main(["history", "add", "--db", db, night(1)]) == 0
    finally:
        timer.join()
        other.close()
    captured = capsys.readouterr()
    assert captured.err == f"waiting for the lock of {db}: another process writes to it (for 60 s at most)\n"


def test_results_of_vllm_bench_are_shown_and_marked(db, tmp_path, capsys):
    path = tmp_path / "bench.json"
    result = {"date": "20261128-000000", "completed": 8, "failed": 0, "duration": 3.0, "max_concurrency": 4}
    path.write_text(json.dumps(result | {"median_audio_rtf": 0.4, "backend": "openai-audio-speech"}))
    assert main(["history", "add", "--db", db, str(path)]) == 0
    assert main(["history", "show", "--db", db]) == 0
    printed = capsys.readouterr().out
    assert printed.count("no per-request data: advisory") == 2 and "0.400" in printed
    assert main(["gate", str(path), "--db", db]) == 3
