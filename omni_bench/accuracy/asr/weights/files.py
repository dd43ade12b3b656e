"""Files of weights: read in parts, and known by their SHA-256."""

from __future__ import annotations

import hashlib
import http.client
import io
import logging
import os
import tempfile
import urllib.request
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
    try:
        with ConcatenatedFiles(paths) as raw:
            return hashlib.file_digest(raw, "sha256").hexdigest()
    except OSError as error:
        raise AccuracyError(f"cannot read the judge's weights: {error}") from error


def verify_sha256(paths: Sequence[Path], expected: str, advice: str) -> None:
    """Raise AccuracyError, naming both hashes and ``advice``, unless the files hash to ``expected``."""
    found = sha256_of_files(paths)
    if found != expected:
        names = " + ".join(str(path) for path in paths)
        raise AccuracyError(f"{names} has SHA-256 {found}, expected {expected}: refused. {advice}")


# ---- Download into the user's cache: whole and of the right hash, or not at all ----

SOCKET_TIMEOUT_S = 20.0
MAX_BYTES = 4 << 30  # the largest Whisper has 3.1 GB

logger = logging.getLogger(__name__)


def download_weights(url: str, sha256: str, target: Path) -> None:
    """Download ``url`` to ``target``, replacing it only once the hash is right.

    Raises AccuracyError if the network, the disk or the hash says no.
    """
    logger.info("downloading %s to %s", url, target)
    partial: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        with os.fdopen(handle, "wb") as output:
            found = _copy(url, output)
        if found != sha256:
            raise AccuracyError(f"{url} brought a file of SHA-256 {found}, expected {sha256}: refused")
        os.replace(partial, target)
        partial = None
    except (OSError, ValueError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        raise AccuracyError(f"cannot download {url}: {error}") from error
    finally:
        if partial is not None:
            os.unlink(partial)


def _copy(url: str, output) -> str:
    digest = hashlib.sha256()
    total_bytes = 0
    with urllib.request.urlopen(url, timeout=SOCKET_TIMEOUT_S) as response:
        while block := response.read(1 << 20):
            total_bytes += len(block)
            if total_bytes > MAX_BYTES:
                raise AccuracyError(f"{url} brings more than {MAX_BYTES} bytes: refused")
            digest.update(block)
            output.write(block)
    return digest.hexdigest()
