"""How every command ends when something goes wrong: one message on stderr, and the exit code."""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from omni_bench.errors import EXIT_BROKEN_PIPE, EXIT_INFRASTRUCTURE, EXIT_INTERRUPTED, OmniBenchError
from omni_bench.terminal import say_error


def guarded(function: Callable[[], int], log_folder: Callable[[], Path | None] = lambda: None) -> int:
    """``function()``, or the exit code of what it raised after saying so on stderr.

    ``log_folder``: where the traceback of a bug goes (None: a temporary file).
    """
    try:
        return function()
    except KeyboardInterrupt as interrupt:
        say_error("interrupted" + (f"; {interrupt.args[0]}" if interrupt.args and interrupt.args[0] else ""))
        return EXIT_INTERRUPTED
    except OmniBenchError as error:
        say_error(str(error))
        return error.exit_code
    except BrokenPipeError:
        # The reader of a pipe (`omni-bench list | head`) left; keep Python from complaining at exit.
        sys.stdout = None
        return EXIT_BROKEN_PIPE
    except OSError as error:
        say_error(_describe_os_error(error))
        return EXIT_INFRASTRUCTURE
    except MemoryError:
        say_error("no memory is left; ask for fewer requests at once, or raise the limit (ulimit -v)")
        return EXIT_INFRASTRUCTURE
    except Exception as error:
        where = _write_traceback(log_folder())
        say_error(f"internal error, a bug in omni-bench: {type(error).__name__}: {error}\n  traceback: {where}")
        return EXIT_INFRASTRUCTURE


def _describe_os_error(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return where + (error.strerror or str(error)).lower()


def _write_traceback(folder: Path | None) -> str:
    """Write the traceback of the current exception; where it is, or the text itself if that fails."""
    text = traceback.format_exc()
    try:
        if folder is not None and folder.is_dir():
            path = folder / "traceback.txt"
            path.write_text(text, encoding="utf-8")
            return str(path)
        with tempfile.NamedTemporaryFile(
            "w", prefix="omni-bench-", suffix=".traceback.txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        return file.name
    except OSError:
        return "\n" + text
