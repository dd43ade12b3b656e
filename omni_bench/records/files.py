"""Writing files so that a full disk or a killed process leaves nothing half done and no riddle."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omni_bench.errors import StoreError, shorten

_LARGEST = 2**64 - 1
_LONGEST = len(str(-_LARGEST))

_REMEDIES = {
    errno.ENOSPC: "free some space or set output.root to another disk",
    errno.EDQUOT: "free some space or set output.root to another disk",
    errno.EACCES: "check the permissions or set output.root to a folder you may write to",
    errno.EPERM: "check the permissions or set output.root to a folder you may write to",
    errno.EROFS: "set output.root to a file system that can be written",
}


def store_error(action: str, path: Path, error: OSError) -> StoreError:
    """The StoreError for an OSError: what was tried, on which path, why it failed, what helps."""
    remedy = _REMEDIES.get(error.errno or 0)
    reason = (error.strerror or str(error)).lower()
    return StoreError(f"cannot {action} {path}: {reason}" + (f"; {remedy}" if remedy else ""))


def is_there(path: Path) -> bool:
    """Whether there is a file at ``path``. Raises StoreError for what is no file: a folder, a device, a dead link."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not path.is_symlink():
            return False
        kind = "a link to nothing"
    except OSError as error:
        raise store_error("read", path, error) from error
    else:
        if stat.S_ISREG(mode):
            return True
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        kind = f"a link to {kind}" if path.is_symlink() else kind
    raise StoreError(f"{path} is {kind}, and must be a file")


@contextmanager
def os_errors_as_store_errors(action: str, path: Path) -> Iterator[None]:
    """Turn every OSError inside into :func:`store_error`."""
    try:
        yield
    except OSError as error:
        raise store_error(action, path, error) from error


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write(temporary)`` and rename the result to ``path``: readers see all of it or none.

    Raises StoreError; the temporary file is gone then and an older ``path`` is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with os_errors_as_store_errors("write", path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Write ``value`` as a JSON document, by :func:`write_atomically`. Raises StoreError."""
    data = json_bytes(value, path.name, indent) + b"\n"
    write_atomically(path, lambda temporary: temporary.write_bytes(data))


def write_text(path: Path, text: str) -> None:
    """Write ``text`` in UTF-8, by :func:`write_atomically`; a lone surrogate, which has no form there, is ``?``."""
    data = text.encode("utf-8", "replace")
    write_atomically(path, lambda temporary: temporary.write_bytes(data))


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/omni-bench``; ~/.cache without that variable. Raises StoreError for a user without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "omni-bench"
    except RuntimeError:
        raise StoreError("this user has no home folder; name one for what is kept: XDG_CACHE_HOME=FOLDER") from None


def lock_folder(path: Path) -> int | None:
    """Lock a folder for this process: the open file that holds the lock; None if another process has it.

    A kill leaves no lock behind. On a network file system that cannot lock a folder nobody is kept out. Raises
    StoreError.
    """
    with os_errors_as_store_errors("open", path):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        pass
    return handle


def parse_json(data: bytes) -> Any:
    """UTF-8 JSON as values. Raises ValueError or RecursionError for what :func:`json_bytes` would not write.

    Refused are NaN, infinities and integers beyond 64 bits, with which no reader can calculate.
    """
    return json.loads(data.decode("utf-8"), parse_int=_integer, parse_float=_finite, parse_constant=_finite)


def parse_foreign_json(data: bytes) -> Any:
    """UTF-8 JSON of others as values that run.json can hold: a number that it cannot is None, the rest is kept.

    Raises ValueError or RecursionError for what is no JSON.
    """
    return json.loads(data.decode("utf-8"), parse_int=_small, parse_float=_or_none, parse_constant=_or_none)


def _small(text: str) -> int | None:
    return int(text) if len(text) <= len(str(-(2**63))) and abs(int(text)) < 2**63 else None


def _or_none(text: str) -> float | None:
    return value if math.isfinite(value := float(text)) else None


def _integer(text: str) -> int:
    value = int(text) if len(text) <= _LONGEST else _LARGEST + 1
    if not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{shorten(text, 40)} is an integer of more than 64 bits")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{shorten(text, 40)} is not a finite number")
    return value


def json_bytes(value: Any, what: str, indent: int | None = None) -> bytes:
    """``value`` as UTF-8 JSON. Raises StoreError for NaN, infinities and types that JSON lacks.

    A lone surrogate (broken text from a server) is written as its escape.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except (TypeError, ValueError) as error:
        raise StoreError(f"{what} cannot be written as JSON: {error}") from error
    return text.encode("utf-8", "backslashreplace")
