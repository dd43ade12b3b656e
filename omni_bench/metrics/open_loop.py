"""What an open loop did with its schedule: the rate offered and achieved, its lateness, and what waited for the cap."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omni_bench.records.timeline import Timeline

NS_PER_S, NS_PER_MS = 1e9, 1e6


@dataclass(frozen=True)
class OpenLoop:
    """Facts of one level; None where there are too few requests to say.

    ``offered_hz``, ``achieved_hz``: (requests − 1) / (last − first) of the scheduled and of the actual starts.
    ``schedule_s``: from the first to the last scheduled start. ``peak_in_flight``: of the measured requests.
    ``max_in_flight``: the cap; ``waited``: requests that were due while it was reached. ``late_p99_ms``,
    ``late_max_ms``: started − scheduled of the others, which is the client's own doing.
    """

    max_in_flight: int
    peak_in_flight: int
    waited: int
    offered_hz: float | None
    achieved_hz: float | None
    schedule_s: float | None
    late_p99_ms: float | None
    late_max_ms: float | None


def open_loop_facts(timelines: Sequence[Timeline], max_in_flight: int) -> OpenLoop:
    """Derive them from the raw times of a level's requests; those that were never sent do not count.

    A request waited for the cap if those in flight at its scheduled start, and those scheduled before
    it that had not been sent by then, were ``max_in_flight`` or more: it would have been the next but for the cap.
    """
    sent = sorted(
        (one for one in timelines if one.finished_ns > one.started_ns),
        key=lambda one: (one.scheduled_ns, one.started_ns),
    )
    ends = sorted(one.finished_ns for one in sent)
    late_ns, waited = [], 0
    for number, one in enumerate(sent):  # number: how many are scheduled before it, in flight or still waiting or over
        if number - bisect_right(ends, one.scheduled_ns) >= max_in_flight:
            waited += 1
        else:
            late_ns.append(one.started_ns - one.scheduled_ns)
    scheduled = [one.scheduled_ns for one in sent]
    return OpenLoop(
        max_in_flight=max_in_flight,
        peak_in_flight=peak_in_flight(sent),
        waited=waited,
        offered_hz=_rate_hz(scheduled),
        achieved_hz=_rate_hz(sorted(one.started_ns for one in sent)),
        schedule_s=(scheduled[-1] - scheduled[0]) / NS_PER_S if scheduled else None,
        late_p99_ms=float(np.percentile(late_ns, 99)) / NS_PER_MS if late_ns else None,
        late_max_ms=max(late_ns) / NS_PER_MS if late_ns else None,
    )


def peak_in_flight(timelines: Sequence[Timeline]) -> int:
    """The most requests in flight at once, each from ``started`` until it ended or failed."""
    changes = sorted(
        change
        for one in timelines
        for change in ((one.started_ns, 1), (one.finished_ns, -1))
        if one.finished_ns > one.started_ns
    )
    peak = now = 0
    for _, change in changes:
        now += change
        peak = max(peak, now)
    return peak


def _rate_hz(starts_ns: Sequence[int]) -> float | None:
    if len(starts_ns) < 2 or starts_ns[-1] == starts_ns[0]:
        return None
    return (len(starts_ns) - 1) / ((starts_ns[-1] - starts_ns[0]) / NS_PER_S)
