"""What every reader of a data set hands to ``load.py``, and the checks that readers share."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from omni_bench.errors import DatasetError, shorten
from omni_bench.records.prompt import Prompt

MAX_LISTED_ROWS = 10
SHOWN_CHARS = 80  # of a value from a file, in a message
MAX_TEXT_CHARS = 100_000  # comparing two such texts character by character takes gigabytes

_FILLERS = "\u034f\u115f\u1160\u2800\u3164\uffa0"
"""Without a picture, though Unicode counts them among letters and signs: fillers of Hangul, an empty Braille cell."""
_JOINERS = "\u200c\u200d"  # of Persian and Indic words: the only invisible characters that an id may hold


@dataclass(frozen=True)
class PromptSource:
    """A data set that has been read and checked.

    ``ids[i]`` is the id of row ``i`` in file order; ``take(i)`` makes its :class:`Prompt`.
    Taking is separate from reading, so that a reference recording that is stored inside a
    table is only written out for the prompts that a run really uses.
    """

    label: str
    ids: tuple[str, ...]
    take: Callable[[int], Prompt]


@dataclass
class RowProblems:
    """Collects what is wrong with rows, to report many at once instead of one a run."""

    label: str
    problems: list[str] = field(default_factory=list)

    def add(self, where: str, problem: str) -> None:
        """Note one problem; ``where`` names the row ("line 12", "row 3")."""
        self.problems.append(f"{where}: {problem}")

    def raise_if_any(self) -> None:
        """Raise a DatasetError that lists the first :data:`MAX_LISTED_ROWS` problems, if there is one."""
        if not self.problems:
            return
        listed = "\n  ".join(self.problems[:MAX_LISTED_ROWS])
        hidden = len(self.problems) - MAX_LISTED_ROWS
        more = f"\n  and {hidden} more" if hidden > 0 else ""
        raise DatasetError(f"{self.label} has {len(self.problems)} bad row(s):\n  {listed}{more}")


def resolve_inside(folder: Path, relative: str) -> Path:
    """The absolute path of the file ``relative`` in ``folder``, links and ``..`` resolved.

    Raises ValueError, with a reason that fits after the row's name, if the path leaves the
    folder or is not a file.
    """
    if "\0" in relative:
        raise ValueError(f"path {relative!r} holds a NUL character")
    base, shown = folder.resolve(), repr(shorten(relative, SHOWN_CHARS))
    try:
        path = (base / relative).resolve()
        inside, is_file = path.is_relative_to(base), path.is_file()
    except (OSError, RuntimeError) as error:  # a name that is too long, a loop of links
        raise ValueError(f"path {shown} cannot be read ({error.__class__.__name__})") from None
    if not inside:
        raise ValueError(f"path {shown} leaves the data folder {base}")
    if not is_file:
        raise ValueError(f"no file {shown} in {base}")
    return path


def bad_text(value: object, name: str) -> str | None:
    """Why ``value`` cannot be used as the field ``name`` ("id", "text"), or None if it can."""
    if not isinstance(value, str):
        return f"{name} is {type(value).__name__}, not text"
    # Spaces, zero width spaces, direction marks, fillers, and marks with no letter to stand on
    if all(unicodedata.category(char)[0] in "CZM" or char in _FILLERS for char in value):
        return f"{name} is empty" + (f": {_code_points(value)} cannot be seen" if value.strip() else "")
    unseen = next((char for char in value.strip() if _is_invisible(char)), None) if name == "id" else None
    if unseen is not None:
        return f"id {shorten(value, SHOWN_CHARS)!r} holds {_code_points(unseen)}, which cannot be seen"
    if len(value) > MAX_TEXT_CHARS:
        return f"{name} has {len(value)} characters, more than {MAX_TEXT_CHARS} (over an hour of speech)"
    control = next((char for char in value if unicodedata.category(char) == "Cc" and char != "\x85"), None)
    if control is not None:
        return f"{name} holds the control character {control!r}"
    return None


def id_key(row_id: str) -> str:
    """The same for ids that look the same: composed (NFC), without joiners and variation selectors."""
    return unicodedata.normalize("NFC", "".join(char for char in row_id if char not in _JOINERS and not _selects(char)))


def _is_invisible(char: str) -> bool:
    return char in _FILLERS or (unicodedata.category(char) == "Cf" and char not in _JOINERS)


def _selects(char: str) -> bool:
    """Whether it is a variation selector, which chooses a picture of the character before it."""
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def _code_points(text: str) -> str:
    shown = [f"U+{ord(char):04X}" for char in dict.fromkeys(text) if not char.isspace()]
    return ", ".join(shown[:MAX_LISTED_ROWS])


_LOCALE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def bad_locale(locale: str) -> str | None:
    """Why ``dataset.locale`` cannot be used, or None if it can."""
    if _LOCALE.fullmatch(locale):
        return None
    return (
        f"dataset.locale={shorten(locale, SHOWN_CHARS)!r}: letters, digits, '-' and '_' only, such as en or zh-TW; "
        "for a folder of another name set dataset.root to the list in it (…/meta.lst), and dataset.language"
    )
