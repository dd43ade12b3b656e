"""gate.json, junit.xml, annotations, the step summary and the page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import night_factory as made
import pytest
from reasons import because
from rich.console import Console

from omni_bench.commands.gate import _print_table
from omni_bench.nightly.gate.advice import advise
from omni_bench.nightly.gate.document import to_document
from omni_bench.nightly.gate.github import annotations, append_summary, in_actions
from omni_bench.nightly.gate.junit import render_junit
from omni_bench.nightly.gate.markdown import HEADERS, gate_verdict_line, render_gate, series_rows
from omni_bench.nightly.gate.night import gate_night
from omni_bench.nightly.gate.result import Status
from omni_bench.nightly.history.records import Role
from omni_bench.records.invalid_reason import Code

NASTY = "bad | <b>audio</b>\x00\x1b[31m ::error::\nnext % line, a:b"


@pytest.fixture
def regression():
    rerun = made.night(13, role=Role.RERUN, hour=1, slower=1.2)
    with made.history_of(made.nights(12)) as history:
        yield gate_night(history, made.night(13, slower=1.2), rerun=rerun)


@pytest.fixture
def broken():
    reasons = (because(Code.INVALID_AUDIO, NASTY),)
    with made.history_of(made.nights(12)) as history:
        yield gate_night(history, made.night(13, faulty=1, level_reasons=reasons, faults=("reference.fault=x",)))


@pytest.fixture
def past_acute():
    with made.history_of(made.nights(12)) as history:
        yield gate_night(history, made.night(13, slower=1.2))


@pytest.fixture
def past_change():
    rerun = made.night(13, role=Role.RERUN, hour=1, slower=1.2)
    with made.history_of(made.nights(12)) as history:
        gate_night(history, made.night(13, slower=1.2), rerun=rerun)
        yield gate_night(history, made.night(14, slower=1.2))


@pytest.fixture
def young():
    with made.history_of([]) as history:
        yield gate_night(history, made.night(1))


def cases(result):
    root = ElementTree.fromstring(render_junit(result))
    return root, {f"{case.get('classname')}/{case.get('name')}": case for case in root.iter("testcase")}


def test_junit_of_a_regression(regression):
    root, found = cases(regression)
    assert root[0].attrib["tests"] == "5" and root[0].attrib["failures"] == "3"
    assert set(found) == {
        "qwen3_tts.integrity/run",
        "qwen3_tts.integrity/c = 1",
        *(f"qwen3_tts.c = 1/{metric}" for metric in ("ttfp_ms", "rtf", "audio_per_s")),
    }
    failure = found["qwen3_tts.c = 1/rtf"].find("failure")
    assert failure.get("type") == "REGRESSION" and "reproduced" in failure.text
    assert found["qwen3_tts.integrity/run"].find("failure") is None


def test_junit_of_a_broken_night_survives_any_text(broken):
    root, found = cases(broken)
    assert root[0].attrib["failures"] == "1" and root[0].attrib["errors"] == "0"
    failure = found["qwen3_tts.integrity/c = 1"].find("failure")
    assert r"<b>audio</b>\u0000" in failure.get("message") and failure.get("type") == "invalid_audio"
    assert failure.text.endswith(f"next: {Code.INVALID_AUDIO.next_step}")
    assert "reference.fault=x" in found["qwen3_tts.integrity/run"].find("system-out").text


def test_junit_of_no_measurement_and_of_inconclusive(young):
    root, found = cases(young)
    assert root[0].attrib["skipped"] == "3" and "too little history" in next(
        case.find("skipped").get("message") for name, case in found.items() if name.endswith("/rtf")
    )
    with made.history_of([]) as history:
        root, _ = cases(gate_night(history, made.night(1, reasons=(because(Code.INTERRUPTED),))))
    assert root[0].attrib["errors"] == "1" and root[0].attrib["failures"] == "0"


def test_annotations_are_one_line_each_and_cannot_be_broken_out_of(broken, regression):
    lines = annotations(broken)
    error = next(line for line in lines if line.startswith("::error"))
    assert "\n" not in error and "%0Anext %25 line, a:b" in error
    assert error.startswith("::error title=hard failure%2C c = 1::")
    assert any(line.startswith("::warning") and "reference.fault=x" in line for line in lines)
    assert sum(line.startswith("::error title=regression") for line in annotations(regression)) == 3


def test_a_plain_pass_says_nothing():
    with made.history_of(made.nights(12)) as history:
        assert annotations(gate_night(history, made.night(13))) == []


def test_the_summary_is_added_to_what_is_there(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    append_summary("now", {"GITHUB_STEP_SUMMARY": str(path)})
    append_summary("nothing", {})
    append_summary("nothing", {"GITHUB_STEP_SUMMARY": ""})
    assert path.read_text() == "before\nnow\n"
    assert in_actions({"GITHUB_ACTIONS": "true"}) and not in_actions({})


def test_the_page(regression, broken, young):
    page = render_gate(regression)
    assert page.startswith("## ❌ omni-bench gate: REGRESSION\n") and "| RTF p50 " in page and "second run" in page
    assert "12 valid nights before this one" in page and "none was set" in page
    page = render_gate(broken)
    assert "⛔ omni-bench gate: HARD FAILURE" in page and "makes no performance claim" in page
    assert "<b>" not in page and "\x1b" not in page
    assert "INCONCLUSIVE" in render_gate(young) and "n/a" in render_gate(young)
    assert gate_verdict_line(young).startswith(
        "INCONCLUSIVE (exit 2): qwen3_tts,"
    ) and "0 valid nights" in gate_verdict_line(young)


def test_what_to_do_is_everywhere(regression):
    steps = advise(
        regression, run="my runs/13", database="h.sqlite", evidence=["r/report.md"], repository="https://github.com/o/r"
    )
    result = replace(regression, next_steps=steps)
    good, bad = made.commit_of(12), made.commit_of(13)
    onset = (
        f"last good 2026-01-12 {good[:12]} (runs/12); first bad 2026-01-13 {bad[:12]} (runs/13): "
        "TTFP, RTF, audio/s at c = 1"
    )
    confirm = f"omni-bench ab scenario=qwen3_tts before=git:{good[:12]} after=git:{bad[:12]}"
    accept = "omni-bench history --db h.sqlite baseline set 'my runs/13' --note WHY"
    _, found = cases(result)
    said = found["qwen3_tts.c = 1/rtf"].find("failure").text
    page, notice = render_gate(result), annotations(result)[-1]
    assert notice.startswith("::notice title=gate%2C what to do::")
    for text in (said, page, notice, json.dumps(to_document(result))):
        assert text.count(onset) == 1 or text.startswith("{")
        for step in (onset, confirm, accept, f"https://github.com/o/r/compare/{good}...{bad}", "r/report.md"):
            assert step in text.replace("\\", "")
    assert any(line.startswith("::error title=regression") and onset in line for line in annotations(result))
    assert page.index("What to do") < page.index("| metric")


def test_other_servers_and_equal_commits_are_confirmed_otherwise(regression):
    def confirm(**changes):
        onset = replace(regression.series[0].onset, **changes.pop("onset", {}))
        series = tuple(replace(one, onset=onset) for one in regression.series)
        run = replace(regression.run, **changes)
        steps = advise(replace(regression, run=run, series=series), run="r")
        return next(step for step in steps if "confirm" in step.text or "the commit is" in step.text)

    other = confirm(target="vllm_omni (Qwen3)", command=("omni-bench", "run", "target=vllm_omni", "load.rate_hz=[1]"))
    assert other.command == "omni-bench ab 'load.rate_hz=[1]' before=http://127.0.0.1:8091 after=http://127.0.0.1:8092"
    assert "at port 8091" in other.text
    same = confirm(onset={"first_bad": regression.series[0].onset.last_good})
    assert same.command == "" and "the same on both nights" in same.text
    assert "are not known" in confirm(command=("my", "script")).text


def test_a_changed_setting_is_put_on_its_side_of_the_confirmation(regression):
    def confirm(command, then, now, *, same_commit=False, **changes):
        onset = regression.series[0].onset
        good = replace(onset.last_good, settings=then)
        bad = replace(onset.first_bad, settings=now)
        if same_commit:
            bad = replace(bad, versions=good.versions)
        series = tuple(replace(one, onset=replace(onset, last_good=good, first_bad=bad)) for one in regression.series)
        run = replace(regression.run, command=("omni-bench", "run", *command), **changes)
        steps = advise(replace(regression, run=run, series=series), run="r")
        return next(step for step in steps if "confirm" in step.text)

    command = ("scenario=qwen3_tts", "++reference.fault=serial_predictor", "reference.predictor=kv_cache")
    then = {"reference.fault": None, "reference.slots": 4, "server.checkpoint_sha256": "a"}
    now = {"reference.fault": "serial_predictor", "reference.slots": 4, "server.checkpoint_sha256": "b"}
    shared, sides = (
        "omni-bench ab scenario=qwen3_tts reference.predictor=kv_cache ",
        ("before.reference.fault=null after.reference.fault=serial_predictor"),
    )
    refs = f"before=git:{made.commit_of(12)[:12]} after=git:{made.commit_of(13)[:12]} "
    assert confirm(command, then, now).command == shared + refs + sides
    assert confirm(command, then, now, same_commit=True).command == shared + sides
    unchanged = confirm(command, now, now).command
    assert "++reference.fault=serial_predictor" in unchanged and "before.reference" not in unchanged
    assert "reference.fault: null | serial_predictor" in confirm(command, then, now, target="vllm_omni").text


def test_accepting_names_all_nights_of_the_change_that_are_there(past_change):
    def accept(there):
        steps = advise(past_change, run="runs/14", is_there=lambda _: there)
        return next(step for step in steps if "accept it" in step.text)

    assert accept(True).command == "omni-bench history baseline set runs/13 runs/14 --note WHY"
    assert accept(False).command == "omni-bench history baseline set runs/14 --note WHY"
    assert "1 of its nights" in accept(False).text


def test_what_was_expected_of_stalling_is_shown_where_its_reason_has_a_band():
    def night(number, stalled, **changes):
        return made.night(number, ttfp_tail_ms=75.0 + number % 3, stalled=stalled, **changes)

    with made.history_of([night(number, (number % 2) / 20) for number in range(1, 13)]) as history:
        result = gate_night(history, night(13, 0.4), rerun=night(13, 0.4, role=Role.RERUN, hour=1))
    (one,) = (one for one in result.series if one.metric == "stalled")
    assert one.status is Status.REGRESSION and one.expected.mean == pytest.approx(0.025)
    assert one.expected.low == 0 and 0.05 < one.expected.high < 0.2
    row = next(row for row in series_rows(result) if row[7] == one.reason)
    assert row[2] == "40.00 %" and row[3].startswith("2.50 % [0.00 %, ")


def test_an_open_change_stays_in_the_heading(past_change):
    result = past_change
    since = "1 change is open since 2026-01-13 (2 nights), and no baseline accepts it"
    assert render_gate(result).startswith(f"## ⚠️ omni-bench gate: PASS: {since}\n")
    assert gate_verdict_line(result).endswith(since)


def test_a_night_not_confirmed_is_no_skipped_test(past_acute):
    root, found = cases(past_acute)
    assert root[0].attrib["failures"] == "3" and root[0].attrib["skipped"] == "0"
    assert found["qwen3_tts.c = 1/rtf"].find("failure").get("type") == "NOT CONFIRMED YET"
    step = advise(past_acute, run="r", database="h")[0]
    assert step.command == "omni-bench gate r --db h --rerun" and "--reproduced-by" in step.text
    assert render_gate(past_acute).startswith("## ❗ omni-bench gate: NOT CONFIRMED YET\n")


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_has_the_reason_below_the_row(regression, width):
    out = io.StringIO()
    _print_table(Console(file=out, width=width), regression)
    lines = out.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert all(line.startswith("    ") for line in lines[3:] if not re.match("TTFP|RTF|audio/s", line))
    reason = lines[3] if width == 120 else lines[4]
    assert lines[2].startswith("TTFP p50") and reason.startswith("    acute: +")
    expected = series_rows(regression)[0][HEADERS.index("expected")]
    assert expected in lines[2] if width == 120 else lines[3] == f"    expected {expected}"


def test_rows(regression):
    rows = series_rows(regression)
    assert all(len(row) == len(HEADERS) for row in rows)
    assert rows[0][:3] == ["TTFP p50", "c = 1", "72.3 ms"] and rows[0][6] == "REGRESSION"
    assert rows[0][3].endswith("] ms") and rows[2][2].endswith(" s/s") and rows[2][3].endswith("] s/s")
    assert rows[1][2] == "0.361" and rows[1][3].endswith("]"), "a ratio has no unit"
    assert float(rows[0][4].removesuffix(" %")) == pytest.approx(20, abs=2)


def test_the_document_is_json_and_has_everything(regression, broken):
    document = json.loads(json.dumps(to_document(regression), allow_nan=False))
    assert document["outcome"] == "REGRESSION" and document["exit_code"] == 1 and document["nights"] == 12
    rtf = next(one for one in document["series"] if one["metric"] == "rtf")
    assert rtf["status"] == "REGRESSION" and rtf["expected"]["nights"] == 12 and rtf["alarm"]["kind"] == "acute"
    assert document["second_run"]["run_id"] and not document["second_run_stands_for_the_night"]
    assert document["pinned"] is None and document["baseline"] is None
    assert to_document(broken)["integrity"][1]["failures"] == [because(Code.INVALID_AUDIO, NASTY).to_json()]


def test_rows_of_nothing_are_missing_and_not_zero(young):
    assert all(row[3:6] == ["n/a", "n/a", "n/a"] for row in series_rows(young))
    with made.history_of(made.nights(12)) as history:
        rows = series_rows(gate_night(history, made.night(13, rtf=None)))
    rtf = next(row for row in rows if row[0] == "RTF p50")
    assert rtf[2:6] == ["n/a", "n/a", "n/a", "n/a"] and rtf[6] == "INCONCLUSIVE" and "no value tonight" in rtf[7]


def test_the_table_lines_up_whatever_a_reason_says(regression):
    nasty = replace(regression.series[0], reason=NASTY + " | x")
    page = render_gate(replace(regression, series=(nasty, *regression.series[1:])))
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len(rows) == 5 and {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {len(HEADERS) + 2}
