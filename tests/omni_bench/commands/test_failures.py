"""Each kind of end has its message and its exit code."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from omni_bench.commands.failures import guarded
from omni_bench.errors import AccuracyError, ConfigError


def raising(error: BaseException):
    def function() -> int:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("load.kind='x'"), 2, "load.kind='x'"),
        (AccuracyError("no judge"), 3, "no judge"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (KeyboardInterrupt("3 finished requests are in x"), 130, "interrupted; 3 finished requests are in x"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 3, "/x: no space left on device\n"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 3, "/x: permission denied\n"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), 3, "connection reset by peer"),
    ],
)
def test_one_message_and_a_code(error, code, message, capsys):
    assert guarded(raising(error)) == code
    err = capsys.readouterr().err
    assert err.startswith(f"omni-bench: error: {message}") and "Traceback" not in err


def test_the_value_of_a_success_is_passed_on(capsys):
    assert guarded(lambda: 1) == 1
    assert capsys.readouterr().err == ""


def test_a_bug_says_where_its_traceback_is(tmp_path, capsys):
    assert guarded(raising(ZeroDivisionError("division by zero")), lambda: tmp_path) == 3
    err = capsys.readouterr().err
    assert "internal error, a bug in omni-bench: ZeroDivisionError: division by zero" in err
    assert str(tmp_path / "traceback.txt") in err and "Traceback" not in err
    assert "in raising" not in err and "raise error" in (tmp_path / "traceback.txt").read_text()


def test_a_lack_of_memory_is_no_bug(capsys):
    assert guarded(raising(MemoryError())) == 3
    assert capsys.readouterr().err.startswith("omni-bench: error: no memory is left; ")


def test_without_a_run_folder_the_traceback_is_in_a_temporary_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert guarded(raising(ZeroDivisionError("x"))) == 3
    (written,) = tmp_path.iterdir()
    assert str(written) in capsys.readouterr().err and "ZeroDivisionError" in written.read_text()


def test_without_any_disk_the_traceback_is_printed(capsys, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    assert guarded(raising(ZeroDivisionError("x")), lambda: Path("/nowhere")) == 3
    assert "Traceback" in capsys.readouterr().err
