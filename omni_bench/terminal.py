"""What is printed for people: foreign text shows its control characters and cannot use them."""

from __future__ import annotations

import re
import sys
from typing import TextIO

MAX_MESSAGE = 8000
"""Characters of an error message; what a person reads of one is far less."""
_END = 1000

_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""C0 but tab and line feed, C1, line separators, marks of direction (Unicode's Bidi_Control), half characters."""


def visible(text: str) -> str:
    r"""``text`` with what a terminal would obey, or what turns words around, as escapes (``\u001b``, also JSON's)."""
    return _ACTIVE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def say(text: object = "", *, file: TextIO | None = None, end: str = "\n") -> None:
    """Print ``text`` to stdout, or to ``file``, at once."""
    print(visible(str(text)), file=file, end=end, flush=True)


def say_aside(text: str) -> None:
    """Print ``text`` to stderr: what is no result."""
    say(text, file=sys.stderr)


def say_error(message: str) -> None:
    """One ``omni-bench: error: ...`` on stderr; the middle of a very long one is left out, and that is said."""
    cut = len(message) - MAX_MESSAGE
    if cut > 0:
        message = f"{message[: MAX_MESSAGE - _END]} [... {cut} characters are left out here ...] {message[-_END:]}"
    say_aside(f"omni-bench: error: {message}")
