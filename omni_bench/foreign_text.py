"""Text of others (servers, data sets, transcripts) made safe for where it is shown: the one place that does.

A terminal, GitHub's log and annotations, markdown, XML and file names each obey something in a text; a function a
place takes that away and keeps the text readable. What a person types is foreign too.
"""

from __future__ import annotations

import hashlib
import re

_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""C0 but tab and line feed, C1, line separators, marks of direction (Unicode's Bidi_Control), half characters."""
_COMMAND = re.compile(r"^([ \t]*)(?=::|##\[)(.)", re.MULTILINE)
"""What GitHub Actions obeys at the beginning of a line of a job's output."""
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MENTION = re.compile(r"(?<!\w)@(?=\w)")
_UNSAFE_NAME = re.compile(r"[^A-Za-z0-9._-]+")
MAX_NAME_CHARS = 80
MAX_ANNOTATION_CHARS = 4000


def visible(text: str) -> str:
    r"""For a terminal or a log: what they would obey, and what turns words around, as escapes, ``\u001b``."""
    shown = _ACTIVE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    return _COMMAND.sub(lambda match: f"{match[1]}\\u{ord(match[2]):04x}", shown)


def annotation(level: str, title: str, message: str) -> str:
    """A workflow command of GitHub Actions in one line that no text can break out of; long messages are cut."""
    message = bounded(visible(message), MAX_ANNOTATION_CHARS)
    name = _percent(visible(title)).replace(":", "%3A").replace(",", "%2C")
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


def for_xml(text: str) -> str:
    """Without what XML 1.0 has no way to write; markup is escaped by whoever writes the element."""
    return _NOT_XML.sub("\ufffd", text)


def escape_markdown(text: object) -> str:
    """``text`` as one line of plain text in markdown: for cells, headings and list items.

    Markup, HTML and table pipes are escaped, mentions reach nobody; line breaks and other control characters become
    spaces.
    """
    plain = re.sub(r"([\\`*_{}\[\]|~$])", r"\\\1", _one_line(text))
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub("&#64;", plain)


def code_span(text: object) -> str:
    """``text`` as one line of code that it cannot end, for cells too: a pipe in it becomes a broken bar."""
    plain = _one_line(text).replace("|", "¦")
    longest = max((len(run) for run in re.findall(r"`+", plain)), default=0)
    pad = " " if longest else ""
    fence = "`" * (longest + 1)
    return f"{fence}{pad}{plain}{pad}{fence}" if plain else ""


def code_block(text: str, language: str = "") -> str:
    """A fenced block that ``text`` cannot end: the fence is longer than any run of backticks in it."""
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
