"""Who was in flight when: the requests of a level in lanes, and their figures as dots, as data for page.js."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from omni_bench.errors import StoreError, shorten
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.stalls import stall_spans_ns
from omni_bench.records.level import Level, level_of, short_title
from omni_bench.records.timeline import Timeline
from omni_bench.records.timeline_json import timeline_from_dict
from omni_bench.report.cross_talk import slots_of
from omni_bench.report.format import metric_text
from omni_bench.report.table import request_values

MAX_REQUESTS, MAX_BARS = 400, 4000
"""Of a level, and of a page."""
MAX_TICKS, MAX_PAGE_TICKS = 200, 40_000
"""Chunks, and stalls, that are shown of a request, and of all on a page."""
DOTTED = ("ttfp_ms", "rtf", "e2el_ms", "ttft_ms")
MAX_DOTS, MAX_PAGE_DOTS = 1000, 10_000
"""Of a metric in a level, and of a page."""
MAX_NAME = 200

Record = Mapping[str, Any]


def in_flight_ns(records: Iterable[Record]) -> dict[Level, dict[str, tuple[int, int]]]:
    """When each request was in flight, by concurrency and request id, from lines of requests.jsonl and warmup.jsonl."""
    in_flight: dict[Level, dict[str, tuple[int, int]]] = {}
    for record in records:
        ends = (record.get(name) for name in ("finished_ns", "ended_ns", "failed_ns"))
        finished_ns = next((end for end in ends if end is not None), None)
        if finished_ns is not None and "started_ns" in record:
            level = in_flight.setdefault(level_of(record), {})
            level[record["request_id"]] = (record["started_ns"], finished_ns)
    return in_flight


def swim_lanes(
    run: Record, requests: Sequence[Record], warmup: Sequence[Record], wrong: Container[str] = ()
) -> list[dict[str, Any]]:
    """For each level its requests: lane (the slot, as far as the client can tell) and times in ms since the first.

    ``q``: scheduled, ``s``: started, ``f``: first audio, ``e``: ended or failed, ``c``: chunks, ``w``: stalls. Of a
    level of more than :data:`MAX_REQUESTS` requests that many are shown which started one after another, with as many
    ``wrong`` ones (ids) as can be; ``since`` is the number of the first of them, ``of`` counts all. Of more chunks than
    a page has room for none are shown in that level, which ``chunks`` counts. Lines that are no timeline are left out.
    """
    busy = in_flight_ns([*requests, *warmup])
    lines: dict[Level, list[Timeline]] = {level_of(level): [] for level in run["levels"]}
    for line in map(_timeline, requests):
        if line is not None and line.concurrency in lines:
            lines[line.concurrency].append(line)
    at_most = min(MAX_REQUESTS, MAX_BARS // max(len(lines), 1))
    ticks = MAX_PAGE_TICKS // max(len(lines), 1)
    levels = []
    for key, found in lines.items():
        lanes = slots_of(busy.get(key, {}))
        found.sort(key=lambda line: line.started_ns)
        since = _worst_stretch([line.request_id in wrong for line in found], at_most)
        shown = found[since : since + at_most]
        zero_ns = min((min(line.scheduled_ns, line.started_ns) for line in shown), default=0)
        bars = [{"lane": lanes.get(line.request_id, 0), **_bar(line, zero_ns)} for line in shown]
        drawn = sum(len(bar["c"]) + len(bar["w"]) for bar in bars)
        if drawn > ticks:
            bars = [{**bar, "c": [], "w": []} for bar in bars]
        levels.append(
            {
                "title": short_title(key),
                "of": len(found),
                "since": since,
                "chunks": drawn if drawn > ticks else 0,
                "requests": bars,
            }
        )
    return levels


def _worst_stretch(wrong: Sequence[bool], length: int) -> int:
    """Where the ``length`` neighbours begin of which the most are wrong; of several the first."""
    summed = np.cumsum([0, *wrong])
    return int(np.argmax(summed[length:] - summed[: len(summed) - length])) if len(wrong) > length else 0


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
        "id": shorten(line.request_id, MAX_NAME),
        "q": ms(line.scheduled_ns),
        "s": ms(line.started_ns),
        "f": ms(line.first_audio_ns),
        "e": ms(line.finished_ns),
        "c": [ms(at_ns) for at_ns, _ in line.http_chunks[:MAX_TICKS]],
        "w": [[ms(since), ms(until)] for since, until in stalls[:MAX_TICKS]],
        "failed": not line.ok,
    }


def distributions(run: Record, requests: Mapping[Level, Sequence[Record]]) -> list[dict[str, Any]]:
    """The requests of each level as dots, for the metrics that tables give first; [] of what has no values.

    ``requests``: lines of requests.jsonl by level.

    Of more than :data:`MAX_DOTS` in a level so many are shown, evenly by their rank, so that p50 and p90 stay; ``of``
    counts all.
    """
    found: list[dict[str, Any]] = []
    at_most = min(MAX_DOTS, MAX_PAGE_DOTS // max(len(DOTTED) * len(run["levels"]), 1))
    for metric in (METRICS[name] for name in DOTTED):
        levels = []
        for level in run["levels"]:
            key = level_of(level)
            dots = request_values(requests.get(key, ()), key, metric.name)
            figures = [metric_text(metric, metric.value_in(level, figure)) for figure in ("p50", "p90")]
            said = f"p50 {figures[0]} · p90 {figures[1]}"
            levels.append(
                {
                    "title": short_title(key),
                    "figures": said,
                    "valid": level["valid"],
                    "of": len(dots),
                    "dots": [
                        [shorten(name, MAX_NAME), float(f"{value:.6g}")] for name, value in _thinned(dots, at_most)
                    ],
                }
            )
        if any(level["dots"] for level in levels):
            unit = f" ({metric.unit})" if metric.unit else ""
            found.append({"title": f"{metric.short}{unit}", "label": metric.label, "levels": levels})
    return found


def _thinned(dots: Sequence[tuple[str, float]], at_most: int) -> Sequence[tuple[str, float]]:
    if len(dots) <= at_most:
        return dots
    by_value = sorted(range(len(dots)), key=lambda index: dots[index][1])
    ranks = np.linspace(0, len(dots) - 1, at_most).round().astype(int)
    return [dots[index] for index in sorted(by_value[rank] for rank in ranks)]
