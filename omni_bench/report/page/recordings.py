"""Recordings for a page: the samples as FLAC in the page itself, the outline of their waveform, or a link."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from omni_bench.errors import StoreError
from omni_bench.records.run_folder import RunFolder

EMBEDDED_MB = 12.0
"""FLAC (lossless) of so many MB is put into a page, the first that are asked for; the others are links."""
MAX_FILE_MB = 64.0
POINTS = 240


class Recordings:
    """The recordings that a page plays, each once. ``page``: the folder that the page is written to."""

    def __init__(self, page: Path, embedded_mb: float | None = None):
        self._page = page
        self._left_bytes = 1e6 * (EMBEDDED_MB if embedded_mb is None else embedded_mb)
        self.by_name: dict[str, dict[str, Any]] = {}
        """For page.js: ``src``, ``duration_s`` and ``peaks`` (0 to 1000, of equal stretches), or ``problem``."""

    def add(self, folder: RunFolder, relative: object) -> str | None:
        """The name by which page.js finds the recording ``relative`` of a run; None if none was kept."""
        if not isinstance(relative, str) or not relative:
            return None
        try:
            path = folder.recording(relative)
        except StoreError as error:
            name, made = relative, {"problem": str(error)}
        else:
            name = Path(os.path.relpath(path, self._page.resolve())).as_posix()
            made = self.by_name.get(name) or self._read(path, name)
        self.by_name[name] = made
        return name

    def _read(self, path: Path, name: str) -> dict[str, Any]:
        import soundfile

        try:
            if path.stat().st_size > MAX_FILE_MB * 1e6:
                return {"problem": f"larger than {MAX_FILE_MB:g} MB"}
            samples, rate_hz = soundfile.read(path, dtype="int16", always_2d=True)
        except (OSError, soundfile.SoundFileError) as error:
            return {"problem": f"cannot be read: {error}"}
        mono = samples[:, 0]
        made = {"src": quote(name), "duration_s": round(len(mono) / rate_hz, 4), "peaks": peaks(mono)}
        if self._left_bytes > 0 and len(mono):
            file = io.BytesIO()
            soundfile.write(file, mono, rate_hz, format="FLAC", subtype="PCM_16")
            flac = file.getvalue()
            if len(flac) <= self._left_bytes:
                self._left_bytes -= len(flac)
                made["src"] = f"data:audio/flac;base64,{base64.b64encode(flac).decode('ascii')}"
        return made


def peaks(samples: np.ndarray, points: int = POINTS) -> list[int]:
    """The largest magnitude of each of at most ``points`` equal stretches of int16 ``samples`` [n], full scale 1000."""
    stretches = np.array_split(np.abs(samples.astype(np.int32)), min(points, len(samples)) or 1)
    return [round(1000 * int(stretch.max(initial=0)) / 32768) for stretch in stretches]
