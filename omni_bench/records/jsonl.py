"""Append-only files of one JSON object a line, which survive being killed in the middle of a line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from omni_bench.errors import StoreError
from omni_bench.records.files import json_bytes, os_errors_as_store_errors, parse_json, store_error


class JsonLinesWriter:
    """Appends objects to a file; each line has reached the operating system when ``append`` returns.

    Opening a file whose last line was cut removes the remains of that line.
    """

    def __init__(self, path: Path):
        self.path = path
        with os_errors_as_store_errors("write", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _repair_end(path)
            self._file: FileIO | None = path.open("ab", buffering=0)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one line. Raises StoreError; a line that could not be written whole is taken back."""
        if self._file is None:
            raise StoreError(f"cannot append to {self.path}: it is closed")
        line = memoryview(json_bytes(dict(record), f"a line of {self.path}") + b"\n")
        start = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            self._file.truncate(start)
            raise store_error("write", self.path, error) from error

    def close(self) -> None:
        """Close the file; more than once is fine."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """All objects of a file, in order. A cut last line is left out; an empty file gives [].

    Raises StoreError, with the line number, for any other line that is not a JSON object.
    """
    with os_errors_as_store_errors("read", path):
        lines = path.read_bytes().split(b"\n")
    # After the last newline there is nothing, or a line that was being written.
    records, tail = [], _parse(lines.pop())
    for number, line in enumerate(lines, start=1):
        record = _parse(line)
        if record is None:
            raise StoreError(f"{path}, line {number}: not a JSON object: {line[:80]!r}")
        records.append(record)
    return records if tail is None else [*records, tail]


def _parse(line: bytes) -> dict[str, Any] | None:
    """The object in ``line``, or None if there is none (cut, not JSON, not an object)."""
    try:
        value = parse_json(line)
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        return None
    return value if isinstance(value, dict) else None


def _repair_end(path: Path) -> None:
    """Give a complete last line its newline, and cut off an incomplete one."""
    if not path.exists():
        return
    data = path.read_bytes()
    tail = data.rpartition(b"\n")[2]
    if not tail:
        return
    with path.open("r+b") as file:
        if _parse(tail) is None:
            file.truncate(len(data) - len(tail))
        else:
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
