"""The verdict for people: rows for the terminal and a page for a GitHub step summary."""

from __future__ import annotations

from omni_bench.foreign_text import code_span, escape_markdown, one_field, page_of
from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.gate.advice import since_text
from omni_bench.nightly.gate.result import GateOutcome, GateResult, SeriesResult
from omni_bench.nightly.history.table import baseline_line, metric_name, value_text
from omni_bench.report.format import NA, change_text, number
from omni_bench.report.table import markdown_table

HEADERS = ("metric", "load", "tonight", "expected", "change", "vs baseline", "status", "why")
_LEGEND = (
    "expected: geometric mean of the nights since the last change, without those as bad as an alarm, and the 99.5 % "
    "prediction interval. Acute: outside of it and worse than 5 %, twice. Drift: a change point (E-divisive, p < "
    "0.001) of 3 % or more."
)
_MARKS = {
    GateOutcome.PASS: "✅",
    GateOutcome.REGRESSION: "❌",
    GateOutcome.INCONCLUSIVE: "❔",
    GateOutcome.UNCONFIRMED: "❗",
    GateOutcome.HARD_FAILURE: "⛔",
    GateOutcome.INVALID: "⚠️",
}


def gate_verdict_line(result: GateResult) -> str:
    """``REGRESSION (exit 1): qwen3_tts on NVIDIA H100, 34 valid nights before``."""
    run = result.run
    nights = f"{result.nights} valid night{'' if result.nights == 1 else 's'} before"
    who = f"{one_field(run.scenario)}, {run.target} on {run.hardware}, {nights}"
    since = since_text(result.open_changes)
    return f"{result.outcome} (exit {result.exit_code}): {who}" + (f"; {since}" if since else "")


def series_rows(result: GateResult) -> list[list[str]]:
    """One row a gated metric and load, under :data:`HEADERS`."""
    return [_row(one, ratio=result.pinned is not None) for one in result.series]


def _row(one: SeriesResult, *, ratio: bool) -> list[str]:
    band = () if one.expected is None else (one.expected.mean, one.expected.low, one.expected.high)
    label = metric_name(one.metric)
    name = f"{label} / pinned" if ratio else label
    if ratio:
        value, mean, low, high = map(number, (one.value, *(band or (None,) * 3)))
        expected = f"{mean} [{low}, {high}]" if band else NA
    else:
        value, expected = value_text(one.metric, one.value), value_text(one.metric, *band) if band else NA
    return [
        name,
        one.load,
        value,
        expected,
        change_text(METRICS[one.metric], one.change),
        change_text(METRICS[one.metric], one.against_baseline),
        str(one.status),
        one.reason,
    ]


def integrity_lines(result: GateResult) -> list[str]:
    """What is wrong with the run, or worth a look; [] if nothing is."""
    lines = []
    for case in result.integrity:
        lines += [f"{case.name}: HARD FAILURE: {reason}" for reason in case.failures]
        lines += [f"{case.name}: not measured: {reason}" for reason in case.errors]
        lines += [f"{case.name}: {reason}" for reason in case.warnings]
    return lines


def render_gate(result: GateResult) -> str:
    """The page."""
    run = result.run
    nights = f"{result.nights} valid nights before this one, series {run.series}"
    facts = {
        "run": f"{run.source}, {run.started_utc or 'undated'}, commit {(run.commit or NA)[:12]}",
        "scenario": run.scenario,
        "target": f"{run.target} on {run.hardware}",
        "history": f"{nights}; {baseline_line(result.baseline)}",
    }
    if result.pinned is not None:
        facts["pinned"] = f"{result.pinned.source}: the table is of ratios to this run of the same night"
    if result.rerun is not None:
        facts["second run"] = result.rerun.source
    parts = [
        _heading(result),
        _what_to_do(result),
        "\n".join(f"- **{name}**: {escape_markdown(text)}" for name, text in facts.items()),
        "\n".join(f"- {escape_markdown(line)}" for line in (*integrity_lines(result), *result.notes)),
        _table(result),
        _LEGEND if result.series else None,
    ]
    return page_of(parts, "Some of it is left out here, as it is too long; gate.json has it.")


def _heading(result: GateResult) -> str:
    """The outcome, and what is open whatever it is: one red night is not followed by a plain green one."""
    since = since_text(result.open_changes)
    mark = "⚠️" if since and result.outcome is GateOutcome.PASS else _MARKS[result.outcome]
    return f"## {mark} omni-bench gate: {result.outcome}" + (f": {since}" if since else "")


def _what_to_do(result: GateResult) -> str:
    lines = [
        f"- {escape_markdown(step.text)}" + (f": {code_span(step.command)}" if step.command else "")
        for step in result.next_steps
    ]
    return "\n".join(["**What to do**", "", *lines]) if lines else ""


def _table(result: GateResult) -> str:
    if not result.series:
        return "No speed is judged: a night that is not whole makes no performance claim."
    rows = [[escape_markdown(cell) for cell in row] for row in series_rows(result)]
    return markdown_table(HEADERS, rows, left=(0, 1, 6, 7))
