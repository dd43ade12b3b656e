"""A comparison as markdown to paste into a pull request."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from omni_bench.compare.keys import Difference, shown
from omni_bench.compare.result import Advisory, Cell, ComparedArm, Comparison, ComparisonOutcome, Mark
from omni_bench.compare.rows import (
    accuracy_rows,
    cell_rows,
    detail_table,
    headers,
    interval_text,
    percentile_table,
    points_text,
    primary_row,
)
from omni_bench.compare.stats.verdicts import FULL_PAIRS, PrimaryVerdict
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.level import listed_levels
from omni_bench.records.profile import RunProfile
from omni_bench.report.format import NA, code_block, escape_markdown, p_text, percent, signed_percent
from omni_bench.report.profile import before_after_section
from omni_bench.report.table import markdown_table

MAX_LISTED = 12


def render_comparison(
    comparison: Comparison,
    plots: Sequence[str] = (),
    command: Sequence[str] = (),
    profiles: tuple[RunProfile | None, RunProfile | None] = (None, None),
) -> str:
    """The whole of it. ``plots``: paths of images relative to the document; ``command``: what made it, to repeat;
    ``profiles``: of before and after."""
    parts = [
        f"## omni-bench: {comparison.outcome}",
        _banner(comparison),
        comparison_verdict_line(comparison),
        _header(comparison),
        f"**Length guard{' ⚠ tripped' if comparison.guard.tripped else ''}**: {comparison.guard.reason}.",
        _table(comparison),
        _legend(comparison),
        "\n\n".join(f"![{path.rpartition('/')[2].removesuffix('.png')}]({path})" for path in plots),
        before_after_section(*profiles),
        _details(comparison),
        _reproduce(comparison, command),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def comparison_verdict_line(comparison: Comparison) -> str:
    """The outcome and what it stands on, in one paragraph."""
    why = escape_markdown("; ".join(comparison.advisory.values()))
    first = f"**{comparison.outcome}**" + (f" (advisory: {why})" if why else "")
    if comparison.outcome is ComparisonOutcome.ADVISORY:
        first = f"**{why}: advisory**"
    said = [
        *(f"**{escape_markdown(failure)}**" for failure in comparison.failures),
        *([_flags_line(comparison)] if comparison.accuracy_worse else []),
        *_rate_line(comparison),
        *(primary_line(primary) for primary in comparison.primaries),
    ]
    return f"{first}: {'; '.join(said)}." + _invalid_lines(comparison)


def primary_line(primary: PrimaryVerdict) -> str:
    """``TTFP +8.1 % [+6.0, +10.3] REGRESSION, detectable 3.9 %``."""
    name = METRICS[primary.metric].short
    if primary.change is None:
        return f"{name} {NA}"
    parts = [f"{name} {signed_percent(primary.change)}"]
    if primary.interval is not None:
        parts.append(interval_text(primary.interval))
    if primary.verdict is not None:
        parts.append(str(primary.verdict))
    text = " ".join(parts)
    if primary.detectable is None:
        return text
    # a few noisy pairs give figures of many digits, which say no more than this
    detectable = f"{100 * primary.detectable:.1f} %" if primary.detectable <= 1 else "only above 100 %"
    return f"{text} (detectable: {detectable})"


def _rate_line(comparison: Comparison) -> list[str]:
    """That the rate of errors rose, if its interval says so: no verdict on speed is to be read without it."""
    accuracy = comparison.accuracy
    if accuracy.wer is None or accuracy.wer.low <= 0:
        return []
    return [
        f"**higher {accuracy.rate}**: {percent(accuracy.wer.before)} → {percent(accuracy.wer.after)} "
        f"({points_text(accuracy.wer)})"
    ]


def _flags_line(comparison: Comparison) -> str:
    flags = comparison.accuracy.flags
    assert flags is not None
    counts = f"{flags.before} → {flags.after} of {flags.utterances}"
    return f"**more corrupted utterances**: {counts} (McNemar {p_text(flags.p)})"


def _invalid_lines(comparison: Comparison) -> str:
    if not comparison.invalid:
        return ""
    left = comparison.pairs - len(comparison.used)
    reasons = [f"> - {escape_markdown(reason)}" for reason in comparison.invalid[:MAX_LISTED]]
    more = len(comparison.invalid) - MAX_LISTED
    if more > 0:
        reasons.append(f"> - and {more} more")
    return (
        f"\n\n> **{left} of {comparison.pairs} pairs make no performance claim** and are left out of the verdicts:\n>\n"
        + "\n".join(reasons)
    )


def _banner(comparison: Comparison) -> str | None:
    if not comparison.forced:
        return None
    listed = "\n".join(f"> - {_difference(one)}" for one in comparison.forced)
    return f"> **⚠ NOT COMPARABLE, shown all the same (--force).** These keys differ:\n>\n{listed}"


def _header(comparison: Comparison) -> str:
    requests = [count for _, count in comparison.requests]
    span = str(requests[0]) if len(set(requests)) == 1 else f"{min(requests)} to {max(requests)}"
    pairs = f"{comparison.pairs} pair{'s' if comparison.pairs > 1 else ''}"
    if comparison.used and len(comparison.used) < comparison.pairs:
        pairs += f", {len(comparison.used)} of them valid"
    settings = [_difference(one) for one in comparison.settings]
    versions = [_difference(one) for one in comparison.versions if one.name != "target.commit"]
    facts = {
        "before": _arm(comparison.before),
        "after": _arm(comparison.after),
        "configuration": "; ".join(settings[:MAX_LISTED]) or "no difference is recorded",
        "versions": "; ".join(versions[:MAX_LISTED]) or "no difference",
        "card": escape_markdown(comparison.hardware or NA),
        "prompts": escape_markdown(comparison.prompts or NA),
        "judge": escape_markdown(comparison.judge or "none"),
        "K": f"{pairs}; {listed_levels(comparison.levels)}; {span} requests a level",
    }
    return "\n".join(f"- **{name}**: {text}" for name, text in facts.items())


def _arm(arm: ComparedArm) -> str:
    words = [arm.target or "unknown target"]
    if arm.commit:
        words.append(f"commit {arm.commit[:12]}")
    dates = [date for date in arm.started_utc if date]
    if dates:
        words.append(min(dates) if len(set(dates)) == 1 else f"{min(dates)} to {max(dates)}")
    return escape_markdown(", ".join(words))


def _difference(one: Difference) -> str:
    return f"{escape_markdown(one.name)}: {escape_markdown(shown(one.before))} → {escape_markdown(shown(one.after))}"


def _table(comparison: Comparison) -> str:
    rows = []
    cells: dict[str, list[Cell]] = {}
    for cell in comparison.cells:
        cells.setdefault(cell.metric, []).append(cell)
    primaries = {primary.metric: primary for primary in comparison.primaries}
    for metric, of_metric in cells.items():
        if metric in primaries:
            rows.append(primary_row(comparison, primaries[metric]))
        rows += cell_rows(of_metric, comparison)
    return markdown_table(headers(comparison), [*rows, *accuracy_rows(comparison)], left=(0, 7))


def _legend(comparison: Comparison) -> str:
    level = f"{100 * (1 - 2 * comparison.alpha):g} %"
    notes = []
    if comparison.gives_verdicts:
        notes.append(
            f"Rows in bold are the verdicts: the mean of ln(after/before) over levels, and its {level} t interval over "
            f"{len(comparison.used)} pairs of runs. Its ends are one-sided bounds of {100 * (1 - comparison.alpha):g} "
            "%; REGRESSION needs one that excludes 0 (Holm over the primaries) and a change worse than 3 %, "
            "NO REGRESSION one that excludes a loss of 5 %. Detectable: the change that these pairs find with a power "
            "of 0.8, as a slowdown. Rows of single levels are informational (Benjamini–Hochberg at 0.10). Before and "
            "after: the geometric mean over the runs of each run's figure; percentiles in the details are arithmetic "
            "means over the runs, which are a little larger."
        )
    elif Advisory.SINGLE_RUNS in comparison.advisory:
        notes.append(
            "One run a side: runs of the same server differ too, by an amount that only more runs show. `omni-bench "
            f"compare` gives verdicts from {FULL_PAIRS} pairs of runs."
        )
    if any(METRICS[cell.metric].relative_to for cell in comparison.cells):
        notes.append("The change of the intercept is given as a share of the median E2EL of before.")
    if any(cell.mark is Mark.LENGTH_GUARD for cell in comparison.cells):
        notes.append("length guard: not judged, as the audio is not equally long in both.")
    return "\n\n".join([*notes, *(escape_markdown(note) for note in comparison.notes)])


def _details(comparison: Comparison) -> str:
    percentiles = percentile_table(comparison)
    inside = [detail_table(comparison), *([percentiles] if percentiles else [])]
    body = "\n\n".join(inside)
    return f"<details><summary>every level: tests, and percentiles before → after</summary>\n\n{body}\n\n</details>"


def _reproduce(comparison: Comparison, command: Sequence[str]) -> str | None:
    lines = []
    for name, arm in (("before", comparison.before), ("after", comparison.after)):
        if arm.command:
            times = f", {comparison.pairs} times" if comparison.pairs > 1 else ""
            lines.append(f"{shlex.join(arm.command)}  # {name}{times}")
    if command:
        lines.append(shlex.join(command))
    return f"**Reproduce**\n\n{code_block(chr(10).join(lines), 'sh')}" if lines else None
