"""report.html of a run: what its template and its script are given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omni_bench.foreign_text import visible
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.records.invalid_reason import client_last, reasons_of
from omni_bench.records.level import level_of, short_title
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.cross_talk import slots_of
from omni_bench.report.format import injected_faults, percent
from omni_bench.report.judge import own_error_line
from omni_bench.report.markdown import WORST, facts_of, legend, report_sections
from omni_bench.report.next_step import next_steps_of
from omni_bench.report.open_loop import search_lines
from omni_bench.report.page.cards import MAX_CARDS, Records, cards_of, filters_of
from omni_bench.report.page.lanes import distributions, in_flight_ns, swim_lanes
from omni_bench.report.page.recordings import Recordings
from omni_bench.report.page.render import from_markdown, render_page
from omni_bench.report.server import account_lines, server_warnings
from omni_bench.report.table import columns, error_rate, percentile_table

TEMPLATE = Path(__file__).with_name("run.html")
LOG_BYTES = 16_000
ALL_FIGURES = "All figures"

Run = Mapping[str, Any]


def run_page(run: Run, folder: RunFolder, records: Records) -> str:
    """The page of a run as HTML. Raises StoreError for lines that lack a field, and a log that cannot be read."""
    recordings = Recordings(folder.path)
    cards, findings = cards_of(run, records, folder, recordings)
    faults = injected_faults(run)
    reasons = client_last(reasons_of(run))
    sections = {"How to read the figures": legend(run)} | report_sections(
        run, records.utterances, records.requests, (), records.parity, records.hits, folder.read_profile()
    )
    sections.pop(WORST, None)
    if ALL_FIGURES in sections:
        sections[ALL_FIGURES] = percentile_table(run)
    context = {
        "title": f"{run['scenario']} · omni-bench",
        "scenario": run["scenario"],
        "faults": faults,
        "evidence": folder.wer_evidence_md.name if folder.wer_evidence_md.is_file() else None,
        "valid": run["valid"],
        "reasons": [str(reason) for reason in reasons],
        "next_steps": next_steps_of(run),
        "notes": [*server_warnings(run), *account_lines(run), *search_lines(run)],
        "facts": {name: from_markdown(text) for name, text in facts_of(run).items()},
        "table": level_table(run),
        "judged": run["provenance"]["judge"] is not None,
        "judge_line": own_error_line(run),
        "cards": cards,
        "findings": findings,
        "hidden": max(0, findings - MAX_CARDS),
        "utterances": len(records.requests),
        **filters_of(cards),
        "matrices": matrices(run, records),
        "sections": {title: from_markdown(body) for title, body in sections.items()},
        "config": json.dumps(run["provenance"]["config"], indent=2, ensure_ascii=False),
        "log": log_tail(folder.server_log),
    }
    data = {
        "audio": recordings.by_name,
        "lanes": swim_lanes(run, records.requests, records.warmup),
        "hits": [[hit["source"], hit["victim"]] for hit in records.hits if hit["source"] != hit["victim"]],
        "distributions": distributions(run, records.requests),
    }
    return render_page(TEMPLATE, context, data)


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
    """For each level with hits the victims by (slot of the victim, slot of the source): rows of cells of ids."""
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
        cells: dict[tuple[int, int], list[str]] = {}
        for hit in within:
            cells.setdefault((slots[hit["victim"]], slots[hit["source"]]), []).append(hit["victim"])
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
