"""Plots of trends: one PNG a gated metric, a line a load, with change points and commits."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from omni_bench.metrics.definitions import METRICS
from omni_bench.nightly.history.database import Baseline
from omni_bench.nightly.history.records import StoredRun
from omni_bench.nightly.history.trend import Trend, baseline_log, commit_range
from omni_bench.report.plots import BLUE, GREEN, GREY, ORANGE, save_figure

DPI = 120
COLOURS = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def draw_trends(
    runs: Sequence[StoredRun], trends: Sequence[Trend], folder: Path, baseline: Baseline | None = None
) -> list[Path]:
    """Write one PNG a metric into ``folder``, named for series and metric; their paths. Raises StoreError.

    ``runs``: the nights of the series; those that are invalid are marked. One without a date is not drawn.
    """
    paths = []
    for metric in dict.fromkeys(trend.series.metric for trend in trends):
        mine = [trend for trend in trends if trend.series.metric == metric]
        name = _UNSAFE.sub("_", f"{runs[-1].scenario}-{runs[-1].series[:8]}-{metric}")
        paths.append(folder / f"{name}.png")
        save_figure(_figure(runs, mine, metric, baseline), paths[-1])
    return paths


def _figure(runs: Sequence[StoredRun], trends: Sequence[Trend], metric: str, baseline: Baseline | None) -> Figure:
    figure = Figure(figsize=(10.0, 2.2 + 1.7 * len(trends)), dpi=DPI, layout="constrained")
    newest = runs[-1]
    title = f"{metric} · {newest.scenario} · {newest.target} · {newest.hardware}"
    figure.suptitle(title.replace("$", r"\$"), x=0.012, ha="left", fontsize=11, fontweight="bold")
    panels = figure.subplots(len(trends), 1, sharex=True, squeeze=False).ravel()
    for number, (axes, trend) in enumerate(zip(panels, trends, strict=True)):
        _draw(axes, runs, trend, COLOURS[number % len(COLOURS)], baseline)
    locator = AutoDateLocator()
    panels[-1].xaxis.set_major_locator(locator)
    panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))
    return figure


def _draw(axes: Axes, runs: Sequence[StoredRun], trend: Trend, colour: str, baseline: Baseline | None) -> None:
    series = trend.series
    dated = [
        (moment, value)
        for night, value in zip(series.nights, series.values, strict=True)
        if (moment := _moment(night)) is not None and value is not None
    ]
    if dated:
        axes.plot(*zip(*dated, strict=True), "-", marker="o", markersize=3.5, linewidth=1.2, color=colour)
    for moment in (_moment(run) for run in runs if not run.valid):
        if moment is not None:
            axes.axvline(moment, color=ORANGE, linewidth=0.8, alpha=0.5)
            axes.plot([moment], [0.02], "x", color=ORANGE, transform=axes.get_xaxis_transform(), markersize=6)
    for change in trend.changes:
        moment = _moment(change.night)
        if moment is None:
            continue
        axes.axvline(moment, color=ORANGE if change.worse else GREEN, linestyle="--", linewidth=1.3)
        said = f"{100 * change.point.change:+.1f} %\n{commit_range(change.commits)}"
        where = {"xytext": (4, -4), "textcoords": "offset points", "va": "top", "fontsize": 7.5}
        axes.annotate(said, (moment, 1), xycoords=axes.get_xaxis_transform(), **where)
    normal = baseline_log(series.metric, series.load, baseline)
    if normal is not None:
        axes.axhline(math.exp(normal), color=GREY, linewidth=1.0, linestyle=":")
    unit = METRICS[series.metric].unit
    axes.set_ylabel(unit or "ratio", fontsize=8.5)
    axes.set_title(series.load, loc="left", fontsize=9.5)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.margins(y=0.25)


def _moment(run: StoredRun) -> float | None:
    """The night on a date axis; None without a date."""
    return None if run.started_utc is None else float(date2num(datetime.fromisoformat(run.started_utc)))
