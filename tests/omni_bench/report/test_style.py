"""The look of every picture: what makes it readable alone, and its files."""

from __future__ import annotations

from itertools import pairwise

import figures
import matplotlib
import pytest
from matplotlib import image
from matplotlib.figure import Figure

from omni_bench.report import style
from omni_bench.report.style import LOOKS, Band

LONG = "Genuine Very Long Processor Name 9000 with Graphics and 128 Threads, " * 3


def made(title="title", **more):
    figure = Figure(figsize=(5, 3), layout="constrained")
    figure.add_subplot().plot([1, 2, 3], [3, 1, 2])
    style.dress(figure, title, **more)
    return figure


@pytest.mark.parametrize("title", ["short", LONG, "x" * 500, "$\\frac{ $", "a\nb\x1b[31m"])
def test_nothing_is_cut_off_and_panels_keep_their_room(title):
    with style.look():
        figure = made(title, under=[LONG], bands=[(Band.FAULT, LONG), (Band.INVALID, "no")], foot=[LONG, "foot"])
        assert figures.cut_off(figure) == []
        (axes,) = figure.axes
        panel = axes.get_tightbbox()
        blocks = sorted((text.get_window_extent() for text in figure.texts), key=lambda box: -box.y1)
        for above, below in pairwise(blocks):
            assert below.y1 <= above.y0 + 1, "no text stands in another"
        assert not any(box.overlaps(panel) for box in blocks)
        assert panel.height / figure.dpi > 2.5


def test_every_line_differs_in_colour_marker_and_style():
    for name in ("colour", "marker"):
        assert len({getattr(one, name) for one in LOOKS}) == len(LOOKS)
    assert len({one.style for one in LOOKS[:4]}) == 4


def test_png_and_svg_are_the_same_every_time_and_name_no_machine(tmp_path):
    for name in ("one", "two"):
        with style.look():
            style.save_figure(made(under=["a < b & $c$"]), tmp_path / name / "plot.png")
    assert image.imread(tmp_path / "one/plot.png").ndim == 3
    svg = (tmp_path / "one/plot.svg").read_text()
    assert svg == (tmp_path / "two/plot.svg").read_text()
    assert "<dc:date>" not in svg and str(tmp_path) not in svg and "/" + "home" not in svg
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["plot.png", "plot.svg"]
    style.remove_figure(tmp_path / "one/plot.png")
    assert list((tmp_path / "one").iterdir()) == []


def test_what_the_user_set_changes_nothing_and_stays():
    with matplotlib.rc_context({"axes.facecolor": "black", "font.size": 30}):
        before = dict(matplotlib.rcParams)
        with style.look():
            assert matplotlib.rcParams["axes.facecolor"] == "white" and matplotlib.rcParams["font.size"] == 9
        assert dict(matplotlib.rcParams) == before


def test_a_label_moves_out_of_the_way_of_lines_and_of_other_labels():
    with style.look():
        figure = Figure(figsize=(5, 3), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([0, 1, 2], [0, 1, 4], "o-")
        axes.vlines([1], 1, 3)
        for number in range(3):
            style.label_point(axes, 1, 1, f"label {number}")
        style.dress(figure, "title")
    labels = figures.point_labels(axes)
    boxes = [box for _, box in labels.values()]
    assert not any(box.overlaps(other) for i, box in enumerate(boxes) for other in boxes[:i])
    for point, box in labels.values():
        assert figures.gap_pt(axes, point, box) < 15
        assert ((style._ink(axes) > box.min) & (style._ink(axes) < box.max)).all(axis=1).sum() == 0


def test_a_label_at_the_edge_stays_in_the_picture():
    with style.look():
        figure = Figure(figsize=(3, 3), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], "o-")
        axes.margins(0)
        for x, y in ((0, 0), (1, 1), (1, 0.5)):
            style.label_point(axes, x, y, f"a long label at {x}")
        style.dress(figure, "title")
        assert figures.cut_off(figure) == []
        assert not any(text.get_clip_on() for text in axes.texts), "a label beside the panel is shown whole"
