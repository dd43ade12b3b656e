"""The tables of a report as rows of text, and as markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

from omni_bench.accuracy.written.normalise import counts_characters
from omni_bench.errors import AccuracyError
from omni_bench.foreign_text import escape_markdown
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.metric import Metric, Part, Scope, Shown
from omni_bench.records.level import Level as LevelKey
from omni_bench.records.level import is_open_loop, level_of, level_or_none, short_title
from omni_bench.report.format import (
    NA,
    count,
    fixed,
    has_audio,
    has_text,
    metric_text,
    milliseconds,
    number,
    pair,
    percent,
)

Level = Mapping[str, Any]
Run = Mapping[str, Any]
STANDSTILL_MS = 100.0
"""A player's buffer of a chunk or two is empty after so long; an idle machine's loop is late by a few ms."""


@dataclass(frozen=True)
class Column:
    """One column of the level table. ``narrow``: whether a terminal of few columns shows it too."""

    header: str
    cell: Callable[[Level], str]
    narrow: bool = True


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """A GitHub table. Cells are taken as markdown: escape what is not. Columns are right-aligned except ``left``."""
    alignment = ["left" if column in left else "right" for column in range(len(headers))]
    return tabulate(rows, headers=headers, tablefmt="pipe", colalign=alignment if rows else None, disable_numparse=True)


def columns(run: Run) -> list[Column]:
    """The columns of the level table of a run: the level, the metrics shown for it, and whether it is valid."""
    return [
        Column(level_header(run["levels"]), lambda level: str(level_of(level))),
        Column("ok", lambda level: f"{count(valid_requests(level))}/{level['requests']}"),
        *(Column(_header(metric), _cell(metric), metric.narrow) for metric in shown_metrics(run)),
        Column("valid", lambda level: "yes" if level["valid"] else "**no**"),
    ]


def shown_metrics(run: Run) -> list[Metric]:
    """The metrics that are columns of the level table of a run, in their order."""
    return sorted((metric for metric in METRICS.values() if _is_shown(metric, run)), key=lambda metric: metric.order)


def _is_shown(metric: Metric, run: Run) -> bool:
    if (metric.part is Part.AUDIO and not has_audio(run)) or (metric.part is Part.TEXT and not has_text(run)):
        return False
    match metric.shown:
        case Shown.NEVER:
            return False
        case Shown.ALWAYS:
            return True
        case Shown.OPEN_LOOP:
            return is_open_loop(map(level_of, run["levels"]))
        case Shown.TEXT_ALONE:
            return not has_audio(run)
        case Shown.WORDS:
            return not by_characters(run)
        case Shown.IF_PRESENT:  # a check of which nothing could be said has a column too
            return any(
                (level.get(metric.path[0]) if metric.path else metric.value_in(level)) is not None
                for level in run["levels"]
            )


def _header(metric: Metric) -> str:
    if metric.scope is not Scope.REQUEST or metric.path:
        return metric.short
    both, more = " / ".join(metric.figures[:2]), "".join(f" ({figure})" for figure in metric.figures[2:])
    return f"{metric.short} {both}{more}" + (f" ({metric.unit})" if metric.unit else "")


def _cell(metric: Metric) -> Callable[[Level], str]:
    def figures(level: Level) -> str:
        texts = [metric_text(metric, metric.value_in(level, figure)) for figure in metric.figures]
        both = pair(*texts[:2])
        return both if both == NA else both + "".join(f" ({text})" for text in texts[2:])

    if metric.name == "parity":
        return parity_cell
    if metric.scope is Scope.REQUEST and metric.path is None:
        return figures
    return lambda level: metric_text(metric, metric.value_in(level))


def level_header(records: Iterable[Mapping[str, Any]]) -> str:
    """What stands above the levels of a run, or those of its lines: "c", or "rate" in an open loop."""
    return "rate" if is_open_loop(map(level_or_none, records)) else "c"


def by_characters(run: Mapping[str, Any]) -> bool:
    """Whether what was heard in a judged run was compared character by character: Chinese, Japanese and the like.

    The rate is then a CER, also where run.json calls it ``wer``.
    """
    judged = any(level["accuracy"] for level in run["levels"])
    try:
        return judged and "provenance" in run and counts_characters(run["provenance"]["prompts"]["locale"])
    except AccuracyError:  # an older run, of a folder whose name is no language
        return False


def error_rate(run: Mapping[str, Any]) -> str:
    """What the rate of errors is called: "CER" where what was heard was compared character by character, else "WER"."""
    return "CER" if by_characters(run) else "WER"


def parity_cell(level: Mapping[str, Any]) -> str:
    """``7/8``: requests of the level with the same answer in company and alone, of those compared; n/a for none."""
    parity = level.get("parity") or {}
    if parity.get("mismatches") is None:
        return NA
    return f"{parity['compared'] - parity['mismatches']}/{parity['compared']}"


def level_table(run: Mapping[str, Any]) -> str:
    """The table to paste: one row a concurrency level."""
    shown = columns(run)
    rows = [[column.cell(level) for column in shown] for level in run["levels"]]
    return markdown_table([column.header for column in shown], rows)


def request_values(requests: Sequence[Mapping[str, Any]], level: LevelKey | None, name: str) -> list[tuple[str, float]]:
    """(request id, value) of a metric in the lines of requests.jsonl of a level; of valid requests that have one."""
    return [
        (one["request_id"], value)
        for one in requests
        if level_or_none(one) == level and not one.get("faults")
        if isinstance(value := (one.get("metrics") or {}).get(name), (int, float))
    ]


def valid_requests(level: Mapping[str, Any]) -> int | None:
    """Requests that ended cleanly with audio that passed every check; None if the run (schema 1.0) does not say."""
    if "faulty" not in level:
        return None if level["invalid"] else level["completed"]
    return level["completed"] - level["faulty"]


def percentile_table(run: Mapping[str, Any]) -> str:
    """Every metric that has a value, with all its figures: one row a level and metric."""
    headers = (level_header(run["levels"]), "metric", "unit", "n", "mean", "std", "p50", "p90", "p95", "p99")
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
    headers = (level_header(run["levels"]), "intercept (ms)", "slope (s/s)", "mean audio (s)")
    rows = [
        [
            str(level_of(level)),
            milliseconds(METRICS["e2el_intercept_ms"].value_in(level)),
            fixed(METRICS["e2el_slope"].value_in(level), 3),
            fixed(METRICS["audio_s"].value_in(level, "mean"), 2),
        ]
        for level in run["levels"]
    ]
    return markdown_table(headers, rows)


def lag_table(run: Mapping[str, Any]) -> str:
    """How late the client's event loop ran in each level; of several, the latest."""
    headers = (
        level_header(run["levels"]), "lag p50 (ms)", "lag p99 (ms)", "lag max (ms)", "budget p99 (ms)", "samples",
        "waited for a CPU (s)", "lag p99 without (ms)", "first bytes p50 (ms)", "p90 (ms)", "load processes",
        "TTFP bias p50 (ms)", "p99 (ms)", "clock error (ms)",
    )  # fmt: skip
    rows = []
    for level in run["levels"]:
        client = level["client"] or {}
        cpu = client.get("cpu_wait") or {}
        figures = [fixed(client.get(f"lag_{name}_ms"), 2) for name in ("p50", "p99", "max")]
        figures += [fixed(client.get("lag_budget_ms"), 1), count(client.get("lag_samples"))]
        figures += [fixed(cpu.get(name), 2) for name in ("wait_s", "lag_p99_ms")]
        first = client.get("first_lag_ms") or {}
        figures += [fixed(first.get(name), 2) for name in ("p50", "p90")]
        figures.append(count(client.get("workers")))
        bias = client.get("ttfp_bias") or {}
        figures += [fixed(bias.get(f"{name}_ms"), 2) for name in ("p50", "p99")]
        figures.append(fixed(max((node["error_ms"] for node in client.get("nodes", ())), default=None), 2))
        rows.append([str(level_of(level)), *figures])
    return markdown_table(headers, rows)


def standstill_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """Each level in which the client stood still for STANDSTILL_MS or longer at a time, which no percentile tells."""
    for level in run["levels"]:
        longest_ms = (level.get("client") or {}).get("lag_max_ms")
        if longest_ms is not None and longest_ms >= STANDSTILL_MS:
            yield (
                f"{short_title(level_of(level))}: the client stood still for {milliseconds(longest_ms)} ms at a time, "
                "and perhaps the whole machine: what is slow or stalls at such a moment need not be the server's"
            )


def accuracy_table(run: Mapping[str, Any]) -> str:
    """What the judge made of each level: corpus and per-utterance figures and the counts behind them."""
    characters = by_characters(run)
    corpus = ("characters", "edits", "CER") if characters else ("words", "edits", "WER", "CER")
    each = ("CER mean", "CER median") if characters else ("WER mean", "WER median")
    headers = (level_header(run["levels"]), "utterances", *corpus, *each, "above 50 %", "forced", "not compared")
    names = (() if characters else ("wer",)) + ("cer", "wer_mean", "wer_median")
    rows = []
    for level in run["levels"]:
        accuracy = level["accuracy"] or {}
        counts = [count(accuracy.get(name)) for name in ("utterances", "words", "edits")]
        rates = [percent(accuracy.get(name)) for name in names]
        ends = [count(accuracy.get(name)) for name in ("above_50", "forced", "excluded")]
        rows.append([str(level_of(level)), *counts, *rates, *ends])
    return markdown_table(headers, rows)
