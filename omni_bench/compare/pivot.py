"""The table that a pull request can take: one row a level, before → after with the change and a mark in each cell.

Cells are plain text of one or two lines; :func:`pivot_markdown` escapes nothing, as all of it is written here.
"""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.compare.result import Cell, Comparison, LevelAccuracy, Mark
from omni_bench.compare.rows import is_spoken, level_header, metric_label, value_text
from omni_bench.compare.vllm_bench import printed_name
from omni_bench.metrics.definitions import METRICS
from omni_bench.report.format import NA, change_text, count, percent
from omni_bench.report.table import markdown_table

MARKS = {Mark.WORSE: "🔴", Mark.BETTER: "🟢", Mark.SAME: "⚪", Mark.NOTHING: "❔"}
LEGEND = {
    Mark.BETTER: "better",
    Mark.WORSE: "worse",
    Mark.SAME: "a change of 5 % is excluded",
    Mark.NOTHING: "cannot tell from these pairs",
}
_ARROW = "→"


def speed_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of the metrics. A second line of a header is the name that ``vllm bench serve`` prints."""
    metrics = list(dict.fromkeys(cell.metric for cell in comparison.cells))
    cells = {(cell.metric, cell.concurrency): cell for cell in comparison.cells}
    headers = [level_header(comparison), *map(_header, metrics)]
    rows = [
        [str(level), *(_cell(cells.get((metric, level)), comparison) for metric in metrics)]
        for level in comparison.levels
    ]
    return headers, rows


def words_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of what was heard; without columns where nothing was."""
    accuracy = comparison.accuracy
    columns = []
    if is_spoken(comparison):
        name = accuracy.rate or f" {_ARROW} ".join(rate or NA for rate in accuracy.rates)
        columns.append((name, [_rates(one) for one in accuracy.levels]))
    if (accuracy.cross_talk_before, accuracy.cross_talk_after) != (None, None):
        columns.append(("cross-talk", [_hits(one) for one in accuracy.levels]))
    headers = [level_header(comparison), *(name for name, _ in columns)]
    return headers, [
        [str(one.concurrency), *(cells[number] for _, cells in columns)] for number, one in enumerate(accuracy.levels)
    ]


def whole_table(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Both beside each other."""
    (headers, rows), (more, words) = speed_table(comparison), words_table(comparison)
    return [*headers, *more[1:]], [[*row, *heard[1:]] for row, heard in zip(rows, words, strict=True)]


def pivot_markdown(table: tuple[Sequence[str], Sequence[Sequence[str]]]) -> str:
    """The table for GitHub."""
    headers, rows = table
    return markdown_table([_lines(one) for one in headers], [[_lines(one) for one in row] for row in rows])


def legend(comparison: Comparison) -> str:
    """What the marks mean, and that medians are compared; empty without a mark."""
    used = {cell.mark for cell in comparison.cells}
    said = [f"{MARKS[mark]} {text}" for mark, text in LEGEND.items() if mark in used]
    tail = any(METRICS[cell.metric].tail and not METRICS[cell.metric].points for cell in comparison.cells)
    slowest = " tail: mean of the slowest tenth;" if tail else ""
    middle = f"p50: median over the requests;{slowest} mean and P99 are in the details."
    return f"{', '.join(said)}. {middle}" if said else middle


def _header(metric: str) -> str:
    name, label = printed_name(metric), metric_label(metric)
    return f"{label}\n{name}" if name and name != METRICS[metric].short else label


def _cell(cell: Cell | None, comparison: Comparison) -> str:
    if cell is None or (cell.before is None and cell.after is None):
        return NA
    values = f"{value_text(cell.metric, cell.before)} {_ARROW} {value_text(cell.metric, cell.after)}"
    if cell.mark in (Mark.INVALID, Mark.LENGTH_GUARD):
        return f"{values}\n{cell.mark}"
    if cell.change is None:
        return values
    mark = MARKS.get(cell.mark)
    change = change_text(METRICS[cell.metric], cell.change)
    return f"{values}\n{mark} {change}" if mark and comparison.judges_speed else f"{values}\n{change}"


def _rates(one: LevelAccuracy) -> str:
    if (one.before, one.after) == (None, None):
        return NA
    return f"{percent(one.before)} {_ARROW} {percent(one.after)}"


def _hits(one: LevelAccuracy) -> str:
    if (one.cross_talk_before, one.cross_talk_after) == (None, None):
        return NA
    return f"{count(one.cross_talk_before)} {_ARROW} {count(one.cross_talk_after)}"


def _lines(text: str) -> str:
    return text.replace("\n", "<br>")
