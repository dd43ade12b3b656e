"""JSON values to dataclasses and back, by msgspec: what does not fit is named with its record and field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from omni_bench.errors import StoreError, shorten
from omni_bench.records.level import Rate, level_fields

T = TypeVar("T")


def plain(value: Any) -> Any:
    """A dataclass or struct as JSON values: tuples become lists, dataclasses objects."""
    return msgspec.to_builtins(value)


def record_of(value: Any) -> dict[str, Any]:
    """A dataclass with a ``concurrency`` as a line of a run folder, where a rate is ``rate_hz`` beside it."""
    return {**plain(value), **level_fields(value.concurrency)}


def structure(values: Any, kind: type[T], what: str) -> T:
    """``values`` as a ``kind``, the inverse of :func:`plain` and :func:`record_of`; keys it does not know are ignored.

    Raises StoreError, which begins with ``what``, for a field that is missing or of another type.
    """
    if isinstance(values, Mapping) and isinstance(values.get("rate_hz"), (int, float)):
        values = {**values, "concurrency": plain(Rate(float(values["rate_hz"])))}
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise StoreError(f"{what}: {_explain(values, str(error))}") from None
    except UnicodeEncodeError as error:  # msgspec cannot compare a lone surrogate with the names of an enum
        raise StoreError(f"{what}: {shorten(ascii(error.object), 80)} is not Unicode text") from None


def expect(what: str, name: str, value: Any, holds: bool, must_be: str) -> None:
    """Raise StoreError, which begins with ``what`` and names ``value``, unless it ``holds``."""
    if not holds:
        raise StoreError(f"{what}: {name} is {shorten(repr(value), 80)}; must be {must_be}")


def _explain(values: Any, text: str) -> str:
    """msgspec's words with the value that they are about; ``text`` ends with its place, such as $.chunk_bytes[1]."""
    reason, _, place = text.partition(" - at `$")
    value: Any = values
    for part in place.removesuffix("`").replace("[", ".[").split(".")[1:]:
        try:
            value = value[int(part[1:-1])] if part.startswith("[") else value[part]
        except (LookupError, TypeError, ValueError):
            return text
    reason = reason.removeprefix("Object ").replace("Expected", "expected").replace("`", "")
    return f"{place.removesuffix('`').lstrip('.')} is {shorten(repr(value), 80)}; {reason}" if place else reason
