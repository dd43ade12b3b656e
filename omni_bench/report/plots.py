"""The plots of a run: each headline figure against concurrency, one PNG each, and an overview.

Only matplotlib's object interface is used: there is no global state, so that plots can be
drawn from any thread and beside other users of matplotlib.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from omni_bench.metrics.definitions import METRICS, in_order
from omni_bench.metrics.metric import Metric, Scope, Shown
from omni_bench.records.files import write_atomically
from omni_bench.records.level import axis_label, level_of, level_value
from omni_bench.report.format import NA, hardware_name, has_audio, has_text, number, percent, prompt_counts, target_name
from omni_bench.report.table import by_characters, valid_requests

Level = Mapping[str, Any]
Figures = Callable[[Level], tuple[float | None, float | None]]

# Colours of Okabe and Ito, which people with colour blindness can tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#5F5F5F"
DPI = 144
SINGLE_SIZE = (6.4, 4.2)
OVERVIEW_COLUMNS, OVERVIEW_WIDTH, OVERVIEW_ROW = 3, 14.0, 3.9
HEADROOM = 1.22  # room above the highest point for the legend
MAX_ON_AXIS = 1e12  # anything beyond is not a measurement


@dataclass(frozen=True)
class Line:
    """One line of a plot. ``figures`` gives a level's value and the upper end of its spread (or None)."""

    label: str
    colour: str
    figures: Figures
    style: str = "-"


@dataclass(frozen=True)
class Plot:
    """One plot; ``reference`` is a horizontal line that means something: (value, label)."""

    name: str
    title: str
    y_label: str
    lines: tuple[Line, ...]
    show: Callable[[float | None], str]
    reference: tuple[float, str] | None = None


def plots_of(run: Mapping[str, Any]) -> tuple[Plot, ...]:
    """The plots of a run: of its audio, of its text, or of both, in the order of the metrics."""
    drawn = {
        metric.name: metric
        for metric in in_order(audio=has_audio(run), text=has_text(run))
        if metric.plot and not (metric.shown is Shown.WORDS and by_characters(run))
    }
    together: dict[str, list[Metric]] = {}
    for metric in drawn.values():
        together.setdefault(metric.plot.joins if metric.plot.joins in drawn else metric.name, []).append(metric)
    return tuple(map(_plot, together.values()))


def _plot(metrics: Sequence[Metric]) -> Plot:
    """The plot of a metric, and of those that join it."""
    first = metrics[0]
    colours = (ORANGE, GREY) if first.percent else (BLUE, GREEN)
    return Plot(
        _file_stem(first),
        first.plot.title or first.label,
        first.plot.y_label or (f"{first.short} ({first.unit})" if first.unit else first.short),
        tuple(
            Line(
                _line_label(metric, alone=len(metrics) == 1),
                colours[index % 2],
                _figures(metric),
                "--" if index else "-",
            )
            for index, metric in enumerate(metrics)
        ),
        _show_percentage if first.percent else number,
        first.plot.reference,
    )


def _file_stem(metric: Metric) -> str:
    return metric.name.removesuffix("_ms")


def _line_label(metric: Metric, *, alone: bool) -> str:
    if metric.plot.line is not None:
        return metric.plot.line
    if metric.scope is Scope.REQUEST:
        return "p50, bar up to p90" if alone else f"{metric.short} p50, bar up to p90"
    return "whole level" if metric.scope is Scope.LEVEL else metric.short


def _figures(metric: Metric) -> Figures:
    def figures(level: Level) -> tuple[float | None, float | None]:
        value = metric.value_in(level)
        if metric.percent and value is not None:
            value *= 100
        return value, metric.value_in(level, "p90") if metric.scope is Scope.REQUEST else None

    return figures


def _show_percentage(value: float | None) -> str:
    return percent(None if value is None else value / 100)


def draw_plots(run: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write one PNG for each of :func:`plots_of` and overview.png into ``folder``; their paths, overview first.

    A level without a value is left out of that line; a plot without any says so. Raises StoreError.
    """
    levels = sorted(run["levels"], key=level_of)
    paths = [folder / "overview.png"]
    save_figure(_overview(run, levels), paths[0])
    for plot in plots_of(run):
        figure = Figure(figsize=SINGLE_SIZE, dpi=DPI, layout="constrained")
        axes = figure.add_subplot()
        _draw(axes, plot, levels)
        axes.set_title(f"{plot.title}\n", loc="left", fontsize=12, fontweight="bold")
        axes.text(0, 1.025, subtitle(run, 88), transform=axes.transAxes, fontsize=8, color=GREY)
        paths.append(folder / f"{plot.name}.png")
        save_figure(figure, paths[-1])
    others = {_file_stem(metric) for metric in METRICS.values() if metric.plot} - {path.stem for path in paths}
    for other in others:
        (folder / f"{other}.png").unlink(missing_ok=True)  # of an older report, which drew other metrics of this run
    return paths


def _overview(run: Mapping[str, Any], levels: Sequence[Level]) -> Figure:
    plots = plots_of(run)
    rows = -(-(len(plots) + 1) // OVERVIEW_COLUMNS)
    figure = Figure(figsize=(OVERVIEW_WIDTH, rows * OVERVIEW_ROW), dpi=DPI / 1.2, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    figure.suptitle(subtitle(run, 140), x=0.012, ha="left", fontsize=13, fontweight="bold")
    panels = figure.subplots(rows, OVERVIEW_COLUMNS).ravel()
    for axes in panels[len(plots) :]:
        axes.set_axis_off()
    for axes, plot in zip(panels, plots, strict=False):
        _draw(axes, plot, levels)
        axes.set_title(plot.title, loc="left", fontsize=11, fontweight="bold")
    _describe(panels[-1], run)
    return figure


def _draw(axes: Axes, plot: Plot, levels: Sequence[Level]) -> None:
    tops = [_draw_line(axes, line, levels) for line in plot.lines]
    drawn = [top for top in tops if top is not None]
    axes.set_xlabel(axis_label(map(level_of, levels)))
    axes.set_ylabel(plot.y_label)
    axes.grid(axis="y", color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    scale_x(axes, [level_value(level_of(level)) for level in levels])
    if not drawn:
        axes.text(0.5, 0.5, "n/a", transform=axes.transAxes, ha="center", va="center", fontsize=16, color=GREY)
        axes.set_yticks([])
        return
    _label_points(axes, plot, levels)
    if plot.reference is not None:
        value, label = plot.reference
        axes.axhline(value, color=GREY, linewidth=1, linestyle=":", label=label)
        drawn.append(value)
    axes.set_ylim(0, HEADROOM * (max(drawn) or 1.0))
    if not all(level["valid"] for level in levels):
        axes.plot([], [], "o", markerfacecolor="white", markeredgecolor=GREY, label="invalid level")
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=3, handlelength=1.8, columnspacing=1.2)


def _points(line: Line, levels: Sequence[Level]) -> list[tuple[float, float, float, bool]]:
    """(place of the level, value, upper end of the spread, valid) of the levels that have a value."""
    points = []
    for level in levels:
        value, upper = line.figures(level)
        if value is not None and abs(value) < MAX_ON_AXIS:
            points.append((level_value(level_of(level)), value, value if upper is None else upper, level["valid"]))
    return points


def _draw_line(axes: Axes, line: Line, levels: Sequence[Level]) -> float | None:
    """Draw one line with its spread; the highest value drawn, None if there was nothing to draw."""
    points = _points(line, levels)
    if not points:
        return None
    xs, values, uppers, valid = zip(*points, strict=True)
    if uppers != values:
        axes.fill_between(xs, values, uppers, color=line.colour, alpha=0.15, linewidth=0)
        axes.vlines(xs, values, uppers, color=line.colour, linewidth=1.2)
        axes.plot(xs, uppers, "_", color=line.colour, markersize=8)
    look = {"color": line.colour, "marker": "o", "markersize": 5.5, "clip_on": False}
    axes.plot(xs, values, line.style, linewidth=1.8, label=line.label, **look)
    hollow = [(x, value) for x, value, is_valid in zip(xs, values, valid, strict=True) if not is_valid]
    if hollow:
        axes.plot(*zip(*hollow, strict=True), linestyle="", markerfacecolor="white", zorder=3, **look)
    return max(uppers)


def _label_points(axes: Axes, plot: Plot, levels: Sequence[Level]) -> None:
    """Write the value of the first line at each level, above all that is drawn there; a p50 below its p90 says so."""
    tops: dict[float, float] = {}
    for line in plot.lines:
        for x, _, upper, _ in _points(line, levels):
            tops[x] = max(upper, tops.get(x, upper))
    for x, value, upper, _ in _points(plot.lines[0], levels):
        text = plot.show(value) if upper == value else f"p50 {plot.show(value)}"
        where = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center", "va": "bottom"}
        axes.annotate(text, (x, tops[x]), fontsize=8, color="#222222", **where)


def scale_x(axes: Axes, ticks: Sequence[float]) -> None:
    """A base 2 axis with a tick at each level that was tested and at nothing else."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if ticks:
        margin = 2.0 if len(ticks) == 1 else (ticks[-1] / ticks[0]) ** 0.12
        axes.set_xlim(ticks[0] / margin, ticks[-1] * margin)


def _describe(axes: Axes, run: Mapping[str, Any]) -> None:
    """The last panel of the overview: what was measured, in words."""
    axes.set_axis_off()
    provenance = run["provenance"]
    judge, harness = provenance["judge"], provenance["harness"]
    requests = sum(level["requests"] for level in run["levels"])
    valid = [valid_requests(level) for level in run["levels"]]
    valid_count = NA if None in valid else sum(valid)
    facts = [
        ("date", run["started_utc"]),
        ("target", target_name(run)),
        ("hardware", hardware_name(run)),
        ("prompts", f"{prompt_counts(provenance['prompts'])} of {provenance['prompts']['dataset']}"),
        ("requests", f"{valid_count} of {requests} ok"),
        ("judge", judge["name"] if judge else "none"),
        ("omni-bench", f"{harness['version']} {(harness['commit'] or '')[:12]}".strip()),
        ("run", "valid" if run["valid"] else "INVALID: no performance claim"),
    ]
    y = 0.97
    for name, value in facts:
        wrapped = textwrap.wrap(str(value), 44) or ["n/a"]
        colour = ORANGE if name == "run" and not run["valid"] else "#222222"
        axes.text(0.02, y, name, transform=axes.transAxes, fontsize=10, color=GREY, va="top")
        text = _plain("\n".join(wrapped[:3]))
        axes.text(0.27, y, text, transform=axes.transAxes, fontsize=10, color=colour, va="top", linespacing=1.25)
        y -= 0.062 * min(len(wrapped), 3) + 0.035


def subtitle(run: Mapping[str, Any], width: int) -> str:
    """What was measured, in at most ``width`` characters."""
    return _plain(
        textwrap.shorten(f"{run['scenario']} · {target_name(run)} · {hardware_name(run)}", width, placeholder=" …")
    )


def _plain(text: str) -> str:
    """``text`` without matplotlib's mathematics."""
    return text.replace("$", r"\$")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG. Raises StoreError."""
    canvas = FigureCanvasAgg(figure)
    write_atomically(path, lambda temporary: canvas.print_png(temporary))
