"""Who was in flight when: the requests of a level in lanes, and their figures as dots, as data for page.js."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omni_bench.errors import StoreError
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.stalls import stall_spans_ns
from omni_bench.records.level import Level, level_of, short_title
from omni_bench.records.timeline import Timeline
from omni_bench.records.timeline_json import timeline_from_dict
from omni_bench.report.cross_talk import slots_of
from omni_bench.report.format import metric_text
from omni_bench.report.table import request_values

MAX_REQUESTS = 400
MAX_TICKS = 200
DOTTED = ("ttfp_ms", "rtf", "e2el_ms", "ttft_ms")
MAX_DOTS = 1000

Record = Mapping[str, Any]


def in_flight_ns(records: Iterable[Record]) -> dict[Level, dict[str, tuple[int, int]]]:
    """When each request was in flight, by concurrency and request id, from lines of requests.jsonl and warmup.jsonl."""
    in_flight: dict[Level, dict[str, tuple[int, int]]] = {}
    for record in records:
        ends = (record.get(name) for name in ("finished_ns", "ended_ns", "failed_ns"))
        finished_ns = next((end for end in ends if end is not None), None)
        if finished_ns is not None:
            level = in_flight.setdefault(level_of(record), {})
            level[record["request_id"]] = (record["started_ns"], finished_ns)
    return in_flight


def swim_lanes(run: Record, requests: Sequence[Record], warmup: Sequence[Record]) -> list[dict[str, Any]]:
    """For each level its requests: lane (the slot, as far as the client can tell) and times in ms since the first.

    ``q``: scheduled, ``s``: started, ``f``: first audio, ``e``: ended or failed, ``c``: chunks, ``w``: stalls. A level
    of more than :data:`MAX_REQUESTS` requests has the first ones only; lines that are no timeline are left out.
    """
    busy = in_flight_ns([*requests, *warmup])
    levels = []
    for level in run["levels"]:
        key = level_of(level)
        lanes = slots_of(busy.get(key, {}))
        lines = sorted((line for line in map(_timeline, requests) if line and line.concurrency == key), key=_started)
        shown = lines[:MAX_REQUESTS]
        zero_ns = min((min(line.scheduled_ns, line.started_ns) for line in shown), default=0)
        levels.append(
            {
                "title": short_title(key),
                "of": len(lines),
                "requests": [{"lane": lanes.get(line.request_id, 0), **_bar(line, zero_ns)} for line in shown],
            }
        )
    return levels


def _started(line: Timeline) -> int:
    return line.started_ns


def _timeline(record: Record) -> Timeline | None:
    try:
        return timeline_from_dict(record)
    except StoreError:
        return None


def _bar(line: Timeline, zero_ns: int) -> dict[str, Any]:
    def ms(at_ns: float | None) -> float | None:
        return None if at_ns is None else round((at_ns - zero_ns) / 1e6, 1)

    stalls = []
    if line.sample_rate_hz:
        stalls = stall_spans_ns(line.chunk_arrived_ns, line.chunk_samples, line.sample_rate_hz)
    return {
        "id": line.request_id,
        "q": ms(line.scheduled_ns),
        "s": ms(line.started_ns),
        "f": ms(line.first_audio_ns),
        "e": ms(line.finished_ns),
        "c": [ms(at_ns) for at_ns, _ in line.http_chunks[:MAX_TICKS]],
        "w": [[ms(since), ms(until)] for since, until in stalls[:MAX_TICKS]],
        "failed": not line.ok,
    }


def distributions(run: Record, requests: Sequence[Record]) -> list[dict[str, Any]]:
    """The requests of each level as dots, for the metrics that tables give first; [] of what has no values.

    At most :data:`MAX_DOTS` dots a level, the first ones; p50 and p90 are of all.
    """
    found = []
    for metric in (METRICS[name] for name in DOTTED):
        levels = []
        for level in run["levels"]:
            key = level_of(level)
            dots = [list(dot) for dot in request_values(requests, key, metric.name)]
            figures = [metric_text(metric, metric.value_in(level, figure)) for figure in ("p50", "p90")]
            said = f"p50 {figures[0]} · p90 {figures[1]}"
            levels.append(
                {"title": short_title(key), "figures": said, "valid": level["valid"], "dots": dots[:MAX_DOTS]}
            )
        if any(level["dots"] for level in levels):
            unit = f" ({metric.unit})" if metric.unit else ""
            found.append({"title": f"{metric.short}{unit}", "label": metric.label, "levels": levels})
    return found
