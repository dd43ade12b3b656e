"""The rate search: which rate is probed next. Bracket by doubling (or halving), then bisect. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omni_bench.records.level import rate_of

if TYPE_CHECKING:
    from omni_bench.records.config import LoadConfig


def bracket(probes: Mapping[float, bool]) -> tuple[float | None, float | None]:
    """(highest rate that holds below every rate that does not, lowest rate that does not), each None if there is none.

    ``probes``: rate in requests a second -> whether it holds. One that holds above one that does not is
    chance: the lower is believed.
    """
    failing_hz = min((rate_hz for rate_hz, holds in probes.items() if not holds), default=None)
    holding = [rate_hz for rate_hz, holds in probes.items() if holds and (failing_hz is None or rate_hz < failing_hz)]
    return max(holding, default=None), failing_hz


def probed(levels: Sequence[Mapping[str, Any]]) -> dict[float, bool]:
    """What :func:`bracket` takes, of the levels of a run.json."""
    return {level["rate_hz"]: level["probe"]["holds"] for level in levels if level["probe"] is not None}


def next_rate(probes: Mapping[float, bool], load: LoadConfig) -> float | None:
    """The rate to probe next, None when the search is over.

    It begins at ``load.rate_hz[0]`` and doubles while the rate holds, up to ``load.max_rate_hz``, or halves until
    one holds, down to ``load.min_rate_hz``; then it takes the geometric middle of the highest rate that holds and
    the lowest that does not, until the second is within ``load.precision`` of the first. Never more than
    ``load.max_probes``, and never a rate twice.
    """
    if len(probes) >= load.max_probes:
        return None
    if not probes:
        return rate_of(load.rate_hz[0]).hz
    low_hz, high_hz = bracket(probes)
    if low_hz is None:
        assert high_hz is not None
        wanted_hz = max(high_hz / 2, load.min_rate_hz)
    elif high_hz is None:
        wanted_hz = min(low_hz * 2, load.max_rate_hz)
    elif is_precise(low_hz, high_hz, load.precision):
        return None
    else:
        wanted_hz = math.sqrt(low_hz * high_hz)
    rate_hz = rate_of(wanted_hz).hz
    return None if rate_hz in probes else rate_hz


def is_precise(low_hz: float | None, high_hz: float | None, precision: float) -> bool:
    """Whether the two rates are near enough to one another for the lower to be the answer."""
    return low_hz is not None and high_hz is not None and high_hz <= low_hz * (1 + precision)
