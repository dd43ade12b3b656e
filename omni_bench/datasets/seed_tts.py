"""Reads the layout of BytedanceSpeech/seed-tts-eval: ``<root>/<locale>/meta.lst``, or a list file of another name.

A row is ``id|ref_text|wav|text``; as that repository reads its lists also ``id|text``, ``id|text|wav``, or with
a fifth field that names a recording of the text, which is not used. A ``|`` may stand in the text of a row of
four. ``wav`` is relative to the list's folder. ``ref_text`` and ``wav`` may be empty: the prompt then has no
reference. Blank lines and comments, which begin with ``# `` or are without a ``|``, are passed over.

In the design variant (vllm-omni's data set seed-tts-design) the fifth field describes the voice
to speak with, and is needed. It cannot be told by the file: some sets hold the path of a true
recording there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from omni_bench.datasets.source import (
    SHOWN_CHARS,
    PromptSource,
    RowProblems,
    bad_locale,
    bad_text,
    id_key,
    resolve_inside,
)
from omni_bench.errors import DatasetError, shorten
from omni_bench.records.prompt import Prompt

META_NAME = "meta.lst"
MAX_META_BYTES = 64 * 1024 * 1024
FIELDS = ("id", "ref_text", "wav", "text")
DESIGN_FIELDS = (*FIELDS, "instructions")
AUDIO_SUFFIXES = frozenset([".wav", ".flac", ".mp3", ".ogg", ".opus", ".aiff", ".aif", ".au", ".caf", ".m4a"])


@dataclass(frozen=True)
class MetaRow:
    """One row of meta.lst; ``line`` counts from 1, ``wav`` is as written (None if empty).

    ``instructions``: the fifth field of the design variant, None in the other.
    """

    line: int
    id: str
    ref_text: str | None
    wav: str | None
    text: str
    instructions: str | None = None


def parse_meta(data: bytes, label: str, *, design: bool = False) -> list[MetaRow]:
    """Parse the bytes of a list, of the design variant if ``design``.

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
        if not line or (line.startswith("#") and ("|" not in line or line[1].isspace())):
            continue
        try:
            row = _row(number, line, design)
        except ValueError as error:
            problems.add(f"line {number}", str(error))
            continue
        given = {"id": row.id, "text": row.text, "ref_text": row.ref_text, "instructions": row.instructions}
        problem = next(
            (bad for name, value in given.items() if value is not None and (bad := bad_text(value, name))), None
        )
        if problem is None and id_key(row.id) in line_of_id:
            problem = f"id {shorten(row.id, SHOWN_CHARS)!r} is already used on line {line_of_id[id_key(row.id)]}"
        if problem is not None:
            problems.add(f"line {number}", problem)
            continue
        line_of_id[id_key(row.id)] = number
        rows.append(row)
    marked = [row for row in rows if row.id.startswith("#")]
    if len(marked) < len(rows):  # are these ids, or rows that somebody took out?
        for row in marked:
            problems.add(f"line {row.line}", "begins with '#', as not all rows do: a comment begins with '# '")
    problems.raise_if_any()
    if not rows:
        raise DatasetError(f"{label} has no rows; a row is {'|'.join(DESIGN_FIELDS if design else FIELDS)}")
    return rows


def _row(number: int, line: str, design: bool) -> MetaRow:
    """A line in one of its forms. Raises ValueError for one that could be read in two ways, or in none."""
    fields = [part.strip() for part in line.split("|")]
    count, shown = len(fields), repr(shorten(line, SHOWN_CHARS))
    if design:
        if count != len(DESIGN_FIELDS):
            raise ValueError(f"{count} field(s), needs {len(DESIGN_FIELDS)} ({'|'.join(DESIGN_FIELDS)}): {shown}")
        row_id, ref_text, wav, text, instructions = fields
        return MetaRow(number, row_id, ref_text or None, wav or None, text, instructions)
    if count == 2:
        return MetaRow(number, fields[0], None, None, fields[1])
    if count == 3 and (not fields[2] or _is_recording(fields[2])):
        return MetaRow(number, fields[0], None, fields[2] or None, fields[1])
    if count < len(FIELDS):
        raise ValueError(f"{count} field(s), needs {'|'.join(FIELDS)}, id|text|wav or id|text: {shown}")
    row_id, ref_text, wav = fields[:3]
    if count == 5 and (not fields[4] or _is_recording(fields[4])):
        text = fields[3]
    elif any(map(_is_recording, fields[3:])):
        raise ValueError(f"{count} fields, of which the text cannot be told: needs {'|'.join(FIELDS)}: {shown}")
    else:
        text = line.split("|", 3)[3].strip()
    return MetaRow(number, row_id, ref_text or None, wav or None, text)


def _is_recording(field: str) -> bool:
    return Path(field).suffix.lower() in AUDIO_SUFFIXES


def read_seed_tts(root: str | Path, locale: str, *, design: bool = False) -> PromptSource:
    """Read ``<root>/<locale>/meta.lst``, the only other list there, or ``root`` itself if it is a file.

    Every reference recording has to be there. In the design variant there are none: what stands in the field is not
    looked at. Raises DatasetError if the folder or file is missing, too large, or has bad rows; all bad
    rows are found before it is raised.
    """
    root = Path(os.path.expanduser(root))
    meta = root if root.is_file() else _list_of(root, locale)
    folder = meta.parent
    try:
        if meta.stat().st_size > MAX_META_BYTES:
            raise DatasetError(f"{meta} is larger than {MAX_META_BYTES // 2**20} MiB; is it a meta.lst?")
        data = meta.read_bytes()
    except OSError as error:
        raise DatasetError(f"cannot read {meta}: {error.strerror or error}") from error
    rows = parse_meta(data, str(meta), design=design)
    prompts: list[Prompt] = []
    problems = RowProblems(str(meta))
    for row in rows:
        audio = None
        if row.wav is not None and not design:
            try:
                audio = resolve_inside(folder, row.wav)
            except ValueError as error:
                problems.add(f"line {row.line}", f"wav: {error}")
                continue
        ref_text = None if design else row.ref_text
        prompts.append(Prompt(row.id, row.text, ref_text, audio, locale, row.instructions))
    problems.raise_if_any()
    label = str(folder if meta.name == META_NAME else meta)
    return PromptSource(label, tuple(prompt.id for prompt in prompts), prompts.__getitem__)


def _list_of(root: Path, locale: str) -> Path:
    """The list of a locale below ``root``. Raises DatasetError if there is none, or several and no meta.lst."""
    if not root.is_dir():
        raise DatasetError(f"dataset.root: no file or folder {str(root)!r}; a folder must hold <locale>/{META_NAME}")
    if (problem := bad_locale(locale)) is not None:
        raise DatasetError(f"{problem}; in {root} there is {_locales(root)}")
    meta = root / locale / META_NAME
    try:
        if meta.is_file():
            return meta
        others = sorted(one for one in meta.parent.glob("*.lst") if one.is_file())  # a pipe would wait for ever
    except OSError as error:
        raise DatasetError(f"cannot read {meta}: {error.strerror or error}") from error
    if len(others) == 1:
        return others[0]
    found = f"; there are {', '.join(one.name for one in others)}: set dataset.root to one of them" if others else ""
    raise DatasetError(f"dataset.locale {locale!r}: no file {str(meta)!r}{found}; locales in {root}: {_locales(root)}")


def _locales(root: Path) -> str:
    """The locales that ``root`` really has, for a message."""
    try:
        found = sorted(entry.name for entry in root.iterdir() if any(entry.glob("*.lst")))
    except OSError:
        found = []
    return ", ".join(found) if found else f"none (no <locale>/{META_NAME})"
