"""The summary at the end of a run, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from omni_bench.report.format import hardware_name, target_name
from omni_bench.report.table import LEVEL_HEADERS, level_rows


def summary_table(run: Mapping[str, Any]) -> Table:
    """One row a concurrency level, as in report.md; invalid levels in red."""
    title = f"{run['scenario']}: {target_name(run)} on {hardware_name(run)}"
    table = Table(title=Text(title, style="bold"), title_justify="left", header_style="bold")
    for header in LEVEL_HEADERS:
        table.add_column(Text(header), justify="right", overflow="fold")
    for level, row in zip(run["levels"], level_rows(run), strict=True):
        table.add_row(*(Text(cell.strip("*")) for cell in row), style=None if level["valid"] else "red")
    return table


def verdict_lines(run: Mapping[str, Any]) -> list[str]:
    """What to print below the table: why a run makes no performance claim; [] if it is valid."""
    if run["valid"]:
        return []
    return ["This run makes no performance claim:", *(f"  - {reason}" for reason in run["invalid_reasons"])]
