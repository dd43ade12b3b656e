"""Fetch a Whisper checkpoint into the user's cache: whole and of the right hash, or not at all.

``whisper.load_model`` downloads too, but without a deadline, onto the final name and with a
progress bar on the console; a benchmark must not hang on a machine without a network nor leave
half a file that looks like a model.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import os
import tempfile
import urllib.request
from pathlib import Path

from omni_bench.errors import AccuracyError

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
