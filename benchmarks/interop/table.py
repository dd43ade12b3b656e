"""What vllm-omni's client and ours mean by a metric, and whether they agree: arithmetic and tables, no processes.

Their definitions are read off ``vllm_omni/benchmarks/patch/patch.py`` and ``metrics/metrics.py`` of vllm-omni 0.30.0.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omni_bench.metrics.request import request_metrics
from omni_bench.metrics.throughput import throughput
from omni_bench.records.timeline import Timeline

LIMIT_SHARE, LIMIT_MS = 0.03, 2.0  # issue 7
PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}


@dataclass(frozen=True)
class Row:
    """A metric: its name and unit for people, how each side defines it, and what theirs is called in their JSON.

    ``key``: of a value a request; ``rate``: of one of the whole run.
    """

    name: str
    title: str
    unit: str
    theirs: str
    ours: str
    key: str | None = None
    rate: str | None = None


ROWS = (
    Row(
        "ttfp_ms",
        "TTFP",
        "ms",
        "first byte of the body, of any kind − the moment before the call, which writes the JSON, looks for a proxy, "
        "connects and sends",
        "first byte of audio − the moment before sending begins; body written and connection opened before that",
        key="audio_ttfp_ms",
    ),
    Row(
        "e2el_ms",
        "E2EL",
        "ms",
        "end of the read loop − the same start",
        "last byte of a clean end of stream − the same start",
        key="e2el_ms",
    ),
    Row("rtf", "RTF", "", "E2EL / audio seconds", "the same", key="audio_rtf"),
    Row(
        "audio_s",
        "audio",
        "s",
        "body bytes / 2 / 24,000, whatever rate the server states",
        "samples / the stated rate",
        key="audio_duration_s",
    ),
    Row(
        "prebuffer_s",
        "underrun, prebuffer",
        "s",
        "`audio_underrun`: largest lateness of a read against a player that started at the first and never stops",
        "`prebuffer_s`: the same; 'stall' is another figure, of a player that pauses",
        key="audio_underrun_s",
    ),
    Row(
        "audio_per_s",
        "audio/s",
        "s/s",
        "audio seconds / time from before the first task is made to after the last has ended",
        "audio seconds / (last ended − first started)",
        rate="audio_throughput",
    ),
    Row("requests_per_s", "req/s", "1/s", "requests / the same time", "the same", rate="request_throughput"),
)


@dataclass(frozen=True)
class TheirKeys:
    """What their command line calls the metrics of audio."""

    audio: tuple[str, ...] = ("audio_ttfp", "audio_rtf", "audio_duration", "audio_underrun")


THEIR_KEYS = TheirKeys()


@dataclass(frozen=True)
class Figures:
    """A metric over the requests of one run; a rate has a mean only."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None

    @property
    def headline(self) -> float | None:
        """The median, or the rate."""
        return self.p50 if self.p50 is not None else self.mean


@dataclass(frozen=True)
class Parts:
    """Medians of where the time to the first audio goes, in ms; None where a client does not say when it started.

    ``connect``: start to request headers at the server. ``read``: to the request in the engine. ``engine``: to its
    first chunk. ``body_bytes``: of a request.
    """

    connect_ms: float | None = None
    read_ms: float | None = None
    engine_ms: float | None = None
    body_bytes: float | None = None


@dataclass(frozen=True)
class ClientRun:
    """One run of one client at one concurrency. ``raw``: what it was computed from."""

    client: str
    concurrency: int
    reference: bool
    figures: Mapping[str, Figures]
    parts: Parts
    raw: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of_lists(
        cls, client: str, concurrency: int, reference: bool, values: Mapping[str, Sequence[float]]
    ) -> ClientRun:
        """From a value a request, without parts."""
        figures = {name: summary(list(some)) for name, some in values.items()}
        return cls(client, concurrency, reference, figures, Parts())


def summary(values: Sequence[float]) -> Figures:
    """Mean and percentiles by linear interpolation, which is what both sides use; all None without values."""
    if not values:
        return Figures()
    points = np.percentile(np.asarray(values, dtype=float), list(PERCENTILES.values()), method="linear")
    return Figures(float(np.mean(values)), *map(float, points))


def their_figures(result: Mapping[str, Any]) -> dict[str, Figures]:
    """Out of the JSON of ``--save-result`` with ``--metric-percentiles 50,90,99``."""
    figures = {}
    for row in ROWS:
        if row.rate is not None:
            figures[row.name] = Figures(mean=_number(result, row.rate))
        else:
            fields = {name: _number(result, f"{name}_{row.key}") for name in PERCENTILES}
            fields["p50"] = _number(result, f"median_{row.key}")
            figures[row.name] = Figures(mean=_number(result, f"mean_{row.key}"), **fields)
    return figures


def _number(result: Mapping[str, Any], name: str) -> float | None:
    value = result.get(name)
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)


def figures_of(timelines: Sequence[Timeline], concurrency: int) -> dict[str, Figures]:
    """By our definitions, with the functions that a run uses."""
    metrics = [request_metrics(timeline, None) for timeline in timelines]
    rates = throughput(timelines, concurrency)
    lists = {
        row.name: [value for one in metrics if (value := one[row.name]) is not None] for row in ROWS if row.rate is None
    }
    return {name: summary(values) for name, values in lists.items()} | {
        "audio_per_s": Figures(mean=rates.audio_per_s),
        "requests_per_s": Figures(mean=rates.requests_per_s),
    }


def by_their_definitions(timelines: Sequence[Timeline]) -> dict[str, Figures]:
    """Their formulas over our timelines, written down anew: any body byte counts, every read is a chunk, 24 kHz."""
    ttfp_ms, e2el_ms, rtf, audio_s, underrun_s = [], [], [], [], []
    for timeline in timelines:
        seconds = timeline.audio_bytes / 2 / 24_000
        latency_s = (timeline.ended_ns - timeline.started_ns) / 1e9
        ttfp_ms.append((timeline.first_byte_ns - timeline.started_ns) / 1e6)
        e2el_ms.append(latency_s * 1e3)
        audio_s.append(seconds)
        rtf.append(latency_s / seconds if seconds > 0 else 0.0)
        received_s = worst_s = 0.0
        for at_ns, size in zip(timeline.chunk_arrived_ns, timeline.chunk_bytes, strict=True):
            worst_s = max(worst_s, (at_ns - timeline.chunk_arrived_ns[0]) / 1e9 - received_s)
            received_s += size / 2 / 24_000
        underrun_s.append(worst_s)
    first_ns = min(timeline.started_ns for timeline in timelines)
    window_s = (max(timeline.ended_ns for timeline in timelines) - first_ns) / 1e9
    lists = {"ttfp_ms": ttfp_ms, "e2el_ms": e2el_ms, "rtf": rtf, "audio_s": audio_s, "prebuffer_s": underrun_s}
    return {name: summary(values) for name, values in lists.items()} | {
        "audio_per_s": Figures(mean=sum(audio_s) / window_s),
        "requests_per_s": Figures(mean=len(timelines) / window_s),
    }


def parts_of(starts_ns: Mapping[str, int], records: Mapping[str, Mapping[str, int]]) -> Parts:
    """Medians over the requests that both the client and the server have noted."""
    known = [(start, records[name]) for name, start in starts_ns.items() if "first_ns" in records.get(name, {})]
    if not known:
        return Parts()
    connect = [(record["arrived_ns"] - start) / 1e6 for start, record in known]
    read = [(record["submitted_ns"] - record["arrived_ns"]) / 1e6 for _, record in known]
    engine = [(record["first_ns"] - record["submitted_ns"]) / 1e6 for _, record in known]
    sizes = [record["body_bytes"] for _, record in known]
    return Parts(*map(statistics.median, (connect, read, engine, sizes)))


def agrees(theirs: float | None, ours: float | None, unit: str) -> bool | None:
    """Within 3 %, or for times within 2 ms (unit ms or s); None if one is missing."""
    if theirs is None or ours is None:
        return None
    limit = LIMIT_SHARE * abs(ours)
    if unit in ("ms", "s"):
        limit = max(limit, LIMIT_MS if unit == "ms" else LIMIT_MS / 1e3)
    return abs(theirs - ours) <= limit


@dataclass(frozen=True)
class Cell:
    """A figure over the rounds: the median of the runs, and the lowest and highest run."""

    value: float | None
    low: float | None = None
    high: float | None = None


def over_rounds(values: Sequence[float | None]) -> Cell:
    """Of one figure a run; None where a run lacks it."""
    if not values or any(value is None for value in values):
        return Cell(None)
    return Cell(statistics.median(values), min(values), max(values))


def paired(theirs: Sequence[float | None], ours: Sequence[float | None]) -> Cell:
    """Differences of runs made one after the other in a round: theirs − ours."""
    if len(theirs) != len(ours) or not theirs or any(value is None for value in (*theirs, *ours)):
        return Cell(None)
    return over_rounds([one - other for one, other in zip(theirs, ours, strict=True)])
