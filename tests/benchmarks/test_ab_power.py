"""The table of real studies: what is counted, and that a killed night goes on."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from benchmarks import ab_power


def comparison(change=0.08, sd=0.02, detectable=0.04, tripped=False, verdict="REGRESSION"):
    primary = {
        "metric": "rtf",
        "change": change,
        "interval": [change - 0.01, change + 0.01],
        "verdict": verdict,
        "log_sd": sd,
        "detectable": detectable,
    }
    return {
        "primaries": [primary],
        "used_pairs": [1, 2, 3, 4, 5],
        "length_guard": {"tripped": tripped},
        "hardware": "Fast CPU",
    }


def store(folder, outcome="REGRESSION", exit_code=1, **found):
    folder.mkdir(parents=True)
    ending = {"outcome": outcome, "exit_code": exit_code, "why": None}
    (folder / "ab.json").write_text(json.dumps({"ending": ending, "harness": {"commit": "c" * 40}}))
    (folder / "compare.json").write_text(json.dumps(comparison(**found)))


def test_studies_differ_in_prompts_and_start():
    first, second = (ab_power.study_words("A/A", number, 5, ["asr=none"]) for number in (1, 2))
    assert "after=reference" in first and {"seed=1", "dataset.seed=1"} <= set(first) and set(first) != set(second)
    assert "after.reference.fault=slow_8" in ab_power.study_words("slow_8", 1, 5, [])


def test_the_table_counts_what_was_found(tmp_path):
    store(tmp_path / "AA" / "01", outcome="NO REGRESSION", exit_code=0, change=0.001)
    store(tmp_path / "AA" / "02", outcome="INCONCLUSIVE", exit_code=2, sd=0.2)
    store(tmp_path / "slow_8" / "01")
    store(tmp_path / "slow_8" / "02", outcome="INCONCLUSIVE", exit_code=2, sd=0.2, detectable=0.3)
    store(tmp_path / "longer_audio" / "01", tripped=True)
    store(tmp_path / "slow_8" / "03.stale.2026-01-01T00-00-00.000Z")
    rows = ab_power.finished(tmp_path)
    assert [(row.case, row.name) for row in rows] == [
        ("A/A", "01"),
        ("A/A", "02"),
        ("slow_8", "01"),
        ("slow_8", "02"),
        ("longer_audio", "01"),
    ]
    assert rows[0].run_cv == pytest.approx(0.02 / math.sqrt(2), rel=1e-3)
    slow = [row for row in rows if row.case == "slow_8"]
    assert [ab_power.must_be_found(row) for row in slow] == [True, False]
    assert ab_power.must_be_found(replace(slow[1], case="slow_45")), "1.5 times the 30 % that could be told"
    assert not ab_power.must_be_found(replace(slow[0], case="slow_5")), "quiet, but nobody promised 5 %"
    text = ab_power.render(rows, ["asr=none"], ["--studies", "2"])
    assert "- **A/A**, false REGRESSION: 0 of 2 studies" in text
    assert "- **slow_8**, REGRESSION: 1 of 2 studies" in text and "detectable change): 1 of 1 studies" in text
    assert "length guard tripped: 1 of 1 studies" in text
    assert "Measured on\nFast CPU; omni-bench commit cccccccccccc." in text
    assert "python benchmarks/ab_power.py --studies 2" in text


def test_a_study_without_a_comparison_has_a_row():
    state = {"ending": {"outcome": None, "exit_code": 3, "why": "pair 1 came to nothing"}, "harness": {"commit": None}}
    row = ab_power.study_row("A/A", "01", state, None)
    assert row.run_cv is None and not ab_power.must_be_found(row)
    assert "none (exit 3)" in ab_power.render([row], [], [])


def test_a_study_of_another_version_is_begun_anew(tmp_path, monkeypatch):
    folder = tmp_path / "01"
    folder.mkdir()
    (folder / "ab.json").write_text(json.dumps({"ending": None}))
    made = []
    monkeypatch.setattr(
        ab_power, "omni_bench", lambda arguments: made.append(arguments) or (2 if len(made) == 1 else 0)
    )
    assert ab_power.run_study(folder, ["before=reference"]) == 0
    assert made[1] == ["ab", "before=reference", "--out", str(folder)]
    assert not folder.exists() and len(list(tmp_path.glob("01.stale.*"))) == 1
