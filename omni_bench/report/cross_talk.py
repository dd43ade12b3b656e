"""Cross-talk for people: whose words were heard in which output, beside what chance alone would give."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from omni_bench.errors import shorten
from omni_bench.foreign_text import escape_markdown
from omni_bench.records.level import level_of, level_text
from omni_bench.report.format import NA, count, fixed, probability
from omni_bench.report.table import level_header, markdown_table
from omni_bench.report.utterances import audio_link

HITS_SHOWN = 20
PLOT_PREFIX = "cross_talk_c"
_MAX_WORDS = 200
_MAX_ALSO = 3


def cross_talk_section(
    run: Mapping[str, Any], hits: Sequence[Mapping[str, Any]], plots: Sequence[str] = ()
) -> str | None:
    """The section, None if no level was judged. ``hits``: lines of cross_talk.jsonl; ``plots``: of all the report's."""
    if not run["provenance"]["judge"] or not run["levels"]:
        return None
    if not any(level.get("cross_talk") for level in run["levels"]):
        return f"{NA}: not checked."
    note = (
        "Outputs in which words were heard that are not their own, but those of a request in flight at the same time, "
        "of one that had finished just before, or of their own reference recording. pairs: outputs times the texts "
        "that each was compared with. expected by chance: false hits in as many pairs, from the same outputs and "
        "texts that cannot have got into them (null pairs). chance: probability of hits as many or as strong by "
        "chance alone; below 0.01 the level is invalid."
    )
    parts = [note, _level_table(run)]
    if hits:
        shown = sorted(hits, key=lambda hit: -hit["score"])[:HITS_SHOWN]
        if len(hits) > len(shown):
            parts.append(f"{len(hits)} outputs with another's words; the {len(shown)} with the most letters.")
        parts.append(_hit_table(shown))
    links = [f"[{path}]({path})" for path in plots if PLOT_PREFIX in path]
    if links:
        parts.append(f"Victim's slot against the source's slot: {' · '.join(links)}")
    return "\n\n".join(parts)


def source_name(hit: Mapping[str, Any]) -> str:
    """Whose words were heard: the request, or which of its texts if not the one that it asked for."""
    if hit["source"] == hit["victim"]:
        return f"its own {hit['kind']} text"
    also = hit["also"]
    same = "".join(f" or {name}" for name in also[:_MAX_ALSO])
    more = f" or {len(also) - _MAX_ALSO} more" if len(also) > _MAX_ALSO else ""
    what = "" if hit["kind"] == "target" else f", {hit['kind']} text"
    when = "" if hit["relation"] == "in flight" else f", {hit['relation']}"
    return f"{hit['source']}{same}{more}{what}{when}"


def _level_table(run: Mapping[str, Any]) -> str:
    headers = (level_header(run["levels"]), "hits", "expected by chance", "chance", "pairs", "null pairs", "null hits")
    rows = []
    for level in run["levels"]:
        found = level.get("cross_talk") or {}
        rows.append(
            [
                str(level_of(level)),
                count(found.get("hits")),
                fixed(found.get("expected_false_hits"), 2),
                escape_markdown(probability(found.get("chance"))),
                *(count(found.get(name)) for name in ("pairs", "null_pairs", "null_hits")),
            ]
        )
    return markdown_table(headers, rows)


def _hit_table(hits: Sequence[Mapping[str, Any]]) -> str:
    headers = (level_header(hits), "output of", "speaks words of", "where", "heard", "their text", "letters", "audio")
    rows = [
        [
            level_text(hit, NA),
            escape_markdown(hit["victim"]),
            escape_markdown(source_name(hit)),
            escape_markdown(hit["position"]),
            escape_markdown(shorten(hit["heard"], _MAX_WORDS)),
            escape_markdown(shorten(hit["words"], _MAX_WORDS)),
            fixed(hit["score"], 1),
            audio_link(hit.get("audio")),
        ]
        for hit in hits
    ]
    return markdown_table(headers, rows, left=(1, 2, 3, 4, 5, 7))


# ---- Slots of a level's requests, as far as the client can tell ----


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
