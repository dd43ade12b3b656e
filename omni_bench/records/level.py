"""What a level of a run is called: the requests in flight of a closed loop, or the request rate of an open one.

Everything that belongs to a level carries its :data:`Level` in ``concurrency``: an int, or a
:class:`Rate`. The two are never equal, so that a level at 1 request a second is not taken for one
request in flight. In JSON a rate is ``rate_hz``, beside ``concurrency``, which is null in
a line about one request, and the peak in flight in ``levels`` of run.json.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from omni_bench.errors import StoreError

SIGNIFICANT_DIGITS = 6  # of a rate: names must tell two levels apart, and be read back


@dataclass(frozen=True, order=True)
class Rate:
    """A level of the open loop: requests a second; the mean of a ramp or trace."""

    hz: float

    def __str__(self) -> str:
        return f"{self.hz:.{SIGNIFICANT_DIGITS}g} req/s"


Level = Union[int, Rate]


def rate_of(hz: float) -> Rate:
    """The level of a rate, which is rounded to :data:`SIGNIFICANT_DIGITS`, as its name is."""
    return Rate(float(f"{hz:.{SIGNIFICANT_DIGITS}g}"))


def level_of(record: Mapping[str, Any]) -> Level:
    """The level that a line of a run folder, or an entry of ``levels`` in run.json, belongs to.

    Raises StoreError if it names none.
    """
    rate_hz = record.get("rate_hz")
    if rate_hz is not None:
        if isinstance(rate_hz, bool) or not isinstance(rate_hz, (int, float)) or not math.isfinite(rate_hz):
            raise StoreError(f"rate_hz is {rate_hz!r}; must be a number or null")
        return Rate(float(rate_hz))
    concurrency = record.get("concurrency")
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise StoreError(f"concurrency is {concurrency!r}; must be an integer, or rate_hz a number")
    return concurrency


def level_or_none(record: Mapping[str, Any]) -> Level | None:
    """The same, None for a line that names no level."""
    try:
        return level_of(record)
    except StoreError:
        return None


def level_fields(level: Level) -> dict[str, Any]:
    """The fields of :func:`level_of`: ``concurrency`` alone in a closed loop, as before there were rates."""
    return {"concurrency": None, "rate_hz": level.hz} if isinstance(level, Rate) else {"concurrency": level}


def level_text(record: Mapping[str, Any], missing: str) -> str:
    """The cell of a table: "16", or "5 req/s"; ``missing`` for a line that names no level."""
    level = level_or_none(record)
    return missing if level is None else str(level)


def level_title(level: Level) -> str:
    """For sentences: "concurrency 16", or "5 req/s"."""
    return str(level) if isinstance(level, Rate) else f"concurrency {level}"


def short_title(level: Level) -> str:
    """For lists and small headings: "c = 16", or "5 req/s"."""
    return str(level) if isinstance(level, Rate) else f"c = {level}"


def listed_levels(levels: Iterable[Level]) -> str:
    """For sentences: "c = 1, 4, 16", or "0.5 req/s, 1 req/s"."""
    levels = list(levels)
    return f"{'' if is_open_loop(levels) else 'c = '}{', '.join(map(str, levels))}"


def level_name(level: Level) -> str:
    """For request ids and names of files: "c16", or "r5"."""
    return f"r{level.hz:.{SIGNIFICANT_DIGITS}g}" if isinstance(level, Rate) else f"c{level}"


def level_value(level: Level) -> float:
    """Where the level stands on an axis."""
    return level.hz if isinstance(level, Rate) else level


def is_open_loop(levels: Iterable[Level | None]) -> bool:
    """Whether the levels are rates. A run has levels of one kind."""
    return any(isinstance(level, Rate) for level in levels)


def axis_label(levels: Iterable[Level]) -> str:
    """What the axis of the levels shows."""
    return "request rate (req/s)" if is_open_loop(levels) else "concurrency (requests in flight)"
