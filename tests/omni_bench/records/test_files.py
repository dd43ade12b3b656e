"""Atomic writes, JSON without surprises, and what a user is told when the disk says no."""

from __future__ import annotations

import errno
import json
import os

import pytest

from omni_bench.errors import StoreError
from omni_bench.records.files import json_bytes, lock_folder, parse_json, store_error, write_atomically, write_text


def test_atomic_write_replaces_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "sub" / "x.txt"
    for text in ("one", "two"):
        write_atomically(path, lambda temporary, text=text: temporary.write_text(text))
        assert path.read_text() == text
    assert [entry.name for entry in path.parent.iterdir()] == ["x.txt"]


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, ["no space", "output.root"]), (errno.EACCES, ["permission"])]
)
def test_failed_write_keeps_the_old_file_and_says_why(tmp_path, code, words):
    path = tmp_path / "x.txt"
    path.write_text("old")

    def fail(temporary):
        temporary.write_text("half")
        raise OSError(code, os.strerror(code))

    with pytest.raises(StoreError) as caught:
        write_atomically(path, fail)
    for word in [*words, str(path)]:
        assert word in str(caught.value)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot write"):
        write_atomically(tmp_path / "file" / "x", lambda temporary: temporary.write_text("x"))


def test_error_without_an_errno_still_reads_well(tmp_path):
    assert "something odd" in str(store_error("write", tmp_path, OSError("something odd")))


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": float("inf")}, {"x": object()}])
def test_json_refuses_what_json_lacks(value):
    with pytest.raises(StoreError, match=r"the line cannot be written as JSON"):
        json_bytes(value, "the line")


def test_json_keeps_null_chinese_and_broken_text():
    data = json_bytes({"a": None, "b": "你好", "c": "bad \udc80"}, "x")
    assert "你好".encode() in data
    assert json.loads(data) == {"a": None, "b": "你好", "c": "bad \udc80"}


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", str(2**64), "1" + 10_000 * "0"])
def test_numbers_that_no_reader_can_calculate_with_are_refused(number):
    with pytest.raises(ValueError, match=r"not a finite number|more than 64 bits") as raised:
        parse_json(f'{{"a": [{number}]}}'.encode())
    assert len(str(raised.value)) < 100
    assert parse_json(f'{{"a": [{2**64 - 1}, -1e300, "NaN"]}}'.encode()) == {"a": [2**64 - 1, -1e300, "NaN"]}


def test_half_a_character_ends_no_page(tmp_path):
    write_text(tmp_path / "page.md", "a\udcff ü\n")
    assert (tmp_path / "page.md").read_bytes() == "a? ü\n".encode()


def test_a_folder_is_one_process_s_alone_until_it_lets_go(tmp_path):
    held = lock_folder(tmp_path)
    assert held is not None and lock_folder(tmp_path) is None
    os.close(held)
    again = lock_folder(tmp_path)
    assert again is not None
    os.close(again)
    with pytest.raises(StoreError, match=r"cannot open .*: no such file"):
        lock_folder(tmp_path / "gone")
