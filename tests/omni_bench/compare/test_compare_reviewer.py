"""What a hostile reviewer looks for in a table: rounding, arrows, missing values, columns, other things compared."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from omni_bench.compare import plots
from omni_bench.compare.compare import compare_runs
from omni_bench.compare.document import to_document
from omni_bench.compare.load import view_of
from omni_bench.compare.markdown import render_comparison
from omni_bench.compare.rows import interval_text
from omni_bench.errors import ComparabilityError
from omni_bench.records.invalid_reason import Code, invalid
from omni_bench.records.level import Rate
from omni_bench.report.format import p_text

CHAT = {"client.kind": "openai_chat_audio", "client.modalities": ["text"]}
FIGURES = {"n": 14, "std": 1.0, "p90": None, "p95": None, "p99": None}


def tables(text):
    """Every table of a text, as lists of rows of cells, the header first and without the line below it."""
    found, rows = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            found.append([rows[0], *rows[2:]])
            rows = []
    return found


def row(comparison, name, level="all"):
    (found,) = [cells for cells in long_table(render_comparison(comparison)) if cells[:2] == [name, level]]
    return found[2:7] + found[9:]


def long_table(text):
    """The one of every metric at every level, among the details."""
    (found,) = [table for table in tables(text) if table[0][-1] == "verdict"]
    return found


def text_alone(run):
    """``run`` as a chat of text alone: nothing to hear, and no judge."""
    text = {name: {**FIGURES, "mean": value, "p50": value} for name, value in (("ttft_ms", 20.0), ("tpot_ms", 0.021))}
    text["tokens_per_s"] = {**FIGURES, "mean": 400.0, "p50": None}
    nothing = dict.fromkeys(("mean", "std", "p50", "p90", "p95", "p99")) | {"n": 0}
    levels = tuple(
        replace(
            level,
            metrics={name: one if name == "e2el_ms" else nothing for name, one in level.metrics.items()} | text,
            accuracy=None,
        )
        for level in run.levels
    )
    requests = tuple(replace(one, audio_s=None, corrupted=None, edits=None, words=None) for one in run.requests)
    return replace(run, levels=levels, requests=requests)


def test_a_small_change_is_not_rounded_away(make):
    before = [make.view(f"b{number}", started=number) for number in range(5)]
    after = [make.view(f"a{number}", started=10 + number, slower=1.0004) for number in range(5)]
    cells = row(compare_runs(before, after), "TTFP p50 (ms)", "1")
    assert cells == ["64.0", "64.0", "+0.03", "+0.04 %", "[+0.04, +0.04]", "↑ worse"]
    assert interval_text((-0.0004, 0.1)) == "[-0.04, +10.0]" and interval_text((-1e-9, 0.0)) == "[+0.0, +0.0]"


def test_a_tiny_p_is_not_zero(make):
    before = make.arm("b", 5, run_cv=0.0)
    after = [make.view(f"a{number}", started=50 + number, slower=1.5 + 1e-5 * number) for number in range(5)]
    details = long_table(render_comparison(compare_runs(before, after)))
    assert details[0][7:9] == ["p", "p adjusted"] and details[2][7:9] == ["< 0.0001", "< 0.0001"]
    assert (p_text(1e-9), p_text(0.5)) == ("p < 0.0001", "p = 0.50")


def test_fewer_hits_that_repeat_are_a_failure_with_an_arrow_that_points_down(make):
    fewer = compare_runs(make.arm("b", 2, cross_talk=3), make.arm("a", 2, start=2, cross_talk=1))
    assert row(fewer, "cross-talk hits") == ["12", "4", "-8", "–", "–", "↓ **HARD FAILURE**"]
    as_many = compare_runs(make.arm("b", 2, cross_talk=1), make.arm("a", 2, start=2, cross_talk=1))
    assert row(as_many, "cross-talk hits")[5] == "→ **HARD FAILURE**"


def test_hits_beside_a_side_that_was_not_checked_have_no_direction(make):
    comparison = compare_runs([make.view()], [make.view(started=1, cross_talk=1, parity=0)])
    assert row(comparison, "cross-talk hits") == [*("n/a", "2", "n/a", "–", "–", "look at it: before was not checked")]
    assert row(comparison, "parity mismatches")[5] == "none"


def test_a_side_without_one_completed_request_is_missing_and_not_zero(make):
    arms = [make.view()], [make.view(started=1, requests=0, failures=3)]
    comparison = compare_runs(*arms)
    assert str(comparison.outcome) == "AFTER IS BROKEN"
    assert row(comparison, "TTFP p50 (ms)", "1") == ["64.0", "n/a", "n/a", "n/a", "n/a", "n/a"]
    assert row(comparison, "audio/s", "1")[1:] == ["n/a", "n/a", "n/a", "n/a", "n/a"]
    assert all(cell.change is None for cell in comparison.cells)
    to_document(comparison)
    labels = [axes.get_legend_handles_labels()[1] for axes in plots._metrics_figure(comparison, arms).axes]
    assert labels == [["before"]] * 5 + [["before", "after"]]  # none heard is all wrong


def test_levels_that_a_side_lacks_are_named(make):
    comparison = compare_runs([make.view(levels=(1, 4))], [make.view(levels=(4, 8), started=1)], force=True)
    assert "Left out, as not every run has it: c = 1, 8." in comparison.notes
    assert comparison.accuracy.wer_before == 0.0
    same = compare_runs([make.view()], [make.view(started=1)])
    assert not any("Left out" in note for note in same.notes)


def test_utterances_of_levels_that_are_left_out_are_not_counted(make):
    arms = [make.view(levels=(1, 4))], [make.view(levels=(1, 4), started=1)]
    without = [replace(run, levels=run.levels[:1]) for run in (arms[0][0], arms[1][0])]
    assert compare_runs(*arms).accuracy.flags.utterances == 28
    comparison = compare_runs(without[:1], without[1:])
    assert comparison.accuracy.flags.utterances == comparison.accuracy.wer.utterances == 14


def test_what_differs_is_told_of_both_sides(make):
    comparison = compare_runs([make.view()], [make.view(started=1, config={"hardware.cpu": "Slow"})], force=True)
    assert "- **hardware**: Fast CPU 9000, 2 cores → Slow, 2 cores\n" in render_comparison(comparison)
    assert comparison.judge == "tiny.en"
    judged = compare_runs([make.view()], [make.view(started=1, judge=False)], force=True)
    assert judged.judge == "tiny.en → n/a"


def test_rates_are_no_concurrencies(make):
    before, after = make.arm("b", 2, levels=(Rate(2.5),)), make.arm("a", 2, start=2, levels=(Rate(2.5),))
    heads = [table[0] for table in tables(render_comparison(compare_runs(before, after)))]
    assert all("c" not in head for head in heads) and sum("rate" in head for head in heads) == 3


def test_a_text_has_no_rows_of_what_was_heard(make):
    runs = [text_alone(make.view(f"r{number}", started=number, judge=False, config=CHAT)) for number in (0, 1)]
    comparison = compare_runs(runs[:1], runs[1:])
    names = {cells[0] for cells in long_table(render_comparison(comparison))}
    assert "TPOT p50 (ms)" in names and not names & {"WER", "CER", "corrupted utterances", "cross-talk hits"}
    assert row(comparison, "TPOT p50 (ms)", "1")[:2] == ["0.021", "0.021"], "not 0.0"


def test_a_text_against_speech_is_refused_and_when_forced_gives_no_verdict(make):
    speech = make.arm("speech", 2)
    text = [text_alone(make.view(f"t{n}", started=20 + n, judge=False, config=CHAT)) for n in (0, 1)]
    with pytest.raises(ComparabilityError, match=r'client\.modalities: \[\] \| \["text"\]'):
        compare_runs(speech, text)
    for arms in ((speech, text), (text, speech)):
        comparison = compare_runs(*arms, force=True)
        assert str(comparison.outcome) == "NO PERFORMANCE CLAIM"
        assert all(primary.change is None and primary.verdict is None for primary in comparison.primaries)
        assert row(comparison, "RTF p50", "4")[2:5] == ["n/a", "n/a", "n/a"]
        assert row(comparison, "TTFT p50 (ms)", "4")[2:5] == ["n/a", "n/a", "n/a"]
        to_document(comparison)
        for draw in (plots._metrics_figure, plots._fit_figure):
            assert draw(comparison, arms).axes


@pytest.mark.parametrize("nasty", ["a|b\n|c|", "x\\|y", "`|`", "<td>|"])
def test_no_text_moves_a_column(make, nasty):
    before, after = make.view(), make.view(started=1, config={"reference.fault": nasty, "target.version": nasty})
    after = replace(after, why=(invalid(Code.SERVER_BROKE, message=nasty),))
    for table in tables(render_comparison(compare_runs([before], [after]))):
        assert {len(cells) for cells in table} == {len(table[0])}


def test_runs_of_older_schemas_are_compared_by_what_they_had(make):
    old = []
    for number in range(2):
        run, _, _ = make.make(started=number)
        run["schema_version"] = "1.0"
        for name in ("measured", "warmup"):
            del run["provenance"]["prompts"][name]
        run.pop("rate_search", None)
        for level in run["levels"]:
            for name in ("faulty", "warmup", "rate_hz", "open_loop", "probe", "parity", "cross_talk", "voices"):
                level.pop(name, None)
            for name in ("ttft_ms", "tpot_ms", "itl_ms", "tokens_per_s"):
                level["metrics"].pop(name)
        old.append(view_of(run, f"old{number}"))
    comparison = compare_runs(old, make.arm("new", 2, start=4))
    assert comparison.forced == () and comparison.gives_verdicts
    assert all(primary.verdict is not None for primary in comparison.primaries)
    assert row(comparison, "parity mismatches")[:3] == ["n/a", "n/a", "n/a"]


def search(make, name, started, held, highest, slo=None):
    """A run of a rate search whose rates hold or do not; the server refused what is beyond."""
    run, _, _ = make.make(levels=tuple(Rate(hz) for hz in held), started=started)
    for level in run["levels"]:
        level["probe"] = {"holds": held[level["rate_hz"]], "why": []}
        if not level["probe"]["holds"]:
            level |= {"valid": False, "invalid_reasons": [invalid(Code.NO_REQUESTS).to_json()]}
    run["rate_search"] = {"highest_hz": highest}
    run["provenance"]["config"]["load"] = {"kind": "rate_search", "rate_hz": [1.0]}
    run["provenance"]["config"]["slo"] = slo or {}
    return view_of(run, name)


def test_rate_searches_are_compared_where_both_hold_and_by_their_answer(make):
    before = search(make, "b", 0, {1.0: True, 2.0: True, 4.0: False}, 2.0)
    after = search(make, "a", 1, {1.0: True, 2.0: False, 1.5: True}, 1.5)
    comparison = compare_runs([before], [after])
    assert comparison.invalid == () and str(comparison.outcome) == "ADVISORY"
    assert comparison.levels == (Rate(1.0),)
    assert any("the highest rate that holds is 2 req/s → 1.5 req/s." in note for note in comparison.notes)
    assert "Left out, as not every run has it: 1.5 req/s, 2 req/s." in comparison.notes
    none = search(make, "n", 2, {1.0: True, 2.0: False}, None)
    assert any("2 req/s → n/a" in note for note in compare_runs([before], [none]).notes)


def test_rate_searches_by_other_limits_are_not_compared(make):
    """A higher rate is no gain where more is allowed; limits that an older version did not know were not set."""
    strict = search(make, "b", 0, {1.0: True, 2.0: False}, 1.0, slo={"ttfp_ms": 80.0, "stall_s": 0.0})
    loose = search(make, "a", 1, {1.0: True, 2.0: True}, 2.0, slo={"ttfp_ms": 800.0, "stall_s": 0.0})
    newer = search(make, "c", 2, {1.0: True}, 1.0, slo={"ttfp_ms": 80.0, "stall_s": 0.0, "e2el_ms": None})
    with pytest.raises(ComparabilityError, match=r"slo\.ttfp_ms: 80\.0 \| 800\.0"):
        compare_runs([strict], [loose])
    assert compare_runs([strict], [newer]).forced == ()


def test_rate_searches_without_a_common_rate_are_refused_in_words(make):
    none = search(make, "b", 0, {1.0: False}, None)
    with pytest.raises(ComparabilityError, match="only rates that hold are compared"):
        compare_runs([none], [search(make, "a", 1, {1.0: True}, 1.0)])
