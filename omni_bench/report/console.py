"""The summary at the end of a run, for the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from omni_bench.errors import shorten
from omni_bench.foreign_text import one_field, one_line, visible
from omni_bench.records.invalid_reason import client_last, reasons_of
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.audio import not_held_lines
from omni_bench.report.format import hardware_name, injected_faults, percent, target_name
from omni_bench.report.judge import own_error_line, voices_line
from omni_bench.report.next_step import next_steps_of
from omni_bench.report.open_loop import search_lines
from omni_bench.report.server import account_lines, server_warnings
from omni_bench.report.table import columns, error_rate, standstill_lines
from omni_bench.report.utterances import by_damage, score_of
from omni_bench.terminal import in_lines


class TerminalConsole(Console):
    """Rich's console without colouring of its own; text that it prints cannot command the terminal.

    A text is one line, however many are in it, and so is a cell and a title; none is longer than there is room for.
    ``plain_width``: columns into a file or a pipe, where rich would squeeze a table into 80, unless COLUMNS asks for a
    width; None leaves that to rich.
    """

    def __init__(self, *, plain_width: int | None = None, **options: Any) -> None:
        if plain_width is not None and not sys.stdout.isatty() and "COLUMNS" not in os.environ:
            options["width"] = plain_width
        super().__init__(highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does, but texts in one line each."""
        super().print(*map(_in_one_line, objects), **options)

    def print_text(self, text: str, *, indent: str = "    ", style: str = "") -> None:
        """A text of one line, broken between words for the terminal (:func:`omni_bench.terminal.in_lines`)."""
        for line in in_lines(text, indent, file=self.file):
            self.print(Text(line, style=style), soft_wrap=True)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The pieces of text as rich makes them, each :func:`visible`; cells are before their width is measured."""
        if isinstance(renderable, Table):
            for cell in (renderable.title, *(cell for one in renderable.columns for cell in (one.header, *one.cells))):
                _in_one_line(cell)
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def _in_one_line(printed: Any) -> Any:
    if isinstance(printed, str):
        return one_line(printed)
    if isinstance(printed, Text) and (line := one_line(printed.plain)) != printed.plain:
        printed.plain = line
    return printed


FULL_WIDTH = 140
"""Below this width the table keeps only some columns (``Metric.narrow``): what must not be missed."""


def summary_table(run: Mapping[str, Any], width: int = FULL_WIDTH) -> Table:
    """One row a concurrency level, as in report.md; invalid levels in red.

    ``width``: columns of the terminal. A narrow one gets fewer figures; the report has them all.
    """
    title = f"{one_field(run['scenario'])}: {target_name(run)} on {hardware_name(run)}"
    narrow = width < FULL_WIDTH
    table = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE if narrow else box.HEAVY_HEAD,
        padding=(0, 1, 0, 0) if narrow else (0, 1),
        show_edge=not narrow,
        pad_edge=not narrow,
    )
    kept = [one for one in columns(run) if not narrow or one.narrow or one.header == error_rate(run)]
    headers = [column.header.removesuffix(" (mean)") if narrow else column.header for column in kept]
    rows = [[column.cell(level).strip("*") for column in kept] for level in run["levels"]]
    if narrow:
        rows = [[cell.partition(" (")[0] for cell in row] for row in rows]  # without the mean behind a pair
        if _least_width(headers, rows) > width:  # without the second of a pair
            headers = [header.replace("p50 / p90", "p50") for header in headers]
            rows = [[cell.partition(" / ")[0] for cell in row] for row in rows]
    for header in headers:
        table.add_column(Text(header), justify="right", overflow="fold")
    for level, row in zip(run["levels"], rows, strict=True):
        table.add_row(*map(Text, row), style=None if level["valid"] else "red")
    return table


def _least_width(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Columns that a narrow table takes with no cell, and no word of a header, in two lines."""
    cells = [[*header.split(), *column] for header, *column in zip(headers, *rows, strict=True)]
    return sum(max(map(len, one)) for one in cells) + 2 * (len(cells) - 1)


def notes(run: Mapping[str, Any]) -> list[str]:
    """What the table is to be read with: injected faults, a rate search's answer, the judge's own error, voices."""
    judge = run["provenance"]["judge"] or {}
    faults = injected_faults(run)
    injected = f"FAULT INJECTED on purpose: {', '.join(faults)}" if faults else None
    lines = [
        injected,
        *(f"server: {one}" for one in server_warnings(run)),
        *standstill_lines(run),
        *account_lines(run),
        *not_held_lines(run),
        *search_lines(run),
        own_error_line(run),
        voices_line(run) if judge.get("speaker_encoder") else None,
    ]
    return [one_line(line, MAX_NOTE) for line in lines if line]


def verdict_lines(run: Mapping[str, Any]) -> list[str]:
    """What to print below the table: why a run makes no performance claim; [] if it is valid."""
    if run["valid"]:
        return []
    reasons = client_last(reasons_of(run))
    lines = ["This run makes no performance claim:", *(one_line(f"  - {reason}", MAX_NOTE) for reason in reasons)]
    return [*lines, *(f"  next: {step}" for step in next_steps_of(run))]


def worst_lines(run: Mapping[str, Any], folder: RunFolder) -> list[str]:
    """The utterances that were understood worst, two lines each: the text and what was heard, and the recording."""
    lines = []
    for record in by_damage(folder.read_utterances())[:WORST_UTTERANCES]:
        score = score_of(record)
        heard = f"“{shorten(score.hypothesis, MAX_WORDS)}”" if score.hypothesis else score.forced or "nothing"
        rate = f"{error_rate(run)} {percent(score.wer)}"
        lines.append(f"  {score.request_id}, {rate}: “{shorten(score.reference, MAX_WORDS)}” -> {heard}")
        audio = record.get("audio")
        lines.append(f"    {from_here(folder.path / audio)}" if isinstance(audio, str) else "    no recording was kept")
    return ["heard worst:", *lines] if lines else []


def from_here(path: Path) -> str:
    """``path`` as one would type it: relative to the current folder if it is below that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


# ---- Summary on stdout after a run ----

PLAIN_WIDTH = 150
WORST_UTTERANCES = 3
MAX_NOTE = 500
MAX_WORDS = 100  # characters of a text


def print_summary(run: Mapping[str, Any], folder: RunFolder) -> None:
    """The table, why the run may not be trusted if so, what was heard worst, and where the report is.

    ``run``: run.json of ``folder``. Raises StoreError for an utterance that lacks a field. A reader that has
    gone (``| true``) changes nothing about the run: it is all on disk.
    """
    console = TerminalConsole(plain_width=PLAIN_WIDTH)
    with console.capture() as capture:  # at a broken pipe rich itself would exit with code 1
        console.print(summary_table(run, console.width))
        report = ["report, to look at and to listen to:", from_here(folder.report_html)]
        for line in [*notes(run), *verdict_lines(run), *worst_lines(run, folder), *report]:
            console.print_text(line)
    try:
        print(capture.get(), end="", flush=True)
    except BrokenPipeError:
        # What is still in the buffer goes nowhere, so that no later flush fails again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
