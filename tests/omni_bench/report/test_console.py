"""The table for the terminal."""

from __future__ import annotations

import io
import os
import sys

import pytest
import run_factory as runs
from rich.console import Console

from omni_bench.accuracy.wer import score_utterance
from omni_bench.records.invalid_reason import Code, invalid, next_steps
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.console import print_summary, summary_table, verdict_lines
from omni_bench.run.document import utterance_record

SPEECH = (
    *("c", "ok", "TTFP p50 / p90 (ms)", "RTF p50 / p90 (mean)", "E2EL p50 / p90 (ms)", "ICL p50 / p90 (ms)"),
    *("stalls", "audio/s", "req/s", "WER", "CER", "valid"),
)


def printed(run, width=200) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(summary_table(run))
    return console.file.getvalue()


def test_rows_columns_and_title():
    run = runs.make_run((1, 4))
    table = summary_table(run)
    assert table.row_count == 2 and [str(column.header) for column in table.columns] == list(SPEECH)
    text = printed(run)
    for word in ["qwen3_tts", "reference (tiny)", "Fast CPU 9000", "12/12", "yes"]:
        assert word in text
    assert verdict_lines(run) == []


def test_invalid_level_is_marked_and_explained():
    run = runs.make_run(levels=[runs.make_level(1), runs.make_level(4, failures=1)])
    table = summary_table(run)
    assert [row.style for row in table.rows] == [None, "red"]
    assert "**" not in printed(run)
    lines = verdict_lines(run)
    assert "no performance claim" in lines[0] and "1 of 13 requests failed" in lines[1]


def test_names_with_rich_markup_are_printed_as_they_are():
    run = runs.make_run((1,), scenario="[red]x[/red] [/]")
    assert "[red]x[/red] [/]" in printed(run)


def test_narrow_terminal_loses_no_figure():
    assert "12/12" in printed(runs.make_run((1,)), width=100).replace("\n", "")


def test_a_narrow_terminal_gets_fewer_columns_and_whole_cells():
    run = runs.make_run((1, 16))
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(summary_table(run, console.width))
    lines = console.file.getvalue().splitlines()
    assert "CER" not in "".join(lines) and "WER" in "".join(lines)
    assert all(len(line) <= 80 for line in lines)
    assert sum("12/12" in line for line in lines) == 2
    for line in lines:
        if "12/12" in line:  # a row is one line: nothing is folded
            assert "yes" in line and line.count(" / ") == 3


def test_no_word_of_a_narrow_table_is_broken():
    run = runs.make_run((1, 16))
    for level in run["levels"]:
        level["cross_talk"] = {"hits": 0}
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(summary_table(run, console.width))
    shown = console.file.getvalue()
    assert "cross-talk" in shown and "p90" not in shown and " / " not in shown
    assert sum("12/12" in line and line.rstrip().endswith("yes") for line in shown.splitlines()) == 2


def test_a_narrow_terminal_shows_the_rate_of_a_language_without_words():
    run = runs.make_run((1,))
    run["provenance"]["prompts"]["locale"] = "zh"
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(summary_table(run, console.width))
    assert "CER" in console.file.getvalue() and "WER" not in console.file.getvalue()


# --- what is printed at the end


def test_the_table_the_verdict_the_worst_and_the_report_are_on_stdout_and_not_squeezed(tmp_path, capsys, monkeypatch):
    run = runs.make_run((1, 4), own=[invalid(Code.INTERRUPTED)])
    folder = RunFolder.create(tmp_path / ("a" * 100))
    texts = ["a b", "the \x1b[2Jcat sat", "nothing is wrong"]
    scores = [score_utterance(f"c1-{i}", text, "the cat said", "en") for i, text in enumerate(texts)]
    scores.append(score_utterance("c1-9", "fine", "fine", "en"))
    folder.write_utterances(
        utterance_record(score, concurrency=1, prompt_id="p", audio="audio/c1-1.wav" if score.wer == 1 / 3 else None)
        for score in scores
    )
    monkeypatch.chdir(tmp_path)
    print_summary(run, folder)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{'a' * 100}/report.html"  # relative to here, on a line of its own
    assert "  - the run was interrupted" in lines and f"  next: {Code.INTERRUPTED.next_step}" in lines
    worst = lines[lines.index("heard worst:") + 1 : -2]
    assert worst[0] == "  c1-0, WER 150.00 %: “a b” -> “the cat said”" and worst[1] == "    no recording was kept"
    assert len(worst) == 6 and not any("c1-9" in line or "\x1b" in line for line in worst)
    monkeypatch.chdir("/")
    print_summary(run, folder)
    assert capsys.readouterr().out.splitlines()[-1] == str(folder.report_html).lstrip("/")


@pytest.mark.parametrize(
    ("parity", "said"),
    [
        (None, "checks=parity"),
        ({"judged": 8, "worse": 5, "corrupted_alone": 0}, "fine alone, and 5 of 8"),
        ({"judged": 8, "worse": 0, "corrupted_alone": 6}, "6 of 8 requests are corrupted when sent alone too"),
        ({"judged": 8, "worse": 0, "corrupted_alone": 0}, "raise checks.parity_requests"),
    ],
)
def test_wrong_words_are_followed_by_what_tells_whether_company_is_to_blame(parity, said):
    wrong = invalid(Code.WER, rate="WER", value=0.4, limit=0.15)
    for reason, is_said in ((wrong, True), (invalid(Code.INTERRUPTED), False)):
        run = runs.make_run((4,), own=[reason])
        run["levels"][0]["parity"] = parity
        lines = verdict_lines(run)
        assert lines[2].startswith("  next: ") and (said in lines[2]) is is_said


def test_what_the_server_did_wrong_is_said_before_what_the_client_did_and_parity_can_be_copied():
    late, wrong = (
        invalid(Code.CLIENT_LAG, p99_ms=30.0, budget_ms=25.0),
        invalid(Code.WER, rate="WER", value=0.4, limit=0.15),
    )
    run = runs.make_run((4,), own=[late, wrong])
    run["provenance"]["command"] = ["omni-bench", "run", "scenario=smoke", "load.concurrency=[1,4]", "checks=default"]
    lines = verdict_lines(run)
    assert lines[1] == f"  - {wrong.text}" and lines[2] == f"  - {late.text}"
    assert lines[3].endswith(": omni-bench run scenario=smoke 'load.concurrency=[1,4]' checks=parity")


def test_a_reader_that_has_gone_changes_nothing(tmp_path, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        with pytest.raises(BrokenPipeError):
            print("nobody reads this", flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), gone.fileno())
        gone.flush()
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        print_summary(runs.make_run((1,)), RunFolder.create(tmp_path / "run"))
        print("and what follows is dropped", flush=True)


def test_what_can_be_gone_on_with_is_not_run_again_too():
    lag = invalid(Code.CLIENT_LAG_UNKNOWN)
    assert next_steps([invalid(Code.INTERRUPTED), lag]) == [Code.INTERRUPTED.next_step]
    assert next_steps([lag, invalid(Code.IN_PARTS, before=4, requests=10)]) == [Code.IN_PARTS.next_step]
    assert next_steps([lag, invalid(Code.NONE_COMPLETED)]) == [lag.next_step, Code.NONE_COMPLETED.next_step]
