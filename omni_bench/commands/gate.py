"""``omni-bench gate``: judge a night by the history."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from omni_bench.errors import EXIT_INFRASTRUCTURE, OmniBenchError
from omni_bench.foreign_text import annotation
from omni_bench.nightly.gate import no_night
from omni_bench.nightly.gate.advice import advise
from omni_bench.nightly.gate.document import to_document
from omni_bench.nightly.gate.github import annotations, append_summary, in_actions, repository_address
from omni_bench.nightly.gate.junit import render_junit, step_text
from omni_bench.nightly.gate.markdown import HEADERS, gate_verdict_line, integrity_lines, render_gate, series_rows
from omni_bench.nightly.gate.night import gate_night
from omni_bench.nightly.gate.rerun import run_again
from omni_bench.nightly.gate.result import GateOutcome, GateResult, Status
from omni_bench.nightly.history import DEFAULT_DATABASE
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.load import load_record
from omni_bench.nightly.history.records import Role, StoredRun
from omni_bench.records.files import write_atomically, write_json, write_text
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.console import TerminalConsole, from_here
from omni_bench.terminal import say_aside, say_commands, say_error, say_json

JSON_NAME, JUNIT_NAME, MARKDOWN_NAME, RERUN_NAME = "gate.json", "junit.xml", "gate.md", "rerun"
EVIDENCE = ("report.html", "report.md", "wer_evidence.md", "cross_talk.jsonl", "audio", "server.log")
"""What a person looks at in the folder of a night, where it is there and not empty."""
PLAIN_WIDTH = 120
WIDE = 110
"""Columns below which gate.md alone has the change against the baseline, and "expected" stands below its row."""
_NARROW, _EXPECTED = (0, 1, 2, 4, 6), 3
_STYLES = {
    Status.REGRESSION: "red",
    Status.UNCONFIRMED: "red",
    Status.KNOWN: "yellow",
    Status.NOT_REPRODUCED: "yellow",
    Status.INCONCLUSIVE: "dim",
}
_VERDICT_STYLES = {
    GateOutcome.PASS: "green",
    GateOutcome.INCONCLUSIVE: "yellow",
    GateOutcome.REGRESSION: "bold red",
    GateOutcome.UNCONFIRMED: "bold red",
    GateOutcome.HARD_FAILURE: "bold red",
    GateOutcome.INVALID: "bold red",
}


def gate_command(
    run: str,
    database: str,
    *,
    out: str | None = None,
    rerun: str | None = None,
    reproduced_by: str | None = None,
    pinned: str | None = None,
    until_accepted: bool = False,
    as_json: bool = False,
) -> int:
    """Judge ``run``; 0 pass, 1 regression, 2 inconclusive, 3 hard failure, no measurement, or nothing could be judged.

    ``rerun``: None: never run again; "": run the stored command again if something is acute; else the command for that.
    ``until_accepted``: a night with an open change is a regression.
    Writes gate.json, gate.md and junit.xml into ``out`` (None: the run's folder), also for a run that cannot be read,
    and GitHub's step summary and annotations where there are such. An error ends with 3, as 2 would say "inconclusive".
    """
    try:
        tonight = load_record(run)
        folder = Path(out) if out is not None else RunFolder.open(run).path
        again_at = (Path(run) if out is None and Path(run).is_dir() else folder) / RERUN_NAME

        def second_run() -> StoredRun:
            made = run_again(tonight.command, again_at.absolute(), rerun or None)
            return replace(made, source=str(again_at))  # as the run was typed

        with History(Path(database)) as history:
            is_new = not history.series()  # a mistyped path, perhaps
            result = gate_night(
                history,
                tonight,
                rerun=None if reproduced_by is None else load_record(reproduced_by, Role.RERUN),
                run_again=None if rerun is None else second_run,
                pinned=None if pinned is None else load_record(pinned, Role.PINNED),
                until_accepted=until_accepted,
            )
        if is_new:
            result = replace(result, notes=(f"a new history was started at {database}", *result.notes))
        at = RunFolder.open(run).path
        there = [name for name in EVIDENCE if (at / name).exists() and (at / name).stat().st_size]
        evidence = [str(Path(run if Path(run).is_dir() else at) / name) for name in there]
        address, where = repository_address(os.environ), None if database == DEFAULT_DATABASE else database
        steps = advise(result, run=run, database=where, evidence=evidence, repository=address, is_there=os.path.exists)
        result = replace(result, next_steps=steps)
        document = to_document(result)
        write_gate(document, render_gate(result), render_junit(result), folder)
    except OmniBenchError as error:
        return _no_night(run, str(error), out, as_json)
    if as_json:
        say_json(document)
    else:
        _print(result, folder)
    if in_actions(os.environ):
        say_commands(annotations(result), file=sys.stderr if as_json else None)
    return result.exit_code


def write_gate(document: dict[str, Any], page: str, junit: bytes, folder: Path) -> None:
    """Write gate.json, gate.md and junit.xml, and add to GitHub's step summary. Raises StoreError."""
    write_json(folder / JSON_NAME, document)
    write_atomically(folder / JUNIT_NAME, lambda path: path.write_bytes(junit))
    write_text(folder / MARKDOWN_NAME, page)
    append_summary(page, os.environ)


def _no_night(run: str, message: str, out: str | None, as_json: bool) -> int:
    """A night that could not be judged: said everywhere a verdict would be, in the run's folder if it has one."""
    say_error(message)
    document, page = no_night.document_of(run, message), no_night.page_of(run, message)
    path = Path(run).parent if Path(run).name == "run.json" else Path(run)
    folder = Path(out) if out is not None else path if path.is_dir() else None
    try:
        if folder is None:
            append_summary(page, os.environ)
            say_aside("no junit.xml and gate.md, as there is no folder for them; --out FOLDER names one")
        else:
            write_gate(document, page, no_night.junit_of(run, message), folder)
    except OmniBenchError as error:
        say_error(str(error))
    if as_json:
        say_json(document)
    if in_actions(os.environ):
        say_commands([annotation("error", "gate", message)], file=sys.stderr if as_json else None)
    return EXIT_INFRASTRUCTURE


def _print(result: GateResult, folder: Path) -> None:
    console = TerminalConsole(plain_width=PLAIN_WIDTH)
    if result.series:
        _print_table(console, result)
    for line in (*integrity_lines(result), *result.notes):
        console.print_text(line)
    console.print_text(gate_verdict_line(result), style=_VERDICT_STYLES[result.outcome])
    for step in result.next_steps:
        console.print_text(f"  next: {step_text(step)}")
    for line in ("gate:", from_here(folder.absolute() / MARKDOWN_NAME)):
        console.print(line, markup=False, soft_wrap=True)


def _print_table(console: Console, result: GateResult) -> None:
    """One line a series, with the reason below it unless it passes."""
    columns: Sequence[int] = range(len(HEADERS) - 1) if console.width >= WIDE else _NARROW
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(HEADERS[column], no_wrap=True)
    rows = series_rows(result)
    for one, row in zip(result.series, rows, strict=True):
        table.add_row(*(Text(row[column]) for column in columns), style=_STYLES.get(one.status))
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    head = len(lines) - len(rows)
    for line in lines[:head]:
        console.print(Text.from_ansi(line), soft_wrap=True)
    for one, row, line in zip(result.series, rows, lines[head:], strict=True):
        console.print(Text.from_ansi(line), soft_wrap=True)
        if _EXPECTED not in columns and one.expected is not None:
            console.print(Text(f"    expected {row[_EXPECTED]}"))
        if one.status is not Status.PASS:
            console.print(Padding(Text(row[-1], style=_STYLES.get(one.status, "")), (0, 0, 0, 4)))
