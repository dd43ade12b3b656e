"""What tests of pictures look at: the objects of a figure and where they stand, never its pixels."""

from __future__ import annotations

import numpy as np
from matplotlib.text import Text

from omni_bench.report import style


def words(figure):
    """Every text of a figure that is shown, legends and axes included."""
    return [text.get_text() for text in shown_texts(figure)]


def shown_texts(figure):
    """Its texts as artists; ticks outside of their axis are there, but not drawn."""
    figure.draw_without_rendering()
    hidden = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        hidden |= {
            id(label)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
            for label in (tick.label1, tick.label2)
            if not axis.axes.axison or not low <= tick.get_loc() <= high
        }
    found = figure.findobj(Text)
    return [text for text in found if text.get_visible() and text.get_text().strip() and id(text) not in hidden]


def cut_off(figure):
    """The texts that reach over an edge of the figure."""
    page = figure.bbox
    boxes = {text.get_text(): text.get_window_extent() for text in shown_texts(figure)}
    return [
        text
        for text, box in boxes.items()
        if box.x0 < -1 or box.y0 < -1 or box.x1 > page.width + 1 or box.y1 > page.height + 1
    ]


def point_labels(axes):
    """The labels of points: text -> (point, box of the text), in pixels."""
    axes.figure.draw_without_rendering()
    return {
        text.get_text(): (axes.transData.transform(text.xy), text.get_window_extent())
        for text in axes.texts
        if isinstance(text, style.PointLabel)
    }


def gap_pt(axes, point, box):
    """How far a box is from a point, in points."""
    away = np.maximum(np.maximum(box.min - point, point - box.max), 0)
    return float(np.hypot(*away)) * 72 / axes.figure.dpi


def legend_words(axes):
    """The lines of a legend; [] without one."""
    legend = axes.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]
