"""The metrics of one request: what requests.jsonl keeps beside its timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MetricValue = float | int | tuple[float, ...] | None
"""One value, several of a kind (gaps between chunks), or None where the request has none."""


@dataclass(frozen=True)
class RequestMetrics:
    """``values``: by the names of :data:`omni_bench.metrics.definitions.METRICS`; all None or () if it failed."""

    request_id: str
    values: Mapping[str, MetricValue]

    def __getitem__(self, name: str) -> MetricValue:
        """The value of a metric. Raises KeyError for one that is not computed from single requests."""
        return self.values[name]
