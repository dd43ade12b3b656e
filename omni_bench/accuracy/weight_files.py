"""Files of weights: read in parts, and known by their SHA-256."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

from omni_bench.errors import AccuracyError


class ConcatenatedFiles(io.RawIOBase):
    """The bytes of several files read as if they were one."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._pending = list(paths)
        self._current: io.FileIO | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while True:
            if self._current is None:
                if not self._pending:
                    return 0
                self._current = io.FileIO(self._pending.pop(0))
            count = self._current.readinto(buffer)
            if count:
                return count
            self._current.close()
            self._current = None

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None
        super().close()


def sha256_of_files(paths: Sequence[Path]) -> str:
    """Hex SHA-256 of the files' bytes in order. Raises AccuracyError if one cannot be read."""
    digest = hashlib.sha256()
    try:
        with ConcatenatedFiles(paths) as raw:
            while block := raw.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise AccuracyError(f"cannot read the judge's weights: {error}") from error
    return digest.hexdigest()


def verify_sha256(paths: Sequence[Path], expected: str, advice: str) -> None:
    """Raise AccuracyError, naming both hashes and ``advice``, unless the files hash to ``expected``."""
    found = sha256_of_files(paths)
    if found != expected:
        names = " + ".join(str(path) for path in paths)
        raise AccuracyError(f"{names} has SHA-256 {found}, expected {expected}: refused. {advice}")
