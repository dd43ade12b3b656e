"""The matrix of a level's cross-talk: in which slot words were heard, and from which slot they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from omni_bench.records.level import Level, Rate, level_name, level_of, level_title
from omni_bench.report.cross_talk import PLOT_PREFIX, slots_of
from omni_bench.report.format import fixed
from omni_bench.report.plots import DPI, bands_of, subtitle
from omni_bench.report.style import ORANGE, dress, look, remove_figure, save_figure

SIZE = (6.4, 4.8)
SLOTS_NOTE = "Slots as far as the client can tell: a request takes the lowest that is free when it starts."
MAX_NUMBERED = 16  # slots up to which every cell with hits has its count written in


def draw_cross_talk(
    run: Mapping[str, Any],
    hits: Sequence[Mapping[str, Any]],
    in_flight_ns: Mapping[Level, Mapping[str, tuple[int, int]]],
    folder: Path,
) -> list[Path]:
    """Write a PNG and an SVG for each level of two slots and more in which there are hits; the PNGs.

    ``hits``: lines of cross_talk.jsonl. ``in_flight_ns``: by concurrency and request id, when each request was in
    flight, warm-up included. Raises StoreError.
    """
    paths = []
    for level in run["levels"]:
        key, concurrency = level_of(level), level["concurrency"]
        path = folder / f"{PLOT_PREFIX}{level_name(key) if isinstance(key, Rate) else key}.png"
        found = [hit for hit in hits if level_of(hit) == key]
        if concurrency < 2 or not level.get("cross_talk") or not found:
            remove_figure(path)  # of an older report
            continue
        matrix, elsewhere = slot_matrix(found, slots_of(in_flight_ns.get(key, {})), concurrency)
        with look():
            save_figure(_figure(run, level, matrix, elsewhere), path)
        paths.append(path)
    return paths


def slot_matrix(
    hits: Sequence[Mapping[str, Any]], slots: Mapping[str, int], concurrency: int
) -> tuple[np.ndarray, int]:
    """Counts [slots, slots], victims in rows and sources in columns, and the hits whose source is of another level."""
    size = max([concurrency, *(slot + 1 for slot in slots.values())])
    matrix = np.zeros((size, size), dtype=int)
    elsewhere = 0
    for hit in hits:
        if hit["victim"] in slots and hit["source"] in slots:
            matrix[slots[hit["victim"]], slots[hit["source"]]] += 1
        else:
            elsewhere += 1
    return matrix, elsewhere


def _figure(run: Mapping[str, Any], level: Mapping[str, Any], matrix: np.ndarray, elsewhere: int) -> Figure:
    figure = Figure(figsize=SIZE, dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    colours = LinearSegmentedColormap.from_list("hits", ["#F7F7F7", ORANGE])
    image = axes.imshow(matrix, cmap=colours, vmin=0, vmax=max(int(matrix.max()), 1))
    size = matrix.shape[0]
    axes.grid(visible=False)
    axes.set_xticks(np.arange(-0.5, size), minor=True)
    axes.set_yticks(np.arange(-0.5, size), minor=True)
    axes.grid(which="minor", axis="both", color="white", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=16, integer=True))
    axes.set_xlabel("slot of the source, whose words were heard")
    axes.set_ylabel("slot of the victim, in which they were heard")
    if size <= MAX_NUMBERED:
        for victim, source in np.argwhere(matrix):
            axes.text(source, victim, str(matrix[victim, source]), ha="center", va="center")
    figure.colorbar(image, ax=axes, label="outputs", ticks=MaxNLocator(integer=True), shrink=0.8)
    found = level["cross_talk"]
    expected = fixed(found["expected_false_hits"], 2)
    counts = f"{found['hits']} hits, {expected} expected by chance, {found['pairs']} pairs"
    outside = f"; {elsewhere} from another level" if elsewhere else ""
    title = f"Cross-talk at {level_title(level_of(level))}"
    dress(figure, title, [subtitle(run), f"{counts}{outside}"], bands_of(run), [SLOTS_NOTE])
    return figure
