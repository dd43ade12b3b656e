"""``omni-bench gate``: judge a night by the history."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from omni_bench.errors import EXIT_INFRASTRUCTURE, OmniBenchError
from omni_bench.foreign_text import annotation
from omni_bench.nightly.gate.document import to_document
from omni_bench.nightly.gate.github import annotations, append_summary, in_actions
from omni_bench.nightly.gate.junit import render_junit
from omni_bench.nightly.gate.markdown import HEADERS, gate_verdict_line, integrity_lines, render_gate, series_rows
from omni_bench.nightly.gate.night import gate_night
from omni_bench.nightly.gate.rerun import run_again
from omni_bench.nightly.gate.result import GateResult, Status
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.load import load_record
from omni_bench.nightly.history.records import Role, StoredRun
from omni_bench.records.files import json_bytes, write_atomically
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.console import TerminalConsole
from omni_bench.terminal import say_commands, say_error

JSON_NAME, JUNIT_NAME, MARKDOWN_NAME, RERUN_NAME = "gate.json", "junit.xml", "gate.md", "rerun"
PLAIN_WIDTH = 180
_STYLES = {
    Status.REGRESSION: "red",
    Status.KNOWN: "yellow",
    Status.NOT_REPRODUCED: "yellow",
    Status.UNCONFIRMED: "yellow",
    Status.INCONCLUSIVE: "dim",
}


def gate_command(
    run: str, database: str, *, out: str | None, rerun: str | None, reproduced_by: str | None, pinned: str | None
) -> int:
    """Judge ``run``; 0 pass, 1 regression, 2 inconclusive, 3 hard failure, no measurement, or nothing could be judged.

    ``rerun``: None: never run again; "": run the stored command again if something is acute; else the command for that.
    Writes gate.json, gate.md and junit.xml into ``out`` (None: the run's folder), and GitHub's step summary
    and annotations where there are such. An error ends with 3, as 2 would say "inconclusive".
    """
    try:
        tonight = load_record(run)
        folder = Path(out) if out is not None else RunFolder.open(run).path
        again_at = folder / RERUN_NAME

        def second_run() -> StoredRun:
            return run_again(tonight.command, again_at.absolute(), rerun or None)

        with History(Path(database)) as history:
            is_new = not history.series()  # a mistyped path, perhaps
            result = gate_night(
                history,
                tonight,
                rerun=None if reproduced_by is None else load_record(reproduced_by, Role.RERUN),
                run_again=None if rerun is None else second_run,
                pinned=None if pinned is None else load_record(pinned, Role.PINNED),
            )
        if is_new:
            result = replace(result, notes=(f"a new history was started at {database}", *result.notes))
        write_gate(result, folder)
    except OmniBenchError as error:
        say_error(str(error))
        if in_actions(os.environ):
            say_commands([annotation("error", "gate", str(error))])
        return EXIT_INFRASTRUCTURE
    _print(result, folder)
    if in_actions(os.environ):
        say_commands(annotations(result))
    return result.exit_code


def write_gate(result: GateResult, folder: Path) -> None:
    """Write gate.json, gate.md and junit.xml, and add to GitHub's step summary. Raises StoreError."""
    document = json_bytes(to_document(result), JSON_NAME, indent=2) + b"\n"
    text = render_gate(result)
    write_atomically(folder / JSON_NAME, lambda path: path.write_bytes(document))
    write_atomically(folder / JUNIT_NAME, lambda path: path.write_bytes(render_junit(result)))
    write_atomically(folder / MARKDOWN_NAME, lambda path: path.write_text(text, encoding="utf-8"))
    append_summary(text, os.environ)


def _print(result: GateResult, folder: Path) -> None:
    console = TerminalConsole(plain_width=PLAIN_WIDTH)
    if result.series:
        table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
        for header in HEADERS:
            table.add_column(header, overflow="fold")
        for one, row in zip(result.series, series_rows(result), strict=True):
            table.add_row(*map(Text, row), style=_STYLES.get(one.status))
        console.print(table)
    for line in (*integrity_lines(result), *result.notes, gate_verdict_line(result), f"gate: {folder / MARKDOWN_NAME}"):
        console.print(line, markup=False, soft_wrap=True)
