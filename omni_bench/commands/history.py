"""``omni-bench history``: the runs of many nights, their trends, and the baselines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from omni_bench.errors import EXIT_OK, ConfigError, OmniBenchError
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.document import baseline_document, night_document, series_document
from omni_bench.nightly.history.load import load_each, load_records
from omni_bench.nightly.history.table import HEADERS, alarm_lines, baseline_line, heading, trend_rows
from omni_bench.nightly.history.trend import order_of, trends
from omni_bench.report.console import TerminalConsole
from omni_bench.report.drawing import drawn
from omni_bench.terminal import say_aside, say_error, say_json, say_text

PLAIN_WIDTH = 180
WIDE, NARROW = 110, (0, 1, 4, 5, 6, 7)
"""Columns of a terminal below which the last night and the count of nights are left to --json; what is left."""


def history_add(database: str, specs: Sequence[str], *, as_json: bool = False) -> int:
    """Add runs; those that are there already change nothing, and one that cannot be added does not keep others out.

    The exit code is that of the worst error. Raises StoreError for the history itself.
    """
    code, said = EXIT_OK, []
    with History(Path(database)) as history:
        for record in load_each(specs):
            try:
                if isinstance(record, OmniBenchError):
                    raise record
                state = "added" if history.add(record) else "already there"
            except OmniBenchError as error:
                code = max(code, error.exit_code)
                said.append({"state": "not added", "error": str(error)})
                say_error(f"not added: {error}")
                continue
            later = sum(order_of(night) > order_of(record) for night in history.nights(record.series))
            invalid = None if record.valid else "invalid: no part of any trend"
            late = f"dated before {later} nights of the history" if later and state == "added" else None
            marks = "; ".join(mark for mark in (record.advisory, invalid, late) if mark)
            said.append({"state": state, **night_document(record)})
            if not as_json:
                more = f" ({marks})" if marks else ""
                who = f"{record.scenario}, series {record.series}, {record.run_id[:12]}"
                say_text(f"{state}: {record.source}, {who}{more}")
    refused = sum(one["state"] == "not added" for one in said)
    if as_json:
        say_json(said)
    elif refused and len(said) > 1:
        others = "the others are in the history" if refused < len(said) else "nothing was added"
        say_error(f"{refused} of {len(said)} runs were not added; {others}")
    return code


def history_show(database: str, scenario: str | None, out: str | None, *, as_json: bool = False) -> int:
    """Print the trend of every gated metric; with ``out``, draw it too. Raises ConfigError, StoreError."""
    with _existing(database) as history:
        shown = history.series(scenario)
        if not shown and scenario is None:
            raise ConfigError(f"{database} holds no nights; add runs with omni-bench history add RUN")
        if not shown:
            known = ", ".join(history.scenarios()) or "none; add runs with omni-bench history add RUN"
            raise ConfigError(f"--scenario {scenario!r}: no such scenario in {database}; there are: {known}")
        if as_json:
            say_json([series_document(history, series) for series in shown])
            return EXIT_OK
        for series in shown:
            _show(history, series, None if out is None else Path(out))
    return EXIT_OK


def _show(history: History, series: str, out: Path | None) -> None:
    runs, baseline = history.nights(series), history.baseline(series)
    found = trends(runs, baseline)
    console = TerminalConsole(plain_width=PLAIN_WIDTH)
    console.print_text(heading(runs), style="bold")
    shown = range(len(HEADERS)) if console.width >= WIDE else NARROW
    rows = [[row[column] for column in shown] for row in trend_rows(found)]
    console.print(_table([HEADERS[column] for column in shown], rows))
    for line in (baseline_line(baseline), *alarm_lines(history.alarms(series), runs, baseline)):
        console.print_text(line)
    if out is not None and found:

        def draw() -> list[Path]:
            from omni_bench.nightly.history.plots import draw_trends  # matplotlib takes seconds to import

            return draw_trends(runs, found, out, baseline, history.alarms(series))

        for path in drawn(draw, f"series {series}"):
            console.print(Text(str(path)), soft_wrap=True)
    console.print()


def baseline_set(database: str, specs: Sequence[str], note: str, *, as_json: bool = False) -> int:
    """Declare runs of the history to be normal. Raises ConfigError, StoreError."""
    records = load_records(specs)
    with _existing(database) as history:
        found = history.set_baseline([record.run_id for record in records], note)
        if as_json:
            say_json([baseline_document(baseline) for baseline in found])
        for baseline in () if as_json else found:
            say_text(f"series {baseline.series}: {baseline_line(baseline)}")
        for run in (run for baseline in found for run in baseline.runs):
            dirty = ["uncommitted changes"] if run.versions.get("omni-bench.dirty") else []
            doubts = ", ".join([*(f"the injected fault {fault}" for fault in run.faults), *dirty])
            if doubts:
                say_aside(f"warning: {run.source} is normal from now on, and was made with {doubts}")
    return EXIT_OK


def baseline_show(database: str, scenario: str | None, *, as_json: bool = False) -> int:
    """Print every baseline that was ever set; the last of a series holds. Raises ConfigError, StoreError."""
    with _existing(database) as history:
        if as_json:
            every = [one for series in history.series(scenario) for one in history.baselines(series)]
            say_json([baseline_document(one) for one in every])
            return EXIT_OK
        for series in history.series(scenario):
            newest = history.nights(series)[-1]
            say_text(f"{newest.scenario}: {newest.target} on {newest.hardware}, series {series}")
            for baseline in history.baselines(series) or [None]:
                say_text(f"  {baseline_line(baseline)}")
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
