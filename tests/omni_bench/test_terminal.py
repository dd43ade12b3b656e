"""Foreign text on the terminal: it is shown, and does nothing."""

from __future__ import annotations

import ast
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import omni_bench
from omni_bench.foreign_text import visible
from omni_bench.report.console import TerminalConsole
from omni_bench.terminal import MAX_MESSAGE, in_columns, say, say_aside, say_entry, say_error, say_help

HOSTILE = "a\x1b[2Jbc\x9bd\u202ee\u2066f\rg\x7fh\u2028i\ud800"
SHOWN = r"a\u001b[2Jbc\u009bd\u202ee\u2066f\u000dg\u007fh\u2028i\ud800"


def test_what_commands_a_terminal_is_shown_as_an_escape():
    assert visible(HOSTILE) == SHOWN
    assert visible("\x00\x07\x85") == r"\u0000\u0007\u0085"
    plain = "línea 1\n\t中文 → ‘quoted’ \U0001f600 é"
    assert visible(plain) == plain


@pytest.mark.parametrize("terminal", [False, True])
def test_a_console_shows_foreign_text_and_keeps_its_own_colours(terminal):
    out = io.StringIO()
    colours = "standard" if terminal else None
    console = TerminalConsole(file=out, width=200, force_terminal=terminal, color_system=colours)
    table = Table()
    table.add_column(Text("head\x1b[31m"))
    table.add_row(Text(HOSTILE, style="red"))
    console.print(table)
    console.print(HOSTILE, markup=False, soft_wrap=True)
    text = out.getvalue()
    assert text.count(r"\u001b[2J") == 2 and r"head\u001b[31m" in text
    assert text.count(SHOWN) == text.count(SHOWN.replace(r"\u000d", "")) == 1  # rich takes those of cells away
    assert "\x1b[2J" not in text and "\u202e" not in text and "\x9b" not in text
    assert ("\x1b[31m" in text) == terminal


def test_a_message_that_is_too_long_says_what_is_left_out(capsys):
    say_error("begin " + "x" * 100_000 + " the end")
    err = capsys.readouterr().err
    assert err.startswith("omni-bench: error: begin xxx") and err.endswith(" the end\n")
    assert len(err) < MAX_MESSAGE + 100 and f"{100_014 - MAX_MESSAGE} characters are left out" in err
    say(HOSTILE)
    assert capsys.readouterr().out == SHOWN + "\n"


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_lines_of_its_width_that_break_between_words(monkeypatch, columns):
    path, words = "/a/path/" + "x" * columns, " ".join(["word"] * 60)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
    out, err = Terminal(), Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    say_entry("PROBLEM  disk    ", f"{words} {path}", colour="red")
    say_aside(words)
    say_error(f"{words} valid: {words}")
    say_help(f"key: one\n  load.x=1          {words}")
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("\x1b[1;31mPROBLEM  disk\x1b[0m    word word") and path in " ".join(lines).split()
    assert lines[1].startswith(" " * 17 + "word")
    assert next(line for line in lines if "load.x" in line) and lines[-1].startswith(" " * 20 + "word")
    shown = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in [*lines, *err.getvalue().splitlines()]]
    assert max(len(line) for line in shown if path not in line) <= columns
    assert {word for line in shown for word in line.split() if "w" in word} == {"word"}


def test_a_pipe_gets_entries_in_one_line_without_colours(capsys):
    say_entry("PROBLEM  disk    ", "word " * 60 + HOSTILE, colour="red")
    assert capsys.readouterr().out == f"PROBLEM  disk    {'word ' * 60}{SHOWN}\n"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


PRINTS_OTHERWISE = {
    "__main__.py": "a constant sentence",
    "terminal.py": "the place itself",
    "report/console.py": "what a console has made, colours included",
    "selftest/untimed.py": "answers its parent",
    "targets/chaos_proxy/__main__.py": "answers its parent",
    "targets/guardian.py": "has no package beside it, and speaks of process numbers",
}


def test_text_is_printed_in_one_place():
    """Whoever prints past it prints no foreign text, or no text for people."""
    package = Path(omni_bench.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
            if name in ("print", "Console"):
                found.add(str(path.relative_to(package)))
    assert found <= set(PRINTS_OTHERWISE) | {"run/orchestrate.py"}  # whose console is nowhere


def test_warnings_of_libraries_are_our_lines_and_no_encoding_ends_a_command():
    plain = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "dumb", "NO_COLOR": "1"}
    program = r"""
import warnings
from omni_bench.commands import cli
def command(_):
    warnings.warn("Glyph \x1b[2J\n::error::x")
    cli.say("\u2192 \u4e2d")
    cli.say_aside("\u2192")
    return 0
cli._dispatch = command
raise SystemExit(cli.main(["list"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **plain, "PYTHONIOENCODING": "ascii:strict", "COLUMNS": "40"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"\\u2192 \\u4e2d\n")
    assert done.stderr.splitlines() == [rb"warning: UserWarning: Glyph \u001b[2J ::error::x", rb"\u2192"]


@pytest.mark.parametrize("width", [50, 60, 78])
def test_an_example_is_broken_so_that_it_can_be_copied(width):
    example = (
        "  omni-bench ab before.command='serve-v1 --port {port}' after.command='serve-v2 --port {port}' model=NAME"
    )
    shown = in_columns(f"example:\n{example}\n\nexit codes: 0 {'fine ' * 20}\n(all)", width)
    assert max(map(len, shown.splitlines())) <= width and "\nexit codes: 0 fine" in shown
    command = shown.partition("\n")[2].partition("\n\n")[0]
    assert shlex.split(command.replace("\\\n", " ")) == shlex.split(example) and command.count("\\\n") >= 1


def test_columns_are_honoured_without_a_terminal_and_only_when_asked_for(monkeypatch, capsys):
    text = " ".join(["word"] * 40)
    monkeypatch.delenv("COLUMNS", raising=False)
    TerminalConsole(plain_width=120).print_text(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setenv("COLUMNS", "60")
    console = TerminalConsole(plain_width=120)
    console.print_text(text)
    assert console.width == 60 and max(map(len, capsys.readouterr().out.splitlines())) <= 60
    console.print_text(f"{'x' * 54} +98.2 % more")
    assert capsys.readouterr().out == f"{'x' * 54}\n    +98.2 % more\n", "a number keeps its unit"
    console.print_text("next: confirm it: omni-bench ab scenario=smoke before.reference.predictor=kv_cache seed=1")
    command = "    omni-bench ab scenario=smoke before.reference.predictor=kv_cache seed=1"
    assert capsys.readouterr().out.splitlines() == ["next: confirm it:", command], "to be copied"
