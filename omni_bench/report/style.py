"""One look for every picture: colours, title, bands, footnote, labels at their points, and the files.

Matplotlib's settings are those of :func:`look` while a picture is made, whatever the user's own are, and are put back.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import Bbox, IdentityTransform

from omni_bench.foreign_text import inert, one_line
from omni_bench.records.files import write_atomically

# Colours of Okabe and Ito (Color Universal Design, 2008), which people with colour blindness can tell apart.
BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
GREY, INK, DARK_RED = "#5F5F5F", "#222222", "#A03A00"
MAX_TEXT = 400  # characters of a title, band or footnote: names are the server's own words
PNG, SVG = ".png", ".svg"

_RC = {
    "font.size": 9.0,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "legend.edgecolor": "none",
    "legend.framealpha": 0.85,
    "legend.borderpad": 0.2,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.7,
    "lines.markersize": 5.5,
    "text.parse_math": False,  # "$" is a character of a name
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.08,
    "savefig.dpi": "figure",
    "svg.fonttype": "path",  # looks the same where the font is missing
    "svg.hashsalt": "omni-bench",
}
_MARGIN_IN, _GAP_IN = 0.14, 0.05
_NEAR_PT = (5.0, 9.0, 14.0)  # from a point to its label


@dataclass(frozen=True)
class Look:
    """How one line is drawn: colour, marker and style all differ, so that none of them is needed."""

    colour: str
    marker: str
    style: str


LOOKS = (
    Look(BLUE, "o", "-"),
    Look(ORANGE, "s", "--"),
    Look(GREEN, "^", "-."),
    Look(PURPLE, "D", ":"),
    Look(AMBER, "v", "-"),
    Look(SKY, "P", "--"),
)


class Band(Enum):
    """A band across a picture whose figures count for less than they seem to: colours of ground and letters."""

    FAULT = (AMBER, "black")
    INVALID = (DARK_RED, "white")


@contextmanager
def look() -> Iterator[None]:
    """The settings of matplotlib for what is drawn and saved inside."""
    with style.context(["default", _RC]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # no font has every character of a stranger's name
        yield


def dress(
    figure: Figure,
    title: str,
    under: Sequence[str] = (),
    bands: Sequence[tuple[Band, str]] = (),
    foot: Sequence[str] = (),
) -> None:
    """Write title, ``bands`` and lines ``under`` it above the panels, ``foot`` below, and put labels in their places.

    Text is wrapped to the width of the figure, which becomes as much higher. Nothing may be added to it after this.
    """
    for text in figure.findobj(Text):  # of panels, axes and legends; its own texts go through one_line
        text.set_text(inert(text.get_text()))
    figure.set_canvas(FigureCanvasAgg(figure))
    head = [_block(figure, title, 12.0, INK, weight="bold")]
    head += [_block(figure, text, 9.5, band.value[1], weight="bold") for band, text in bands]
    head += [_block(figure, text, 8.5, GREY) for text in under]
    tail = [_block(figure, text, 7.5, GREY) for text in foot]
    heights = {text: _height_in(text) + _GAP_IN for text in (*head, *tail)}
    pad = _GAP_IN if bands else 0.0
    top = _MARGIN_IN + sum(heights[text] for text in head) + 2 * pad * len(bands)
    bottom = (_MARGIN_IN + sum(heights[text] for text in tail)) if tail else 0.0
    height = figure.get_figheight() + top + bottom
    figure.set_figheight(height)
    at = height - _MARGIN_IN + _GAP_IN
    for number, text in enumerate(head):
        banded = 0 < number <= len(bands)
        at -= pad if banded else 0.0
        text.set_y((at - _GAP_IN) / height)
        at -= heights[text]
        if banded:
            ground = bands[number - 1][0].value[0]
            box = (0.0, (at - pad) / height), 1.0, (heights[text] + pad) / height
            figure.add_artist(Rectangle(*box, transform=figure.transFigure, facecolor=ground, zorder=-1))
            at -= pad
    at = bottom
    for text in tail:
        text.set_y((at - _GAP_IN) / height)
        at -= heights[text]
    figure.get_layout_engine().set(rect=(0.0, bottom / height, 1.0, 1.0 - (top + bottom) / height))
    _arrange_labels(figure)
    figure.set_layout_engine("none")  # the panels stay where the labels were put: each file would place them anew


class PointLabel(Annotation):
    """The text of a point; ``cap``: the upper end of its bar, which the text may not stand above."""

    cap: float | None = None


def label_point(axes: Axes, x: float, y: float, text: str, *, colour: str = INK, cap: float | None = None) -> None:
    """Write ``text`` beside a point; :func:`dress` finds the place where it hides nothing.

    ``cap``: the upper end of its bar, above which the text would be taken for its value.
    """
    label = PointLabel(text, (x, y), (0, 0), textcoords="offset points", fontsize=8, color=colour)
    label.cap = cap
    label.set_in_layout(False)
    label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
    label.set_transform(IdentityTransform())
    axes.add_artist(label)
    label.set_clip_on(False)


def nothing(axes: Axes) -> None:
    """Say that there is nothing to draw."""
    axes.text(0.5, 0.5, "n/a", transform=axes.transAxes, ha="center", va="center", fontsize=16, color=GREY)


def scale_x(axes: Axes, ticks: Sequence[float]) -> None:
    """A base 2 axis with a tick at each level that was tested and at nothing else."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if ticks:
        margin = 2.0 if len(ticks) == 1 else (ticks[-1] / ticks[0]) ** 0.24
        axes.set_xlim(ticks[0] / margin, ticks[-1] * margin)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG to ``path`` and as SVG beside it, the same bytes every time. Raises StoreError."""
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png"))
    svg = path.with_suffix(SVG)
    write_atomically(svg, lambda temporary: figure.savefig(temporary, format="svg", metadata={"Date": None}))


def remove_figure(path: Path) -> None:
    """Remove the files of :func:`save_figure`, those of an older report, if they are there."""
    for suffix in (PNG, SVG):
        path.with_suffix(suffix).unlink(missing_ok=True)


# ---- Text of a known width ----


def _block(figure: Figure, text: str, size: float, colour: str, **look: str) -> Text:
    """``text`` at the left edge, in as many lines as the width of the figure needs."""
    words = one_line(text, MAX_TEXT)
    made = figure.text(_MARGIN_IN / figure.get_figwidth(), 0, words, fontsize=size, color=colour, va="top", **look)
    made.set_in_layout(False)
    room = (figure.get_figwidth() - 2 * _MARGIN_IN) * figure.dpi
    columns = len(words)
    while (wide := made.get_window_extent().width) > room and columns > 1:
        columns = min(columns - 1, int(columns * room / wide) + 1)
        made.set_text("\n".join(textwrap.wrap(words, columns)))
    return made


def _height_in(text: Text) -> float:
    return text.get_window_extent().height / text.get_figure().dpi


# ---- Labels beside their points ----


def _arrange_labels(figure: Figure) -> None:
    figure.draw_without_rendering()  # only now is it known where the panels are
    for axes in figure.axes:
        labels = [text for text in axes.texts if isinstance(text, PointLabel)]
        if labels:
            _arrange(axes, labels)


def _arrange(axes: Axes, labels: Sequence[PointLabel]) -> None:
    """Put each label where it covers the fewest dots of ink: beside its point, and over no other label."""
    ink = _ink(axes)
    taken = [text.get_window_extent() for text in axes.texts if not isinstance(text, PointLabel)]
    if (legend := axes.get_legend()) is not None:
        taken.append(legend.get_window_extent())
    room, pixels = axes.get_window_extent(), axes.figure.dpi / 72
    room = Bbox.from_extents(room.x0, room.y0, min(room.x1 + 14 * pixels, axes.figure.bbox.x1 - 2 * pixels), room.y1)
    for label in labels:
        at = axes.transData.transform(label.xy)
        size = label.get_window_extent()
        cap = np.inf if label.cap is None else axes.transData.transform((label.xy[0], label.cap))[1]
        _, box = min(
            _places(at, size.width, size.height, pixels),
            key=lambda place: _cost(*place, ink, taken, room) + 200 * (place[1].y0 > cap),
        )
        taken.append(box)
        label.set_position(((box.x0 - at[0]) / pixels, (box.y0 - at[1]) / pixels))
        label.set(ha="left", va="bottom")


def _places(at: np.ndarray, width: float, height: float, pixels: float) -> Iterator[tuple[float, Bbox]]:
    """Boxes around a point, each with how far it is: right and left of it, above and below, and between."""
    for near in _NEAR_PT:
        for across, up in ((1, 0), (1, -1), (1, 1), (0, -1), (0, 1), (-1, -1), (-1, 1), (-1, 0)):
            gap = near * pixels * (0.75 if across and up else 1.0)
            x = at[0] + across * gap - (width if across < 0 else width / 2 if across == 0 else 0)
            y = at[1] + up * gap - (height if up < 0 else height / 2 if up == 0 else 0)
            yield near, Bbox.from_bounds(x, y, width, height)


def _cost(near: float, box: Bbox, ink: np.ndarray, taken: Sequence[Bbox], room: Bbox) -> float:
    covered = int(np.sum((ink > box.min - 1).all(axis=1) & (ink < box.max + 1).all(axis=1)))
    outside = box.x0 < room.x0 or box.x1 > room.x1 or box.y0 < room.y0 or box.y1 > room.y1
    return near + 3 * covered + 1000 * outside + 300 * sum(box.overlaps(other) for other in taken)


def _ink(axes: Axes) -> np.ndarray:
    """Dots [n, 2] along every line of a panel, in pixels."""
    dots, paths = [], []
    for line in axes.lines:
        drawn = line.get_transform().transform(line.get_path().vertices)
        dots.append(drawn)
        if line.get_linestyle() != "None":
            paths.append(drawn)
    for bars in axes.collections:
        if isinstance(bars, LineCollection):
            paths += [bars.get_transform().transform(segment) for segment in bars.get_segments()]
    for path in paths:
        for start, end in pairwise(path):
            steps = int(np.hypot(*(end - start)) / 3) if np.isfinite([start, end]).all() else 0
            dots.append(start + np.linspace(0, 1, steps + 2)[:, None] * (end - start))
    return np.concatenate(dots) if dots else np.empty((0, 2))
