"""Reads the layout of BytedanceSpeech/seed-tts-eval: ``<root>/<locale>/meta.lst``.

A row is ``id|ref_text|wav|text``; fields after the fourth are ignored, as are blank lines
and lines that begin with ``#``. ``wav`` is relative to the locale's folder. ``ref_text`` and
``wav`` may be empty: the prompt then has no reference.

In the design variant (vllm-omni's data set seed-tts-design) the fifth field describes the voice
to speak with, and is needed. It cannot be told by the file: some sets hold the path of a true
recording there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from omni_bench.datasets.source import SHOWN_CHARS, PromptSource, RowProblems, bad_text, resolve_inside, source_of
from omni_bench.errors import DatasetError, shorten
from omni_bench.records.prompt import Prompt

META_NAME = "meta.lst"
MAX_META_BYTES = 64 * 1024 * 1024
FIELDS = ("id", "ref_text", "wav", "text")
DESIGN_FIELDS = (*FIELDS, "instructions")
_LOCALE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


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
    """Parse the bytes of a meta.lst, of the design variant if ``design``.

    Lines end with LF or CRLF and nothing else (Unicode has more line separators, which may
    stand in a text). A UTF-8 byte order mark is skipped. ``label`` names the file in messages.
    Raises DatasetError that lists the bad rows with their line numbers, or says that there are none.
    """
    form = DESIGN_FIELDS if design else FIELDS
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
        if len(fields) < len(form):
            problems.add(
                f"line {number}",
                f"{len(fields)} field(s), needs {len(form)} ({'|'.join(form)}): {shorten(line, SHOWN_CHARS)!r}",
            )
            continue
        row_id, ref_text, wav, text = fields[:4]
        instructions = fields[4] if design else None
        problem = bad_text(row_id, "id") or bad_text(text, "text")
        if problem is None and ref_text:
            problem = bad_text(ref_text, "ref_text")
        if problem is None and instructions is not None:
            problem = bad_text(instructions, "instructions")
        if problem is None and row_id in line_of_id:
            problem = f"id {shorten(row_id, SHOWN_CHARS)!r} is already used on line {line_of_id[row_id]}"
        if problem is not None:
            problems.add(f"line {number}", problem)
            continue
        line_of_id[row_id] = number
        rows.append(MetaRow(number, row_id, ref_text or None, wav or None, text, instructions))
    problems.raise_if_any()
    if not rows:
        raise DatasetError(f"{label} has no rows; a row is {'|'.join(form)}")
    return rows


def read_seed_tts(root: str | Path, locale: str, *, design: bool = False) -> PromptSource:
    """Read ``<root>/<locale>/meta.lst`` and check that every reference recording is there.

    In the design variant there are none: what stands in the field is not looked at.

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
    return source_of(str(folder), prompts)


def _locales(root: Path) -> str:
    """The locales that ``root`` really has, for a message."""
    try:
        found = sorted(entry.name for entry in root.iterdir() if (entry / META_NAME).is_file())
    except OSError:
        found = []
    return ", ".join(found) if found else f"none (no <locale>/{META_NAME})"
