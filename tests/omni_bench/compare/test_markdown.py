"""The markdown for a pull request: what a reviewer sees first, what is folded away, and n/a for what is missing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.console import print_comparison
from omni_bench.compare.csv_file import render_csv
from omni_bench.compare.headline import outcome_line, pairs_text
from omni_bench.compare.markdown import (
    comparison_verdict_line,
    primary_line,
    render_comparison,
    render_for_pull_request,
    short_command,
)
from omni_bench.compare.result import ComparisonOutcome
from omni_bench.compare.stats.verdicts import Verdict
from omni_bench.compare.vllm_bench import read_result
from omni_bench.foreign_text import MAX_PAGE_CHARS
from omni_bench.records.invalid_reason import Code, invalid


def glance(text):
    """What is seen without opening anything."""
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def cells(text, first):
    """The cells of each table's rows that begin with ``first``."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in rows if row[: len(first)] == first]


@pytest.fixture
def regression(make):
    arms = (
        make.arm("before", 5),
        make.arm("after", 5, slower=1.08, start=3, config={"reference.predictor": "reprefill"}),
    )
    return compare_runs(*arms)


def test_a_single_pair_as_it_is_pasted(make):
    comparison = compare_runs([make.view("reports/a")], [make.view("reports/b", slower=1.25, started=9)])
    text = render_comparison(comparison, command=["omni-bench", "compare", "reports/a", "it's"])
    assert text.startswith(
        "## ❔ omni-bench: ADVISORY\n\n"
        "**Single runs, so that this is no verdict: TTFP +25.0 %, RTF +25.0 %, audio/s -20.0 %, TTFP tail +25.0 %.** "
        "WER 0.00 % → 0.00 %.\n\nCompared, before → after (1 pair): no setting that is recorded differs.\n\n| "
    )
    ((_, _, rtf, e2el, audio, tail, wer),) = cells(text, ["1", "64.0 → 80.0<br>+25.0 %"])
    assert (rtf, e2el) == ("0.2758 → 0.3448<br>+25.0 %", "436 → 544<br>+25.0 %")
    assert (audio, tail, wer) == ("3.653 → 2.922<br>-20.0 %", "78.0 → 97.5<br>+25.0 %", "0.00 % → 0.00 %")
    assert "AUDIO_TTFP" in text and "Audio throughput" in text
    assert "- **before**: reference (tiny) 0.1.0, 2026-11-28T00:00:00Z\n" in glance(text)
    assert "- **hardware**: Fast CPU 9000, 2 cores\n" in glance(text)
    for method in ("Length guard", "length guard", "interval", "sha256", "Benjamini", "One run a side"):
        assert method not in glance(text)
    assert "- **length guard**: audio length +0.0 % (28 prompts, paired; limit ±2 %)" in text
    assert "One run a side" in text and "REGRESSION" not in text
    assert "omni-bench run scenario=qwen3_tts 'client.voice=it'\"'\"'s'  # before\n" in text
    assert "omni-bench compare reports/a 'it'\"'\"'s'\n```" in text


def test_one_row_a_level_and_the_verdict_in_one_sentence(regression):
    text = render_comparison(regression)
    assert re.fullmatch(
        r"\*\*Slower: TTFP \+\d\.\d %, RTF \+\d\.\d %, audio/s -\d\.\d %\.\*\* WER 0\.00 % → 0\.00 %\.",
        comparison_verdict_line(regression),
    )
    shown = glance(text)
    assert shown.count("\n|") == 4, "header, line, two levels"
    assert shown.count("<br>🔴 +") == 8 and shown.count("<br>🔴 -") == 2 and "🔴 worse" in shown
    assert "Compared, before → after (5 pairs): reference.predictor: kv\\_cache → reprefill.\n" in shown
    assert text.count("<details>") == text.count("</details>") == 4
    assert "5 pairs; c = 1, 4; 14 requests a level" in text and "90 % t interval over 5 pairs" in text
    assert cells(text, ["**TTFP p50 (ms)**"])[0][-1] == "↑ **REGRESSION**"
    assert cells(text, ["audio/s", "1"])[0][-1] == "↓ worse"
    assert re.search(r"REGRESSION \(corrected p [=<] [\d.]+; detectable: ", text) and "`ttfp_ms`" in text


def test_every_pair_has_a_row(regression):
    text = render_comparison(regression)
    rows = [row for row in cells(text, []) if row[-1].startswith("`after/")]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5"]
    assert re.fullmatch(r"[\d.]+ → [\d.]+, \+\d+\.\d %", rows[0][1])


def test_a_detectable_change_of_many_digits_is_not_written_out(regression):
    primary = regression.primaries[0]
    assert primary_line(replace(primary, detectable=1.0)).endswith("; detectable: 100.0 %)")
    assert primary_line(replace(primary, detectable=2321.93)).endswith("; detectable: only above 100 %)")
    share = replace(primary, metric="stalled", change=-0.125, interval=None, detectable=0.25)
    assert primary_line(share).endswith("; detectable: 25.0 points)")


def test_no_change_is_told_from_not_knowing(make):
    calm = compare_runs(make.arm("before", 5), make.arm("after", 5, start=3))
    text = render_comparison(calm)
    assert "**No regression (a loss of 5 % is excluded): TTFP " in text and "<br>⚪ " in text and "❔" not in text
    noisy = compare_runs(make.arm("b", 5, run_cv=0.06), make.arm("a", 5, run_cv=0.06, start=3))
    text = render_comparison(noisy)
    assert re.search(r"\*\*Cannot tell: TTFP [+-][\d.]+ % \([345] of 5 pairs (faster|slower)\)", text)
    assert "no change shown" not in text and "<br>❔ " in text


def test_a_pair_that_is_an_outlier_is_named_with_the_run_that_did_it(make):
    before = [make.view(f"b{i}", started=i, slower=slower) for i, slower in enumerate((3.0, 1.0, 1.02))]
    comparison = compare_runs(before, make.arm("a", 3, slower=0.8, start=9))
    line = comparison_verdict_line(comparison)
    assert "(3 of 3 pairs faster)" in line and line.count("is an outlier") == 1
    assert re.search(r"pair 1 is an outlier: TTFP of its before is 3(\.0)? × that of the others", line)
    assert "(outlier)" in render_comparison(comparison)


def test_a_broken_after_is_the_headline_and_speed_is_folded_away(make):
    why = invalid(Code.WER, rate="WER", value=0.2857, limit=0.15)
    before = make.arm("before", 2, cross_talk=0, slower=1.3)
    after = make.arm("after", 2, start=2, cross_talk=0, corrupted=(1, 5, 9, 13))
    after = [
        replace(run, levels=(run.levels[0], replace(run.levels[1], why=(replace(why, text="?"),)))) for run in after
    ]
    said = {one.key: one for one in before[0].requests}
    before = [replace(run, requests=tuple(_spoken(one, "the cat sat") for one in run.requests)) for run in before]
    after = [replace(run, requests=tuple(_spoken(one, "zero | <one>") for one in run.requests)) for run in after]
    assert len(said) == 28
    plots = ["plots/before_after.png", "plots/e2el_over_audio.png"]
    comparison = compare_runs(before, after)
    text = render_for_pull_request(comparison, plots, place="runs/ab/x")
    assert not cells(text, ["TTFP p50 (ms)", "all"]) and "**TTFP" not in text, "c = 4 is invalid: none over both"
    assert all(one.change is None for one in comparison.primaries) and comparison.pair_changes == ()
    assert text.startswith(
        "## ❌ omni-bench: AFTER IS BROKEN\n\n"
        "**Says the wrong words at c = 4: WER 0.00 % → 28.57 %, in 2 of 2 runs.** Before is fine. "
        "Speed is not judged.\n\n"
        "Compared, before → after (2 pairs): no setting that is recorded differs.\n\n"
        "Hear it (recordings in `runs/ab/x`; to be heard here, drag the WAV files in as well, in a .zip if they are "
        "refused):\n- c = "
    )
    shown = glance(text)
    assert "was heard as “**zero \\| &lt;one&gt;**” (WER 0.00 % → " in shown
    assert "`before/0/audio/good.wav` → `after/0/audio/good.wav`" in shown
    assert "TTFP" not in shown and "IMPROVEMENT" not in text and "🟢" not in text
    assert cells(shown, ["4"]) == [["4", "0.00 % → 28.57 %", "0 → 0"]]
    assert "may be compared" not in text and "](plots" not in text
    assert "<!-- drag these files in here: plots/before_after.png -->" in text


def _spoken(request, heard):
    return replace(request, text="The cat sat.", heard=heard, audio="audio/good.wav")


def test_a_pull_request_text_is_no_longer_than_github_takes(make):
    comparison = compare_runs([make.view()], [make.view(started=1)])
    long = replace(comparison, notes=("x" * 1900,) * 40)
    text = render_for_pull_request(long)
    assert len(text) <= MAX_PAGE_CHARS and "compare.md has them" in text and "mean and percentiles" in text
    endless = replace(comparison, failures=("y" * (2 * MAX_PAGE_CHARS),), hardware="z" * (2 * MAX_PAGE_CHARS))
    assert len(render_for_pull_request(endless)) <= MAX_PAGE_CHARS


def test_a_command_is_shortened_and_whole_in_the_details(make):
    command = "/home/me/env/bin/serve --port {port} --weights=/data/secret/w.pt"
    comparison = compare_runs([make.view()], [make.view(started=1, config={"target.command": command})])
    text = render_comparison(comparison)
    assert "target.command: null → `…/serve --port {port} --weights=…/w.pt`.\n" in glance(text)
    assert "/home/me" not in glance(text) and f"`{command}`" in text
    assert short_command("serve ./a/b ~/x/y http://127.0.0.1:80/v1") == "serve …/b …/y http://127.0.0.1:80/v1"


def test_a_tripped_guard_says_why(make):
    text = render_comparison(compare_runs(make.arm("before", 5), make.arm("after", 5, longer=1.2, start=3)))
    assert "⚠ Length guard: audio length +1" in glance(text) and "slope (marginal cost)" in text
    assert "<br>length guard" in glance(text)
    assert cells(text, ["RTF p50", "1"])[0][-1] == "length guard"
    assert cells(text, ["**E2EL slope**"])[0][-1] == "→ no regression"
    assert "share of the median E2EL of before" in text and not cells(text, ["**RTF p50**"])


def test_a_forced_comparison_has_a_banner_first(make):
    comparison = compare_runs([make.view()], [make.view(started=1, config={"client.seed": 7})], force=True)
    text = render_comparison(comparison)
    banner = "omni-bench: ADVISORY\n\n> **⚠ NOT COMPARABLE, shown all the same (--force).** These keys differ:\n>\n"
    assert banner + "> - client.seed: 0 → 7\n" in text


def test_runs_that_are_invalid_on_both_sides_make_no_claim(make):
    text = render_comparison(compare_runs([make.view(failures=1)], [make.view(failures=2, started=1)]))
    assert text.startswith(
        "## ⚠️ omni-bench: NO PERFORMANCE CLAIM\n\n**1 of 1 pairs make no performance claim.** Speed is not judged.\n"
    )
    assert "> - after: c = 1: 2 of 16 requests failed (connect 2)" in glance(text)
    assert cells(text, ["TTFP p50 (ms)", "1"])[0][-1] == "invalid"


def test_corruption_cross_talk_and_parity_rows(make):
    before = make.arm("before", 5, cross_talk=0, parity=1)
    after = make.arm("after", 5, start=3, cross_talk=1, parity=0, corrupted=(1, 5, 9, 13))
    text = render_comparison(compare_runs(before, after))
    assert "## ❌ omni-bench: HARD FAILURE\n\n**Cross-talk repeats: 10 hits, in 5 of 5 runs of after.**" in text
    verdicts = {row[0]: (row[2:5], row[-1]) for row in cells(text, []) if row[1:2] == ["all"]}
    assert verdicts["corrupted utterances"] == (["0", "8", "+8"], "↑ **worse** (McNemar p = 0.0078)")
    assert verdicts["cross-talk hits"] == (["0", "10", "+10"], "↑ **HARD FAILURE**")
    assert verdicts["parity mismatches"] == (["10", "0", "-10"], "none")
    assert verdicts["WER"][1] == "↑ worse"
    alone = compare_runs(make.arm("b", 5), make.arm("a", 5, start=3, corrupted=(1, 5, 9, 13)))
    assert "**More corrupted utterances: 0 → 8 of 28 (McNemar p = 0.0078); higher WER" in render_comparison(alone)


def test_results_of_vllm_bench_are_marked(bench_result):
    runs = [read_result(bench_result(slower=slower), f"{slower}.json") for slower in (1.0, 1.5)]
    text = render_comparison(compare_runs(runs[:1], runs[1:]))
    assert "**Single runs; no per-request data, so that this is no verdict: TTFP +50.0 %" in text
    assert cells(text, ["4"])[0][1] == "110 → 165<br>+50.0 %"
    assert "- **hardware**: n/a\n" in text and cells(text, ["WER"])[0][2:5] == ["n/a", "n/a", "n/a"]


def test_text_from_elsewhere_cannot_break_out(make):
    before, after = make.view(), make.view(started=1, config={"reference.fault": "a|b\n# <script>"})
    after = replace(after, why=(invalid(Code.SERVER_BROKE, message="broke | the\n\n# table </details>"),))
    text = render_comparison(compare_runs([before], [after]))
    assert "reference.fault: null → a\\|b # &lt;script&gt;" in text
    assert "\n# " not in text and "<script>" not in text and text.count("</details>") == text.count("<details>")


def test_an_injected_fault_is_said_before_anything_else(make, capsys):
    after = make.view(started=1)
    stated = "the server says: fault y"
    after = replace(after, facts=replace(after.facts, faults=("reference.fault=slow_400",), stated_faults=(stated,)))
    comparison = compare_runs([make.view()], [after])
    for text in (render_comparison(comparison), render_for_pull_request(comparison)):
        banner = "> **FAULT INJECTED on purpose**: after: reference.fault=slow\\_400."
        assert text.splitlines()[2:5] == [banner, ">", "> **Note on the server**: after: the server says: fault y."]
    print_comparison(comparison)
    said = capsys.readouterr().out
    assert "FAULT INJECTED on purpose: after: reference.fault=slow_400" in said
    assert "after: the server says: fault y" in said.splitlines()
    assert "FAULT INJECTED" not in render_comparison(compare_runs([make.view()], [make.view(started=1)]))


def test_a_gain_that_the_correction_leaves_unproved_is_in_the_headline(regression):
    rtf = next(one for one in regression.primaries if one.metric == "rtf")
    unproved = replace(
        rtf, verdict=Verdict.NO_REGRESSION, change=-0.383, interval=(-0.564, -0.128), p_better=0.072, p_worse=1.0
    )
    comparison = replace(regression, outcome=ComparisonOutcome.NO_REGRESSION, primaries=(unproved,))
    said = "NO REGRESSION (faster, not proved after correction for 1 figure: RTF -38.3 %)"
    assert outcome_line(comparison) == said
    text = render_for_pull_request(comparison)
    assert text.startswith(f"## ⚪ omni-bench: {said}\n") and "IMPROVEMENT, REGRESSION: a figure moved by" in text
    assert cells(text, ["**RTF p50**"])[0][-2:] == ["0.072", "→ no regression"]
    for other in (replace(unproved, interval=(-0.564, 0.01)), replace(unproved, p_better=0.04)):
        assert outcome_line(replace(comparison, primaries=(other,))) == "NO REGRESSION"
    assert outcome_line(regression) == "REGRESSION"


def test_a_share_has_fewer_and_not_faster():
    assert pairs_text("stalled", 2, 3) == "2 of 3 pairs with fewer" and pairs_text("rtf", 1, 3) == "2 of 3 pairs slower"
    assert pairs_text("stalled", 1, 3) == "1 of 3 pairs with fewer", "the others may have as many"


def test_plots_are_in_the_page_alone(regression):
    assert "![before_after](plots/before_after.png)" in render_comparison(regression, ["plots/before_after.png"])
    assert "![" not in render_for_pull_request(regression, ["plots/before_after.png"])


def test_the_terminal_has_the_same_in_80_columns(make, regression, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    print_comparison(regression)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "REGRESSION" and lines[1].startswith("Slower: TTFP +")
    assert "reference.predictor: kv_cache → reprefill" in lines and "<br>" not in "\n".join(lines)
    print_comparison(compare_runs([make.view()], [make.view(failures=1, started=1)]))
    out = capsys.readouterr().out
    assert out.startswith("AFTER IS BROKEN\nFails requests at c = 1, 4: 1 of 15 requests failed")
    assert max(map(len, [*lines, *out.splitlines()])) <= 80, "no figure is cut in two"
    assert out.index("Before is fine.") < out.index("Speed, which is not judged:") < out.index("TTFP")


def test_the_csv_is_for_a_sheet(regression):
    head, *lines = [line.split(",") for line in render_csv(regression).splitlines()]
    assert head[:3] == ["concurrency", "metric", "vllm_bench_name"] and {len(line) for line in lines} == {len(head)}
    rows = {(line[0], line[1]): dict(zip(head, line, strict=True)) for line in lines}
    ttfp = rows["1", "ttfp_ms_p50"]
    assert ttfp["vllm_bench_name"] == "AUDIO_TTFP" and ttfp["mark"] == "worse" and ttfp["p99_before"] == ""
    assert float(ttfp["after"]) / float(ttfp["before"]) - 1 == pytest.approx(float(ttfp["change"]))
    assert rows["4", "audio_per_s"]["mean_before"] and rows["4", "wer"]["before"] == "0.0"
    assert rows["4", "cross_talk_hits"]["before"] == "", "not checked is not 0"
