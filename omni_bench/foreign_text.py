"""Text of others (servers, data sets, transcripts, runs) made safe for where it is shown: the one place that does.

A terminal, GitHub's log and annotations, markdown, XML and file names each obey something in a text; a function a
place takes that away and keeps the text readable, and no longer than the place has room for. What a person types is
foreign too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]"
)
"""C0 but tab and line feed, C1, line separators, marks of direction (Unicode's Bidi_Control), half characters."""
_COMMAND = re.compile(r"^[^\S\n]*:(?=:)|#(?=#\w*\[)", re.MULTILINE)
"""What a CI obeys in a job's output: GitHub Actions "::" behind white space of any kind at the beginning of a line, and
"##[" anywhere in it (ActionCommand.cs of actions/runner); Azure Pipelines "##vso[", TeamCity "##teamcity["."""
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MENTION = re.compile(r"(?<!\w)@(?=\w)")
_UNSAFE_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_BREAK = re.compile(r"(?<![ \t])[ \t]*(?:\r?\n[ \t]*)+")
MAX_NAME_CHARS = 80
MAX_FIELD_CHARS = 200
"""Of one name, version or other field that a stranger fills, where people read it."""
MAX_LINE_CHARS = 2000
"""Of one line on a terminal, and of one text in markdown."""
MAX_ANNOTATION_CHARS = 4000
MAX_XML_CHARS = 4000
MAX_BLOCK_CHARS = 8000
MAX_PAGE_CHARS = 65_536
"""Of a page that people paste: GitHub takes no longer comment or description."""
MAX_STATED_DEPTH, MAX_STATED_ENTRIES, MAX_STATED_CHARS, MAX_STATED_TEXT = 6, 100, 32_768, 1000
"""Of an answer that is kept: how deep, how many entries in one place, and how long, in all and each text."""
_CUT = "..."


def inert(text: str) -> str:
    r"""What a terminal or a log would obey, and what turns words around, as escapes, ``\u001b``; line feeds stay."""
    return _ACTIVE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def visible(text: str) -> str:
    """For a terminal or a log: :func:`inert`, and no line holds a command that a CI obeys."""
    return _COMMAND.sub(lambda match: f"{match[0][:-1]}\\u{ord(match[0][-1]):04x}", inert(text))


def shorten(text: str, limit: int) -> str:
    """``text`` cut to at most ``limit`` characters; three dots at the end say that it was cut."""
    return text if len(text) <= limit else text[: max(limit - len(_CUT), 0)] + _CUT[:limit]


def one_line(text: object, limit: int = MAX_LINE_CHARS) -> str:
    """For one line of a terminal: line breaks become spaces, what is too long is cut, the rest is :func:`visible`."""
    return visible(shorten(_BREAK.sub(" ", str(text)), limit))


def one_field(text: object) -> str:
    """A name, version or other field of a stranger's as people read it in a sentence, a table or a picture."""
    return one_line(str(text).strip(), MAX_FIELD_CHARS)


def stated(answer: Any) -> Any:
    """What a server says of itself, a JSON value, as far as it is kept: at most :data:`MAX_STATED_CHARS` of it.

    ``...`` stands where texts, entries or depth were cut.
    """
    return _stated(answer, MAX_STATED_DEPTH, [MAX_STATED_CHARS])


def is_cut(entries: list[Any]) -> bool:
    """Whether :func:`stated` left out the end of a list."""
    return entries[-1:] == [_CUT]


def _stated(value: Any, depth: int, left: list[int]) -> Any:
    if isinstance(value, str):
        kept: Any = shorten(value, min(MAX_STATED_TEXT, max(left[0], len(_CUT))))
        left[0] -= len(kept)
        return kept
    if not isinstance(value, (dict, list)):
        left[0] -= 8
        return value
    if not depth or left[0] <= 0:
        return _CUT
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
    found = []
    for key, inside in pairs[:MAX_STATED_ENTRIES]:
        if left[0] <= 0:
            break
        name = _stated(key, depth, left)
        found.append((name, _stated(inside, depth - 1, left)))
    if len(found) < len(pairs):
        found.append((_CUT, _CUT))
    return dict(found) if isinstance(value, dict) else [inside for _, inside in found]


def annotation(level: str, title: str, message: str) -> str:
    """A workflow command of GitHub Actions in one line that no text can break out of; long texts are cut."""
    message = bounded(visible(message), MAX_ANNOTATION_CHARS)
    name = _percent(one_field(title)).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{_percent(message)}"


def _percent(text: str) -> str:
    """GitHub decodes these escapes in values and messages."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def bounded(text: str, limit_chars: int) -> str:
    """``text``, cut at the end of a line if there is one, with a note of how much is left out."""
    if len(text) <= limit_chars:
        return text
    kept = text[: limit_chars - 100]
    kept = kept[: kept.rfind("\n") + 1] or kept
    return f"{kept}[... {len(text) - len(kept)} characters are left out here ...]"


def page_of(parts: Iterable[str | None], left_out: str, limit: int = MAX_PAGE_CHARS) -> str:
    """The parts of a markdown page, in order, with an empty line between; None and "" are none. At most ``limit`` long.

    What does not fit is left out, of a plain list or table only the end; ``left_out`` says so on the last line.
    """
    room = limit - len(left_out) - 3
    kept: list[str] = []
    cut = False
    for part in parts:
        text = inert(part or "")
        if len(text) > room:
            cut = True
            text = bounded(text, room) if text.startswith(("- ", "> ", "| ", "|:")) and room > 1000 else ""
        if text:
            kept.append(text)
            room -= len(text) + 2
    return "\n\n".join([*kept, *([left_out] if cut else [])]) + "\n"


def for_xml(text: str) -> str:
    """Without what XML 1.0 has no way to write, and cut; markup is escaped by whoever writes the element."""
    return _NOT_XML.sub("\ufffd", bounded(visible(text), MAX_XML_CHARS))


def escape_markdown(text: object, limit: int = MAX_LINE_CHARS) -> str:
    """``text`` as one line of plain text in markdown: for cells, headings and list items.

    Markup, HTML and table pipes are escaped, mentions reach nobody; line breaks and other control characters become
    spaces, and what is too long is cut.
    """
    plain = re.sub(r"([\\`*_{}\[\]|~$])", r"\\\1", shorten(_one_line(text), limit))
    plain = re.sub("^#", r"\\#", plain).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub("&#64;", plain)


def code_span(text: object) -> str:
    """``text`` as one line of code that it cannot end, for cells too: a pipe in it becomes a broken bar."""
    plain = shorten(_one_line(text), MAX_LINE_CHARS).replace("|", "¦")
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    pad = " " if longest else ""
    fence = "`" * (longest + 1)
    return f"{fence}{pad}{plain}{pad}{fence}" if plain else ""


def code_block(text: str, language: str = "") -> str:
    """A fenced block that ``text`` cannot end: the fence is longer than any run of backticks in it."""
    text = bounded(visible(text), MAX_BLOCK_CHARS)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _one_line(text: object) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())


def safe_name(name: str) -> str:
    """``name`` as a file name: unchanged if harmless, otherwise cleaned with a piece of its SHA-256 at the end."""
    clean = _UNSAFE_NAME.sub("_", name).lstrip(".")[:MAX_NAME_CHARS]
    if clean == name and clean:
        return clean
    return f"{clean or 'unnamed'}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
