"""Open loops and rate searches in the report."""

import pytest
import run_factory as runs
from level_cells import level_headers, level_rows

from omni_bench.accuracy.parity.compare import ParityComparison
from omni_bench.accuracy.parity.records import comparison_record, parity_record
from omni_bench.accuracy.parity.verdict import level_parity
from omni_bench.accuracy.wer import score_utterance
from omni_bench.metrics.level import summarise_level
from omni_bench.metrics.request import request_metrics
from omni_bench.metrics.slo import Slo
from omni_bench.records.level import Rate
from omni_bench.records.recording import LoopLag
from omni_bench.report.console import notes, summary_table
from omni_bench.report.markdown import render_report
from omni_bench.report.open_loop import answer_line, open_loop_section, rate_search_section, search_lines, slo_line
from omni_bench.report.plots import draw_plots
from omni_bench.report.utterances import Records
from omni_bench.run.document import build_level, build_run, utterance_record

SEARCH = {
    "ttfp_ms": 80.0,
    "stall_s": 0.0,
    "highest_hz": 8.0,
    "lowest_failing_hz": 8.5,
    "precision": 0.1,
    "converged": True,
    "probes": 9,
}


@pytest.fixture
def open_run():
    """A run of the open loop at the given rates; ``max_in_flight`` of its schedule, ``probes``: of a rate search."""

    def make(rates_hz=(1.0, 5.0), *, max_in_flight=512, probes=None, config=None):
        levels = []
        for rate_hz in rates_hz:
            rate = Rate(rate_hz)
            gap_ms = round(1000 / rate_hz)
            timelines = [
                runs.timeline(f"r{rate_hz:g}-{number:04d}", concurrency=rate, start_ms=number * gap_ms, chunks=6)
                for number in range(12)
            ]
            metrics = [request_metrics(one, None) for one in timelines]
            summary = summarise_level(
                rate,
                timelines,
                metrics,
                {},
                lag=LoopLag(0.2, 1.5, 3.0, 400),
                slo=Slo(ttfp_ms=200.0),
                arrival="poisson",
                max_in_flight=max_in_flight,
            )
            probe = (probes or {}).get(rate_hz)
            levels.append(build_level(summary, metrics, lag_budget_ms=25.0, probe=probe))
        provenance = runs.make_provenance(judge=False)
        provenance["config"] = {"scenario": {"name": "x"}, "slo": {"ttfp_ms": 200.0, "stall_s": None}, **(config or {})}
        search = None if probes is None else {**SEARCH, "highest_hz": 1.0, "lowest_failing_hz": 5.0, "converged": False}
        run = build_run(
            scenario="open",
            description="",
            started_utc=runs.datetime(2026, 11, 27, tzinfo=runs.UTC),
            duration_s=9.0,
            levels=levels,
            provenance=provenance,
            rate_search=search,
        )
        return run

    return make


def probe(holds, why=()):
    return {
        "holds": holds,
        "why": list(why),
        "ttfp_sched_p95_ms": 70.0,
        "stalled": 0,
        "longest_stall_s": 0.0,
        "failed": 0,
    }


def test_a_rate_is_a_row_with_both_latencies_and_goodput(open_run):
    run = open_run()
    headers, rows = level_headers(run), level_rows(run)
    assert headers[0] == "rate" and [row[0] for row in rows] == ["1 req/s", "5 req/s"]
    assert all(len(row) == len(headers) for row in rows)
    cells = dict(zip(headers, rows[0], strict=True))
    assert cells["TTFP sched p50 / p90 (ms)"] == "100 / 100" and cells["goodput"] == "100.00 %"


def test_a_closed_loop_keeps_its_columns():
    run = runs.make_run()
    assert level_headers(run)[0] == "c" and not any("sched" in header for header in level_headers(run))
    assert open_loop_section(run) is None and rate_search_section(run) is None and search_lines(run) == []
    assert slo_line(run) is None


def test_what_was_offered_and_achieved_is_told(open_run):
    section = open_loop_section(open_run((5.0,)))
    assert "| 5 req/s | poisson" in section and "waited because" not in section


def test_requests_that_waited_for_the_cap_are_told(open_run):
    assert "requests waited because load.max_in_flight was reached**" in open_loop_section(
        open_run((5.0,), max_in_flight=1)
    )


def test_a_ramp_and_a_trace_are_told(open_run):
    ramp = open_loop_section(open_run((5.0,), config={"load": {"ramp": [1.0, 9.0]}}))
    assert "from 1 to 9 req/s" in ramp
    assert "Replayed from a\\_b.csv" in open_loop_section(open_run((5.0,), config={"load": {"trace": "a_b.csv"}}))


def test_the_whole_report_and_console_know_rates(open_run):
    run = open_run()
    report = render_report(run)
    assert "## Open loop" in report and "requests scheduled a second" in report
    assert "goodput: requests with valid audio, TTFP from the scheduled start at most 200 ms, of all." in report
    for width in (200, 100):
        table = summary_table(run, width)
        assert {"rate", "goodput"} <= {str(column.header) for column in table.columns}


def test_no_table_calls_a_rate_requests_in_flight(open_run):
    run = open_run((1.0, 5.0))
    judge = runs.make_provenance()["judge"] | {"speaker_encoder": "resemblyzer 0.1.4"}
    run["provenance"]["judge"] = judge
    rate = Rate(5.0)
    one = ParityComparison("r5-0001", "solo", "p", 1, rate, False, "pcm", False, exact=False, first_sample=9, at_s=0.1)
    run["levels"][1]["parity"] = parity_record(level_parity([one], rate, deterministic=False))
    run["levels"][1]["cross_talk"] = {"hits": 1, "pairs": 9, "null_pairs": 9, "null_hits": 0}
    hit = {"victim": "a", "source": "b", "kind": "target", "relation": "in flight", "also": [], "position": "whole"}
    hit |= {"heard": "x", "words": "x", "score": 9.0, "rate_hz": 5.0, "concurrency": None}
    voice = {"voice_onset": 0.1, "voice_whole": 0.2, "voice_onset_rest": 0.3, "voice_outlier": True}
    score = score_utterance("r5-0001", "one two three", "one two", "en")
    heard = utterance_record(score, concurrency=rate, prompt_id="p", voice=voice)
    rejected = {"request_id": "r5-0002", "prompt_id": "p", "rate_hz": 5.0, "concurrency": None, "faults": ["clicks"]}
    report = render_report(run, Records([rejected], [heard], [hit], parity=[comparison_record(one)]))
    heads = [line.split("|")[1].strip() for line in report.splitlines() if line.startswith("|") and "---" not in line]
    assert "c" not in heads and heads.count("rate") > 10
    assert len({"Voices", "Cross-talk", "Parity: alone and in company", "Rejected requests"} & _titles(report)) == 4


def _titles(report):
    return {line.removeprefix("## ") for line in report.splitlines() if line.startswith("## ")}


def test_the_answer_of_a_search_leads_the_report(open_run):
    run = open_run(probes={1.0: probe(True), 5.0: probe(False, ["p95 of TTFP is 90.0 ms | so"])})
    section = rate_search_section(run)
    assert "**1 req/s**" in section and "90.0 ms \\| so" in section
    assert notes(run)[0].startswith(
        "Highest rate that holds: 1 req/s (p95 of TTFP from the scheduled start at most 80 ms"
    )
    assert "## Rate search" in render_report(run) and "no claim" not in section
    run["levels"][0]["valid"] = False
    assert "But the level at 1 req/s is invalid: no claim." in rate_search_section(run)
    assert notes(run)[1] == "But the level at 1 req/s is invalid: no claim."


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            "8 req/s (p95 of TTFP from the scheduled start at most 80 ms, no stalls, no failures); 8.5 req/s does not",
        ),
        ({"lowest_failing_hz": None, "converged": False}, "no rate failed, so that the limit is higher"),
        ({"highest_hz": None, "converged": False}, "none of those tried"),
        ({"lowest_failing_hz": 16.0, "converged": False}, "the search ended before it was within 10%"),
        ({"stall_s": 0.5}, "no stall longer than 0.5 s"),
        ({"stall_s": None}, "80 ms, no failures"),
        (
            {"ttfp_ms": None, "stall_s": None, "ttft_ms": 450.0, "tpot_ms": 40.0, "e2el_ms": None},
            "(p95 of TTFT from the scheduled start at most 450 ms, p95 of TPOT at most 40 ms, no failures)",
        ),
    ],
)
def test_the_answer_in_words(changes, said):
    assert said in answer_line({**SEARCH, **changes})


def test_plots_have_the_rate_on_their_axis(open_run, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("omni_bench.report.plots.save_figure", lambda figure, path: drawn.append(figure))
    draw_plots(open_run((0.5, 2.0)), tmp_path)
    axes = drawn[1].axes[0]
    assert axes.get_xlabel() == "request rate (req/s)"
    assert [axes.xaxis.get_major_formatter()(value, 0) for value in axes.get_xticks()] == ["0.5", "2"]


CHAT = {"client": {"kind": "openai_chat_audio", "modalities": ["text"]}}


def test_a_search_over_text_shows_its_own_limits_and_nothing_of_audio(open_run):
    slo = {"ttfp_ms": None, "stall_s": None, "ttft_ms": 450.0, "tpot_ms": 40.0, "e2el_ms": None}
    text = {**probe(True), "ttfp_sched_p95_ms": None, "ttft_sched_p95_ms": 61.0, "tpot_p95_ms": None}
    run = open_run(probes={1.0: text, 5.0: {**text, "holds": False}}, config={**CHAT, "slo": slo})
    run["rate_search"] |= slo
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in rate_search_section(run).splitlines()[2:]]
    assert table[0] == ["rate", "holds", "requests", "failed", "TTFT sched p95 (ms)", "TPOT p95 (ms)", "why not"]
    assert table[2] == ["**1 req/s**", "yes", "12", "0", "61.0", "n/a", ""]
    assert slo_line(run) == (
        "goodput: requests with a valid text, TTFT from the scheduled start at most 450 ms and TPOT at most 40 ms, "
        "of all."
    )
    section = open_loop_section(run)
    assert "TTFP" not in section and "tokens/s and req/s follow" in section and "audio/s" not in section


def test_a_run_of_before_text_limits_is_read_as_it_was(open_run):
    run = open_run(probes={1.0: probe(True), 5.0: probe(False)})
    assert "ttft_ms" not in run["rate_search"]
    section = rate_search_section(run)
    assert "TTFP sched p95 (ms)" in section and "TTFT" not in section and "longest stall (s)" in section
