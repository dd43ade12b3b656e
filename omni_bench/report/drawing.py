"""Plots never cost a report: what fails while one is drawn is said, and the rest is written without it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from omni_bench.terminal import say_aside

_BACKEND = "MPLBACKEND"


def drawn(draw: Callable[[], list[Path]], what: str) -> list[Path]:
    """The paths that ``draw`` returns; [] if it failed, which is said on stderr.

    ``draw`` imports matplotlib itself, which refuses to be imported with an MPLBACKEND that it cannot have, such as
    that of a notebook. Only images are written here, so that it is Agg.
    """
    given = os.environ.get(_BACKEND)
    os.environ[_BACKEND] = "agg"
    try:
        return draw()
    except Exception as error:  # of matplotlib, its fonts and caches, the disk: no figure is worth the report
        say_aside(f"omni-bench: {what}: no plots, as drawing failed: {type(error).__name__}: {error}")
        return []
    finally:
        if given is None:
            del os.environ[_BACKEND]
        else:
            os.environ[_BACKEND] = given
