"""What a run says on stdout when it is over."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from omni_bench.report.console import notes, summary_table, verdict_lines

PLAIN_WIDTH = 150
"""Columns into a file or a pipe, where rich would squeeze the table into 80."""


def print_summary(run: Mapping[str, Any], report: Path) -> None:
    """The table, why the run may not be trusted if so, and where the ``report`` is. ``run``: its run.json.

    A reader that has gone (``| true``) changes nothing about the run: it is all on disk.
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    with console.capture() as capture:  # at a broken pipe rich itself would exit with code 1
        console.print(summary_table(run, console.width))
        for line in [*notes(run), *verdict_lines(run)]:
            console.print(line, markup=False, soft_wrap=True)
        console.print(f"report: {report}", markup=False, soft_wrap=True)
    try:
        print(capture.get(), end="", flush=True)
    except BrokenPipeError:
        # What is still in the buffer goes nowhere, so that no later flush fails again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
