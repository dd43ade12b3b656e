"""report.html of a run: what its template and its script are given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omni_bench.errors import shorten
from omni_bench.foreign_text import bounded, visible
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.records.invalid_reason import client_last, reasons_of
from omni_bench.records.level import Level, level_of, level_or_none, short_title
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.cross_talk import slots_of
from omni_bench.report.format import injected_faults, percent
from omni_bench.report.judge import own_error_line
from omni_bench.report.markdown import WORST, facts_of, legend, report_sections
from omni_bench.report.next_step import next_steps_of
from omni_bench.report.open_loop import search_lines
from omni_bench.report.page.cards import MAX_NAME, cards_of, filters_of
from omni_bench.report.page.lanes import distributions, in_flight_ns, swim_lanes
from omni_bench.report.page.recordings import Recordings
from omni_bench.report.page.render import from_markdown, render_page
from omni_bench.report.server import account_lines, server_warnings
from omni_bench.report.table import columns, error_rate, percentile_table, standstill_lines
from omni_bench.report.utterances import Records

TEMPLATE = Path(__file__).with_name("run.html")
LOG_BYTES = 16_000
ALL_FIGURES = "All figures"
MAX_LEVELS, MAX_LINES, MAX_LINE, MAX_SECTION, MAX_SLOTS, MAX_ARROWS, MAX_SHOWN = 100, 50, 1000, 40_000, 64, 1000, 50
"""Levels of a page; reasons and notes, and characters of one; characters of a section; slots of a matrix, arrows
between requests, and answers that one click on a matrix shows."""

Run = Mapping[str, Any]


def run_page(run: Run, folder: RunFolder, records: Records) -> str:
    """The page of a run as HTML, which stays a few MB however large the run is; it says what it leaves out.

    Raises StoreError for lines that lack a field, and a log that cannot be read.
    """
    levels = len(run["levels"])
    run = {**run, "levels": run["levels"][:MAX_LEVELS]}
    recordings = Recordings(folder.path)
    cards, shown, findings = cards_of(run, records, folder, recordings)
    wrong = {card.request_id for card in cards[:shown]}
    by_level: dict[Level | None, list[Any]] = {}
    for one in records.requests:
        by_level.setdefault(level_or_none(one), []).append(one)
    faults = injected_faults(run)
    reasons = client_last(reasons_of(run))
    sections = {"How to read the figures": legend(run)} | report_sections(run, records, (), folder.read_profile())
    sections.pop(WORST, None)
    if ALL_FIGURES in sections:
        sections[ALL_FIGURES] = percentile_table(run)
    context = {
        "title": f"{run['scenario']} · omni-bench",
        "scenario": run["scenario"],
        "faults": faults,
        "evidence": folder.wer_evidence_md.name if folder.wer_evidence_md.is_file() else None,
        "valid": run["valid"],
        "reasons": _some(map(str, reasons), "run.json"),
        "next_steps": next_steps_of(run),
        "notes": _some(
            [*server_warnings(run), *standstill_lines(run), *account_lines(run), *search_lines(run)], "report.md"
        ),
        "levels_left": levels - len(run["levels"]),
        "facts": {name: from_markdown(text) for name, text in facts_of(run).items()},
        "table": level_table(run),
        "judged": run["provenance"]["judge"] is not None,
        "judge_line": own_error_line(run),
        "cards": cards,
        "findings": findings,
        "hidden": findings - shown,
        "utterances": len(records.requests),
        **filters_of(cards),
        "matrices": matrices(run, records),
        "most_shown": MAX_SHOWN,
        "sections": {title: from_markdown(bounded(body, MAX_SECTION)) for title, body in sections.items()},
        "config": bounded(json.dumps(run["provenance"]["config"], indent=2, ensure_ascii=False), MAX_SECTION),
        "log": log_tail(folder.server_log),
    }
    data = {
        "audio": recordings.by_name,
        "lanes": swim_lanes(run, records.requests, records.warmup, wrong),
        "hits": [
            [shorten(hit["source"], MAX_NAME), shorten(hit["victim"], MAX_NAME)]
            for hit in records.hits
            if hit["source"] != hit["victim"]
        ][:MAX_ARROWS],
        "distributions": distributions(run, by_level),
    }
    return render_page(TEMPLATE, context, data)


def _some(lines: Iterable[str], where: str) -> list[str]:
    """The first of ``lines``, each cut; the last one says how many are left out, and ``where`` they are."""
    listed = list(lines)
    more = [f"and {len(listed) - MAX_LINES} more: {where}"] if len(listed) > MAX_LINES else []
    return [*(shorten(line, MAX_LINE) for line in listed[:MAX_LINES]), *more]


def level_table(run: Run) -> dict[str, Any]:
    """The level table: ``valid`` is the first column, and the limit stands beside the error rate."""
    shown = columns(run)
    shown = [shown[-1], *shown[:-1]]
    limit = ((run["provenance"]["config"] or {}).get("asr") or {}).get("wer_limit")
    rate = error_rate(run)
    return {
        "headers": [
            f"{one.header} (limit {percent(limit)})" if one.header == rate and limit is not None else one.header
            for one in shown
        ],
        "rows": [
            {"valid": level["valid"], "cells": [one.cell(level).strip("*") for one in shown]} for level in run["levels"]
        ],
    }


def matrices(run: Run, records: Records) -> list[dict[str, Any]]:
    """For each level with hits the victims by (slot of the victim, slot of the source): rows of cells of ids.

    A level of more than :data:`MAX_SLOTS` slots has no rows.
    """
    busy = in_flight_ns([*records.requests, *records.warmup])
    found = []
    for level in run["levels"]:
        key = level_of(level)
        slots = slots_of(busy.get(key, {}))
        hits = [hit for hit in records.hits if level_of(hit) == key]
        within = [hit for hit in hits if hit["victim"] in slots and hit["source"] in slots]
        if not within:
            continue
        size = range(max(slots.values()) + 1)
        if len(size) > MAX_SLOTS:
            found.append({"title": short_title(key), "slots": list(size), "rows": [], "hits": len(hits)})
            continue
        cells: dict[tuple[int, int], list[str]] = {}
        for hit in within:
            victim = shorten(hit["victim"], MAX_NAME)
            cells.setdefault((slots[hit["victim"]], slots[hit["source"]]), []).append(victim)
        found.append(
            {
                "title": short_title(key),
                "slots": list(size),
                "rows": [[cells.get((victim, source), []) for source in size] for victim in size],
                "most": max(map(len, cells.values())),
                "elsewhere": len(hits) - len(within),
            }
        )
    return found


def log_tail(path: Path) -> str:
    """The end of the server's log, with its control characters as escapes; "" without one. Raises StoreError."""
    if not path.is_file():
        return ""
    with os_errors_as_store_errors("read", path), path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - LOG_BYTES))
        tail = file.read(LOG_BYTES).decode("utf-8", "replace")
    return visible(tail if size <= LOG_BYTES else tail.partition("\n")[2])
