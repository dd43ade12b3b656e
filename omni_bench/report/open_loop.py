"""The open loop in a report: what became of the schedule, and the answer of a rate search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omni_bench.foreign_text import escape_markdown
from omni_bench.load.search import bracket, is_precise, probed
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.probe import limited
from omni_bench.metrics.slo import SINCE_START, TIMES
from omni_bench.records.level import Rate, level_of, level_text
from omni_bench.report.format import NA, count, fixed, has_audio, milliseconds, number
from omni_bench.report.table import markdown_table


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
    headers += ("late p99 (ms)", "late max (ms)", "queue p50 / p90 (ms)")
    audio = has_audio(run)  # a text has no first packet
    headers += ("TTFP sched p95 (ms)", "over (s)") if audio else ("over (s)",)
    rows = []
    for level in levels:
        facts = level["open_loop"]
        queue = (milliseconds(METRICS["queue_ms"].value_in(level, figure)) for figure in ("p50", "p90"))
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
                *((milliseconds(METRICS["ttfp_sched_ms"].value_in(level, "p95")),) if audio else ()),
                fixed(facts["schedule_s"], 1),
            ]
        )
    told = (
        "TTFP sched: from that moment, so that waiting behind a slow server counts; TTFP: from the actual start."
        if audio
        else "TTFT and E2EL are from the actual start; queue is what a request had waited by then."
    )
    note = (
        f"Starts were decided before anything was sent; no answer can delay them. {told} late: started − scheduled of "
        f"requests that did not wait for the cap, the client's own doing. {'audio/s' if audio else 'tokens/s'} and "
        "req/s follow the offered load until the server can take no more."
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
            f"and only {'TTFP sched and the queue show' if audio else 'the queue shows'} the whole wait."
        )
    return f"{markdown_table(headers, rows, left=(1,))}\n\n{note}"


def rate_search_section(run: Mapping[str, Any]) -> str | None:
    """The highest rate that holds, and every probe; None if the run is no rate search."""
    search = _found(run)
    if search is None:
        return None
    times = [name for name in TIMES if search.get(name) is not None]
    stalls = has_audio(run)
    headers = ["rate", "holds", "requests", "failed", *(_p95_header(name) for name in times)]
    headers += ["stalled", "longest stall (s)", "why not"] if stalls else ["why not"]
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
                *(milliseconds(probe.get(_p95_name(name))) for name in times),
                *((count(probe["stalled"]), fixed(probe["longest_stall_s"], 3)) if stalls else ()),
                escape_markdown("; ".join(probe["why"])),
            ]
        )
    table = markdown_table(headers, rows, left=(len(headers) - 1,))
    return f"{escape_markdown(' '.join(search_lines(run)))}\n\n{table}"


def _found(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """``rate_search`` with the rate that the probes found, also where its level is invalid, and run.json says null."""
    search = run.get("rate_search")
    if not search:
        return None
    highest_hz, failing_hz = bracket(probed(run["levels"]))
    return {**search, "highest_hz": highest_hz, "converged": is_precise(highest_hz, failing_hz, search["precision"])}


def _p95_name(name: str) -> str:
    """The figure of a probe that a limit is about: ``ttfp_sched_p95_ms`` of ``ttfp_ms``."""
    return name.removesuffix("_ms") + ("_sched" if name in SINCE_START else "") + "_p95_ms"


def _p95_header(name: str) -> str:
    return f"{METRICS[name].short}{' sched' if name in SINCE_START else ''} p95 (ms)"


def answer_line(search: Mapping[str, Any]) -> str:
    """``Highest rate that holds: 12 req/s (p95 of TTFP from the scheduled start at most 80 ms, no stalls); ...``."""
    limits = [
        f"{limited(name)} at most {search[name]:g} ms" for name in TIMES if search.get(name) is not None
    ]  # TTFP alone in a run of before schema 1.5
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
    """The answer, and that it is no claim if its level is invalid; [] if the run is no rate search."""
    search = _found(run)
    if search is None:
        return []
    hollow = [level for level in run["levels"] if level["rate_hz"] == search["highest_hz"] and not level["valid"]]
    return [
        answer_line(search),
        *(f"But the level at {level_text(level, NA)} is invalid: no claim." for level in hollow),
    ]


def slo_line(run: Mapping[str, Any]) -> str | None:
    """What goodput holds a request to; None without a service level."""
    slo = run["provenance"]["config"].get("slo") or {}
    start = " from the scheduled start" if any(level.get("open_loop") for level in run["levels"]) else ""
    limits = [
        f"{METRICS[name].short}{start if name in SINCE_START else ''} at most {slo[name]:g} ms"
        for name in TIMES
        if slo.get(name) is not None
    ]
    if slo.get("stall_s") is not None:
        limits.append(f"pauses of at most {slo['stall_s']:g} s together")
    if not limits:
        return None
    limits.insert(0, "valid audio" if has_audio(run) else "a valid text")
    listed = ", ".join(limits) if len(limits) <= 2 else f"{', '.join(limits[:-1])} and {limits[-1]}"
    return f"goodput: requests with {listed}, of all."
