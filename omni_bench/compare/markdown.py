"""A comparison as markdown: the page of its folder, and the text to paste into a pull request."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

from omni_bench.compare.headline import MARKS, headline, outcome_line, remarks, says_nothing
from omni_bench.compare.keys import Difference, shown
from omni_bench.compare.pivot import legend, pivot_markdown, speed_table, whole_table, words_table
from omni_bench.compare.result import Advisory, Cell, ComparedArm, Comparison, ComparisonOutcome, HeardPair, Mark
from omni_bench.compare.rows import (
    accuracy_rows,
    cell_rows,
    corrected_p,
    headers,
    interval_text,
    pair_table,
    percentile_table,
    primary_row,
)
from omni_bench.compare.stats.looks import ALPHA, Look
from omni_bench.compare.stats.verdicts import (
    FULL_PAIRS,
    LOSS_LIMIT,
    MIN_CHANGE,
    TAIL_LOSS_LIMIT,
    TAIL_MIN_CHANGE,
    PrimaryVerdict,
)
from omni_bench.errors import shorten
from omni_bench.foreign_text import code_block, code_span, escape_markdown, page_of
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.level import listed_levels, short_title
from omni_bench.records.profile import RunProfile
from omni_bench.report.format import NA, change_text, p_text, percent
from omni_bench.report.profile import before_after_section
from omni_bench.report.table import markdown_table

MAX_LISTED = 12
MAX_VALUE, MAX_HEARD, MAX_COMMAND = 200, 240, 100
MAX_FILE_CHARS = 1_000_000
FIT_PICTURE = "e2el_over_audio"
Profiles = tuple[RunProfile | None, RunProfile | None]


def render_comparison(
    comparison: Comparison,
    plots: Sequence[str] = (),
    command: Sequence[str] = (),
    profiles: Profiles = (None, None),
) -> str:
    """The page. ``plots``: paths of images relative to it; ``command``: what made it, to repeat; ``profiles``: of
    before and after."""
    images = "\n\n".join(f"![{PurePath(path).stem}]({path})" for path in plots)
    parts = [*_glance(comparison), images, *_folded(comparison, command, profiles)]
    return page_of(parts, "Some of it is left out here, as it is too long; compare.json has it.", MAX_FILE_CHARS)


def render_for_pull_request(
    comparison: Comparison,
    plots: Sequence[str] = (),
    command: Sequence[str] = (),
    profiles: Profiles = (None, None),
    place: str = "",
) -> str:
    """The same without images, which a comment would show broken, and no longer than GitHub takes.

    ``plots``: paths of PNG files, which a person can drag into the comment; ``place``: the folder in which the runs
    are named, empty for the current one.
    """
    paths = to_drag(comparison, plots)
    dragged = f"<!-- drag these files in here: {' '.join(map(_comment, paths))} -->" if paths else ""
    parts = [*_glance(comparison, place), dragged, *_folded(comparison, command, profiles)]
    return page_of(parts, "Details are left out here, as they are too long for GitHub; compare.md has them.")


def to_drag(comparison: Comparison, plots: Sequence[str]) -> list[str]:
    """The pictures that belong into a pull request: without that of speed alone where speed is not judged."""
    return [path for path in plots if comparison.judges_speed or PurePath(path).stem != FIT_PICTURE]


def _comment(path: str) -> str:
    """A path that cannot end the comment around it."""
    return re.sub(r"[<>\x00-\x1f]", "_", path)


def _folded(comparison: Comparison, command: Sequence[str], profiles: Profiles) -> list[str]:
    return [_details(title, body) for title, body in folded_sections(comparison, command, profiles).items()]


def _glance(comparison: Comparison, place: str | None = None) -> list[str | None]:
    """What is read without opening anything. ``place``: the folder in which the recordings are named."""
    return [
        f"## {MARKS[comparison.outcome]} omni-bench: {escape_markdown(outcome_line(comparison))}",
        _faults(comparison),
        _banner(comparison),
        comparison_verdict_line(comparison),
        _compared(comparison),
        hear_it(comparison, place),
        _invalid_lines(comparison) if comparison.outcome is not ComparisonOutcome.AFTER_BROKEN else None,
        _tables(comparison),
        _header(comparison),
    ]


def comparison_verdict_line(comparison: Comparison) -> str:
    """The verdict in one sentence, in bold, and what goes with it."""
    said = headline(comparison)
    first = f"**{escape_markdown(said[:1].upper() + said[1:])}.**"
    return " ".join([first, *map(escape_markdown, remarks(comparison))])


def primary_line(primary: PrimaryVerdict) -> str:
    """``TTFP +8.1 % [+6.0, +10.3] REGRESSION (corrected p = 0.001; detectable: 3.9 %)``."""
    name = METRICS[primary.metric].short
    if primary.change is None:
        return f"{name} {NA}"
    parts = [f"{name} {change_text(METRICS[primary.metric], primary.change)}"]
    if primary.interval is not None:
        parts.append(interval_text(primary.interval))
    if primary.verdict is not None:
        parts.append(str(primary.verdict))
    added = []
    if primary.verdict is not None and (p := corrected_p(primary)) is not None:
        added.append(f"corrected {p_text(p)}")
    if primary.detectable is not None:
        unit = "points" if METRICS[primary.metric].points else "%"
        # a few noisy pairs give figures of many digits, which say no more than this
        least = f"{100 * primary.detectable:.1f} {unit}" if primary.detectable <= 1 else f"only above 100 {unit}"
        added.append(f"detectable: {least}")
    return " ".join(parts) + (f" ({'; '.join(added)})" if added else "")


def hear_it(comparison: Comparison, place: str | None = None) -> str | None:
    """The utterances that after says worst, with the paths of both recordings; None if it says none worse.

    ``place``: the folder to which the paths are relative, for a reader elsewhere; None for one who is in it.
    """
    if not comparison.worst:
        return None
    kept = place is not None and any(one.audio_before or one.audio_after for one in comparison.worst)
    where = f" in {code_span(place)}" if place else ""
    how = f" (recordings{where}; to be heard here, drag the WAV files in as well, in a .zip if they are refused)"
    return "\n".join([f"Hear it{how if kept else ''}:", *(f"- {_heard(one, comparison)}" for one in comparison.worst)])


def _heard(one: HeardPair, comparison: Comparison) -> str:
    pair = f", pair {one.pair}" if comparison.pairs > 1 else ""
    text, heard = (escape_markdown(shorten(words, MAX_HEARD)) for words in (one.text, one.heard_after or "(nothing)"))
    rates = f"{comparison.accuracy.rate or 'errors'} {percent(one.rate_before)} → {percent(one.rate_after)}"
    recordings = " → ".join(
        code_span(path) if path is not None else "not kept (output.save_audio=all keeps it)"
        for path in (one.audio_before, one.audio_after)
    )
    return f"{short_title(one.concurrency)}{pair}: “{text}” was heard as “**{heard}**” ({rates}): {recordings}"


def _invalid_lines(comparison: Comparison) -> str:
    if not comparison.invalid:
        return ""
    left = comparison.pairs - len(comparison.used)
    listed = [escape_markdown(shorten(reason, MAX_HEARD)) for reason in comparison.invalid[:MAX_LISTED]]
    more = len(comparison.invalid) - MAX_LISTED
    reasons = [f"> - {reason}" for reason in [*listed, *([f"and {more} more"] if more > 0 else [])]]
    return (
        f"> {left} of {comparison.pairs} pairs make no performance claim and are left out of the verdicts:\n>\n"
        + "\n".join(reasons)
    )


def _faults(comparison: Comparison) -> str | None:
    lines = [f"> **Note on the server**: {escape_markdown(one)}." for one in comparison.stated_faults]
    if comparison.faults:
        lines.insert(0, f"> **FAULT INJECTED on purpose**: {escape_markdown('; '.join(comparison.faults))}.")
    return "\n>\n".join(lines) or None


def _compared(comparison: Comparison) -> str:
    """``Compared, before → after (5 pairs): reference.predictor: reprefill → kv_cache.``"""
    own = [one for one in comparison.versions if one.name in ("target.commit", "target.version")]
    listed = [_difference(one) for one in [*comparison.settings, *own]]
    more = f"; and {len(listed) - MAX_LISTED} more" if len(listed) > MAX_LISTED else ""
    pairs = f"{comparison.pairs} pair{'s' if comparison.pairs > 1 else ''}"
    what = "; ".join(listed[:MAX_LISTED]) or "no setting that is recorded differs"
    return f"Compared, before → after ({pairs}): {what}{more}."


def _banner(comparison: Comparison) -> str | None:
    if not comparison.forced:
        return None
    listed = "\n".join(f"> - {_difference(one)}" for one in comparison.forced[:MAX_LISTED])
    return f"> **⚠ NOT COMPARABLE, shown all the same (--force).** These keys differ:\n>\n{listed}"


def _tables(comparison: Comparison) -> str:
    """One row a level; where speed is not judged, what was heard alone, and speed folded away."""
    guard = f"⚠ Length guard: {escape_markdown(comparison.guard.reason)}." if comparison.guard.tripped else None
    if comparison.judges_speed:
        return "\n\n".join(one for one in (pivot_markdown(whole_table(comparison)), guard, legend(comparison)) if one)
    words = words_table(comparison)
    speed = _details("speed, which is not judged", pivot_markdown(speed_table(comparison)))
    return "\n\n".join([pivot_markdown(words), speed] if len(words[0]) > 1 else [speed])


def _header(comparison: Comparison) -> str:
    facts = {name: text for name, text in arm_facts(comparison).items() if name != "what differs"}  # see _compared
    return "\n".join(f"- **{name}**: {text}" for name, text in facts.items())


def arm_facts(comparison: Comparison) -> dict[str, str]:
    """What the two arms are, by name, as markdown."""
    settings = [_difference(one) for one in comparison.settings]
    return {
        "before": _arm(comparison.before),
        "after": _arm(comparison.after),
        "what differs": "; ".join(settings[:MAX_LISTED]) or "no setting that is recorded",
        "hardware": escape_markdown(comparison.hardware or NA),
    }


def _arm(arm: ComparedArm) -> str:
    words = [arm.target or "unknown target"]
    if arm.commit:
        words.append(f"commit {arm.commit[:12]}")
    dates = [date for date in arm.started_utc if date]
    if dates:
        words.append(min(dates) if len(set(dates)) == 1 else f"{min(dates)} to {max(dates)}")
    return escape_markdown(shorten(", ".join(words), MAX_VALUE))


def _difference(one: Difference, *, whole: bool = False) -> str:
    return f"{escape_markdown(one.name)}: {_value(one, one.before, whole)} → {_value(one, one.after, whole)}"


def _value(one: Difference, value: object, whole: bool) -> str:
    """A value as text; a command as code, with its private folders left out unless it is ``whole``."""
    text = shown(value)
    if not isinstance(value, str) or not one.name.endswith("command"):
        return escape_markdown(text if whole else shorten(text, MAX_VALUE))
    return code_span(text if whole else short_command(text))


def short_command(command: str) -> str:
    """``~/env/bin/serve --weights ~/x`` as ``…/serve --weights …/x``, cut to :data:`MAX_COMMAND`."""
    return shorten(re.sub(r"(?<![^\s='\"])(?:~|\.{1,2})?/(?:[^\s='\"]*/)?(?=[^\s/])", "…/", command), MAX_COMMAND)


def _details(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def folded_sections(comparison: Comparison, command: Sequence[str], profiles: Profiles) -> dict[str, str]:
    """Method, every pair and every figure, and how to repeat it, by title: for behind a line to open it."""
    pairs, percentiles, profile = pair_table(comparison), percentile_table(comparison), before_after_section(*profiles)
    sections = {
        "method, intervals and notes": "\n\n".join([_method(comparison), _table(comparison)]),
        "every pair": pairs,
        "mean and percentiles, before → after": percentiles,
        "where the time goes": profile,
        "reproduce": _reproduce(comparison, command),
    }
    return {title: body for title, body in sections.items() if body}


def _method(comparison: Comparison) -> str:
    requests = [count for _, count in comparison.requests]
    span = str(requests[0]) if len(set(requests)) == 1 else f"{min(requests)} to {max(requests)}"
    pairs = f"{comparison.pairs} pair{'s' if comparison.pairs > 1 else ''}"
    if comparison.used and len(comparison.used) < comparison.pairs:
        pairs += f", {len(comparison.used)} of them valid"
    versions = [_difference(one) for one in comparison.versions if one.name != "target.commit"]
    commands = [_difference(one, whole=True) for one in comparison.settings if one.name.endswith("command")]
    guard = escape_markdown(comparison.guard.reason)
    facts = {
        "runs": f"{pairs}; {listed_levels(comparison.levels)}; {span} requests a level",
        "prompts": escape_markdown(comparison.prompts or NA),
        "judge": escape_markdown(comparison.judge or "none"),
        "versions": "; ".join(versions[:MAX_LISTED]) or "no difference",
        "verdicts": "; ".join(primary_line(one) for one in comparison.primaries if not says_nothing(one)),
        "length guard": guard if comparison.judges_speed else "not applied, as speed is not judged",
    }
    if not comparison.judges_speed:
        del facts["verdicts"]
    lines = [f"- **{name}**: {text}" for name, text in facts.items()]
    listed = _invalid_lines(comparison) if comparison.outcome is ComparisonOutcome.AFTER_BROKEN else None
    parts = ["\n".join([*lines, *(f"- {one}" for one in commands)]), listed, _notes(comparison)]
    return "\n\n".join(part for part in parts if part)


def _table(comparison: Comparison) -> str:
    rows = []
    cells: dict[str, list[Cell]] = {}
    for cell in comparison.cells:
        cells.setdefault(cell.metric, []).append(cell)
    primaries = {primary.metric: primary for primary in comparison.primaries}
    for metric, of_metric in cells.items():
        if metric in primaries and (comparison.judges_speed or primaries[metric].change is not None):
            rows.append(primary_row(comparison, primaries[metric]))
        rows += cell_rows(of_metric, comparison)
    return markdown_table(headers(comparison), [*rows, *accuracy_rows(comparison)], left=(0, 9))


def _notes(comparison: Comparison) -> str:
    level = f"{100 * (1 - 2 * comparison.alpha):.3g} %"
    notes = []
    if comparison.gives_verdicts and comparison.judges_speed:
        notes.append(_meaning(comparison))
        notes.append(
            f"Rows in bold are the verdicts: the mean of ln(after/before) over levels, and its {level} t interval over "
            f"{len(comparison.used)} pairs of runs. Its ends are one-sided bounds of "
            f"{100 * (1 - comparison.alpha):.3g} %. Detectable: the change that these pairs find with a power "
            f"of 0.8, as a slowdown. Limits of a tail: {100 * TAIL_MIN_CHANGE:g} and {100 * TAIL_LOSS_LIMIT:g} %; "
            "a share of requests changes by percentage points. "
            "Rows of single levels are informational (Benjamini–Hochberg at 0.10). Before and "
            "after: the geometric mean over the runs of each run's figure; percentiles in the details are arithmetic "
            "means over the runs, which are a little larger."
        )
        if comparison.look is not None and len(comparison.look.at) > 1:
            notes.append(_look_note(comparison.look))
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


def _meaning(comparison: Comparison) -> str:
    """What the words of a verdict mean, in one line."""
    figures = sum(one.p_worse is not None for one in comparison.primaries)
    return (
        f"IMPROVEMENT, REGRESSION: a figure moved by more than {100 * MIN_CHANGE:g} %, and p ≤ {ALPHA:g} after the "
        f"correction for {figures} figures (Holm), any of which may move by chance. NO REGRESSION: a loss of "
        f"{100 * LOSS_LIMIT:g} % is excluded in each; that it is faster is not proved. INCONCLUSIVE: these pairs can "
        "say neither."
    )


def _look_note(look: Look) -> str:
    planned = ", ".join(map(str, look.at))
    early = "" if look.is_last else " A study that stops early tends to show more of a change than there is."
    return (
        f"Look {look.number} of {len(look.at)}, at {look.pairs} pairs (planned at {planned}): all looks together spend "
        f"an error of 5 %. Intervals, their level and what is detectable are those of this look.{early}"
    )


def _reproduce(comparison: Comparison, command: Sequence[str]) -> str | None:
    lines = []
    for name, arm in (("before", comparison.before), ("after", comparison.after)):
        if arm.command:
            times = f", {comparison.pairs} times" if comparison.pairs > 1 else ""
            lines.append(f"{shlex.join(arm.command)}  # {name}{times}")
    if command:
        lines.append(shlex.join(command))
    return code_block("\n".join(lines), "sh") if lines else None
