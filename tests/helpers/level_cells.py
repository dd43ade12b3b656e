"""The level table of a report, cell by cell."""

from __future__ import annotations

from omni_bench.report.table import columns


def level_headers(run) -> tuple[str, ...]:
    return tuple(column.header for column in columns(run))


def level_rows(run) -> list[list[str]]:
    """One row a level, in the order of the run."""
    return [[column.cell(level) for column in columns(run)] for level in run["levels"]]
