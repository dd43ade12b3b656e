"""omni-bench: benchmarking and regression testing for streaming speech servers."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["HistoryFrames", "RunFrames", "load_history", "load_run", "load_study"]


def __getattr__(name: str) -> Any:
    """What notebooks use, of :mod:`omni_bench.export.frames`: imported when asked for, as all else works without."""
    if name in __all__:
        return getattr(import_module("omni_bench.export.frames"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
