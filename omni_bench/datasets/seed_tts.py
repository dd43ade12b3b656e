"""Reads the layout of BytedanceSpeech/seed-tts-eval: ``<root>/<locale>/meta.lst``.

A row is ``id|ref_text|wav|text``; fields after the fourth are ignored, as are blank lines
and lines that begin with ``#``. ``wav`` is relative to the locale's folder. ``ref_text`` and
``wav`` may be empty: the prompt then has no reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from omni_bench.datasets.prompt import Prompt
from omni_bench.datasets.source import SHOWN_CHARS, PromptSource, RowProblems, bad_text, resolve_inside, source_of
from omni_bench.errors import DatasetError
from omni_bench.text import shorten

META_NAME = "meta.lst"
MAX_META_BYTES = 64 * 1024 * 1024
_LOCALE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class MetaRow:
    """One row of meta.lst; ``line`` counts from 1, ``wav`` is as written (None if empty)."""

    line: int
    id: str
    ref_text: str | None
    wav: str | None
    text: str


def parse_meta(data: bytes, label: str) -> list[MetaRow]:
    """Parse the bytes of a meta.lst.

    Lines end with LF or CRLF and nothing else (Unicode has more line separators, which may
    stand in a text). A UTF-8 byte order mark is skipped. ``label`` names the file in messages.
    Raises DatasetError that lists the bad rows with their line numbers, or says that there are none.
    """
    rows: list[MetaRow] = []
    problems = RowProblems(label)
    line_of_id: dict[str, int] = {}
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            problems.add(f"line {number}", f"not UTF-8 (byte {error.start + 1} of the line)")
            continue
        if not line or line.startswith("#"):
            continue
        fields = [part.strip() for part in line.split("|")]
        if len(fields) < 4:
            problems.add(
                f"line {number}",
                f"{len(fields)} field(s), needs 4 (id|ref_text|wav|text): {shorten(line, SHOWN_CHARS)!r}",
            )
            continue
        row_id, ref_text, wav, text = fields[:4]
        problem = bad_text(row_id, "id") or bad_text(text, "text")
        if problem is None and ref_text:
            problem = bad_text(ref_text, "ref_text")
        if problem is None and row_id in line_of_id:
            problem = f"id {shorten(row_id, SHOWN_CHARS)!r} is already used on line {line_of_id[row_id]}"
        if problem is not None:
            problems.add(f"line {number}", problem)
            continue
        line_of_id[row_id] = number
        rows.append(MetaRow(number, row_id, ref_text or None, wav or None, text))
    problems.raise_if_any()
    if not rows:
        raise DatasetError(f"{label} has no rows; a row is id|ref_text|wav|text")
    return rows


def read_seed_tts(root: str | Path, locale: str) -> PromptSource:
    """Read ``<root>/<locale>/meta.lst`` and check that every reference recording is there.

    Raises DatasetError if the folder or file is missing, too large, or has bad rows; all bad
    rows are found before it is raised.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise DatasetError(f"dataset.root: no folder {str(root)!r}; it must hold <locale>/{META_NAME}")
    if not _LOCALE.fullmatch(locale):
        raise DatasetError(f"dataset.locale {locale!r} is not a locale name; in {root} there is {_locales(root)}")
    folder = root / locale
    meta = folder / META_NAME
    try:
        if not meta.is_file():
            raise DatasetError(f"dataset.locale {locale!r}: no file {str(meta)!r}; locales in {root}: {_locales(root)}")
        if meta.stat().st_size > MAX_META_BYTES:
            raise DatasetError(f"{meta} is larger than {MAX_META_BYTES // 2**20} MiB; is it a meta.lst?")
        data = meta.read_bytes()
    except OSError as error:
        raise DatasetError(f"cannot read {meta}: {error.strerror or error}") from error
    rows = parse_meta(data, str(meta))
    prompts: list[Prompt] = []
    problems = RowProblems(str(meta))
    for row in rows:
        audio = None
        if row.wav is not None:
            try:
                audio = resolve_inside(folder, row.wav)
            except ValueError as error:
                problems.add(f"line {row.line}", f"wav: {error}")
                continue
        prompts.append(Prompt(row.id, row.text, row.ref_text, audio, locale))
    problems.raise_if_any()
    return source_of(str(folder), prompts)


def _locales(root: Path) -> str:
    """The locales that ``root`` really has, for a message."""
    try:
        found = sorted(entry.name for entry in root.iterdir() if (entry / META_NAME).is_file())
    except OSError:
        found = []
    return ", ".join(found) if found else f"none (no <locale>/{META_NAME})"
