"""Which slot each request of a level was in, as far as the client can tell."""

from __future__ import annotations

import heapq
from collections.abc import Mapping


def slots_of(in_flight_ns: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Request id -> slot, from 0: two requests that were in flight at the same time have different slots.

    ``in_flight_ns``: when each started and finished. Requests are taken in the order in which they started, and each
    gets the lowest slot that is free (greedy colouring of intervals, which needs no more slots than
    there were requests in flight at once). A server may have numbered them otherwise.
    """
    free: list[int] = []
    busy: list[tuple[int, int]] = []  # (finished, slot)
    slots: dict[str, int] = {}
    for name in sorted(in_flight_ns, key=lambda name: (*in_flight_ns[name], name)):
        started_ns, finished_ns = in_flight_ns[name]
        while busy and busy[0][0] <= started_ns:
            heapq.heappush(free, heapq.heappop(busy)[1])
        slots[name] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (finished_ns, slots[name]))
    return slots
