"""What is printed for people: foreign text shows its control characters and cannot use them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

from omni_bench.foreign_text import visible

MAX_MESSAGE = 8000
"""Characters of an error message; what a person reads of one is far less."""
_END = 1000


def say(text: object = "", *, file: TextIO | None = None, end: str = "\n") -> None:
    """Print ``text`` to stdout, or to ``file``, at once."""
    print(visible(str(text)), file=file, end=end, flush=True)


def say_commands(lines: Iterable[str], *, file: TextIO | None = None) -> None:
    """Print workflow commands of GitHub Actions, each made by :func:`omni_bench.foreign_text.annotation`."""
    print("\n".join(lines), file=file, flush=True)


def say_aside(text: str) -> None:
    """Print ``text`` to stderr: what is no result."""
    say(text, file=sys.stderr)


def say_error(message: str) -> None:
    """One ``omni-bench: error: ...`` on stderr; the middle of a very long one is left out, and that is said."""
    cut = len(message) - MAX_MESSAGE
    if cut > 0:
        message = f"{message[: MAX_MESSAGE - _END]} [... {cut} characters are left out here ...] {message[-_END:]}"
    say_aside(f"omni-bench: error: {message}")
