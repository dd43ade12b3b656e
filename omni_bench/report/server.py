"""What the server was found to do before anything was timed, and what its own counters say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabulate import tabulate

from omni_bench.report.format import NA, escape_markdown, number

MAX_ROWS = 40
_HEADERS = ("series", "increase or count", "mean", "before", "after")


def server_warnings(run: Mapping[str, Any]) -> list[str]:
    """What a reader of the figures must know of the server; [] of a run that was not probed."""
    found = run["provenance"]["target"].get("conformance")
    warnings = found.get("warnings") if isinstance(found, Mapping) else None
    return [str(one) for one in warnings] if isinstance(warnings, list) else []


def server_warning_lines(run: Mapping[str, Any]) -> str | None:
    """The warnings as a quotation, for the top of a report."""
    lines = [f"> **Note on the server**: {escape_markdown(one)}." for one in server_warnings(run)]
    return "\n>\n".join(lines) or None


def server_section(run: Mapping[str, Any]) -> str | None:
    """How the server answers, and a table of what changed in its /metrics; None if neither is known."""
    target = run["provenance"]["target"]
    parts = [_conformance(target.get("conformance")), _metrics(target.get("server_metrics"))]
    return "\n\n".join(part for part in parts if part) or None


def _conformance(found: Mapping[str, Any] | None) -> str | None:
    if not found:
        return None
    stated = {True: " (stated)", False: " (not stated)"}.get(found.get("sample_rate_stated"), "")
    rate = f"{found['sample_rate_hz']} Hz{stated}" if found.get("sample_rate_hz") else NA
    facts = {
        "content type": found.get("content_type"),
        "framing": found.get("transfer"),
        "sample rate": rate,
        "streams": {True: "yes", False: "no"}.get(found.get("streams"), NA),
        "seed": found.get("seed"),
    }
    listed = ", ".join(f"{name} {escape_markdown(value or NA)}" for name, value in facts.items())
    return f"Found by a probe before anything was timed: {listed}."


def _metrics(found: Mapping[str, Any] | None) -> str | None:
    if not found:
        return None
    if found.get("problem"):
        return f"Its /metrics: {NA} ({escape_markdown(found['problem'])})."
    cut = f"Its /metrics are not whole: {escape_markdown(found['cut'])}." if found.get("cut") else None
    series = found.get("series")
    entries = series.items() if isinstance(series, Mapping) else ()
    rows = [_row(name, entry) for name, entry in entries if isinstance(entry, Mapping)]
    if not rows:
        return cut
    more = len(rows) - MAX_ROWS + found.get("left_out", 0) if len(rows) > MAX_ROWS else found.get("left_out", 0)
    rest = f"\n\n{more} more are in run.json or were not kept." if more else ""
    table = tabulate(rows[:MAX_ROWS], _HEADERS, tablefmt="github", disable_numparse=True)
    return (
        "What changed in its own /metrics over the levels, warm-up included. Names and definitions are the server's "
        "and need not be those of this report."
        f"\n\n{table}{rest}" + (f"\n\n{cut}" if cut else "")
    )


def _row(name: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    moved = entry.get("increase", entry.get("count"))
    cells = (moved, entry.get("mean"), entry.get("before"), entry.get("after"))
    kinds = ("increase" in entry or "count" in entry, "mean" in entry, "before" in entry, "after" in entry)
    shown = (_number(cell) if there else "" for cell, there in zip(cells, kinds, strict=True))
    line = "".join(char if char.isprintable() else " " for char in name)  # a line break would end the table
    return (f"`{line.replace('|', '¦').replace('`', '')}`", *shown)


def _number(value: object) -> str:
    if not isinstance(value, (int, float)):
        return NA
    return f"{value:.0f}" if float(value).is_integer() else number(value)
