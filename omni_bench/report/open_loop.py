"""The open loop in a report: what became of the schedule, and the answer of a rate search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omni_bench.levels import Rate, level_of, level_text
from omni_bench.report.format import NA, count, escape_markdown, fixed, milliseconds, number
from omni_bench.report.table import markdown_table, metric_value


def open_loop_section(run: Mapping[str, Any]) -> str | None:
    """The load that was offered, what the client made of it, and what it means; None for a closed loop."""
    levels = [level for level in run["levels"] if level.get("open_loop")]
    if not levels:
        return None
    headers = (
        "rate",
        "arrivals",
        "offered (req/s)",
        "achieved (req/s)",
        "in flight at most",
        "cap",
        "waited for the cap",
    )
    headers += ("late p99 (ms)", "late max (ms)", "queue p50 / p90 (ms)", "TTFP sched p95 (ms)", "over (s)")
    rows = []
    for level in levels:
        facts = level["open_loop"]
        queue = (milliseconds(metric_value(level, "queue_ms", figure)) for figure in ("p50", "p90"))
        rows.append(
            [
                str(level_of(level)),
                escape_markdown(level["arrival"]),
                number(facts["offered_hz"], 4),
                number(facts["achieved_hz"], 4),
                count(facts["peak_in_flight"]),
                count(facts["max_in_flight"]),
                count(facts["waited"]),
                fixed(facts["late_p99_ms"], 2),
                fixed(facts["late_max_ms"], 2),
                " / ".join(queue),
                milliseconds(metric_value(level, "ttfp_sched_ms", "p95")),
                fixed(facts["schedule_s"], 1),
            ]
        )
    note = (
        "Starts were decided before anything was sent; no answer can delay them. TTFP sched: from that moment, so that "
        "waiting behind a slow server counts; TTFP: from the actual start. late: started − scheduled of requests that "
        "did not wait for the cap, the client's own doing. audio/s and req/s follow the offered load "
        "until the server can take no more."
    )
    load = run["provenance"]["config"].get("load") or {}
    if load.get("ramp"):
        note = f"The rate goes in a straight line from {load['ramp'][0]:g} to {load['ramp'][1]:g} req/s. {note}"
    if load.get("trace"):
        note = f"Replayed from {escape_markdown(load['trace'])}. {note}"
    waiting = sum(level["open_loop"]["waited"] for level in levels)
    if waiting:
        note += (
            f" **{waiting} requests waited because load.max_in_flight was reached**: from there on the loop is closed, "
            "and only TTFP sched and the queue show the whole wait."
        )
    return f"{markdown_table(headers, rows, left=(1,))}\n\n{note}"


def rate_search_section(run: Mapping[str, Any]) -> str | None:
    """The highest rate that holds, and every probe; None if the run is no rate search."""
    search = run.get("rate_search")
    if not search:
        return None
    headers = ("rate", "holds", "requests", "failed", "TTFP sched p95 (ms)", "stalled", "longest stall (s)", "why not")
    rows = []
    for level in run["levels"]:
        probe = level["probe"]
        if probe is None:  # the run was interrupted there
            continue
        rows.append(
            [
                f"**{level_text(level, NA)}**" if level["rate_hz"] == search["highest_hz"] else level_text(level, NA),
                "yes" if probe["holds"] else "no",
                count(level["requests"]),
                count(probe["failed"]),
                milliseconds(probe["ttfp_sched_p95_ms"]),
                count(probe["stalled"]),
                fixed(probe["longest_stall_s"], 3),
                escape_markdown("; ".join(probe["why"])),
            ]
        )
    return f"{escape_markdown(answer_line(search))}\n\n{markdown_table(headers, rows, left=(7,))}"


def answer_line(search: Mapping[str, Any]) -> str:
    """``Highest rate that holds: 12 req/s (p95 of TTFP from the scheduled start at most 80 ms, no stalls); ...``."""
    limits = [f"p95 of TTFP from the scheduled start at most {search['ttfp_ms']:g} ms"]
    if search["stall_s"] is not None:
        limits.append("no stalls" if search["stall_s"] == 0 else f"no stall longer than {search['stall_s']:g} s")
    limits.append("no failures")
    highest, failing = search["highest_hz"], search["lowest_failing_hz"]
    found = "none of those tried" if highest is None else str(Rate(highest))
    if search["converged"]:
        rest = f"{Rate(failing)} does not, which is within {search['precision']:.0%}"
    elif failing is None:
        rest = "no rate failed, so that the limit is higher"
    elif highest is None:
        rest = f"already {Rate(failing)} does not"
    else:
        rest = f"{Rate(failing)} does not, and the search ended before it was within {search['precision']:.0%}"
    return f"Highest rate that holds: {found} ({', '.join(limits)}); {rest}. {search['probes']} probes."


def search_lines(run: Mapping[str, Any]) -> list[str]:
    """The answer for the console; [] if the run is no rate search."""
    search = run.get("rate_search")
    return [answer_line(search)] if search else []


def slo_line(run: Mapping[str, Any]) -> str | None:
    """What goodput holds a request to; None without a service level."""
    slo = run["provenance"]["config"].get("slo") or {}
    limits = []
    if slo.get("ttfp_ms") is not None:
        start = " from the scheduled start" if any(level.get("open_loop") for level in run["levels"]) else ""
        limits.append(f"TTFP{start} at most {slo['ttfp_ms']:g} ms")
    if slo.get("stall_s") is not None:
        limits.append(f"pauses of at most {slo['stall_s']:g} s together")
    return f"goodput: requests with valid audio, {' and '.join(limits)}, of all." if limits else None
