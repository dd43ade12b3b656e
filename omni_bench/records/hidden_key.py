"""What a server says goes into files and messages without the key that it was sent, which some servers repeat."""

from __future__ import annotations

import re
from typing import Any, TypeVar
from urllib.parse import quote

HIDDEN = "***"
_TELLING = 8
"""So many characters of a key are the key: a text may have been cut in it. A shorter one is a word of its own."""

T = TypeVar("T")


def without_key(value: T, key: str | None) -> T:
    """``value`` (text or plain types) with ``***`` wherever it has the ``key``.

    The key as it is and as a URL has it, also without its end, where a text was cut.
    """
    return value if not key else _hidden(value, (key, quote(key, safe="")))


def _hidden(value: Any, forms: tuple[str, str]) -> Any:
    if isinstance(value, str):
        return _in_text(value, forms)
    if isinstance(value, dict):
        return {_hidden(name, forms): _hidden(one, forms) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_hidden(one, forms) for one in value)
    return value


def _in_text(text: str, forms: tuple[str, str]) -> str:
    if len(forms[0]) < _TELLING:
        return re.sub(rf"(?<!\w)(?:{'|'.join(map(re.escape, forms))})(?!\w)", HIDDEN, text)
    parts, at = [], 0
    for found in re.finditer("|".join(re.escape(form[:_TELLING]) for form in forms), text):
        begin = found.start()
        if begin >= at:
            parts += [text[at:begin], HIDDEN]
            at = begin + max(_same(text[begin : begin + len(form)], form) for form in forms)
    return "".join([*parts, text[at:]])


def _same(text: str, form: str) -> int:
    """How many characters at the beginning of both are the same."""
    return next((at for at, (one, other) in enumerate(zip(text, form, strict=False)) if one != other), len(text))
