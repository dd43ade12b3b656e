"""Whether a level holds its service level as a whole: the question of the rate search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from omni_bench.clients.timeline import Timeline
from omni_bench.metrics.level import Slo
from omni_bench.metrics.request import RequestMetrics
from omni_bench.metrics.summary import summarise

REFUSED = 429  # Too Many Requests: what a server that is full should say
LEAST_LAST = 8  # requests, below which a silence may be chance


@dataclass(frozen=True)
class Probe:
    """The answer for one level, with the figures it stands on; ``why``: what did not hold, () if all did.

    ``ttfp_sched_p95_ms``: p95 of the time from the scheduled start to the first audio of the requests that
    succeeded, None below 59 of them. ``stalled``: requests that paused for longer than the limit.
    """

    holds: bool
    why: tuple[str, ...]
    ttfp_sched_p95_ms: float | None
    stalled: int
    longest_stall_s: float | None
    failed: int


def judge_probe(timelines: Sequence[Timeline], metrics: Sequence[RequestMetrics], slo: Slo) -> Probe:
    """Judge a level whose ``metrics[i]`` belongs to ``timelines[i]``.

    It holds if every request succeeded, the p95 of TTFP from the scheduled start is at most ``slo.ttfp_ms``, and
    none paused for longer than ``slo.stall_s``; a limit that is None is not asked for. An answer in a
    single chunk cannot pause, which is no reason against it here.
    """
    errors = Counter(timeline.error.kind for timeline in timelines if timeline.error is not None)
    p95_ms = summarise(one.ttfp_sched_ms for one in metrics).p95
    stalls_s = [one.stall_s for one in metrics if one.stall_s is not None]
    stalled = sum(stall_s > slo.stall_s for stall_s in stalls_s) if slo.stall_s is not None else 0
    why = []
    if errors:
        listed = ", ".join(f"{kind} {count}" for kind, count in errors.most_common())
        why.append(f"{errors.total()} of {len(timelines)} requests failed ({listed})")
    if slo.ttfp_ms is not None and (p95_ms is None or p95_ms > slo.ttfp_ms):
        shown = "n/a" if p95_ms is None else f"{p95_ms:.1f} ms"
        why.append(f"p95 of TTFP from the scheduled start is {shown}, limit {slo.ttfp_ms:g} ms")
    if stalled:
        why.append(f"{stalled} requests stall longer than {slo.stall_s:g} s")
    return Probe(not why, tuple(why), p95_ms, stalled, max(stalls_s, default=None), errors.total())


def stopped_answering(timelines: Sequence[Timeline]) -> str | None:
    """Why a level says nothing about its rate: none of its last quarter succeeded. None if there is no such reason.

    A server that has too much to do refuses (429) or is late, and still answers somebody; one that has broken down
    answers nobody, at any rate.
    """
    ordered = sorted(timelines, key=lambda timeline: timeline.scheduled_ns)
    last = ordered[len(ordered) - max(LEAST_LAST, len(ordered) // 4) :] if len(ordered) >= LEAST_LAST else ()
    errors = [timeline.error for timeline in last if timeline.http_status != REFUSED and timeline.error is not None]
    if not errors or any(timeline.error is None for timeline in last):
        return None
    return f"none of the last {len(last)} requests was answered ({errors[0].kind}: {errors[0].message})"
