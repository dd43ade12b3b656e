"""``omni-bench history``: the runs of many nights, their trends, and the baselines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from omni_bench.errors import EXIT_OK, ConfigError
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.load import load_records
from omni_bench.nightly.history.table import HEADERS, alarm_lines, baseline_line, heading, trend_rows
from omni_bench.nightly.history.trend import trends
from omni_bench.report.console import TerminalConsole
from omni_bench.report.drawing import drawn
from omni_bench.terminal import say

PLAIN_WIDTH = 180


def history_add(database: str, specs: Sequence[str]) -> int:
    """Add runs; those that are there already change nothing. Raises ConfigError, StoreError."""
    records = load_records(specs)
    with History(Path(database)) as history:
        for record in records:
            new = history.add(record)
            invalid = None if record.valid else "invalid: no part of any trend"
            marks = "; ".join(mark for mark in (record.advisory, invalid) if mark)
            said = f" ({marks})" if marks else ""
            state = "added" if new else "already there"
            say(f"{state}: {record.source}, {record.scenario}, series {record.series}, {record.run_id[:12]}{said}")
    return EXIT_OK


def history_show(database: str, scenario: str | None, out: str | None) -> int:
    """Print the trend of every gated metric; with ``out``, draw it too. Raises ConfigError, StoreError."""
    with _existing(database) as history:
        shown = history.series(scenario)
        if not shown and scenario is None:
            raise ConfigError(f"{database} holds no nights; add runs with omni-bench history add RUN")
        if not shown:
            known = ", ".join(history.scenarios()) or "none; add runs with omni-bench history add RUN"
            raise ConfigError(f"--scenario {scenario!r}: no such scenario in {database}; there are: {known}")
        for series in shown:
            _show(history, series, None if out is None else Path(out))
    return EXIT_OK


def _show(history: History, series: str, out: Path | None) -> None:
    runs, baseline = history.nights(series), history.baseline(series)
    found = trends(runs, baseline)
    console = TerminalConsole(plain_width=PLAIN_WIDTH)
    console.print(Text(heading(runs), style="bold"), soft_wrap=True)
    console.print(_table(HEADERS, trend_rows(found)))
    for line in (baseline_line(baseline), *alarm_lines(history.alarms(series), runs)):
        console.print(Text(line), soft_wrap=True)
    if out is not None and found:

        def draw() -> list[Path]:
            from omni_bench.nightly.history.plots import draw_trends  # matplotlib takes seconds to import

            return draw_trends(runs, found, out, baseline)

        for path in drawn(draw, f"series {series}"):
            console.print(Text(str(path)), soft_wrap=True)
    console.print()


def baseline_set(database: str, specs: Sequence[str], note: str) -> int:
    """Declare runs of the history to be normal. Raises ConfigError, StoreError."""
    records = load_records(specs)
    with _existing(database) as history:
        for baseline in history.set_baseline([record.run_id for record in records], note):
            say(f"series {baseline.series}: {baseline_line(baseline)}")
    return EXIT_OK


def baseline_show(database: str, scenario: str | None) -> int:
    """Print every baseline that was ever set; the last of a series holds. Raises ConfigError, StoreError."""
    with _existing(database) as history:
        for series in history.series(scenario):
            newest = history.nights(series)[-1]
            say(f"{newest.scenario}: {newest.target} on {newest.hardware}, series {series}")
            for baseline in history.baselines(series) or [None]:
                say(f"  {baseline_line(baseline)}")
    return EXIT_OK


def _existing(database: str) -> History:
    if not Path(database).is_file():
        raise ConfigError(f"--db {database}: there is no such history; omni-bench history add RUN makes it")
    return History(Path(database))


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
