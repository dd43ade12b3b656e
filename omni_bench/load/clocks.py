"""How far the monotonic clock of another machine is from this one's, with a bound on the error of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from omni_bench.records.timeline import Timeline

PINGS = 32


@dataclass(frozen=True)
class Offset:
    """A remote clock is ``offset_ns`` ahead of this one's, give or take ``error_ns``."""

    offset_ns: int
    error_ns: int


def measure(ask: Callable[[], int], clock: Callable[[], int], pings: int = PINGS) -> Offset:
    """From round trips, as in NTP (RFC 5905, section 8): the one that took least time says most.

    ``ask`` returns the remote clock, read some time within the call. Wherever it was read, the middle of the round
    trip is at most half of it away, so that half bounds the error, also where the way there is slower than back.
    """
    best = None
    for _ in range(pings):
        asked_ns = clock()
        remote_ns = ask()
        answered_ns = clock()
        took_ns = answered_ns - asked_ns
        if best is None or took_ns < 2 * best.error_ns:
            best = Offset(remote_ns - (asked_ns + answered_ns) // 2, -(-took_ns // 2))
    if best is None:
        raise ValueError(f"pings={pings}; must be at least 1")
    return best


def bound_ns(applied_ns: int, measured: Iterable[Offset]) -> int:
    """How far a stamp that was shifted by ``applied_ns`` can be from the truth, by all that was measured.

    So a clock that drifted between two measurements, or one that was wrongly taken for this machine's own, shows.
    """
    return max(abs(one.offset_ns - applied_ns) + one.error_ns for one in measured)


_STAMPS = tuple(name for one in fields(Timeline) if (name := one.name).endswith("_ns") and name != "first_lag_ns")


def shifted(timeline: Timeline, by_ns: int) -> Timeline:
    """``timeline`` with every stamp moved by ``by_ns``; spans stay as they are."""
    if not by_ns:
        return timeline
    return replace(timeline, **{name: _moved(getattr(timeline, name), by_ns) for name in _STAMPS})


def _moved(stamp: Any, by_ns: int) -> Any:
    if stamp is None:
        return None
    return tuple(one + by_ns for one in stamp) if isinstance(stamp, tuple) else stamp + by_ns
