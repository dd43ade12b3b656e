"""The tables of a report as rows of text, and as markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from omni_bench.levels import is_open_loop, level_of
from omni_bench.report.format import NA, count, escape_markdown, fixed, milliseconds, number, pair, percent

TTFP_HEADER, SCHEDULED_HEADER = "TTFP p50 / p90 (ms)", "TTFP sched p50 / p90 (ms)"
LEVEL_HEADERS = (
    "c",
    "ok",
    TTFP_HEADER,
    "RTF p50 / p90 (mean)",
    "E2EL p50 / p90 (ms)",
    "ICL p50 / p90 (ms)",
    "stalls",
    "audio/s",
    "req/s",
    "WER",
    "CER",
    "valid",
)


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """A GitHub table. Cells are taken as markdown: escape what is not. Columns are right-aligned except ``left``."""
    alignment = ["left" if column in left else "right" for column in range(len(headers))]
    return tabulate(rows, headers=headers, tablefmt="pipe", colalign=alignment if rows else None, disable_numparse=True)


def level_headers(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of :func:`level_rows`: :data:`LEVEL_HEADERS`, and before the last what else was checked.

    An open loop has rates in the first, and a column for the TTFP from the scheduled start.
    """
    headers = list(LEVEL_HEADERS)
    if is_open_loop(map(level_of, run["levels"])):
        headers[0] = "rate"
        headers.insert(headers.index(TTFP_HEADER) + 1, SCHEDULED_HEADER)
    if has_goodput(run):
        headers.insert(-1, "goodput")
    checked = (*(("cross-talk",) if has_cross_talk(run) else ()), *(("parity",) if has_parity(run) else ()))
    return (*headers[:-1], *checked, headers[-1])


def level_rows(run: Mapping[str, Any]) -> list[list[str]]:
    """One row a concurrency level, in the order of the run, with the columns of :func:`level_headers`."""
    rows = [_level_row(level) for level in run["levels"]]
    if is_open_loop(map(level_of, run["levels"])):
        for row, level in zip(rows, run["levels"], strict=True):
            row.insert(LEVEL_HEADERS.index(TTFP_HEADER) + 1, _pair_ms(level, "ttfp_sched_ms"))
    if has_goodput(run):
        for row, level in zip(rows, run["levels"], strict=True):
            row.insert(-1, percent(metric_value(level, "goodput", "mean")))
    if has_cross_talk(run):
        for row, level in zip(rows, run["levels"], strict=True):
            row.insert(-1, count((level.get("cross_talk") or {}).get("hits")))
    if has_parity(run):
        for row, level in zip(rows, run["levels"], strict=True):
            row.insert(-1, parity_cell(level))
    return rows


def has_goodput(run: Mapping[str, Any]) -> bool:
    """Whether requests were held to a service level."""
    return any(metric_value(level, "goodput", "mean") is not None for level in run["levels"])


def has_cross_talk(run: Mapping[str, Any]) -> bool:
    """Whether the outputs of any level were searched for words of other requests."""
    return any(level.get("cross_talk") for level in run["levels"])


def has_parity(run: Mapping[str, Any]) -> bool:
    """Whether answers in company were compared with answers alone in any level."""
    return any(level.get("parity") for level in run["levels"])


def parity_cell(level: Mapping[str, Any]) -> str:
    """``7/8``: requests of the level with the same answer in company and alone, of those compared; n/a for none."""
    parity = level.get("parity") or {}
    if parity.get("mismatches") is None:
        return NA
    return f"{parity['compared'] - parity['mismatches']}/{parity['compared']}"


def level_table(run: Mapping[str, Any]) -> str:
    """The table to paste: one row a concurrency level."""
    return markdown_table(level_headers(run), level_rows(run))


def metric_value(level: Mapping[str, Any], name: str, figure: str) -> float | None:
    """A figure ("p50", "mean", ...) of a metric of a level, None if the level has no such metric or figure."""
    summary = level["metrics"].get(name)
    return None if summary is None else summary.get(figure)


def valid_requests(level: Mapping[str, Any]) -> int | None:
    """Requests that ended cleanly with audio that passed every check; None if the run (schema 1.0) does not say."""
    if "faulty" not in level:
        return None if level["invalid"] else level["completed"]
    return level["completed"] - level["faulty"]


def percentile_table(run: Mapping[str, Any]) -> str:
    """Every metric that has a value, with all its figures: one row a level and metric."""
    headers = ("c", "metric", "unit", "n", "mean", "std", "p50", "p90", "p95", "p99")
    rows = [
        [
            str(level_of(level)),
            f"`{name}`",
            escape_markdown(summary["unit"]) or "–",
            str(summary["n"]),
            *(number(summary[figure], 4) for figure in ("mean", "std", "p50", "p90", "p95", "p99")),
        ]
        for level in run["levels"]
        for name, summary in level["metrics"].items()
        if summary["n"]
    ]
    return markdown_table(headers, rows, left=(1, 2))


def fit_table(run: Mapping[str, Any]) -> str:
    """The line through E2EL over audio length of each level, with the mean audio length."""
    headers = ("c", "intercept (ms)", "slope (s/s)", "mean audio (s)")
    rows = [
        [
            str(level_of(level)),
            milliseconds(metric_value(level, "e2el_intercept_ms", "mean")),
            fixed(metric_value(level, "e2el_slope", "mean"), 3),
            fixed(metric_value(level, "audio_s", "mean"), 2),
        ]
        for level in run["levels"]
    ]
    return markdown_table(headers, rows)


def lag_table(run: Mapping[str, Any]) -> str:
    """How late the client's event loop ran in each level."""
    headers = ("c", "lag p50 (ms)", "lag p99 (ms)", "lag max (ms)", "budget p99 (ms)", "samples")
    rows = []
    for level in run["levels"]:
        client = level["client"] or {}
        figures = [fixed(client.get(f"lag_{name}_ms"), 2) for name in ("p50", "p99", "max")]
        budget = fixed(client.get("lag_budget_ms"), 1)
        rows.append([str(level_of(level)), *figures, budget, count(client.get("lag_samples"))])
    return markdown_table(headers, rows)


def accuracy_table(run: Mapping[str, Any]) -> str:
    """What the judge made of each level: corpus and per-utterance figures and the counts behind them."""
    headers = ("c", "utterances", "words", "edits", "WER", "CER", "WER mean", "WER median", "above 50 %", "forced")
    rows = []
    for level in run["levels"]:
        accuracy = level["accuracy"] or {}
        counts = [count(accuracy.get(name)) for name in ("utterances", "words", "edits")]
        rates = [percent(accuracy.get(name)) for name in ("wer", "cer", "wer_mean", "wer_median")]
        ends = [count(accuracy.get(name)) for name in ("above_50", "forced")]
        rows.append([str(level_of(level)), *counts, *rates, *ends])
    return markdown_table(headers, rows)


def _pair_ms(level: Mapping[str, Any], name: str) -> str:
    return pair(*(milliseconds(metric_value(level, name, figure)) for figure in ("p50", "p90")))


def _level_row(level: Mapping[str, Any]) -> list[str]:
    def figure(name: str, which: str) -> float | None:
        return metric_value(level, name, which)

    rtf = pair(fixed(figure("rtf", "p50"), 3), fixed(figure("rtf", "p90"), 3))
    accuracy = level["accuracy"] or {}
    return [
        str(level_of(level)),
        f"{count(valid_requests(level))}/{level['requests']}",
        _pair_ms(level, "ttfp_ms"),
        rtf if rtf == NA else f"{rtf} ({fixed(figure('rtf', 'mean'), 3)})",
        _pair_ms(level, "e2el_ms"),
        _pair_ms(level, "icl_ms"),
        count(level["stalls"]),
        fixed(figure("audio_per_s", "mean"), 2),
        fixed(figure("requests_per_s", "mean"), 2),
        percent(accuracy.get("wer")),
        percent(accuracy.get("cer")),
        "yes" if level["valid"] else "**no**",
    ]
