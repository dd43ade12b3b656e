"""The matrix of a self-test for people (markdown, terminal) and programs (JSON)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from omni_bench.foreign_text import escape_markdown
from omni_bench.report.format import cpu_name
from omni_bench.report.table import markdown_table
from omni_bench.selftest.cases import CLEAN
from omni_bench.selftest.matrix import CaseVerdict, SelftestResult

SCHEMA_VERSION = "1.0"
SILENT = "–"
HEADERS = ("fault", "where", "named in advance", "caught", "found by (lowest concurrency, runs)")


def selftest_document(result: SelftestResult) -> dict[str, Any]:
    """Everything, as plain types: selftest.json."""
    clean = result.false_alarms()
    return {
        "schema_version": SCHEMA_VERSION,
        "ok": result.ok,
        "duration_s": result.duration_s,
        "clean": None
        if clean is None
        else {"alarming_runs": clean[0], "runs": clean[1], "rate_low": clean[2], "rate_high": clean[3]},
        "cases": [_case_json(verdict) for verdict in result.verdicts],
        "skipped": [asdict(case) for case in result.skipped],
        "facts": dict(result.facts),
    }


def _case_json(verdict: CaseVerdict) -> dict[str, Any]:
    return {
        **asdict(verdict.case),
        "ok": verdict.ok,
        "caught": verdict.caught if verdict.case.kind != CLEAN else None,
        "runs": [
            {
                "repeat": run.repeat,
                "folder": run.folder,
                "duration_s": run.duration_s,
                "problem": run.problem,
                "alarms": [asdict(alarm) for alarm in run.alarms],
            }
            for run in verdict.runs
        ],
    }


def rows(result: SelftestResult) -> list[list[str]]:
    """One row a case with the columns of :data:`HEADERS`, as plain text."""
    return [_row(verdict) for verdict in result.verdicts] + [
        [case.name, case.kind, ", ".join(case.expected), "n/a", "needs omni-bench ab: single runs cannot show it"]
        for case in result.skipped
    ]


def _row(verdict: CaseVerdict) -> list[str]:
    case, total = verdict.case, len(verdict.runs)
    found = sorted({alarm.detector for run in verdict.runs for alarm in run.alarms}, key=_named_first(case.expected))
    cells = [f"{name} (c={verdict.lowest(name)}, {verdict.times(name)}/{total})" for name in found]
    problems = [f"not judged: {run.problem}" for run in verdict.runs if run.problem]
    if case.kind == CLEAN:
        caught = f"{sum(bool(run.alarms) for run in verdict.runs)}/{total} alarms"
    else:
        caught = f"{verdict.caught}/{total}" + ("" if verdict.ok else " MISSED")
    return [case.name, case.kind, ", ".join(case.expected) or SILENT, caught, ", ".join(cells + problems) or SILENT]


def _named_first(expected: Sequence[str]) -> Any:
    return lambda name: (expected.index(name) if name in expected else len(expected), name)


def matrix_rows(result: SelftestResult) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of fault × detector: the lowest concurrency of an alarm, bold where it was named in advance."""
    detectors = result.detectors
    body = []
    for verdict in result.verdicts:
        cells = []
        for name in detectors:
            low, named = verdict.lowest(name), name in verdict.case.expected
            cell = SILENT if low is None else f"c={low}"
            cells.append(f"**{cell}**" if named else cell if low is not None else "")
        body.append([escape_markdown(verdict.case.name), *cells])
    return ["fault", *map(escape_markdown, detectors)], body


def render(result: SelftestResult) -> str:
    """selftest.md."""
    facts = result.facts
    headers, body = matrix_rows(result)
    table = markdown_table(HEADERS, [[escape_markdown(cell) for cell in row] for row in rows(result)], left=range(5))
    parts = [
        f"# omni-bench selftest: {_headline(result)}",
        _facts(result, facts),
        table,
        clean_line(result),
        "## Fault × detector",
        "The lowest concurrency at which a detector alarmed (c=1: a request sent alone), over all runs. Bold: "
        f"named in advance in the catalogue; one of those must alarm in every run. Bold {SILENT}: named, but silent.",
        markdown_table(headers, body, left=(0,)),
        "## Evidence",
        _evidence(result),
        "## Reproduce\n\n```sh\n" + " ".join(map(str, facts["command"])) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _headline(result: SelftestResult) -> str:
    caught = all(verdict.ok for verdict in result.verdicts if verdict.case.kind != CLEAN)
    parts = ["every fault was caught" if caught else "NOT every fault was caught"]
    if not all(verdict.ok for verdict in result.verdicts if verdict.case.kind == CLEAN):
        parts.append("the clean server did NOT pass")
    if result.skipped:
        parts.append(f"{len(result.skipped)} left to omni-bench ab")
    return ", ".join(parts)


def _facts(result: SelftestResult, facts: Mapping[str, Any]) -> str:
    machine, harness, judge = facts["hardware"], facts["harness"], facts["judge"]
    commit = f", commit {harness['commit'][:12]}" if harness["commit"] else ""
    changed = " with uncommitted changes" if harness["dirty"] else ""
    kept = facts["kept_runs"]
    lines = [
        *facts["plan"],
        f"judge {judge['name']}, sha256 {judge['sha256'][:12]}; {facts['recordings']} recordings, "
        f"{facts['distinct_recordings']} of them different",
        f"{cpu_name(machine['cpu'], machine['cpu_cores'])}; {result.duration_s:.0f} s in all",
        *([f"{kept} of the runs were made before the self-test was broken off and went on"] if kept else []),
        f"omni-bench {harness['version']}{commit}{changed}",
    ]
    return "\n".join(f"- {escape_markdown(line)}" for line in lines)


def clean_line(result: SelftestResult) -> str:
    """How often the clean server alarmed, with the 95 % interval of the rate."""
    clean = result.false_alarms()
    if clean is None:
        return "The clean server has no run that proves anything."
    alarming, runs, low, high = clean
    return (
        f"Clean server: {alarming} of {runs} runs raised an alarm, {alarming / runs:.0%} "
        f"(95 % interval {low:.1%} to {high:.1%}, Clopper–Pearson). Detectors that compare with a clean run "
        "(length, ttfp, stalls, audio_per_s, and parity with before) have nothing to compare it with."
    )


def _evidence(result: SelftestResult) -> str:
    lines = []
    for verdict in result.verdicts:
        run = verdict.runs[0]
        source = f" Learned from: {verdict.case.source}." if verdict.case.source else ""
        what = escape_markdown(f"{verdict.case.what}.{source}")
        lines.append(f"- **{escape_markdown(verdict.case.name)}**: {what}")
        order = _named_first(verdict.case.expected)
        for alarm in sorted(run.alarms, key=lambda alarm: (order(alarm.detector), alarm.concurrency)):
            lines.append(f"  - {alarm.detector} at c={alarm.concurrency}: {escape_markdown(alarm.detail)}")
    return "\n".join(lines)
