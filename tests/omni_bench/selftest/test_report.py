"""The matrix for people and programs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from omni_bench.commands.selftest import _print
from omni_bench.selftest.cases import CLEAN, SelftestCase
from omni_bench.selftest.matrix import CaseRun, DetectorAlarm, SelftestResult, group_by_case
from omni_bench.selftest.report import clean_line, matrix_rows, render, rows, selftest_document

FACTS = {
    "plan": ["1 run(s) of every fault"],
    "judge": {"name": "tiny.en", "sha256": "ab" * 32},
    "recordings": 24,
    "distinct_recordings": 20,
    "kept_runs": 0,
    "command": ["omni-bench", "selftest", "--quick"],
    "harness": {"version": "0.1.0", "commit": "0123456789abcdef", "dirty": False},
    "hardware": {"cpu": "Fast CPU 9000", "cpu_cores": 2},
    "software": {},
}
SWAP = SelftestCase("swap|streams", "wire", "two requests swap", ("cross_talk", "wer"), 2, (), "issue 1")
SLOW = SelftestCase("slow_5", "speed", "5 % slower", ("ab",), 1, ())


def make(*alarms, clean_alarms=(), problem=None, clean_problem=None):
    server = SelftestCase(CLEAN, CLEAN, "as it should be", (), 1, ())
    clean = CaseRun(server, 0, "clean/0", tuple(clean_alarms), 1.0, clean_problem)
    fault = CaseRun(SWAP, 0, "swap/0", tuple(alarms), 2.0, problem)
    return SelftestResult(group_by_case([clean, fault]), (SLOW,), 63.2, FACTS)


def test_a_caught_fault_shows_by_whom_and_where():
    result = make(
        DetectorAlarm("wer", 4, "words"), DetectorAlarm("cross_talk", 4, "c4-0001"), DetectorAlarm("noise", 4, "x")
    )
    table = {row[0]: row for row in rows(result)}
    assert table["swap|streams"][3] == "1/1"
    # those named in advance come first, in their order
    assert table["swap|streams"][4] == "cross_talk (c=4, 1/1), wer (c=4, 1/1), noise (c=4, 1/1)"
    assert table["slow_5"][3] == "n/a"
    assert table[CLEAN][3] == "0/1 alarms"


def test_a_missed_fault_is_loud():
    result = make(DetectorAlarm("noise", 4, "x"))
    assert "MISSED" in rows(result)[1][3]
    assert "NOT every fault" in render(result)
    assert not selftest_document(result)["ok"]


def test_the_headline_tells_what_went_wrong_and_what_was_left_out():
    hit = DetectorAlarm("wer", 4, "words")
    assert render(make(hit)).startswith("# omni-bench selftest: every fault was caught, 1 left to omni-bench ab\n")
    broken = make(hit, clean_problem="the server died")
    assert render(broken).startswith("# omni-bench selftest: every fault was caught, the clean server did NOT pass")
    assert "no run that proves anything" in clean_line(broken)
    assert "not judged: the server died" in rows(broken)[0][4]


def test_runs_from_before_a_break_are_told():
    result = make(DetectorAlarm("wer", 4, "words"))
    assert "made before" not in render(result)
    assert "7 of the runs were made before" in render(replace(result, facts={**FACTS, "kept_runs": 7}))


def test_the_terminal_has_80_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    _print(make(DetectorAlarm("wer", 4, "words")), tmp_path / "out")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_run_that_could_not_be_judged_says_why():
    assert "not judged: no run.json" in rows(make(problem="no run.json"))[1][4]


def test_the_matrix_marks_what_was_named_in_advance():
    headers, body = matrix_rows(make(DetectorAlarm("wer", 4, "words"), DetectorAlarm("noise", 1, "x")))
    cells = dict(zip(headers, body[1], strict=True))
    assert cells == {"fault": "swap\\|streams", "cross\\_talk": "**–**", "wer": "**c=4**", "noise": "c=1"}


def test_the_rate_of_false_alarms_has_its_interval():
    assert "0 of 1 runs raised an alarm, 0% (95 % interval 0.0% to 97.5%" in clean_line(make())
    assert "1 of 1" in clean_line(make(clean_alarms=[DetectorAlarm("clicks", 4, "x")]))


def test_the_report_is_safe_markdown_with_evidence_and_command():
    text = render(make(DetectorAlarm("wer", 4, "asked for <b>, spoke |")))
    assert "omni-bench selftest --quick" in text
    assert "&lt;b&gt;" in text and "spoke \\|" in text
    assert "issue 1" in text and "Fast CPU 9000" in text and "0123456789ab" in text


def test_json_is_complete():
    document = json.loads(json.dumps(selftest_document(make(DetectorAlarm("wer", 4, "words")))))
    assert document["ok"] and document["clean"]["runs"] == 1
    fault = document["cases"][1]
    assert fault["caught"] == 1 and fault["runs"][0]["alarms"][0]["detector"] == "wer"
    assert document["skipped"][0]["name"] == "slow_5"
    assert document["clean"]["rate_high"] == pytest.approx(0.975)
