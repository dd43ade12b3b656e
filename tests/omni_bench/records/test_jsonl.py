"""Lines that survive a kill and a full disk."""

from __future__ import annotations

import errno
import json
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_bench.errors import StoreError
from omni_bench.records.jsonl import JsonLinesWriter, read_json_lines

RECORDS = [{"id": "a", "text": "né\nw"}, {"id": "b", "n": [1, 2]}]


def write(path, records):
    with closing(JsonLinesWriter(path)) as writer:
        for record in records:
            writer.append(record)


def test_round_trip_and_append(tmp_path):
    path = tmp_path / "sub/r.jsonl"
    write(path, RECORDS)
    write(path, RECORDS[:1])
    assert read_json_lines(path) == [*RECORDS, RECORDS[0]]


def test_each_line_is_on_disk_before_the_next(tmp_path):
    path = tmp_path / "r.jsonl"
    writer = JsonLinesWriter(path)
    writer.append(RECORDS[0])
    assert read_json_lines(path) == RECORDS[:1]
    writer.close()
    writer.close()
    with pytest.raises(StoreError, match="it is closed"):
        writer.append(RECORDS[0])


@given(st.integers(min_value=0))
@settings(max_examples=60)
def test_a_file_cut_anywhere_gives_its_complete_lines_and_can_go_on(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "r.jsonl"
    write(path, RECORDS)
    data = path.read_bytes()
    cut %= len(data) + 1
    path.write_bytes(data[:cut])
    # A line is complete with its closing brace, even if its newline is gone.
    ends = [i for i in range(len(data) + 1) if data[:i].endswith(b"}")]
    expected = RECORDS[: sum(end <= cut for end in ends)]
    assert read_json_lines(path) == expected
    write(path, [{"id": "next"}])
    assert read_json_lines(path) == [*expected, {"id": "next"}]


def test_damage_in_the_middle_is_an_error_with_its_line(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"a": 1}\n{"b": \n{"c": 3}\n')
    with pytest.raises(StoreError, match="line 2: not a JSON object"):
        read_json_lines(path)
    path.write_text('{"a": 1}\n[1]\n')
    with pytest.raises(StoreError, match="line 2"):
        read_json_lines(path)


def test_deeply_nested_line_is_an_error_not_a_crash(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("[" * 100_000 + "\n")
    with pytest.raises(StoreError, match="line 1"):
        read_json_lines(path)


def test_empty_and_missing_file(tmp_path):
    (tmp_path / "empty").touch()
    assert read_json_lines(tmp_path / "empty") == []
    with pytest.raises(StoreError, match="cannot read"):
        read_json_lines(tmp_path / "missing")


def test_full_disk_takes_the_partial_line_back(tmp_path):
    path = tmp_path / "r.jsonl"
    writer = JsonLinesWriter(path)
    writer.append(RECORDS[0])
    real = writer._file

    class FullDisk:
        """Takes five bytes, then has no space."""

        def __init__(self):
            self.calls = 0

        def write(self, data):
            self.calls += 1
            if self.calls > 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real.write(data[:5])

        def __getattr__(self, name):
            return getattr(real, name)

    writer._file = FullDisk()
    with pytest.raises(StoreError, match="no space left on device; free some space"):
        writer.append(RECORDS[1])
    writer._file = real
    writer.append(RECORDS[1])
    writer.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == RECORDS


def test_short_writes_are_completed(tmp_path):
    path = tmp_path / "r.jsonl"
    writer = JsonLinesWriter(path)
    real = writer._file

    class Slow:
        """Takes three bytes at a time."""

        def write(self, data):
            return real.write(data[:3])

        def __getattr__(self, name):
            return getattr(real, name)

    writer._file = Slow()
    writer.append(RECORDS[1])
    writer.close()
    assert read_json_lines(path) == RECORDS[1:]
