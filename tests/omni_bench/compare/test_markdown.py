"""The markdown for a pull request: golden rows, the verdict line, banners, and n/a for what is missing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.markdown import comparison_verdict_line, primary_line, render_comparison
from omni_bench.compare.vllm_bench import read_result


def table(text):
    """The rows of the first table, as lists of cells, without the header."""
    lines = text[text.index("| metric") :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def row(text, metric, concurrency="all"):
    (found,) = [cells for cells in table(text) if cells[:2] == [metric, concurrency]]
    return found


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
        "## omni-bench: ADVISORY\n\n**single runs: advisory**: TTFP +25.0 %; RTF +25.0 %; audio/s -20.0 %.\n\n"
        "- **before**: reference (tiny) 0.1.0, 2026-11-28T00:00:00Z\n"
        "- **after**: reference (tiny) 0.1.0, 2026-11-28T00:09:00Z\n"
        "- **configuration**: no difference is recorded\n"
        "- **versions**: no difference\n"
        "- **card**: Fast CPU 9000, 2 cores\n"
        "- **prompts**: seed\\_tts\\_mini (en), 60 prompts, sha256 abababababab\n"
        "- **judge**: tiny.en\n"
        "- **K**: 1 pair; c = 1, 4; 14 requests a level\n\n"
        "**Length guard**: audio length +0.0 % (28 prompts, paired; limit ±2 %): "
        "RTF, E2EL and audio/s may be compared.\n"
    )
    assert row(text, "**TTFP p50 (ms)**") == [
        *("**TTFP p50 (ms)**", "all", "–", "–", "–", "**+25.0 %**", "n/a", "single runs: advisory")
    ]
    assert row(text, "TTFP p50 (ms)", "1") == [
        *("TTFP p50 (ms)", "1", "64.0", "80.0", "+16.0", "+25.0 %", "n/a", "single runs: advisory")
    ]
    assert row(text, "audio/s", "4")[5:] == ["-20.0 %", "n/a", "single runs: advisory"]
    assert row(text, "WER") == [
        *("WER", "all", "0.00 %", "0.00 %", "+0.00 points", "–", "[+0.00, +0.00] points", "→ no change shown")
    ]
    assert row(text, "cross-talk hits") == ["cross-talk hits", "all", "n/a", "n/a", "n/a", "–", "–", "n/a"]
    assert row(text, "parity mismatches")[2:5] == ["n/a", "n/a", "n/a"]
    assert "REGRESSION" not in text and "One run a side" in text
    assert "omni-bench run scenario=qwen3_tts 'client.voice=it'\"'\"'s'  # before\n" in text
    assert text.endswith("omni-bench compare reports/a 'it'\"'\"'s'\n```\n")


def test_the_verdict_line_of_a_regression(regression):
    line = comparison_verdict_line(regression)
    assert re.fullmatch(
        r"\*\*REGRESSION\*\*: TTFP \+\d\.\d % \[\+\d\.\d, \+\d+\.\d\] REGRESSION \(detectable: \d\.\d %\); "
        r"RTF \+\d\.\d % \[.*\] REGRESSION \(detectable: .*\); audio/s -\d\.\d % \[-\d+\.\d, -\d\.\d\] REGRESSION .*\.",
        line,
    )


def test_a_detectable_change_of_many_digits_is_not_written_out(regression):
    primary = regression.primaries[0]
    assert primary_line(replace(primary, detectable=1.0)).endswith("(detectable: 100.0 %)")
    assert primary_line(replace(primary, detectable=2321.93)).endswith("(detectable: only above 100 %)")


def test_rows_of_a_regression(regression):
    text = render_comparison(regression)
    assert row(text, "**TTFP p50 (ms)**")[7] == "↑ **REGRESSION**"
    assert row(text, "**audio/s**")[7] == "↓ **REGRESSION**"
    assert row(text, "TTFP p50 (ms)", "4")[7] == "↑ worse" and row(text, "audio/s", "1")[7] == "↓ worse"
    assert "- **configuration**: reference.predictor: kv\\_cache → reprefill\n" in text
    assert "5 pairs; c = 1, 4; 14 requests a level" in text and "90 % t interval over 5 pairs" in text
    assert text.count("<details>") == text.count("</details>") == 1
    assert "p adjusted" in text and "`ttfp_ms`" in text


def test_no_regression_and_inconclusive_rows(make):
    calm = compare_runs(make.arm("before", 5), make.arm("after", 5, start=3))
    assert row(render_comparison(calm), "**RTF p50**")[7] == "→ no regression"
    noisy = compare_runs(make.arm("b", 5, run_cv=0.06), make.arm("a", 5, run_cv=0.06, start=3))
    assert row(render_comparison(noisy), "**RTF p50**")[7] == "? inconclusive"


def test_a_tripped_guard_says_why(make):
    text = render_comparison(compare_runs(make.arm("before", 5), make.arm("after", 5, longer=1.2, start=3)))
    assert "**Length guard ⚠ tripped**: audio length +1" in text and "slope (marginal cost)" in text
    assert row(text, "RTF p50", "1")[7] == "length guard"
    assert row(text, "**E2EL slope**")[7] == "→ no regression"
    assert "share of the median E2EL of before" in text
    assert not any(cells[0] == "**RTF p50**" for cells in table(text))


def test_a_forced_comparison_has_a_banner_first(make):
    comparison = compare_runs([make.view()], [make.view(started=1, config={"client.seed": 7})], force=True)
    text = render_comparison(comparison)
    banner = "## omni-bench: ADVISORY\n\n> **⚠ NOT COMPARABLE, shown all the same (--force).** These keys differ:\n>\n"
    assert text.startswith(banner + "> - client.seed: 0 → 7\n")


def test_invalid_runs_are_in_the_verdict(make):
    text = render_comparison(compare_runs([make.view()], [make.view(failures=2, started=1)]))
    assert text.startswith("## omni-bench: NO PERFORMANCE CLAIM\n\n**NO PERFORMANCE CLAIM** (advisory: single runs): ")
    assert "> **1 of 1 pairs make no performance claim**" in text
    assert "> - after: c = 1: 2 of 16 requests failed (connect 2)" in text
    assert row(text, "TTFP p50 (ms)", "1")[7] == "invalid"


def test_corruption_cross_talk_and_parity_rows(make):
    before = make.arm("before", 5, cross_talk=0, parity=1)
    after = make.arm("after", 5, start=3, cross_talk=1, parity=0, corrupted=(1, 5, 9, 13))
    text = render_comparison(compare_runs(before, after))
    assert "**HARD FAILURE**: **cross-talk repeats: 10 hits, in 5 of 5 runs of after**" in text
    assert "**more corrupted utterances**: 0 → 8 of 28 (McNemar p = 0.0078)" in text
    assert row(text, "corrupted utterances")[2:] == [*("0", "8", "+8", "–", "–", "↑ **worse** (McNemar p = 0.0078)")]
    assert row(text, "cross-talk hits")[2:] == ["0", "10", "+10", "–", "–", "↑ **HARD FAILURE**"]
    assert row(text, "parity mismatches")[2:] == ["10", "0", "-10", "–", "–", "none"]
    assert row(text, "WER")[7] == "↑ worse"


def test_results_of_vllm_bench_are_marked(bench_result):
    runs = [read_result(bench_result(slower=slower), f"{slower}.json") for slower in (1.0, 1.5)]
    text = render_comparison(compare_runs(runs[:1], runs[1:]))
    assert "**single runs; no per-request data: advisory**" in text
    assert row(text, "TTFP p50 (ms)", "4")[2:] == [
        *("110", "165", "+55.0", "+50.0 %", "n/a", "single runs; no per-request data: advisory")
    ]
    assert "- **card**: n/a\n" in text and row(text, "WER")[2:] == ["n/a", "n/a", "n/a", "–", "n/a", "n/a"]


def test_text_from_elsewhere_cannot_break_out(make):
    before, after = make.view(), make.view(started=1, config={"reference.fault": "a|b\n# <script>"})
    after = replace(after, why=("broke | the\n\n# table",))
    text = render_comparison(compare_runs([before], [after]))
    assert "reference.fault: null → a\\|b # &lt;script&gt;" in text
    assert "\n# " not in text and "<script>" not in text


def test_plots_are_shown(regression):
    assert "![before_after](plots/before_after.png)" in render_comparison(regression, ["plots/before_after.png"])
