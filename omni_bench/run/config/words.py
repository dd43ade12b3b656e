"""The words of a command line as Hydra is to read them: a text stays as it is written, a mapping takes new entries."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_origin

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from omni_bench.errors import ConfigError
from omni_bench.run.config.explain import annotation_of, either, pasted, quoted

_NUMBERS = (bool, int, float)
_WORD = re.compile(r"(\+{0,2})([\w.]+)=(.*)", re.DOTALL)


def as_meant(words: Sequence[str], *, multirun: bool = False) -> list[str]:
    """``words`` with ``profile=true`` in full, and in Hydra's grammar what is not.

    A number or ``true`` for a key that takes a text is that text. A mapping may be JSON, and its entries may be new.
    Raises ConfigError for commas that would be a sweep, unless it is a ``multirun``.
    """
    return list(_meant([f"output.{one}" if one.startswith("profile=") else one for one in words], multirun))


def _meant(words: Sequence[str], multirun: bool) -> Iterator[str]:
    parser = OverridesParser.create()
    for word in words:
        found = _WORD.fullmatch(word)
        if found is None:
            yield word
            continue
        plus, key, value = found.groups()
        annotation, below = annotation_of(key)
        is_mapping = get_origin(annotation) is dict
        holds_texts = _holds_texts(annotation)
        wants_text = below and holds_texts if is_mapping else str in either(annotation)
        try:
            read: Override | None = parser.parse_override(word)
        except HydraException:
            read = None
        if read is None:
            if is_mapping and (written := _from_json(value, texts=holds_texts)) is not None:
                yield f"++{key}={written}"
            else:
                if is_mapping and not below:
                    raise ConfigError(
                        f"{word}: cannot be read as a mapping; valid: {key}={{name: value, other: [1,2]}}, texts "
                        f"in single quotes, or JSON whose names are words, or an entry by itself: {key}.NAME=VALUE"
                    )
                yield word  # Hydra says why it cannot be read
        elif read.is_sweep_override() and not multirun:
            raise ConfigError(_no_sweep(word, f"{plus}{key}", value, annotation, wants_text))
        elif wants_text and isinstance(read.value(), _NUMBERS) and type(read.value()) not in either(annotation):
            yield f"{'++' if below else plus}{key}={quoted(value.strip())}"
        else:
            if holds_texts and not below:
                value = _with_texts(value, read.value())
            if is_mapping and (below or isinstance(read.value(), dict)):
                yield f"++{key}={value}"
            else:
                yield f"{plus}{key}={value}"


def _holds_texts(annotation: Any) -> bool:
    """Whether it is a list or a mapping, or may be one, whose values are texts."""
    return any(get_args(one)[-1:] == (str,) for one in either(annotation) if get_origin(one))


_ENTRIES = re.compile(r"""(?:[^,'"\\]|\\.|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)


def _with_texts(value: str, read: Any) -> str:
    """A list or a mapping of texts as written, in which numbers and ``true`` are quoted: they stay what was typed."""
    written = value.strip()
    entries = _ENTRIES.findall(written[1:-1])
    texts = list(read.values()) if isinstance(read, dict) else read
    if not isinstance(texts, list) or len(texts) != len(entries):
        return value
    for at, text in enumerate(texts):
        name, colon, entry = entries[at].partition(":") if isinstance(read, dict) else ("", "", entries[at])
        if isinstance(text, _NUMBERS):
            entries[at] = f"{name}{colon}{quoted(entry.strip())}"
    return written[0] + ",".join(entries) + written[-1]


def _no_sweep(word: str, key: str, value: str, annotation: Any, wants_text: bool) -> str:
    if any(get_origin(one) is list for one in either(annotation)):
        return f"{word}: a list has brackets: {key}=[{value}]"
    if wants_text:
        return f"{word}: a text with commas needs quotes, and these need some: {pasted(f'{key}={quoted(value)}')}"
    return (
        f"{word}: is a sweep over several values, each of which is a run: omni-bench run --multirun {shlex.quote(word)}"
    )


def _from_json(value: str, texts: bool) -> str | None:
    """A JSON object in Hydra's grammar, None for what is no such object or has keys that the grammar cannot write.

    ``texts``: its numbers, ``true`` and ``false`` are texts.
    """
    as_typed = {"parse_float": str, "parse_int": str} if texts else {}
    try:
        return _written(json.loads(value, **as_typed), texts) if value.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _written(value: Any, texts: bool) -> str:
    if isinstance(value, dict):
        if bad := [name for name in value if not re.fullmatch(r"[A-Za-z_][\w-]*", name, re.ASCII)]:
            raise ValueError(f"{bad[0]!r} is no key")
        return "{" + ", ".join(f"{name}: {_written(one, texts)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(one, texts) for one in value) + "]"
    text = value if isinstance(value, str) else json.dumps(value)
    return quoted(text) if isinstance(value, str) or (texts and isinstance(value, bool)) else text
