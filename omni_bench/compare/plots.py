"""Plots of a comparison: metrics against concurrency for both arms, and E2EL against audio length with both fits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from omni_bench.compare.headline import headline
from omni_bench.compare.keys import shown
from omni_bench.compare.result import Comparison
from omni_bench.compare.rows import metric_label
from omni_bench.compare.stats.pairs import as_ratio, log_ratio, paired_effect, t_interval
from omni_bench.compare.views import LevelView, RunView
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.metric import Scope, WithLength
from omni_bench.records.level import Level, axis_label, level_value, short_title
from omni_bench.report.format import number, percent, signed_percent
from omni_bench.report.plots import DPI, ERRORS_TOP
from omni_bench.report.style import LOOKS, Band, dress, label_point, look, nothing, save_figure, scale_x

ARMS = (("before", LOOKS[0]), ("after", LOOKS[1]))
CONFIDENCE = 0.95
LOG_FROM = 5.0  # times as much in one arm as in the other: on a linear axis the smaller one would be a flat line
MAX_FIT_PANELS, MAX_LABELLED, MAX_CHANGES = 6, 4, 3
MAX_CHANGE = 60  # characters of a setting
METRICS_PNG, FIT_PNG = "before_after.png", "e2el_over_audio.png"
RUNS_NOTE = (
    "Small dots: each run; a thin line joins the two runs of a pair. Large dots: the mean over the runs (geometric; "
    "of errors and cross-talk arithmetic). Bars: its 95 % Student t interval over the runs of that arm alone. Arms "
    "whose bars overlap may still differ: the verdict is made of the differences within the pairs."
)
SINGLE_NOTE = "One run an arm: there is no interval, and nothing tells a change from noise."
NO_CROSS_TALK = "Cross-talk: no hit in any of these runs."
FIT_NOTE = "Small dots: the requests of all runs. Lines: the mean of the runs' Theil–Sen fits."
FIT_FORMULA = "E2EL = fixed + per second of audio"
BELOW_ZERO = "fixed part extrapolated below zero: not meaningful"

Point = tuple[float, float | None, float | None]
"""A value with the ends of its interval."""


def draw_comparison(
    comparison: Comparison, before: Sequence[RunView], after: Sequence[RunView], folder: Path
) -> list[Path]:
    """Write before_after and e2el_over_audio as PNG and SVG into ``folder``; the PNGs. Raises StoreError.

    The runs are those that the comparison was made from; with pairs left out, only the others are drawn.
    """
    used = comparison.used or range(comparison.pairs)
    arms = [[runs[i] for i in used] for runs in (before, after)]
    paths = [folder / METRICS_PNG, folder / FIT_PNG]
    with look():
        save_figure(_metrics_figure(comparison, arms), paths[0])
        save_figure(_fit_figure(comparison, arms), paths[1])
    return paths


def arm_point(runs: Sequence[RunView], metric: str, level: Level) -> Point | None:
    """Geometric mean over the runs with its 95 % t interval (None for one run); None if no run has a value.

    Of errors (in percent) and counts, which may be 0, the arithmetic mean. The interval is of one arm alone: what pairs
    share makes the difference more certain than two such intervals tell.
    """
    values = [value for run in runs if (value := _of_run(run, metric, level)) is not None]
    counted = METRICS[metric].scope is Scope.CHECK
    found = values if counted else [log for value in values if (log := log_ratio(1.0, value)) is not None]
    if not found:
        return None
    effect = paired_effect(found)
    low, high = t_interval(effect, CONFIDENCE) or (None, None)
    if not counted:
        return as_ratio(effect.mean), *(None if end is None else as_ratio(end) for end in (low, high))
    return effect.mean, None if low is None else max(low, 0.0), high


def _of_run(run: RunView, metric: str, level: Level) -> float | None:
    view = run.level(level)
    return None if view is None else _value(view, metric)


def _value(view: LevelView, metric: str) -> float | None:
    if METRICS[metric].scope is not Scope.CHECK:
        return view.value(metric)
    accuracy = view.accuracy or {}
    if metric == "cross_talk":
        return accuracy.get("cross_talk_hits")
    return 100 * accuracy["edits"] / accuracy["words"] if accuracy.get("words") else None


def _metrics(comparison: Comparison, arms: Sequence[Sequence[RunView]]) -> list[str]:
    """What has a panel: the metrics of the rows, and what was heard."""
    named = dict.fromkeys(cell.metric for cell in comparison.cells)
    entries = [METRICS[one] for one in named]  # the fit is drawn over audio; a share of 0 has no place on a log scale
    speed = [one.name for one in entries if one.with_length is not WithLength.INSTEAD and not one.points]
    heard = ["wer", "cross_talk"] if comparison.accuracy.rate is not None else ["cross_talk"]
    found = {one: _heard(comparison, arms, one) for one in heard}
    return speed + [one for one, values in found.items() if (any(values) if one == "cross_talk" else values)]


def _heard(comparison: Comparison, arms: Sequence[Sequence[RunView]], metric: str) -> list[float]:
    """What was heard in each run at each level; [] of what was not checked."""
    found = [_of_run(run, metric, level) for arm in arms for run in arm for level in comparison.levels]
    return [value for value in found if value is not None]


def _metrics_figure(comparison: Comparison, arms: Sequence[Sequence[RunView]]) -> Figure:
    metrics = _metrics(comparison, arms)
    columns = 2 if len(metrics) < 5 else 3
    rows = math.ceil(len(metrics) / columns) or 1
    figure = Figure(figsize=(4.8 * columns, 3.3 * rows), dpi=DPI / 1.2, layout="constrained")
    changes = {one.metric: one.change for one in comparison.primaries if comparison.judges_speed}
    panels = figure.subplots(rows, columns).ravel()
    for axes in panels[len(metrics) :]:
        axes.set_axis_off()
    for axes, metric in zip(panels, metrics, strict=False):
        scale_x(axes, [level_value(level) for level in comparison.levels])
        _draw_metric(axes, comparison, arms, metric)
        change = changes.get(metric)
        said = f"   {signed_percent(change)} over all levels" if change is not None else ""
        axes.set_title(f"{_name(comparison, metric)}{said}", loc="left")
        axes.set_xlabel(axis_label(comparison.levels))
    notes = [RUNS_NOTE if len(arms[0]) > 1 else SINGLE_NOTE]
    if _heard(comparison, arms, "cross_talk") and "cross_talk" not in metrics:
        notes.append(NO_CROSS_TALK)
    dress(figure, _title(comparison), _under(comparison), _bands(comparison, arms), notes)
    return figure


def _name(comparison: Comparison, metric: str) -> str:
    return comparison.accuracy.rate or "errors" if metric == "wer" else metric_label(metric)


def _y_label(comparison: Comparison, metric: str) -> str:
    if metric == "wer":
        return f"{_name(comparison, metric)} (%)"
    if metric == "cross_talk":
        return "outputs with words of another, a run"
    plotted = METRICS[metric].plot
    return (plotted and plotted.y_label) or metric_label(metric)


def _draw_metric(axes: Axes, comparison: Comparison, arms: Sequence[Sequence[RunView]], metric: str) -> None:
    axes.set_ylabel(_y_label(comparison, metric))
    _join_pairs(axes, arms, metric, comparison.levels)
    drawn = [_draw_arm(axes, runs, metric, comparison.levels, number) for number, runs in enumerate(arms)]
    values = [value for arm in drawn for value in arm]
    if not values:
        nothing(axes)
        return
    pairs = [[arm_point(runs, metric, level) for runs in arms] for level in comparison.levels]
    means = [(first[0], second[0]) for first, second in pairs if first is not None and second is not None]
    if min(values) > 0 and any(max(two) > LOG_FROM * min(two) for two in means):
        axes.set_yscale("log")
        axes.set_ylabel(f"{axes.get_ylabel()}, log axis")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylim(min(values) / 1.5, 1.8 * max(values))
    else:
        least = {"wer": ERRORS_TOP, "cross_talk": 1.0}.get(metric, 0.0)
        axes.set_ylim(0, max(1.2 * max(values), least) or 1.0)
        if metric == "cross_talk":
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="best")


def _place(level: Level, number: int) -> float:
    """Where an arm stands at a level: beside the other, so that intervals do not hide one another."""
    return level_value(level) * 2 ** (0.12 * (2 * number - 1))


def _join_pairs(axes: Axes, arms: Sequence[Sequence[RunView]], metric: str, levels: Sequence[Level]) -> None:
    if len(arms[0]) < 2:
        return
    for level in levels:
        for runs in zip(*arms, strict=True):
            ends = [_of_run(run, metric, level) for run in runs]
            if None not in ends:
                axes.plot([_place(level, 0), _place(level, 1)], ends, "-", color="#9A9A9A", linewidth=0.7, zorder=1)


def _draw_arm(
    axes: Axes, runs: Sequence[RunView], metric: str, levels: Sequence[Level], number_of_arm: int
) -> list[float]:
    """Draw one arm; every value that was drawn."""
    label, arm_look = ARMS[number_of_arm]
    colour = arm_look.colour
    points = [(level, point) for level in levels if (point := arm_point(runs, metric, level)) is not None]
    if not points:
        return []
    xs = [_place(level, number_of_arm) for level, _ in points]
    axes.plot(
        xs,
        [value for _, (value, _, _) in points],
        arm_look.style,
        marker=arm_look.marker,
        color=colour,
        label=label,
        clip_on=False,
    )
    drawn = [end for _, point in points for end in point if end is not None]
    for x, (level, (value, low, high)) in zip(xs, points, strict=True):
        values = [one for run in runs if (one := _of_run(run, metric, level)) is not None]
        drawn += values
        if len(runs) > 1:
            axes.plot([x] * len(values), values, arm_look.marker, markersize=3.5, alpha=0.5, color=colour)
        if low is not None and high is not None:
            axes.plot([x, x], [low, high], "-", color=colour, linewidth=1.2, marker="_", markersize=7)
        if len(points) <= MAX_LABELLED:
            label_point(axes, x, value, _said(metric, value), colour=colour)
    return drawn


def _said(metric: str, value: float) -> str:
    if metric == "cross_talk":
        return f"{value:.3g}"
    return percent(value / 100) if metric == "wer" else number(value)


def _fit_figure(comparison: Comparison, arms: Sequence[Sequence[RunView]]) -> Figure:
    levels = comparison.levels[-MAX_FIT_PANELS:]
    columns = min(3, len(levels))
    lines = math.ceil(len(levels) / columns)
    figure = Figure(figsize=(4.6 * columns + 0.4, 3.6 * lines), dpi=DPI / 1.2, layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, level in zip(panels, levels, strict=False):
        drawn = [_draw_fit(axes, runs, level, number) for number, runs in enumerate(arms)]
        axes.set_title(short_title(level), loc="left")
        axes.set_xlabel("audio (s)")
        axes.set_ylabel("E2EL (ms)")
        if any(drawn):
            axes.set_ylim(0, 1.4 * axes.get_ylim()[1])
            axes.legend(loc="upper left", title=FIT_FORMULA, title_fontsize=8, alignment="left")
        else:
            nothing(axes)
    for axes in panels[len(levels) :]:
        axes.set_axis_off()
    dress(figure, _title(comparison), _under(comparison), _bands(comparison, arms), [FIT_NOTE])
    return figure


def _draw_fit(axes: Axes, runs: Sequence[RunView], level: Level, number_of_arm: int) -> bool:
    """The requests of one arm as points, and the mean of its runs' lines; False if there is neither."""
    label, arm_look = ARMS[number_of_arm]
    colour, marker = arm_look.colour, arm_look.marker
    points = [
        (request.audio_s, request.e2el_ms)
        for run in runs
        for request in run.requests or ()
        if request.key.concurrency == level and request.audio_s is not None and request.e2el_ms is not None
    ]
    if points:
        axes.plot(*zip(*points, strict=True), marker, markersize=3, alpha=0.35, color=colour)
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
    if intercept_ms < 0:
        said += f"\n({BELOW_ZERO})"
    axes.plot(ends, heights, arm_look.style, color=colour, label=said)
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


# ---- In words ----


def _title(comparison: Comparison) -> str:
    drawn = len(comparison.used) or comparison.pairs
    return f"{comparison.outcome} · {drawn} pair{'' if drawn == 1 else 's'} · {comparison.hardware or 'n/a'}"


def _under(comparison: Comparison) -> list[str]:
    """What differs between the arms."""
    changes = [*comparison.settings, *comparison.versions]
    said = [f"{one.name}: {shown(one.before)[:MAX_CHANGE]} → {shown(one.after)[:MAX_CHANGE]}" for one in changes]
    more = f" (and {len(said) - MAX_CHANGES} more)" if len(said) > MAX_CHANGES else ""
    return [f"before → after: {'; '.join(said[:MAX_CHANGES])}{more}"] if said else []


def _bands(comparison: Comparison, arms: Sequence[Sequence[RunView]]) -> list[tuple[Band, str]]:
    bands = []
    if faults := comparison.faults:
        bands.append((Band.FAULT, f"FAULT INJECTED on purpose: {'; '.join(faults)}"))
    bands += [(Band.FAULT, said) for said in comparison.stated_faults]
    if not comparison.judges_speed:
        bands.append((Band.INVALID, f"INVALID (no performance claim): {headline(comparison)}"))
    return bands
