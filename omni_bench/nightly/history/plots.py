"""Plots of trends: one picture a gated metric, a panel a load, with alarms, change points and what was expected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from omni_bench.compare.rows import metric_label
from omni_bench.compare.stats.nightly import CONFIDENCE, MIN_NIGHTS
from omni_bench.compare.stats.pairs import as_ratio
from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.history.database import Baseline, HistoryAlarm
from omni_bench.nightly.history.records import StoredRun
from omni_bench.nightly.history.table import change_line
from omni_bench.nightly.history.trend import Trend, baseline_log, expected_values
from omni_bench.report.format import change_text
from omni_bench.report.style import (
    AMBER,
    DARK_RED,
    GREEN,
    GREY,
    LOOKS,
    Band,
    dress,
    label_point,
    look,
    save_figure,
)

DPI = 120
MAX_DATES = 8
BAND_TOP = 1.6  # times the highest night: a wide band is cut rather than the nights made flat
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
BAND_COLOUR = "#BBBBBB"
EXPECTED = f"expected: {100 * CONFIDENCE:g} % prediction interval"
NOTE = (
    f"A dot is a night. Grey: the {100 * CONFIDENCE:g} % t prediction interval for that night, from the valid nights "
    f"before it since the last change point (at least {MIN_NIGHTS}), without those as bad as an alarm. {{figure}}"
)
MEDIAN_NOTE, LEVEL_NOTE = "Its value is the median over the requests of that night.", "Its value is one for the night."


def draw_trends(
    runs: Sequence[StoredRun],
    trends: Sequence[Trend],
    folder: Path,
    baseline: Baseline | None = None,
    alarms: Sequence[HistoryAlarm] = (),
) -> list[Path]:
    """Write a PNG and an SVG a metric into ``folder``, named for series and metric; the PNGs. Raises StoreError.

    ``runs``: the nights of the series; those that are invalid are marked. One without a date is not drawn.
    """
    paths = []
    with look():
        for metric in dict.fromkeys(trend.series.metric for trend in trends):
            mine = [trend for trend in trends if trend.series.metric == metric]
            name = _UNSAFE.sub("_", f"{runs[-1].scenario}-{runs[-1].series[:8]}-{metric}")
            paths.append(folder / f"{name}.png")
            save_figure(_figure(runs, mine, metric, baseline, alarms), paths[-1])
    return paths


def _figure(
    runs: Sequence[StoredRun],
    trends: Sequence[Trend],
    metric: str,
    baseline: Baseline | None,
    alarms: Sequence[HistoryAlarm],
) -> Figure:
    figure = Figure(figsize=(10.0, 0.9 + 2.3 * len(trends)), dpi=DPI, layout="constrained")
    panels = figure.subplots(len(trends), 1, sharex=True, squeeze=False).ravel()
    for number, (axes, trend) in enumerate(zip(panels, trends, strict=True)):
        mine = [alarm for alarm in alarms if (alarm.metric, alarm.load) == (metric, trend.series.load)]
        _draw(axes, runs, trend, number, baseline, mine)
    nights = list({int(moment): moment for moment in map(_moment, runs) if moment is not None}.values())
    every = -(-len(nights) // MAX_DATES) or 1
    panels[-1].xaxis.set_major_locator(FixedLocator(nights[::-every][::-1]))
    panels[-1].xaxis.set_major_formatter(DateFormatter("%Y-%m-%d"))
    panels[-1].set_xlabel("night (UTC)")
    entry, newest = METRICS[metric], runs[-1]
    title = f"{entry.label}: {metric_label(metric)} of every night"
    note = NOTE.format(figure=MEDIAN_NOTE if entry.headline == "p50" else LEVEL_NOTE)
    dress(figure, title, [f"{newest.scenario} · {newest.target} · {newest.hardware}"], _bands(runs), [note])
    return figure


def _draw(
    axes: Axes,
    runs: Sequence[StoredRun],
    trend: Trend,
    number: int,
    baseline: Baseline | None,
    alarms: Sequence[HistoryAlarm],
) -> None:
    series, drawn = trend.series, LOOKS[number % len(LOOKS)]
    nights = {
        night.run_id: (moment, value)
        for night, value in zip(series.nights, series.values, strict=True)
        if (moment := _moment(night)) is not None and value is not None
    }
    expected = [
        (nights[night.run_id][0], *ends)
        for night, ends in zip(series.nights, expected_values(trend, alarms), strict=True)
        if ends is not None and night.run_id in nights
    ]
    shown = [value for _, value in nights.values()]
    if expected:
        moments, lows, highs = zip(*expected, strict=True)
        axes.vlines(moments, lows, highs, color=BAND_COLOUR, linewidth=max(2.0, 250 / len(runs)), zorder=1)
        axes.plot([], [], color=BAND_COLOUR, linewidth=6, label=EXPECTED)  # in the legend, however wide the bars are
        shown += [min(high, BAND_TOP * max(shown)) for high in highs]
    if nights:
        axes.plot(
            *zip(*nights.values(), strict=True), drawn.style, marker=drawn.marker, markersize=4, color=drawn.colour
        )
    for moment in (_moment(run) for run in runs if not run.valid):
        if moment is not None:
            axes.axvline(moment, color=AMBER, linewidth=0.8, linestyle=":")
            where = axes.get_xaxis_transform()
            axes.plot(
                [moment], [0.06], "x", color=DARK_RED, transform=where, label="INVALID night: no performance claim"
            )
    for night in series.nights:
        what = "FAULT INJECTED on purpose" if night.faults else "the server says: fault" if night.stated_fault else None
        if what is not None and night.run_id in nights:
            axes.plot(*nights[night.run_id], "X", markersize=9, color=AMBER, label=what)
    for change in trend.changes:
        moment = _moment(change.night)
        if moment is not None:
            colour, name = (DARK_RED, "worse") if change.worse else (GREEN, "better")
            style = "--" if change.worse else "-."
            axes.axvline(moment, color=colour, linestyle=style, linewidth=1.3, label=f"change point, {name}")
            late = sum(other < moment for other, _ in nights.values()) > len(nights) / 2  # then the room is before it
            where = {"ha": "right" if late else "left", "va": "top", "fontsize": 7.5, "color": colour}
            text = f" {change_line(series.metric, change)} "
            axes.text(moment, 0.99, text, transform=axes.get_xaxis_transform(), in_layout=False, **where)
    for alarm in alarms:
        if alarm.raised_by in nights:
            at = nights[alarm.raised_by]
            axes.plot(
                *at, "o", markersize=12, markerfacecolor="none", markeredgecolor=DARK_RED, label="ALARM of the gate"
            )
            said = f"ALARM ({alarm.kind}) {change_text(METRICS[alarm.metric], alarm.change)}"
            label_point(axes, *at, said, colour=DARK_RED)
    normal = baseline_log(series.metric, series.load, baseline)
    if normal is not None and baseline is not None:
        level = as_ratio(normal)
        label = f"baseline, set {baseline.set_utc[:10]}"
        since = [moment for moment in map(_moment, (*baseline.runs, *runs[-1:])) if moment is not None]
        if since:  # what was before it is not judged by it
            line = [level, level]
            axes.plot([min(since), max(since)], line, color=GREY, linewidth=1.2, linestyle=(0, (1, 1)), label=label)
        shown.append(level)
    axes.set_ylabel(metric_label(series.metric))
    axes.set_title(series.load, loc="left")
    if shown:
        axes.set_ylim(min(0.0, 1.2 * min(shown)), 1.35 * max(*shown, 0.0) or 1.0)
    labelled = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if labelled:
        axes.legend(labelled.values(), labelled.keys(), loc="lower left", ncols=3)


def _bands(runs: Sequence[StoredRun]) -> list[tuple[Band, str]]:
    bands, newest = [], runs[-1]
    if faulty := [run for run in runs if run.faults]:
        faults = ", ".join(dict.fromkeys(fault for run in faulty for fault in run.faults))
        said = f"FAULT INJECTED on purpose in {len(faulty)} of {len(runs)} nights: {faults}"
        bands.append((Band.FAULT, said))
    if stated := [run.stated_fault for run in runs if run.stated_fault is not None]:
        bands.append((Band.FAULT, f"{', '.join(dict.fromkeys(stated))}, in {len(stated)} of {len(runs)} nights"))
    if not newest.valid:
        bands.append((Band.INVALID, f"INVALID (no performance claim): the newest night, {newest.date}"))
    return bands


def _moment(run: StoredRun) -> float | None:
    """The night on a date axis; None without a date."""
    return None if run.started_utc is None else float(date2num(datetime.fromisoformat(run.started_utc)))
