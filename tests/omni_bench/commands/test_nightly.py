"""``omni-bench history`` and ``omni-bench gate`` from the command line to files and exit codes."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta

import pytest
import run_factory as runs

from omni_bench.commands.cli import main
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
    assert sorted(path.name for path in out.iterdir()) == ["gate.json", "gate.md", "junit.xml"]
    assert "omni-bench gate: REGRESSION" in summary.read_text()

    assert main(["history", "show", "--db", db, "--out", str(tmp_path / "out" / "gate.md")]) == 0  # no folder
    assert "no plots, as drawing failed" in capsys.readouterr().err
    assert main(["history", "show", "--db", db, "--out", str(tmp_path / "plots")]) == 0
    printed = capsys.readouterr().out
    assert "14 nights" in printed and "acute rtf c = 1 +29" in printed
    assert len(list((tmp_path / "plots").glob("*.png"))) == 3

    assert main(["history", "--db", db, "baseline", "set", *first[:2], "--note", "seed"]) == 0
    assert main(["history", "baseline", "show", "--db", db]) == 0
    assert "(seed)" in capsys.readouterr().out


def test_a_broken_night_exits_with_3(night, db, capsys):
    run = json.loads((RunFolder.open(night(0)).run_json).read_text())
    reason = InvalidReason(Code.INVALID_AUDIO, Code.INVALID_AUDIO.blame, "x").to_json()
    level = run["levels"][0] | {"valid": False, "invalid_reasons": [reason], "faulty": 1}
    broken = night(1, levels=[level], valid=False, invalid_reasons=[reason | {"level": "concurrency 1"}])
    assert main(["gate", broken, "--db", db]) == 3
    assert "HARD FAILURE (exit 3)" in capsys.readouterr().out
    assert main(["history", "--db", db, "baseline", "set", broken]) == 2
    assert "it is invalid" in capsys.readouterr().err


def test_a_new_history_is_reported_once(night, db, tmp_path, capsys):
    told = f"a new history was started at {db}"
    assert main(["gate", night(0), "--db", db, "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().out.splitlines().count(told) == 1
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
    assert "no is not a run folder: there is no such file or folder\n" in capsys.readouterr().err
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


def test_results_of_vllm_bench_are_shown_and_marked(db, tmp_path, capsys):
    path = tmp_path / "bench.json"
    result = {"date": "20261128-000000", "completed": 8, "failed": 0, "duration": 3.0, "max_concurrency": 4}
    path.write_text(json.dumps(result | {"median_audio_rtf": 0.4, "backend": "openai-audio-speech"}))
    assert main(["history", "add", "--db", db, str(path)]) == 0
    assert main(["history", "show", "--db", db]) == 0
    printed = capsys.readouterr().out
    assert printed.count("no per-request data: advisory") == 2 and "0.400" in printed
    assert main(["gate", str(path), "--db", db]) == 3
