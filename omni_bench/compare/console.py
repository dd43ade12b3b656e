"""A comparison for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from omni_bench.compare.headline import headline, outcome_line, remarks
from omni_bench.compare.keys import shown
from omni_bench.compare.pivot import legend, speed_table, whole_table, words_table
from omni_bench.compare.result import Comparison, ComparisonOutcome
from omni_bench.errors import shorten
from omni_bench.records.level import short_title
from omni_bench.report.console import TerminalConsole

PLAIN_WIDTH = 120
MAX_LISTED, MAX_TEXT = 12, 160
_STYLES = {
    ComparisonOutcome.REGRESSION: "bold red",
    ComparisonOutcome.HARD_FAILURE: "bold red",
    ComparisonOutcome.AFTER_BROKEN: "bold red",
    ComparisonOutcome.IMPROVEMENT: "bold green",
}


def print_comparison(comparison: Comparison, folder: Path | None = None) -> None:
    """The verdict, the table, and the recordings. ``folder``: to which the runs' names are relative, None for here."""
    console = TerminalConsole(plain_width=PLAIN_WIDTH)
    console.print_text(outcome_line(comparison), indent="", style=_STYLES.get(comparison.outcome, "bold"))
    first = headline(comparison)
    console.print_text(f"{first[:1].upper()}{first[1:]}. {' '.join(remarks(comparison))}", indent="")
    if comparison.faults:
        console.print_text(f"FAULT INJECTED on purpose: {'; '.join(comparison.faults)}", indent="", style="bold yellow")
    for said in comparison.stated_faults:
        console.print_text(said, indent="", style="bold yellow")
    if comparison.forced:
        names = ", ".join(one.name for one in comparison.forced[:MAX_LISTED])
        console.print_text(
            f"NOT COMPARABLE, shown all the same (--force): {names} differ", indent="", style="bold yellow"
        )
    spoken = words_table(comparison)
    if comparison.judges_speed:
        console.print(_table(whole_table(comparison)))
    else:
        if len(spoken[0]) > 1:
            console.print(_table(spoken))
        console.print_text("Speed, which is not judged:", style="dim")
        console.print(_table(speed_table(comparison)), style="dim")
    for line in _lines(comparison, folder or Path()):
        console.print_text(line)


def _lines(comparison: Comparison, folder: Path) -> Iterator[str]:
    if comparison.judges_speed:
        yield legend(comparison)
    for one in comparison.settings[:MAX_LISTED]:
        values = (shorten(shown(value), MAX_TEXT) for value in (one.before, one.after))
        yield f"{one.name}: {' → '.join(values)}"
    for reason in comparison.invalid[:MAX_LISTED]:
        yield f"invalid: {shorten(reason, 2 * MAX_TEXT)}"
    for note in comparison.notes:
        yield f"note: {note}"
    for heard in comparison.worst:
        yield f"hear it ({short_title(heard.concurrency)}): {shorten(heard.text, MAX_TEXT)}"
        yield f"  heard as: {shorten(heard.heard_after, MAX_TEXT) or '(nothing)'}"
        for arm, path in (("before", heard.audio_before), ("after", heard.audio_after)):
            yield f"  {arm}: {folder / path if path is not None else 'not kept (output.save_audio=all keeps it)'}"


def _table(cells: tuple[list[str], list[list[str]]]) -> Table:
    """One row a metric of each level: a row a level, as in a pull request, is wider than terminals are."""
    (head, *headers), rows = cells
    last = ["change"] if any("\n" in cell for row in rows for cell in row) else []
    table = Table(head, "metric", "before → after", *last, box=box.SIMPLE, show_edge=False, pad_edge=False)
    for level, *of_level in rows:
        for number, (header, cell) in enumerate(zip(headers, of_level, strict=True)):
            name, (values, _, change) = header.partition("\n")[0], cell.partition("\n")
            style = "red" if "🔴" in change else "green" if "🟢" in change else ""
            shown = (Text(one, style=style) for one in (values, change)[: 1 + len(last)])
            table.add_row("" if number else level, name, *shown)
    return table
