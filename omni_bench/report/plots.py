"""The plots of a run: each headline figure against concurrency, and an overview.

A run of one level has no line to draw: there each request is a dot of the distribution of its level.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from omni_bench.errors import shorten
from omni_bench.metrics.definitions import METRICS, in_order
from omni_bench.metrics.metric import Metric, Scope, Shown
from omni_bench.records.invalid_reason import client_last, reasons_of
from omni_bench.records.level import axis_label, level_of, level_value, short_title
from omni_bench.records.stages import Tell, untold
from omni_bench.report.format import (
    NA,
    hardware_name,
    has_audio,
    has_text,
    injected_faults,
    metric_text,
    number,
    percent,
    prompt_counts,
    stated_fault,
    target_name,
)
from omni_bench.report.style import (
    GREY,
    INK,
    LOOKS,
    Band,
    Look,
    dress,
    label_point,
    look,
    nothing,
    remove_figure,
    save_figure,
    scale_x,
)
from omni_bench.report.table import by_characters, error_rate, request_values, valid_requests

Level = Mapping[str, Any]
Run = Mapping[str, Any]
Records = Sequence[Mapping[str, Any]]
Spread = tuple[float | None, float | None, float | None]
"""A value with the ends of its bar, each None where it is missing."""

DRAWING = "drawing the plots"
DPI = 144
SINGLE_SIZE = (6.4, 3.6)
OVERVIEW_COLUMNS, OVERVIEW_WIDTH, OVERVIEW_ROW = 3, 14.0, 3.5
HEADROOM = 1.22  # room above the highest point for the legend
MAX_ON_AXIS = 1e12  # anything beyond is not a measurement
ERRORS_TOP = 5.0  # percent: an axis of errors shows at least so much, as one word in a hundred is no disaster
MAX_REASON = 140
MAX_DOTS = 1000
"""Of a distribution that are drawn: a picture of more is slow to make, slow to look at, and looks the same."""
REQUESTS_NOTE = (
    "Bars and shading: from the median of a level's requests (p50) up to p90. Their spread, no confidence interval."
)
DOTS_NOTE = "Each dot is one request; the line is the share of requests that are as fast or faster (ECDF)."
ERRORS_NOTE = "Bars at {rate}: 95 % interval (Wilson) of errors among {units}, taken as independent: rather narrow."
SHARES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}


@dataclass(frozen=True)
class Line:
    """One line of a plot. ``figures`` gives a level's value and the ends of its bar; ``prefix`` goes before labels."""

    metric: Metric
    label: str
    look: Look
    figures: Callable[[Level], Spread]
    prefix: str = ""


@dataclass(frozen=True)
class Plot:
    """One plot; ``references``: lines that mean something (value, label); ``top``: the axis reaches it at least."""

    name: str
    title: str
    y_label: str
    lines: tuple[Line, ...]
    show: Callable[[float | None], str]
    references: tuple[tuple[float, str], ...] = ()
    top: float = 0.0
    note: str | None = None


def plots_of(run: Run) -> tuple[Plot, ...]:
    """The plots of a run: of its audio, of its text, or of both, in the order of the metrics.

    Of a run with one level those of which there is more to see than one dot: the others are among its facts.
    """
    drawn = {
        metric.name: metric
        for metric in in_order(audio=has_audio(run), text=has_text(run))
        if metric.plot and not (metric.shown is Shown.WORDS and by_characters(run))
        if len(run["levels"]) > 1 or metric.scope is not Scope.LEVEL
    }
    together: dict[str, list[Metric]] = {}
    for metric in drawn.values():
        together.setdefault(metric.plot.joins if metric.plot.joins in drawn else metric.name, []).append(metric)
    return tuple(_plot(run, metrics) for metrics in together.values())


def _plot(run: Run, metrics: Sequence[Metric]) -> Plot:
    """The plot of a metric, and of those that join it."""
    first, of_errors = metrics[0], metrics[0].percent
    errors_note = ERRORS_NOTE.format(rate=error_rate(run), units="characters" if by_characters(run) else "words")
    references = (first.plot.reference,) if first.plot.reference else ()
    return Plot(
        _file_stem(first),
        first.plot.title or first.label,
        first.plot.y_label or (f"{first.short} ({first.unit})" if first.unit else first.short),
        tuple(
            Line(
                metric,
                _line_label(metric, alone=len(metrics) == 1),
                LOOKS[(1, 2)[index % 2] if of_errors else (0, 2)[index % 2]],
                (_figures if index or not of_errors else _errors)(metric),
                "p50 " if metric.scope is Scope.REQUEST else "",
            )
            for index, metric in enumerate(metrics)
        ),
        _show_percentage if of_errors else number,
        (*references, *_error_limits(run)) if of_errors else references,
        top=ERRORS_TOP if of_errors else 0.0,
        note=errors_note if of_errors else REQUESTS_NOTE if first.scope is Scope.REQUEST else None,
    )


def _file_stem(metric: Metric) -> str:
    return metric.name.removesuffix("_ms")


def _line_label(metric: Metric, *, alone: bool) -> str:
    if metric.plot.line is not None:
        return metric.plot.line
    if metric.scope is Scope.REQUEST:
        return "p50, bar up to p90" if alone else f"{metric.short} p50, bar up to p90"
    return "whole level" if metric.scope is Scope.LEVEL else metric.short


def _figures(metric: Metric) -> Callable[[Level], Spread]:
    def figures(level: Level) -> Spread:
        value = metric.value_in(level)
        if metric.percent:
            return (None if value is None else 100 * value), None, None
        return value, None, metric.value_in(level, "p90") if metric.scope is Scope.REQUEST else None

    return figures


def _errors(metric: Metric) -> Callable[[Level], Spread]:
    """A rate in percent with the ends of its interval. Where characters are counted, run.json calls them words."""

    def errors(level: Level) -> Spread:
        value, words = metric.value_in(level), (level["accuracy"] or {}).get("words")
        if value is None or not words:
            return (None if value is None else 100 * value), None, None
        from scipy.stats import binomtest  # slow to import

        interval = binomtest(min(round(value * words), words), words).proportion_ci(method="wilson")
        return 100 * value, 100 * interval.low, 100 * interval.high

    return errors


def _error_limits(run: Run) -> list[tuple[float, str]]:
    """What errors are to be read against, in percent: those of the judge by itself, and the limit of a valid level."""
    own = ((run["provenance"]["judge"] or {}).get("own_wer") or {}).get("wer")
    limit = ((run["provenance"]["config"] or {}).get("asr") or {}).get("wer_limit")
    found = [] if own is None else [(100 * own, f"the judge's own error {percent(own)}")]
    return found if limit is None else [*found, (100 * limit, f"limit of a valid level {percent(limit)}")]


def _show_percentage(value: float | None) -> str:
    return percent(None if value is None else value / 100)


def draw_plots(run: Run, folder: Path, requests: Records = (), tell: Tell = untold) -> list[Path]:
    """Write a PNG and an SVG for each of :func:`plots_of` and an overview into ``folder``; the PNGs, overview first.

    ``requests``: lines of requests.jsonl. A level without a value is left out of that line; a plot without any says
    so. ``tell`` hears of each. Raises StoreError.
    """
    paths, plots = [folder / "overview.png"], plots_of(run)
    with look():
        tell(DRAWING, 0, len(plots) + 1)
        save_figure(_overview(run, requests), paths[0])
        for plot in plots:
            tell(DRAWING, len(paths), len(plots) + 1)
            paths.append(folder / f"{plot.name}.png")
            save_figure(_single(run, plot, requests), paths[-1])
    others = {_file_stem(metric) for metric in METRICS.values() if metric.plot} - {path.stem for path in paths}
    for other in others:
        remove_figure(folder / f"{other}.png")  # of an older report, which drew other metrics of this run
    return paths


def bands_of(run: Run) -> list[tuple[Band, str]]:
    """What every picture of a run has to say, so that it can be shown alone: faults, and no claim."""
    bands = []
    if faults := injected_faults(run):
        said = f"FAULT INJECTED on purpose: {', '.join(faults)}. These figures say nothing about the server."
        bands.append((Band.FAULT, said))
    if (stated := stated_fault(run)) is not None:
        bands.append((Band.FAULT, stated))
    if not run["valid"]:
        reasons = [str(reason) for reason in client_last(reasons_of(run))]
        why = f": {shorten(reasons[0], MAX_REASON)}" if reasons else ""
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        bands.append((Band.INVALID, f"INVALID (no performance claim){why}{more}"))
    return bands


def subtitle(run: Run) -> str:
    """What was measured, on what."""
    return f"{run['scenario']} · {target_name(run)} · {hardware_name(run)}"


def _single(run: Run, plot: Plot, requests: Records) -> Figure:
    figure = Figure(figsize=SINGLE_SIZE, dpi=DPI, layout="constrained")
    _draw(figure.add_subplot(), run, plot, requests)
    dress(figure, plot.title, [subtitle(run)], bands_of(run), _notes(run, [plot]))
    return figure


def _overview(run: Run, requests: Records = ()) -> Figure:
    plots = plots_of(run)
    rows = -(-(len(plots) + 1) // OVERVIEW_COLUMNS)
    figure = Figure(figsize=(OVERVIEW_WIDTH, rows * OVERVIEW_ROW), dpi=DPI / 1.2, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    panels = figure.subplots(rows, OVERVIEW_COLUMNS).ravel()
    for axes, plot in zip(panels, plots, strict=False):
        _draw(axes, run, plot, requests)
        axes.set_title(plot.title, loc="left")
    for axes in panels[len(plots) :]:
        axes.set_axis_off()
    _describe(panels[len(plots)], run)
    dress(figure, subtitle(run), (), bands_of(run), _notes(run, plots))
    return figure


def _notes(run: Run, plots: Sequence[Plot]) -> list[str]:
    notes = [plot.note for plot in plots if plot.note]
    if len(run["levels"]) == 1:
        notes = [DOTS_NOTE if note == REQUESTS_NOTE else note for note in notes]
    return list(dict.fromkeys(notes))


def _draw(axes: Axes, run: Run, plot: Plot, requests: Records = ()) -> None:
    """A plot over the levels; with one level, the distribution of what its requests have."""
    levels = sorted(run["levels"], key=level_of)
    if len(levels) == 1 and plot.lines[0].metric.scope is Scope.REQUEST:
        _draw_distribution(axes, plot, levels[0], requests)
    else:
        _draw_levels(axes, plot, levels)


# ---- Over the levels ----


def _draw_levels(axes: Axes, plot: Plot, levels: Sequence[Level]) -> None:
    tops = [_draw_line(axes, line, levels) for line in plot.lines]
    drawn = [top for top in tops if top is not None]
    axes.set_xlabel(axis_label(map(level_of, levels)))
    axes.set_ylabel(plot.y_label)
    scale_x(axes, [level_value(level_of(level)) for level in levels])
    if not drawn:
        nothing(axes)
        axes.set_yticks([])
        return
    for x, (value, _, high), _ in _points(plot.lines[0], levels):
        label_point(axes, x, value, f"{plot.lines[0].prefix}{plot.show(value)}", cap=high if high > value else None)
    top = max(plot.top, HEADROOM * max(drawn)) or 1.0
    for index, (value, label) in enumerate(plot.references):
        if value <= top or not plot.top:
            axes.axhline(value, color=GREY, linewidth=1.2, linestyle=(":", "-.")[index % 2], label=label)
            top = max(top, HEADROOM * value)
        else:
            axes.plot([], [], "^", color=GREY, markersize=4, label=f"{label}: above this axis")
    axes.set_ylim(0, top)
    if not all(level["valid"] for level in levels):
        axes.plot([], [], "o", markerfacecolor="white", markeredgecolor=GREY, label="INVALID level")
    columns = 3 if len(plot.references) < 2 else 1
    axes.legend(loc="upper left", ncols=columns, handlelength=2.2, columnspacing=1.2)


def _points(line: Line, levels: Sequence[Level]) -> list[tuple[float, tuple[float, float, float], bool]]:
    """(place of the level, value with the ends of its bar, valid) of the levels that have a value."""
    points = []
    for level in levels:
        value, low, high = line.figures(level)
        if value is not None and abs(value) < MAX_ON_AXIS:
            ends = (value if low is None else low, value if high is None else high)
            points.append((level_value(level_of(level)), (value, *ends), level["valid"]))
    return points


def _draw_line(axes: Axes, line: Line, levels: Sequence[Level]) -> float | None:
    """Draw one line with its bars; the highest value drawn, None if there was nothing to draw."""
    points = _points(line, levels)
    if not points:
        return None
    xs = [x for x, _, _ in points]
    values, lows, highs = zip(*(figures for _, figures, _ in points), strict=True)
    colour = line.look.colour
    if highs != values or lows != values:
        axes.vlines(xs, lows, highs, color=colour, linewidth=1.2)
        axes.plot(xs, highs, "_", color=colour, markersize=8)
        if lows == values:
            axes.fill_between(xs, values, highs, color=colour, alpha=0.15, linewidth=0)
        else:
            axes.plot(xs, lows, "_", color=colour, markersize=8)
    drawn = {"color": colour, "marker": line.look.marker, "clip_on": False}
    axes.plot(xs, values, line.look.style, label=line.label, **drawn)
    hollow = [(x, value) for (x, _, is_valid), value in zip(points, values, strict=True) if not is_valid]
    if hollow:
        axes.plot(*zip(*hollow, strict=True), linestyle="", markerfacecolor="white", zorder=3, **drawn)
    return max(highs)


# ---- Of one level ----


def _draw_distribution(axes: Axes, plot: Plot, level: Level, requests: Records) -> None:
    """Each request as a dot of the ECDF; the percentiles alone where that is all there is."""
    drawn = [_draw_ecdf(axes, line, level, requests) for line in plot.lines]
    axes.set_xlabel(plot.y_label)
    axes.set_ylabel(f"requests of {short_title(level_of(level))} (%)")
    axes.grid(axis="x")
    if not any(drawn):
        nothing(axes)
        axes.set_yticks([])
        return
    low, high = axes.get_xlim()
    for line in plot.lines:
        for figure in ("p50", "p90"):
            value = line.metric.value_in(level, figure)
            if value is not None and abs(value) < MAX_ON_AXIS:
                axes.plot([value], [SHARES[figure]], "+", color=INK, markersize=9, zorder=4)
                label_point(axes, value, SHARES[figure], f"{figure} {plot.show(value)}")
    for value, label in plot.references:
        if low <= value <= high:
            axes.axvline(value, color=GREY, linewidth=1.2, linestyle=":", label=label)
        else:
            axes.plot([], [], ":", color=GREY, label=f"{label}: at {number(value)}, outside of this axis")
    axes.set_xlim(low, high)
    axes.set_ylim(0, 104)
    axes.legend(loc="lower right")


def _draw_ecdf(axes: Axes, line: Line, level: Level, requests: Records) -> bool:
    """Whether there was anything to draw."""
    values = sorted(value for _, value in request_values(requests, level_of(level), line.metric.name))
    look = {"color": line.look.colour, "marker": line.look.marker, "markersize": 4}
    if not level["valid"]:
        look["markerfacecolor"] = "white"
    name = line.metric.short
    if values:
        ranks = np.linspace(1, len(values), min(len(values), MAX_DOTS)).round().astype(int)
        shares = 100 * ranks / len(values)
        some = f", {len(ranks)} of them drawn" if len(ranks) < len(values) else ""
        # along each step, then up to the next dot
        xs, ys = np.repeat(np.array(values)[ranks - 1], 2)[1:], np.repeat(shares, 2)[:-1]
        axes.plot(xs, ys, line.look.style, markevery=2, label=f"{name}, n = {len(values)}{some}", **look)
        return True
    known = [(line.metric.value_in(level, figure), share) for figure, share in SHARES.items()]
    points = [(value, share) for value, share in known if value is not None and abs(value) < MAX_ON_AXIS]
    if points:
        label = f"{name}: percentiles alone, the requests are not here"
        axes.plot(*zip(*points, strict=True), line.look.style, label=label, **look)
    return bool(points)


# ---- In words ----


def _describe(axes: Axes, run: Run) -> None:
    """The last panel of the overview: what was measured, in words; of one level also what has no plot."""
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
    ]
    if len(run["levels"]) == 1:
        of_level = [metric for metric in in_order(audio=has_audio(run), text=has_text(run)) if metric.plot]
        facts += [
            (
                metric.plot.line or metric.short,
                f"{metric_text(metric, metric.value_in(run['levels'][0]))} {metric.unit}".strip(),
            )
            for metric in of_level
            if metric.scope is Scope.LEVEL
        ]
    y = 0.98
    for name, value in facts:
        wrapped = (textwrap.wrap(str(value), 44) or [NA])[:3]
        axes.text(0.0, y, name, transform=axes.transAxes, color=GREY, va="top")
        axes.text(0.22, y, "\n".join(wrapped), transform=axes.transAxes, color=INK, va="top")
        y -= 0.055 * len(wrapped) + 0.03
