"""What is printed for people: foreign text shows its control characters and cannot use them, nor begin a line."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any, TextIO

from omni_bench.foreign_text import one_line, visible

MAX_MESSAGE = 8000
"""Characters of an error message; what a person reads of one is far less."""
_END = 1000


def say(text: object = "", *, file: TextIO | None = None) -> None:
    """Print one line to stdout, or to ``file``, at once: line breaks in ``text`` are a stranger's, so they go."""
    print(one_line(text), file=file, flush=True)


def say_text(text: str, indent: str = "    ") -> None:
    """Print a text of one line to stdout, in lines of :func:`in_lines`."""
    for line in in_lines(text, indent):
        say(line)


def say_page(text: str) -> None:
    """Print a page of many lines to stdout, which was made of foreign text that is safe in it already."""
    print(visible(text.removesuffix("\n")), flush=True)


def say_json(document: Any) -> None:
    """Print what ``--json`` asks for, and nothing else, to stdout. ``document``: of plain types, without NaN."""
    say_page(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2))


def say_entry(label: str, text: str, *, colour: str | None = None) -> None:
    """Print ``label`` and ``text`` beside it; on a terminal in lines of its width, and the label in ``colour``."""
    lines = _in_lines(visible(label + text), sys.stdout, " " * len(label))
    if colour is not None and _is_terminal(sys.stdout) and "NO_COLOR" not in os.environ:
        word = visible(label).rstrip()
        lines = f"\x1b[{_COLOURS[colour]}m{word}\x1b[0m{lines.removeprefix(word)}"
    print(lines, flush=True)


def say_help(text: str) -> None:
    """Print a help whose lines end in a column of explanations, which is broken within itself."""
    for line in visible(text).split("\n"):
        column = _HANGING.match(line)
        print(_in_lines(line, sys.stdout, " " * (column.end() if column else 0), HELP_WIDTH), flush=True)


MIN_WIDTH = 40
HELP_WIDTH = 120
"""Columns of a help that goes into a file or a pipe."""
_HANGING = re.compile(r"\s+(?:\S.*?\s{2,})?|\w+: ")
_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|points)(?!\w))")
_COMMAND = re.compile(r"(?<=: )omni-bench .+$")
_COLOURS = {"red": "1;31", "yellow": "33"}


def in_lines(text: str, indent: str = "    ", *, file: TextIO | None = None) -> list[str]:
    """``text``, safe to print, in lines for ``file`` (stdout) that break between words; ``indent``: not the first's.

    Into a file or a pipe it is one line, unless COLUMNS asks for a width.
    """
    asked = os.environ.get("COLUMNS", "")
    width = int(asked) if asked.isdecimal() and int(asked) >= MIN_WIDTH else None
    return _in_lines(one_line(text), file or sys.stdout, indent, width).split("\n")


def in_columns(text: str, width: int) -> str:
    """A text of many lines as a help has it, broken for ``width`` columns, a command so that it can be copied."""
    lines = []
    joined = re.sub(r"(?m)^(\w+ codes: .*)\n(?=\S)", r"\1 ", text)
    for line in joined.split("\n"):
        column = _HANGING.match(line)
        command = line.startswith("  omni-bench ") and "   " not in line.strip()
        indent = "      " if command else " " * (column.end() if column else 0)
        whole = re.sub(r"'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), line) if command else line
        broken = _broken(whole, width - 2 * command, indent)
        lines.append(" \\\n".join(broken) if command else "\n".join(broken))
    return "\n".join(lines)


def _is_terminal(file: TextIO | None) -> bool:
    return file is not None and file.isatty()


def _in_lines(text: str, file: TextIO | None, indent: str, plain_width: int | None = None) -> str:
    """``text`` broken between words for the terminal behind ``file``.

    For a file or a pipe it is broken at ``plain_width``, with None not at all. A word that is longer than a line (a
    path, an address) stays whole, so that it can be clicked and copied.
    """
    width = max(shutil.get_terminal_size().columns, MIN_WIDTH) if _is_terminal(file) else plain_width
    if width is None:
        return text
    indent = indent if len(indent) < width // 2 else "    "
    return "\n".join("\n".join(_broken(line, width, indent)) for line in text.split("\n"))


def _broken(line: str, width: int, indent: str) -> list[str]:
    """The lines; none begins with what GitHub Actions obeys, which stands at the end of a longer line instead.

    A number keeps its unit, a command at the end is in one piece, so that it can be copied, and a NUL is a space that
    does not break.
    """
    line = _COMMAND.sub(lambda found: found[0].replace(" ", "\0"), _UNIT.sub("\0", line))
    found: list[str] = []
    for one in textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False, expand_tabs=False,
    ):  # fmt: skip
        one = one.replace("\0", " ")
        if found and one.lstrip().startswith(("::", "##[", "#")):
            found[-1] += f" {one.lstrip()}"
        else:
            found.append(one)
    return found or [""]


def say_commands(lines: Iterable[str], *, file: TextIO | None = None) -> None:
    """Print workflow commands of GitHub Actions, each made by :func:`omni_bench.foreign_text.annotation`."""
    print("\n".join(lines), file=file, flush=True)


def say_aside(text: str) -> None:
    """Print ``text`` to stderr, in lines of :func:`in_lines`: what is no result."""
    for line in in_lines(text, file=sys.stderr):
        say(line, file=sys.stderr)


def say_error(message: str) -> None:
    """One ``omni-bench: error: ...`` on stderr; the middle of a very long one is left out, and that is said.

    Its further lines are indented, so that none is taken for another message.
    """
    cut = len(message) - MAX_MESSAGE
    if cut > 0:
        message = f"{message[: MAX_MESSAGE - _END]} [... {cut} characters are left out here ...] {message[-_END:]}"
    message = re.sub(r"\n(?!  )", "\n  ", f"omni-bench: error: {message}".rstrip("\n"))
    print(_in_lines(visible(message), sys.stderr, "  "), file=sys.stderr, flush=True)
