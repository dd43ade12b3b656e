"""Plots of a comparison: metrics against concurrency for both arms, and E2EL against audio length with both fits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from omni_bench.compare.result import Comparison
from omni_bench.compare.rows import metric_label
from omni_bench.compare.stats.pairs import log_ratio, paired_effect, t_interval
from omni_bench.compare.views import RunView
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.metric import WithLength
from omni_bench.records.level import Level, axis_label, level_value, short_title
from omni_bench.report.format import signed_percent
from omni_bench.report.plots import BLUE, DPI, GREY, ORANGE, save_figure, scale_x

ARMS = (("before", BLUE, "o", "-"), ("after", ORANGE, "s", "--"))
CONFIDENCE = 0.95
MAX_FIT_PANELS = 6
RUNS_SHOWN = "small: each run; bars: 95 % t interval"
METRICS_PNG, FIT_PNG = "before_after.png", "e2el_over_audio.png"

Point = tuple[float, float | None, float | None]
"""A value with the ends of its interval."""


def draw_comparison(
    comparison: Comparison, before: Sequence[RunView], after: Sequence[RunView], folder: Path
) -> list[Path]:
    """Write before_after.png and e2el_over_audio.png into ``folder``; their paths. Raises StoreError.

    The runs are those that the comparison was made from; with pairs left out, only the others are drawn.
    """
    used = comparison.used or range(comparison.pairs)
    arms = [[runs[i] for i in used] for runs in (before, after)]
    paths = [folder / METRICS_PNG, folder / FIT_PNG]
    save_figure(_metrics_figure(comparison, arms), paths[0])
    save_figure(_fit_figure(comparison, arms), paths[1])
    return paths


def arm_point(runs: Sequence[RunView], metric: str, level: Level) -> Point | None:
    """Geometric mean over the runs with its 95 % t interval (None for one run); None if no run has a value.

    The interval is of one arm alone: what pairs share makes the difference more certain than two such intervals tell.
    """
    values = [view.value(metric) for run in runs if (view := run.level(level)) is not None]
    logs = [value for value in (log_ratio(1.0, value) for value in values) if value is not None]
    if not logs:
        return None
    effect = paired_effect(logs)
    bounds = t_interval(effect, CONFIDENCE)
    low, high = (None, None) if bounds is None else (math.exp(bounds[0]), math.exp(bounds[1]))
    return math.exp(effect.mean), low, high


def _metrics_figure(comparison: Comparison, arms: Sequence[Sequence[RunView]]) -> Figure:
    named = dict.fromkeys(cell.metric for cell in comparison.cells)
    entries = [METRICS[one] for one in named]  # the fit is drawn over audio; a share of 0 has no place on a log scale
    metrics = [one.name for one in entries if one.with_length is not WithLength.INSTEAD and not one.points]
    rows = math.ceil(len(metrics) / 2) or 1
    figure = Figure(figsize=(11.0, 3.8 * rows), dpi=DPI / 1.2, layout="constrained")
    figure.suptitle(_title(comparison), x=0.012, ha="left", fontsize=12, fontweight="bold")
    changes = {primary.metric: primary.change for primary in comparison.primaries}
    panels = figure.subplots(rows, 2).ravel()
    for axes in panels[len(metrics) :]:
        axes.set_axis_off()
    for axes, metric in zip(panels, metrics, strict=False):
        drawn = [_draw_arm(axes, runs, metric, comparison.levels, number) for number, runs in enumerate(arms)]
        change = changes.get(metric)
        said = f"   {signed_percent(change)} over all levels" if change is not None else ""
        axes.set_title(f"{metric_label(metric)}{said}", loc="left", fontsize=10.5, fontweight="bold")
        _frame(axes, axis_label(comparison.levels), metric_label(metric))
        scale_x(axes, [level_value(level) for level in comparison.levels])
        if len(arms[0]) > 1:
            axes.text(1, 1.01, RUNS_SHOWN, transform=axes.transAxes, ha="right", va="bottom", fontsize=7, color=GREY)
        if any(drawn):
            axes.set_ylim(0, 1.15 * max(top for top in drawn if top is not None))
            axes.legend(frameon=False, fontsize=9)
        else:
            _nothing(axes)
    return figure


def _draw_arm(axes: Axes, runs: Sequence[RunView], metric: str, levels: Sequence[Level], number: int) -> float | None:
    """Draw one arm; the highest thing drawn, None if there was nothing."""
    label, colour, marker, style = ARMS[number]
    points = [(level_value(level), *point) for level in levels if (point := arm_point(runs, metric, level)) is not None]
    if not points:
        return None
    nudge = 2 ** (0.06 * (2 * number - 1))  # so that intervals do not hide one another
    xs, values = [level * nudge for level, *_ in points], [value for _, value, _, _ in points]
    axes.plot(xs, values, style, marker=marker, markersize=5, linewidth=1.6, color=colour, label=label)
    dots = [(x, value) for x, (level, *_) in zip(xs, points, strict=True) for value in _of_runs(runs, metric, level)]
    if len(runs) > 1 and dots:
        axes.plot(*zip(*dots, strict=True), marker, markersize=3, alpha=0.45, color=colour, linestyle="")
    for x, (_, _, low, high) in zip(xs, points, strict=True):
        if low is not None and high is not None:
            axes.plot([x, x], [low, high], "-", color=colour, linewidth=1.2, marker="_", markersize=7)
    tops = [high if high is not None else value for _, value, _, high in points]
    return max([*tops, *(value for _, value in dots)])


def _of_runs(runs: Sequence[RunView], metric: str, level: float) -> list[float]:
    """The value of every run at a place of the axis."""
    views = [view for run in runs for view in run.levels if level_value(view.concurrency) == level]
    return [value for view in views if (value := view.value(metric)) is not None]


def _fit_figure(comparison: Comparison, arms: Sequence[Sequence[RunView]]) -> Figure:
    levels = comparison.levels[-MAX_FIT_PANELS:]
    columns = min(3, len(levels))
    lines = math.ceil(len(levels) / columns)
    figure = Figure(figsize=(4.2 * columns + 0.6, 3.6 * lines + 0.6), dpi=DPI / 1.2, layout="constrained")
    figure.suptitle(_title(comparison), x=0.012, ha="left", fontsize=11, fontweight="bold")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, level in zip(panels, levels, strict=False):
        drawn = [_draw_fit(axes, runs, level, number) for number, runs in enumerate(arms)]
        axes.set_title(short_title(level), loc="left", fontsize=10.5, fontweight="bold")
        _frame(axes, "audio (s)", "E2EL (ms)")
        if any(drawn):
            axes.legend(frameon=False, fontsize=8)
        else:
            _nothing(axes)
    for axes in panels[len(levels) :]:
        axes.set_axis_off()
    return figure


def _draw_fit(axes: Axes, runs: Sequence[RunView], level: Level, number: int) -> bool:
    """The requests of one arm as points, and the mean of its runs' lines; False if there is neither."""
    label, colour, marker, style = ARMS[number]
    points = [
        (request.audio_s, request.e2el_ms)
        for run in runs
        for request in run.requests or ()
        if request.key.concurrency == level and request.audio_s is not None and request.e2el_ms is not None
    ]
    if points:
        look = {"linestyle": "", "marker": marker, "markersize": 3, "alpha": 0.35, "color": colour}
        axes.plot(*zip(*points, strict=True), **look)
    line = _mean_line(runs, level)
    if line is None:
        if points:
            axes.plot([], [], marker=marker, linestyle="", color=colour, label=f"{label}: fit n/a")
        return bool(points)
    intercept_ms, slope = line
    ends = _span(runs, level, [audio_s for audio_s, _ in points])
    if ends is None:
        return bool(points)
    heights = [intercept_ms + 1e3 * slope * x for x in ends]
    said = f"{label}: {intercept_ms:.0f} ms + {slope:.3f} s/s"
    axes.plot(ends, heights, style, color=colour, linewidth=1.8, label=said)
    return True


def _mean_line(runs: Sequence[RunView], level: Level) -> tuple[float, float] | None:
    """Intercept (ms) and slope, means over the runs; None unless every run has a fit."""
    views = [view for run in runs if (view := run.level(level)) is not None]
    fits = [(view.value("e2el_intercept_ms"), view.value("e2el_slope")) for view in views]
    if not fits or any(value is None for fit in fits for value in fit):
        return None
    return statistics.fmean(fit[0] for fit in fits), statistics.fmean(fit[1] for fit in fits)  # type: ignore[misc]


def _span(runs: Sequence[RunView], level: Level, lengths: Sequence[float]) -> tuple[float, float] | None:
    """From the shortest to the longest audio; without single requests, one standard deviation around the mean."""
    if lengths:
        return min(lengths), max(lengths)
    view = runs[0].level(level)
    mean, std = (view.figure("audio_s", "mean"), view.figure("audio_s", "std")) if view is not None else (None, None)
    return None if mean is None or std is None else (max(mean - std, 0.0), mean + std)


def _frame(axes: Axes, x_label: str, y_label: str) -> None:
    axes.set_xlabel(x_label, fontsize=9)
    axes.set_ylabel(y_label, fontsize=9)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5)


def _nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "n/a", transform=axes.transAxes, ha="center", va="center", fontsize=16, color=GREY)


def _title(comparison: Comparison) -> str:
    drawn = len(comparison.used) or comparison.pairs
    pairs = f"{drawn} pair{'' if drawn == 1 else 's'}"
    text = f"{comparison.outcome} · {pairs} · {comparison.hardware or 'n/a'}"
    return text.replace("$", r"\$")
