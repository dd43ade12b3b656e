"""The key of a server: where it comes from, the header that carries it, and what servers say without it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:  # a load worker imports little
    from omni_bench.records.config import ClientConfig

HIDDEN = "***"
_TELLING = 8
"""So many characters of a key are the key: a text may have been cut in it. A shorter one is a word of its own."""

T = TypeVar("T")


@dataclass(frozen=True)
class ApiKey:
    """A key, and the name of the ``header`` that carries it."""

    text: str = field(repr=False)
    header: str

    @property
    def headers(self) -> dict[str, str]:
        """What a request says with it: in ``Authorization`` as a bearer token (RFC 6750), elsewhere as it is."""
        return {self.header: f"Bearer {self.text}" if self.header.lower() == "authorization" else self.text}


def find_key(variable: str | None, header: str) -> ApiKey | None:
    """The key in the environment's ``variable``, None if there is none."""
    text = os.environ.get(variable) if variable is not None else None
    return ApiKey(text, header) if text else None


def key_of(client: ClientConfig) -> ApiKey | None:
    """The key that ``client.api_key_env`` names, None if there is none."""
    return find_key(client.api_key_env, client.api_key_header)


def without_key(value: T, key: ApiKey | None) -> T:
    """``value`` (text or plain types) with ``***`` wherever it has the ``key``; some servers repeat it.

    The key as it is and as a URL has it, also without its end, where a text was cut.
    """
    return value if key is None else _hidden(value, (key.text, quote(key.text, safe="")))


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
