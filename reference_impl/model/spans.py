"""Named ranges of a trace, and the trace of this process that they are in (torch.profiler).

While nothing is traced, a range is a comparison and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from omni_bench.errors import EngineError
from reference_impl.settings import SPAN_PREFIX

Function = TypeVar("Function", bound=Callable[..., Any])
TRACE_NAME = "trace.json.gz"
_NOTHING = contextlib.nullcontext()
_tracing = False
_profiler: profile | None = None


def tracing() -> bool:
    """Whether ranges are recorded now."""
    return _tracing


def span(name: str) -> contextlib.AbstractContextManager[Any]:
    """A range called ``name``, as a context."""
    return record_function(SPAN_PREFIX + name) if _tracing else _NOTHING


def spanned(name: str) -> Callable[[Function], Function]:
    """Every call of the function is a range called ``name``."""

    def wrap(function: Function) -> Function:
        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with span(name):
                return function(*args, **kwargs)

        return within  # type: ignore[return-value]

    return wrap


def start_trace(warm_up: Callable[[], None]) -> None:
    """Trace every thread from now on; ``warm_up`` is called before, with ranges. Raises EngineError."""
    global _tracing, _profiler
    if _profiler is not None:
        raise EngineError("a trace is being taken already")
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    _tracing = True
    try:
        warm_up()
        profiler = profile(activities=activities, experimental_config=_all_threads())
        profiler.start()
    except BaseException:
        _tracing = False
        raise
    _profiler = profiler


def _all_threads() -> Any:
    """The engine and Code2Wav have a thread each; ``trace_only``, where it is known, saves a list of Python objects."""
    from torch._C._profiler import _ExperimentalConfig

    for options in ({"profile_all_threads": True, "trace_only": True}, {"profile_all_threads": True}):
        with contextlib.suppress(TypeError):
            return _ExperimentalConfig(**options)
    raise EngineError(f"PyTorch {torch.__version__} cannot trace all threads of a process; a later one can")


def stop_trace(folder: Path) -> None:
    """End the trace and write it into ``folder``. Raises EngineError."""
    global _tracing, _profiler
    profiler, _profiler, _tracing = _profiler, None, False
    if profiler is None:
        raise EngineError("no trace is being taken")
    profiler.stop()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(suffix=".json") as plain:
            profiler.export_chrome_trace(plain.name)
            # PyTorch's own packing is line by line, at gzip's slowest level
            with open(plain.name, "rb") as whole, gzip.open(folder / TRACE_NAME, "wb", compresslevel=1) as packed:
                shutil.copyfileobj(whole, packed, 2**20)
    except (OSError, RuntimeError) as error:
        raise EngineError(f"cannot write the trace into {folder}: {error}") from None
