"""Arrival times from a file: JSON lines or CSV with a column of seconds, replayed as they are."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omni_bench.errors import ConfigError, shorten

MAX_TRACE_BYTES = 64 * 2**20
MAX_TRACE_ROWS = 1_000_000
MAX_OFFSET_S = 7 * 86400.0
COLUMNS = ("offset_s", "timestamp", "time_s", "arrival_s")
"""Where the seconds are looked for, in this order."""


def read_trace(path: Path) -> tuple[int, ...]:
    """The arrivals of a file as ns after the first of them, which is due at once.

    ``.jsonl``: one object a line; anything else: CSV with a line of names. The seconds are
    in the first of :data:`COLUMNS` that is there. Empty lines are skipped. Raises ConfigError, with
    file and line, for what cannot be read, has more than :data:`MAX_TRACE_ROWS` rows or :data:`MAX_TRACE_BYTES`,
    is not in order, is no number of seconds, or has fewer than two different times.
    """
    text = _read(path)
    rows = _json_rows(text, path) if path.suffix.lower() in (".jsonl", ".ndjson") else _csv_rows(text, path)
    times: list[float] = []
    column = None
    for line, row in rows:
        if column is None:
            column = next((name for name in COLUMNS if name in row), None)
            if column is None:
                raise _error(path, line, f"has none of the columns {', '.join(COLUMNS)}; name one of them so")
        if column not in row:
            raise _error(path, line, f"has no {column!r}; it has {shorten(', '.join(map(str, row)), 120)}")
        at_s = _seconds(row[column])
        if at_s is None:
            raise _error(path, line, f"{column} is {shorten(repr(row[column]), 60)}; must be a number of seconds")
        if times and at_s < times[-1]:
            raise _error(path, line, f"{column} is {at_s:g}, before the {times[-1]:g} of the row above; sort the file")
        if times and at_s - times[0] > MAX_OFFSET_S:
            raise _error(path, line, f"{column} is more than {MAX_OFFSET_S:g} s after the first row")
        times.append(at_s)
        if len(times) > MAX_TRACE_ROWS:
            raise _error(path, line, f"is beyond the limit of {MAX_TRACE_ROWS} rows")
    if len(times) < 2 or times[-1] == times[0]:
        raise ConfigError(f"load.trace={path}: {len(times)} arrivals; at least two at different times are needed")
    return tuple(round((at_s - times[0]) * 1e9) for at_s in times)


def _read(path: Path) -> str:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ConfigError(f"load.trace={path}: not a file")
        if size > MAX_TRACE_BYTES:
            raise ConfigError(f"load.trace={path}: {size} bytes; at most {MAX_TRACE_BYTES}")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"load.trace={path}: cannot be read ({reason}); a .jsonl or .csv file of arrivals") from None


def _json_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise _error(path, number, f"is not JSON: {shorten(repr(line), 60)}") from None
        if not isinstance(row, dict):
            raise _error(path, number, f"is not an object but {type(row).__name__}")
        yield number, row


def _csv_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        for row in reader:
            yield reader.line_num, {name: value for name, value in row.items() if name is not None}
    except csv.Error as error:
        raise _error(path, reader.line_num, f"is not CSV ({error})") from None


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None


def _error(path: Path, line: int, problem: str) -> ConfigError:
    return ConfigError(f"load.trace={path}, line {line}: {problem}")
