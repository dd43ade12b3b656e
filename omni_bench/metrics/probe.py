"""Whether a level holds its service level as a whole: the question of the rate search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.slo import SINCE_START, TIMES, Slo, waited_ms
from omni_bench.metrics.summary import Summary, requests_needed, summarise
from omni_bench.records.request_metrics import RequestMetrics
from omni_bench.records.timeline import Timeline

REFUSED = 429  # Too Many Requests: what a server that is full should say
FIRSTS = {"ttfp_ms": "any audio", "ttft_ms": "any text"}
LEAST_LAST = 8  # requests, below which a silence may be chance


@dataclass(frozen=True)
class Probe:
    """The answer for one level, with the figures it stands on; ``why``: what did not hold, () if all did.

    ``ttfp_sched_p95_ms``, ``ttft_sched_p95_ms``, ``e2el_sched_p95_ms``: p95 of the time from the scheduled start to the
    first audio, the first text and the end of the requests that succeeded, and ``tpot_p95_ms`` that of their time per
    output token; None below 59 requests that have one. ``stalled``: requests that paused for longer than the limit.
    """

    holds: bool
    why: tuple[str, ...]
    ttfp_sched_p95_ms: float | None
    stalled: int
    longest_stall_s: float | None
    failed: int
    ttft_sched_p95_ms: float | None = None
    tpot_p95_ms: float | None = None
    e2el_sched_p95_ms: float | None = None


def judge_probe(timelines: Sequence[Timeline], metrics: Sequence[RequestMetrics], slo: Slo) -> Probe:
    """Judge a level whose ``metrics[i]`` belongs to ``timelines[i]``.

    It holds if every request succeeded, the p95 of each time that has a limit is at most that (TTFP, TTFT and E2EL
    from the scheduled start on), and none paused for longer than ``slo.stall_s``; a limit that is None is not asked
    for. An answer in a single chunk cannot pause, which is no reason against it here; an answer without any audio, or
    text, is one against a limit on the first of it, as its time is unknown.
    """
    errors = Counter(timeline.error.kind for timeline in timelines if timeline.error is not None)
    times = {name: summarise(waited_ms(one, name, from_schedule=True) for one in metrics) for name in TIMES}
    stalls_s = [one["stall_s"] for one in metrics if one["stall_s"] is not None]
    stalled = sum(stall_s > slo.stall_s for stall_s in stalls_s) if slo.stall_s is not None else 0
    why = []
    if errors:
        listed = ", ".join(f"{kind} {count}" for kind, count in errors.most_common())
        why.append(f"{errors.total()} of {len(timelines)} requests failed ({listed})")
    for name in TIMES:
        limit_ms = getattr(slo, name)
        if limit_ms is None:
            continue
        if (late := _too_late(name, times[name], limit_ms)) is not None:
            why.append(late)
        if name in FIRSTS and (never := _never_came(name, timelines, metrics)):
            why.append(f"{never} of {len(timelines)} requests succeeded without {FIRSTS[name]}")
    if stalled:
        why.append(f"{stalled} requests stall longer than {slo.stall_s:g} s")
    return Probe(
        holds=not why,
        why=tuple(why),
        ttfp_sched_p95_ms=times["ttfp_ms"].p95,
        stalled=stalled,
        longest_stall_s=max(stalls_s, default=None),
        failed=errors.total(),
        ttft_sched_p95_ms=times["ttft_ms"].p95,
        tpot_p95_ms=times["tpot_ms"].p95,
        e2el_sched_p95_ms=times["e2el_ms"].p95,
    )


def _never_came(name: str, timelines: Sequence[Timeline], metrics: Sequence[RequestMetrics]) -> int:
    """How many requests succeeded that have no such time."""
    return sum(timeline.error is None and one[name] is None for timeline, one in zip(timelines, metrics, strict=True))


def limited(name: str) -> str:
    """What a limit of :data:`omni_bench.metrics.slo.TIMES` is on: "p95 of TTFP from the scheduled start"."""
    return f"p95 of {METRICS[name].short}" + (" from the scheduled start" if name in SINCE_START else "")


def _too_late(name: str, times: Summary, limit_ms: float) -> str | None:
    """Why a limit is not kept, None if it is; where there is no p95, nothing was shown."""
    if times.p95 is not None and times.p95 <= limit_ms:
        return None
    too_few = f"n/a ({times.n} requests have one, it takes {requests_needed(95)})"
    shown = too_few if times.p95 is None else f"{times.p95:.1f} ms"
    return f"{limited(name)} is {shown}, limit {limit_ms:g} ms"


def stopped_answering(timelines: Sequence[Timeline]) -> str | None:
    """Why a level says nothing about its rate: none of its last quarter succeeded. None if there is no such reason.

    An overloaded server refuses (429) or is late, and still answers some requests; one that has broken down
    answers none, at any rate.
    """
    ordered = sorted(timelines, key=lambda timeline: timeline.scheduled_ns)
    last = ordered[len(ordered) - max(LEAST_LAST, len(ordered) // 4) :] if len(ordered) >= LEAST_LAST else ()
    errors = [timeline.error for timeline in last if timeline.http_status != REFUSED and timeline.error is not None]
    if not errors or any(timeline.error is None for timeline in last):
        return None
    return f"none of the last {len(last)} requests was answered ({errors[0].kind}: {errors[0].message})"
