"""Runs that are parts of something larger, and may take turns: what is asked of each, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omni_bench.errors import OmniBenchError
from omni_bench.records.config import RunConfig
from omni_bench.run.progress import PartOf
from omni_bench.targets.base import Target


@dataclass(frozen=True)
class Part:
    """A run that is one part of something larger, which does it again if it is cut short.

    ``part_of``: for its progress. ``target``: a server that other runs use too
    (:class:`omni_bench.targets.kept.KeptTarget`); None: one of its own. ``spare``: cores that the client leaves free,
    so that the run may be judged later, beside another (:mod:`omni_bench.run.beside`); none: it is judged in place.
    """

    config: RunConfig
    folder: Path
    command: tuple[str, ...]
    part_of: PartOf
    target: Target | None = None
    spare: tuple[int, ...] = ()


@dataclass(frozen=True)
class Measured:
    """A run whose load has ended; it is still to be judged, and has no run.json yet."""

    folder: Path


Ended = Mapping[str, Any] | Measured | OmniBenchError | None
"""Of a run: its run.json, or that it is still to be judged, what made it impossible, or None where it was stopped
because another one broke."""
Turns = Callable[[int], Sequence[int]]
"""From the number of a turn (from 0) to which runs measure a level in it, one after another."""
