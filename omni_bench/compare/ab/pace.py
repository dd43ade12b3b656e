"""How long a study takes: by its own runs, and before the first by an earlier run of the same load."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from pathlib import Path

from omni_bench.errors import OmniBenchError
from omni_bench.records.config import RunConfig
from omni_bench.records.run_folder import RunFolder

LOOKED_AT = 5
"""Earlier runs of a scenario that are looked at, the newest first."""


class Pace:
    """Seconds a run takes. ``guess_s``: before one has ended; None: unknown."""

    def __init__(self, guess_s: float | None = None):
        self._guess_s = guess_s
        self._known_s: list[float] = []

    def add(self, run_s: float | None) -> None:
        """A run has ended; None: it is not known after how long."""
        if run_s is not None:
            self._known_s.append(run_s)

    def left_s(self, runs: int, elapsed_s: float = 0.0, at_once: int = 1) -> float | None:
        """What ``runs`` runs still take, the first ``at_once`` of them begun ``elapsed_s`` ago; None if unknown."""
        run_s = statistics.fmean(self._known_s) if self._known_s else self._guess_s
        if run_s is None or not runs:
            return None
        at_once = min(at_once, runs)
        return max(at_once * run_s - elapsed_s, 0.0) + (runs - at_once) * run_s


def earlier_run_s(config: RunConfig) -> float | None:
    """How long the newest earlier run of this scenario took that had the same load and target kind; None: no such run.

    Only the first few folders of the scenario under ``output.root`` are looked at; a damaged one is passed over.
    """
    root = Path(config.output.root) / config.scenario.name
    try:
        folders = sorted((one for one in root.iterdir() if (one / "run.json").is_file()), reverse=True)[:LOOKED_AT]
    except OSError:
        return None
    for folder in folders:
        duration_s = stored_run_s(folder, config)
        if duration_s is not None:
            return duration_s
    return None


def stored_run_s(folder: Path, config: RunConfig | None = None) -> float | None:
    """How long the run in ``folder`` took; None if it is not known, or if its load is not that of ``config``."""
    try:
        run = RunFolder.open(folder).read_run()
    except OmniBenchError:
        return None
    if config is not None:
        stored = run["provenance"]["config"].get("load") or {}
        load = asdict(config.load)
        same = all(stored.get(name) == load[name] for name in ("kind", "concurrency", "requests_per_level", "rate_hz"))
        if not same or run["provenance"]["target"]["kind"] != config.target.kind:
            return None
    return run["duration_s"]


def about(seconds: float) -> str:
    """``about 14 min``, ``about 40 s``."""
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {max(seconds, 1):.0f} s"
