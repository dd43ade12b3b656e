"""How far the work behind a load has come, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str, int, int], None]
"""Told the name of a stage, how much of it is done, and of how much. The next name ends the stage before."""


def untold(stage: str, done: int, total: int) -> None:
    """Nobody looks."""
