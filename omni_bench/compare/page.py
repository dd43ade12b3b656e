"""report.html of a comparison: the verdict, the same prompt before and after to hear, and the pairs as dots."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from omni_bench.accuracy.wer import alignment
from omni_bench.compare.headline import outcome_line
from omni_bench.compare.markdown import Profiles, arm_facts, comparison_verdict_line, folded_sections
from omni_bench.compare.pivot import legend, speed_table, whole_table, words_table
from omni_bench.compare.result import Comparison, ComparisonOutcome
from omni_bench.compare.views import OMNI_BENCH, RunView
from omni_bench.errors import shorten
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.level import level_or_none, short_title
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.evidence import edits_text
from omni_bench.report.format import NA, metric_text, percent
from omni_bench.report.page.cards import Card, Player, filters_of, fitting
from omni_bench.report.page.recordings import Recordings
from omni_bench.report.page.render import from_markdown, render_page
from omni_bench.report.utterances import score_of

TEMPLATE = Path(__file__).with_name("compare.html")
MAX_CARDS, GOOD, MAX_LISTED, MAX_HEARD = 100, 3, 12, 300
_KINDS = {
    ComparisonOutcome.IMPROVEMENT: "valid",
    ComparisonOutcome.NO_REGRESSION: "valid",
    ComparisonOutcome.INCONCLUSIVE: "fault",
    ComparisonOutcome.ADVISORY: "fault",
}

Record = Mapping[str, Any]


def comparison_page(
    comparison: Comparison,
    before: Sequence[RunView],
    after: Sequence[RunView],
    page: Path,
    command: Sequence[str],
    profiles: Profiles,
    runs_in: Path,
) -> str:
    """The page as HTML. ``page``: the folder that it is for; ``runs_in``: the one in which the runs are named.

    Raises StoreError.
    """
    recordings = Recordings(page)
    folders = [
        [RunFolder(runs_in / run.source) if run.kind == OMNI_BENCH else None for run in arm] for arm in (before, after)
    ]
    cards = _cards(folders, comparison.accuracy.rate or "errors", recordings)
    bad = [card for card, good in cards if not good]
    worse = fitting(bad[:MAX_CARDS])
    shown = [*worse, *fitting([card for card, good in cards if good][:GOOD])]
    tables = {"": whole_table(comparison)}
    if not comparison.judges_speed:
        tables = {"What was heard": words_table(comparison), "Speed, which is not judged": speed_table(comparison)}
    context = {
        "title": f"{comparison.outcome} · omni-bench",
        "outcome": outcome_line(comparison),
        "kind": _KINDS.get(comparison.outcome, "invalid"),
        "verdict": from_markdown(comparison_verdict_line(comparison)),
        "faults": comparison.faults,
        "stated_faults": comparison.stated_faults,
        "forced": [one.name for one in comparison.forced[:MAX_LISTED]],
        "judges_speed": comparison.judges_speed,
        "invalid": [shorten(reason, MAX_HEARD) for reason in comparison.invalid[:MAX_LISTED]],
        "left_out": comparison.pairs - len(comparison.used),
        "pairs": comparison.pairs,
        "tables": [{"title": title, "headers": one[0], "rows": one[1]} for title, one in tables.items()],
        "legend": legend(comparison),
        "facts": {name: from_markdown(text) for name, text in arm_facts(comparison).items()},
        "cards": shown,
        "hidden": len(bad) - len(worse),
        **filters_of(shown),
        "reports": [
            (f"{name} {number}", quote(Path(os.path.relpath(folder.report_html, page)).as_posix()))
            for name, arm in zip(("before", "after"), folders, strict=True)
            for number, folder in enumerate(arm, start=1)
            if folder is not None and folder.report_html.is_file()
        ],
        "sections": {
            title: from_markdown(body) for title, body in folded_sections(comparison, command, profiles).items()
        },
    }
    return render_page(TEMPLATE, context, {"audio": recordings.by_name, "distributions": _pair_dots(comparison)})


def _pair_dots(comparison: Comparison) -> list[dict[str, Any]]:
    """For each primary metric the figures of both arms, a dot a pair."""
    charts = []
    for name in dict.fromkeys(one.metric for one in comparison.pair_changes):
        metric = METRICS[name]
        changes = [one for one in comparison.pair_changes if one.metric == name]
        levels = []
        for arm in ("before", "after"):
            values = [(f"pair {one.pair}", getattr(one, arm)) for one in changes]
            dots = [[pair, value] for pair, value in values if value is not None]
            said = " · ".join(f"{pair} {metric_text(metric, value)}" for pair, value in dots)
            levels.append({"title": arm, "figures": shorten(said, 90), "valid": True, "dots": dots, "arm": arm})
        if any(level["dots"] for level in levels):
            unit = f" ({metric.unit})" if metric.unit else ""
            charts.append({"title": f"{metric.short}{unit}", "label": metric.label, "levels": levels})
    return charts


def _cards(folders: Sequence[Sequence[RunFolder | None]], rate: str, recordings: Recordings) -> list[tuple[Card, bool]]:
    """A card for each prompt of which something was heard or kept in both runs of a pair, and whether both are good.

    What after says worse than before comes first, by the error rate of after that its card shows.
    """
    twins = []
    for number, (first, second) in enumerate(zip(*folders, strict=True), start=1):
        if first is None or second is None:
            continue
        told = {_twin(one): one for one in first.read_utterances()}
        for heard in second.read_utterances():
            if (twin := told.get(_twin(heard))) is not None:
                edits = [score_of(one).edits for one in (twin, heard)]
                twins.append((edits, number, first, second, twin, heard))
    twins.sort(key=lambda one: (one[0][1] <= one[0][0], -(one[5]["wer"] or 0.0), one[4]["wer"] or 0.0, one[1]))
    cards = []
    for (was, now), number, first, second, twin, heard in twins:
        good = was == now == 0
        kept = [one.get("audio") for one in (twin, heard)]
        if good and (None in kept or sum(one for _, one in cards) >= GOOD):
            continue
        tag = "good" if good else "worse after" if now > was else "better after" if now < was else "wrong in both"
        level = level_or_none(heard)
        within = len(cards) < MAX_CARDS
        names = [
            recordings.add(folder, path) if within else None for folder, path in ((first, kept[0]), (second, kept[1]))
        ]
        card = Card(
            f"{heard['request_id']}, pair {number}",
            str(heard.get("prompt_id") or NA),
            NA if level is None else short_title(level),
            heard["reference"],
            heard["hypothesis"],
            tuple(map(tuple, alignment(score_of(heard)))),
            f"{rate} {percent(twin['wer'])} → {percent(heard['wer'])} ({edits_text(heard)})",
            (tag,),
            (),
            () if good else (f"before was heard as “{shorten(twin['hypothesis'], MAX_HEARD)}”",),
            (),
            (Player("before", names[0]), Player("after", names[1])),
        )
        cards.append((card, good))
    return cards


def _twin(utterance: Record) -> tuple[object, ...]:
    """What an utterance shares with its twin in the other run: runs of a pair have the same plan."""
    return level_or_none(utterance), utterance["request_id"], utterance.get("prompt_id")
