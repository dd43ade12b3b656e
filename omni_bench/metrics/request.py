"""Applies the list of definitions to one request; the formulas are in ``formulas.py``."""

from __future__ import annotations

from omni_bench.errors import StoreError
from omni_bench.metrics.definitions import METRICS, Scope
from omni_bench.metrics.formulas import AnsweredRequest
from omni_bench.records.request_metrics import RequestMetrics
from omni_bench.records.timeline import Timeline


def request_metrics(timeline: Timeline, pcm: bytes | None) -> RequestMetrics:
    """Compute every metric of a request; all are None (or empty) for one that failed.

    ``pcm``: the payload as received (s16le mono), or None if it was not kept: then there are no metrics that need it
    (``Metric.needs_samples``). Raises StoreError when ``pcm`` is not this request's.
    """
    if pcm is not None and len(pcm) != timeline.audio_bytes:
        raise StoreError(
            f"request {timeline.request_id}: its audio has {len(pcm)} bytes, its timeline {timeline.audio_bytes}"
        )
    answered = AnsweredRequest(timeline, pcm) if timeline.ok else None
    values = {
        metric.name: metric.compute(answered) if answered is not None else () if metric.many else None
        for metric in METRICS.values()
        if metric.scope is Scope.REQUEST
    }
    return RequestMetrics(timeline.request_id, values)
