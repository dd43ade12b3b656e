"""The Markdown of ``interop.py``: tables of runs, and what their differences come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tabulate import tabulate

from benchmarks.interop.table import (
    LIMIT_MS,
    ROWS,
    Cell,
    ClientRun,
    Figures,
    Row,
    agrees,
    by_their_definitions,
    over_rounds,
    paired,
)
from omni_bench.records.timeline import Timeline

VLLM, OURS, OURS_LIKE, OPENAI = "vllm-omni", "omni-bench", "omni-bench, like theirs", "openai"
AGREEMENT_HEADERS = (
    "metric",
    "theirs",
    "ours",
    "ours, by their definition",
    "difference",
    "of the rounds",
    "share",
    "within 3 % or 2 ms",
)
SHARE_FROM = {"ms": LIMIT_MS, "s": LIMIT_MS / 1e3}
"""A share of a time below what counts as a difference says nothing."""
YES, NO, NA = "yes", "**no**", "n/a"


@dataclass(frozen=True)
class Group:
    """Runs of one server, concurrency and body, in the order in which they were made."""

    runs: Sequence[ClientRun]

    def of(self, client: str) -> list[ClientRun]:
        """Of one client."""
        return [run for run in self.runs if run.client == client]

    def cell(self, client: str, name: str) -> Cell:
        """A headline figure over the rounds."""
        return over_rounds([run.figures.get(name, Figures()).headline for run in self.of(client)])

    def part(self, client: str, name: str) -> float | None:
        """The median over the rounds of a part, in ms."""
        return over_rounds([getattr(run.parts, name) for run in self.of(client)]).value

    def theirs(self) -> list[Mapping[str, Figures]]:
        """Their figures, a run each."""
        return [run.figures for run in self.of(VLLM)]

    def ours_by_theirs(self) -> list[Mapping[str, Figures]]:
        """Ours by their definitions, from runs with their habits."""
        return [by_their_definitions(run.raw) for run in self.of(OURS_LIKE)]


def number(value: float | None, unit: str, signed: bool = False) -> str:
    """Enough digits to see a difference of 2 ms or 3 %."""
    if value is None:
        return NA
    digits = {"ms": 1, "s": 4}.get(unit, 3)
    return f"{value:{'+' if signed else ''}.{digits}f}"


def definitions() -> str:
    """What each side means by a metric."""
    rows = [(row.title, row.theirs, row.ours) for row in ROWS]
    return tabulate(rows, ("metric", "vllm-omni 0.30.0", "omni-bench"), tablefmt="github")


def agreement(group: Group) -> str:
    """Theirs, ours, ours by their definition, the difference of the last two with its range over the rounds."""
    rows = [agreement_row(group, row) for row in ROWS]
    return tabulate(
        rows, AGREEMENT_HEADERS, tablefmt="github", disable_numparse=True, colalign=("left", *["right"] * 7)
    )


def agreement_row(group: Group, row: Row) -> list[str]:
    """A line of :func:`agreement`."""
    theirs = [figures[row.name].headline for figures in group.theirs()]
    like = [figures[row.name].headline for figures in group.ours_by_theirs()]
    their_cell, like_cell, difference = over_rounds(theirs), over_rounds(like), paired(theirs, like)
    within = agrees(their_cell.value, like_cell.value, row.unit)
    share = NA
    if difference.value is not None and abs(like_cell.value) > SHARE_FROM.get(row.unit, 0.0):
        share = f"{difference.value / like_cell.value:+.1%}".replace("%", " %")
    spread = NA
    if difference.value is not None:
        spread = f"{number(difference.low, row.unit, True)} to {number(difference.high, row.unit, True)}"
    title = f"{row.title} ({row.unit})" if row.unit else row.title
    return [
        title,
        number(their_cell.value, row.unit),
        number(group.cell(OURS, row.name).value, row.unit),
        number(like_cell.value, row.unit),
        number(difference.value, row.unit, True),
        spread,
        share,
        {True: YES, False: NO, None: NA}[within],
    ]


def statistics_table(group: Group) -> str:
    """Mean, median and percentiles of the TTFP of the two clients: the same values give the same percentiles."""
    rows = []
    for name, all_figures in ((VLLM, group.theirs()), (OURS_LIKE, group.ours_by_theirs())):
        figures = [one["ttfp_ms"] for one in all_figures]
        values = [
            over_rounds([getattr(one, figure) for one in figures]).value for figure in ("mean", "p50", "p90", "p99")
        ]
        rows.append((name, *(number(value, "ms") for value in values)))
    return tabulate(rows, ("TTFP in ms", "mean", "median", "p90", "p99"), tablefmt="github", disable_numparse=True)


def parts_table(groups: Sequence[Group]) -> str:
    """Where the time to the first packet goes, a line a client, concurrency and body."""
    rows = []
    for group in groups:
        for client in (OURS, OURS_LIKE, VLLM):
            if not group.of(client):
                continue
            run = group.of(client)[0]
            parts = [group.part(client, name) for name in ("connect_ms", "read_ms", "engine_ms")]
            ttfp_ms = group.cell(client, "ttfp_ms").value
            rest = None if None in (*parts, ttfp_ms) else ttfp_ms - sum(parts)
            size = group.part(client, "body_bytes")
            body = NA if size is None else f"{size / 1e3:.1f}"
            rows.append((client, run.concurrency, body, *(number(part, "ms") for part in (*parts, rest, ttfp_ms))))
    headers = ("client", "c", "body kB", "to the server", "body read", "engine", "to the client", "TTFP")
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True, colalign=("left", *["right"] * 7))


def plain_table(runs: Sequence[tuple[str, int, Mapping[str, Cell]]], columns: Sequence[tuple[str, str, str]]) -> str:
    """Clients by metrics; ``columns``: (name, title, unit)."""
    rows = [
        (client, concurrency, *(number(cells.get(name, Cell(None)).value, unit) for name, _, unit in columns))
        for client, concurrency, cells in runs
    ]
    headers = ("client", "c", *(title for _, title, _ in columns))
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)


def explanations(with_reference: Group, without: Group, steps: Group, wav: Sequence[Timeline]) -> list[str]:
    """One sentence a cause, each with the number that was measured for it at this concurrency.

    ``wav``: requests of ours for a WAV stream, whose header comes before its audio.
    """
    ladder = list(dict.fromkeys(run.client for run in steps.runs))
    costs = [difference(ttfp(steps, more), ttfp(steps, less)) for less, more in pairwise(ladder)]
    bodies = [difference(ttfp(with_reference, client), ttfp(without, client)) for client in (OURS, VLLM)]
    like = [timeline for run in with_reference.of(OURS_LIKE) for timeline in run.raw]
    early_ms = max((timeline.first_audio_ns - timeline.first_byte_ns) / 1e6 for timeline in like)
    header_ms = median((timeline.first_audio_ns - timeline.first_byte_ns) / 1e6 for timeline in wav)
    queue_ms = median(
        timeline.started_ns - timeline.scheduled_ns for run in with_reference.of(OURS) for timeline in run.raw
    )
    means_ms = over_rounds([figures["ttfp_ms"].mean - figures["ttfp_ms"].p50 for figures in with_reference.theirs()])
    return [
        f"a new connection for each request (`force_close`): {costs[0]} of TTFP; ours are open before the clock starts",
        f"the JSON of the body written within the timed call: {costs[1]}; ours is written before the load phase",
        f"proxy settings and .netrc looked up within the timed call (`trust_env`): {costs[2]}; ours looks for none",
        f"the recording in the body, as base64: {bodies[0]} for ours, {bodies[1]} for theirs; both send it here",
        f"header bytes counted as the first packet: {early_ms:.1f} ms at most, as raw PCM has none (a WAV stream of "
        f"this server has its header {header_ms:.1f} ms before its audio, median)",
        f"queueing: their clock starts when a request has got its place among the concurrent ones, and ours too, which "
        f"notes the wait as `queue_ms`: {queue_ms / 1e6:.2f} ms",
        f"mean against median: the means of theirs lie {number(means_ms.value, 'ms', True)} ms from their medians; "
        "medians are compared",
    ]


def ttfp(group: Group, client: str) -> float | None:
    """Over the rounds, in ms."""
    return group.cell(client, "ttfp_ms").value


def difference(one: float | None, other: float | None) -> str:
    """For a sentence."""
    return NA if one is None or other is None else f"{one - other:+.1f} ms"
