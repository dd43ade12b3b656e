"""What the server was found to do before anything was timed, and what its own counters say, beside our figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tabulate import tabulate

from omni_bench.foreign_text import code_span, escape_markdown
from omni_bench.load.lag import SAMPLE_EVERY_MS
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.level import level_of, level_or_none, level_text, short_title
from omni_bench.report.format import NA, milliseconds, number, signed, stated_fault
from omni_bench.report.table import level_header, markdown_table

MAX_ROWS, MAX_WARNINGS = 40, 12
_HEADERS = ("series", "increase or count", "mean", "before", "after")


def server_warnings(run: Mapping[str, Any]) -> list[str]:
    """What a reader of the figures must know of the server: what the probe found, and what it says of itself."""
    found = run["provenance"]["target"].get("conformance")
    warnings = found.get("warnings") if isinstance(found, Mapping) else None
    said = stated_fault(run)
    return [*([said] if said else []), *(map(str, warnings) if isinstance(warnings, list) else ())][:MAX_WARNINGS]


def server_warning_lines(run: Mapping[str, Any]) -> str | None:
    """The warnings as a quotation, for the top of a report."""
    lines = [f"> **Note on the server**: {escape_markdown(one)}." for one in server_warnings(run)]
    return "\n>\n".join(lines) or None


def _accounts(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = run["provenance"]["target"].get("server_metrics") or {}
    return [one for one in found.get("accounts") or () if one["metric"] in METRICS]


def accounts_section(run: Mapping[str, Any]) -> str | None:
    """The figures that the server gives too, beside ours and with the difference; None if it gives none."""
    rows = []
    for one in _accounts(run):
        metric, server, ours = METRICS[one["metric"]], one["server_mean"], one["client_mean"]
        name = f"{metric.short} ({metric.unit})" if metric.unit else metric.short
        cells = [f"{number(server)} ({one['server_count']})", f"{number(ours)} ({one['client_count']})"]
        difference = signed(None if ours is None else ours - server, 1 if metric.unit == "ms" else 3)
        rows.append([level_text(one, NA), name, code_span(one["series"]), *cells, difference])
    if not rows:
        return None
    table = markdown_table(
        (level_header(run["levels"]), "figure", "the server's", "server", "ours", "ours − server's"), rows
    )
    notes = [f"**{line}**" for line in account_lines(run)]
    notes.append(
        "Means (and how many requests they are of) over each level, warm-up included: the sum over the count of the "
        "server's histogram, and ours of the same requests. The server's clock starts when a request has arrived and "
        "stops when it hands the audio on; its RTF may be of one stage. An underrun is the prebuffer that a player "
        "would have needed."
    )
    return "\n\n".join([table, *notes])


def account_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """Each level whose TTFP differs from the server's of the same requests by more than the client's lag explains."""
    levels = {level_of(level): level for level in run["levels"]}
    for one in _accounts(run):
        level, ours_ms, server_ms = levels.get(level_or_none(one)), one["client_mean"], one["server_mean"]
        client = (level or {}).get("client") or {}
        lag_ms = client.get("lag_p99_ms")
        if one["metric"] != "ttfp_ms" or one["client_count"] != one["server_count"] or None in (ours_ms, lag_ms):
            continue
        # late to send, and late to see the first byte
        if abs(ours_ms - server_ms) > 2 * (lag_ms + _standstill_ms(client)):
            yield (
                f"{short_title(level_of(one))}: TTFP is {milliseconds(ours_ms)} ms here and {milliseconds(server_ms)} "
                f"ms by the server's account: {signed(ours_ms - server_ms, 1)} ms, more than the client's lag explains "
                f"(twice {milliseconds(lag_ms)} ms at p99)"
            )


def _standstill_ms(client: Mapping[str, Any]) -> float:
    """What the longest moment M in which the client (or the whole machine) stood still adds to a mean over the level.

    M / W of the level's W fell into it, and waited for M / 2: M² / 2W. The percentiles do not know of one rare moment.
    """
    longest_ms, samples = client.get("lag_max_ms"), client.get("lag_samples")
    return longest_ms**2 / (2 * samples * SAMPLE_EVERY_MS) if longest_ms and samples else 0.0


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
    more = max(len(rows) - MAX_ROWS, 0) + found.get("left_out", 0)
    rest = f"\n\n{more} more are in run.json or were not kept." if more else ""
    table = tabulate(rows[:MAX_ROWS], _HEADERS, tablefmt="github", disable_numparse=True)
    return (
        "What changed in its own /metrics over the levels, warm-up included. Names and definitions are the server's "
        "and need not be those of this report."
        f"\n\n{table}{rest}" + (f"\n\n{cut}" if cut else "")
    )


def _row(name: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    moved = "increase" if "increase" in entry else "count"
    shown = (_number(entry[key]) if key in entry else "" for key in (moved, "mean", "before", "after"))
    return (code_span(name), *shown)


def _number(value: object) -> str:
    if not isinstance(value, (int, float)):
        return NA
    return f"{value:.0f}" if float(value).is_integer() else number(value)
