"""The service level: limits that each request is held to, for goodput and for the rate search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from omni_bench.records.request_metrics import RequestMetrics

TIMES = ("ttfp_ms", "ttft_ms", "tpot_ms", "e2el_ms")
"""The limits that are times of a request."""

SINCE_START = ("ttfp_ms", "ttft_ms", "e2el_ms")
"""Those that begin with the request. In an open loop its user has been waiting since the scheduled start."""


@dataclass(frozen=True)
class Slo:
    """Upper limits, each None if it is not asked for. ``ttft_ms`` and ``tpot_ms`` are of a chat's text."""

    ttfp_ms: float | None = None
    stall_s: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2el_ms: float | None = None

    @property
    def asked(self) -> bool:
        """Whether there is any limit."""
        return any(getattr(self, field.name) is not None for field in fields(self))


def waited_ms(request: RequestMetrics, name: str, *, from_schedule: bool) -> float | None:
    """A time of :data:`TIMES` as the user of a request has it; None if the request has no such time.

    ``from_schedule``: TTFP, TTFT and E2EL count from the scheduled start on; TPOT is a pace and knows no start.
    """
    value = request[name]
    if not from_schedule or name not in SINCE_START:
        return value
    if name == "ttfp_ms":
        return request["ttfp_sched_ms"]
    return None if value is None or request["queue_ms"] is None else value + request["queue_ms"]


def goodput(
    metrics: Sequence[RequestMetrics],
    ok_ids: set[str],
    invalid: Mapping[str, tuple[str, ...]],
    slo: Slo | None,
    *,
    from_schedule: bool = False,
) -> float | None:
    """Share of all requests that succeeded with a valid answer within the limits; None without an SLO.

    ``from_schedule``: the limits on times hold from the scheduled start on, as they do for the users of an open loop.

    A request whose metric is None (no audio; stalls of a single chunk; the pace of a reply whose tokens the server
    does not count) has not shown that it meets a limit on it, so it does not count.
    """
    if slo is None or not metrics:
        return None

    def within(value: float | None, limit: float | None) -> bool:
        return limit is None or (value is not None and value <= limit)

    good = sum(
        request.request_id in ok_ids
        and not invalid.get(request.request_id)
        and within(request["stall_s"], slo.stall_s)
        and all(within(waited_ms(request, name, from_schedule=from_schedule), getattr(slo, name)) for name in TIMES)
        for request in metrics
    )
    return good / len(metrics)
