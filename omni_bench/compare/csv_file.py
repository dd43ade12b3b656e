"""compare.csv: the figures of a comparison for a spreadsheet, one row a metric and level."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from omni_bench.compare.result import Comparison
from omni_bench.compare.rows import level_header
from omni_bench.compare.vllm_bench import printed_name
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.level import level_value

COLUMNS = (
    *("metric", "vllm_bench_name", "unit", "better", "pairs", "before", "after", "change", "interval_low"),
    *("interval_high", "p", "p_adjusted", "mark", "mean_before", "mean_after", "p99_before", "p99_after"),
)


def render_csv(comparison: Comparison) -> str:
    """The file. Changes are fractions; a missing value is empty. WER, CER and cross-talk have rows of their own."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([{"c": "concurrency", "rate": "rate_hz"}[level_header(comparison)], *COLUMNS])
    for level, row in _rows(comparison):
        writer.writerow([level, *(row.get(name) for name in COLUMNS)])
    return text.getvalue()


def _rows(comparison: Comparison) -> Iterator[tuple[object, dict[str, object]]]:
    details = {(one.metric, one.concurrency): one.figures for one in comparison.percentiles}
    for cell in comparison.cells:
        metric = METRICS[cell.metric]
        low, high = cell.interval or (None, None)
        row: dict[str, object] = {
            "metric": f"{cell.metric}_{metric.headline}" if metric.headline != "mean" else cell.metric,
            "vllm_bench_name": printed_name(cell.metric),
            "unit": metric.unit,
            "better": metric.better,
            "pairs": cell.pairs,
            "before": cell.before,
            "after": cell.after,
            "change": cell.change,
            "interval_low": low,
            "interval_high": high,
            "p": cell.p,
            "p_adjusted": cell.p_adjusted,
            "mark": str(cell.mark),
        }
        for name, before, after in details.get((cell.metric, cell.concurrency), ()):
            if name in ("mean", "p99"):
                row |= {f"{name}_before": before, f"{name}_after": after}
        yield level_value(cell.concurrency), row
    rate = (comparison.accuracy.rate or "errors").lower()
    for one in comparison.accuracy.levels:
        level = level_value(one.concurrency)
        yield level, {"metric": rate, "better": "lower", "before": one.before, "after": one.after}
        hits = {"before": one.cross_talk_before, "after": one.cross_talk_after}
        yield level, {"metric": "cross_talk_hits", "better": "lower", **hits}
