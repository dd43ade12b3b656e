"""A metric is one entry: the example of docs/extend.md, in all that goes by the list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compare_factory import Factory
from level_cells import level_headers, level_rows
from timelines import make_timeline

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.document import to_document
from omni_bench.compare.markdown import render_comparison
from omni_bench.metrics import metric
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.request import request_metrics
from omni_bench.nightly.gate.judge_night import evaluate
from omni_bench.nightly.gate.judge_series import Evidence
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.records import record_of_run
from omni_bench.nightly.history.trend import trends
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.plots import plots_of
from omni_bench.report.table import percentile_table
from omni_bench.run.stored_results import read_results

EXTEND = Path(__file__).parents[3] / "docs/extend.md"
NAME, HEADER = "third_chunk_ms", "TT3C p50 / p90 (ms)"


@pytest.fixture(autouse=True)
def third_chunk():
    """The example, as an entry of the list while a test lasts."""
    (code,) = re.findall(r"^## A metric\n.*?```python\n(.*?)```", EXTEND.read_text(encoding="utf-8"), re.S | re.M)
    scope = dict(vars(metric))
    exec(code, scope)
    entries = dict(METRICS)
    METRICS[NAME] = scope["third_chunk"]
    yield
    METRICS.clear()
    METRICS.update(entries)


def test_a_request_has_it():
    chunks = [(50, 2400), (90, 2400), (140, 2400), (150, 2400)]
    assert request_metrics(make_timeline(started=10, chunks=chunks), None)[NAME] == 130.0
    assert request_metrics(make_timeline(chunks=chunks[:2]), None)[NAME] is None
    assert request_metrics(make_timeline(failed="timeout", chunks=chunks), None)[NAME] is None


def test_a_run_and_its_report_show_it(tmp_path):
    folder = RunFolder.open(Factory(tmp_path).folder("run", judge=False))
    run = folder.read_run()  # checked against the schema
    summary = run["levels"][0]["metrics"][NAME]
    assert (summary["unit"], summary["better"], summary["n"]) == ("ms", "lower", 14)
    assert summary["p50"] == run["levels"][0]["metrics"]["ttfp_ms"]["p50"] + 50  # a chunk each 25 ms
    headers = level_headers(run)
    assert headers.index(HEADER) == headers.index("TTFP p50 / p90 (ms)") + 1
    row = dict(zip(headers, level_rows(run)[0], strict=True))
    assert row[HEADER] == f"{summary['p50']:.0f} / {summary['p90']:.0f}"
    assert f"`{NAME}`" in percentile_table(run)
    (plot,) = (one for one in plots_of(run) if one.name == "third_chunk")
    assert (plot.title, plot.y_label) == ("Time to third chunk", "TT3C (ms)")
    assert plot.lines[0].figures(run["levels"][0]) == (summary["p50"], None, summary["p90"])
    stored = [record["metrics"][NAME] for record in folder.read_requests()]
    again = [request.metrics[NAME] for level in read_results(folder, run) for request in level.requests]
    assert stored == again and None not in stored


def test_a_comparison_judges_it(tmp_path):
    make = Factory(tmp_path)
    comparison = compare_runs(make.arm("before", 5), make.arm("after", 5, start=5, slower=1.2))
    (verdict,) = (one for one in to_document(comparison)["primaries"] if one["metric"] == NAME)
    assert verdict["verdict"] == "REGRESSION" and verdict["change"] == pytest.approx(0.2, abs=0.02)
    text = render_comparison(comparison)
    assert "**TT3C p50 (ms)**" in text and "TT3C +19.6 %" in text


def test_the_history_and_the_gate_judge_it(tmp_path):
    make = Factory(tmp_path)
    slower = [1 + 0.004 * (number % 5) for number in range(12)]
    runs = [make.make((1,), judge=False, started=night, slower=step)[0] for night, step in enumerate([*slower, 1.3])]
    *nights, tonight = [record_of_run(run, f"runs/{number}") for number, run in enumerate(runs)]
    with History(None) as history:
        for night in nights:
            history.add(night)
        kept = history.nights(tonight.series)
    assert [night.levels[0].value(NAME) for night in kept] == [night.levels[0].value(NAME) for night in nights]
    assert NAME in {trend.series.metric for trend in trends(kept)}
    (judged,) = (one for one in evaluate(tonight, Evidence(kept)).series if one.metric == NAME)
    assert judged.alarm is not None and judged.change == pytest.approx(0.29, abs=0.02)
