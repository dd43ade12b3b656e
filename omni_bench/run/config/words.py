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
from omni_bench.run.config.explain import annotation_of, pasted, quoted

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
        wants_text = (
            (below and get_args(annotation)[1] is str) if is_mapping else str in (annotation, *_union(annotation))
        )
        try:
            read: Override | None = parser.parse_override(word)
        except HydraException:
            read = None
        if read is None:
            if is_mapping and (written := _from_json(value)) is not None:
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
        elif wants_text and isinstance(read.value(), _NUMBERS) and type(read.value()) not in _union(annotation):
            yield f"{'++' if below else plus}{key}={quoted(value.strip())}"
        elif is_mapping and (below or isinstance(read.value(), dict)):
            yield f"++{key}={value}"
        else:
            yield word


def _union(annotation: Any) -> tuple[Any, ...]:
    return () if get_origin(annotation) in (list, dict) else get_args(annotation)


def _no_sweep(word: str, key: str, value: str, annotation: Any, wants_text: bool) -> str:
    if get_origin(annotation) is list:
        return f"{word}: a list has brackets: {key}=[{value}]"
    if wants_text:
        return f"{word}: a text with commas needs quotes, and these need some: {pasted(f'{key}={quoted(value)}')}"
    return (
        f"{word}: is a sweep over several values, each of which is a run: omni-bench run --multirun {shlex.quote(word)}"
    )


def _from_json(value: str) -> str | None:
    """A JSON object in Hydra's grammar, None for what is no such object or has keys that the grammar cannot write."""
    try:
        return _written(json.loads(value)) if value.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _written(value: Any) -> str:
    if isinstance(value, dict):
        if bad := [name for name in value if not re.fullmatch(r"[A-Za-z_][\w-]*", name, re.ASCII)]:
            raise ValueError(f"{bad[0]!r} is no key")
        return "{" + ", ".join(f"{name}: {_written(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return quoted(value) if isinstance(value, str) else json.dumps(value)
