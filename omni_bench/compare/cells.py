"""The cells of a comparison: one metric at one level, informational beside the verdicts of the primaries."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from omni_bench.compare.result import Cell, Mark, PairChange, Percentiles
from omni_bench.compare.stats.length_guard import LengthGuard
from omni_bench.compare.stats.pairs import (
    apart,
    as_change,
    averaged_over_levels,
    common_levels,
    intercept_effect,
    log_ratio,
    one_sided_p,
    paired_effect,
    points_effect,
)
from omni_bench.compare.stats.verdicts import CELL_FALSE_DISCOVERY_RATE, LOSS_LIMIT, benjamini_hochberg, worse_sign
from omni_bench.compare.views import LevelView, RunView
from omni_bench.metrics.definitions import METRICS, in_order
from omni_bench.metrics.metric import WithLength
from omni_bench.records.level import Level

DETAIL_FIGURES = ("mean", "p50", "p90", "p95", "p99")
SILENCE_MS = 50.0  # medians of the same server differ by less

Pair = tuple[RunView, RunView]


def shown_metrics(pairs: Sequence[Pair], guard: LengthGuard) -> tuple[str, ...]:
    """The metrics with a row a level: those of a text if there is one, and the fit once the length guard tripped.

    A tail that no run has is left out, and a share that is 0 everywhere: nothing stalls. TTFA has a row where it tells
    more than TTFP: silence comes first in one of two runs, or more of it.
    """
    metrics = in_order(audio=not is_text_alone(pairs), text=_has(pairs, "ttft_ms"))
    compared = [metric for metric in metrics if metric.compared]
    fit = [metric for metric in compared if metric.with_length is WithLength.INSTEAD]
    none = [metric for metric in compared if metric.tail and not _any(pairs, metric.name)]
    if not _silence_differs(pairs):
        none.append(METRICS["ttfa_ms"])
    shown = [metric for metric in compared if metric not in fit + none] + (fit if guard.tripped else [])
    return tuple(metric.name for metric in shown)


def is_text_alone(pairs: Sequence[Pair]) -> bool:
    """Whether there is text and no audio in any of the runs."""
    return _has(pairs, "ttft_ms") and not _has(pairs, "ttfp_ms")


def _has(pairs: Sequence[Pair], metric: str) -> bool:
    return any(level.value(metric) is not None for pair in pairs for run in pair for level in run.levels)


def _any(pairs: Sequence[Pair], metric: str) -> bool:
    return any(level.value(metric) for pair in pairs for run in pair for level in run.levels)


def _silence_differs(pairs: Sequence[Pair]) -> bool:
    return any(
        abs(silence - earlier) > SILENCE_MS
        for before, after in pairs
        for level in before.levels
        if (same := after.level(level.concurrency)) is not None
        and (earlier := _silence_ms(level)) is not None
        and (silence := _silence_ms(same)) is not None
    )


def _silence_ms(level: LevelView) -> float | None:
    """From the first byte of audio to the first voice (medians)."""
    ttfa_ms, ttfp_ms = level.value("ttfa_ms"), level.value("ttfp_ms")
    return None if ttfa_ms is None or ttfp_ms is None else ttfa_ms - ttfp_ms


def level_effects(pairs: Sequence[Pair], metric: str, levels: Sequence[Level]) -> list[dict[Level, float | None]]:
    """ln(after/before) of each pair at each level (of a share after − before); None where there is none."""
    return [{level: _effect(pair, metric, level) for level in levels} for pair in pairs]


def _effect(pair: Pair, metric: str, concurrency: Level) -> float | None:
    before, after = _values(pair, metric, concurrency)
    if METRICS[metric].points:
        return points_effect(before, after)
    whole = METRICS[metric].relative_to
    if whole is None:
        return log_ratio(before, after)
    return intercept_effect(before, after, _values(pair, whole, concurrency)[0])


def _values(pair: Pair, metric: str, concurrency: Level) -> tuple[float | None, float | None]:
    first, second = (run.level(concurrency) for run in pair)
    return (first.value(metric) if first else None, second.value(metric) if second else None)


def compare_cells(
    pairs: Sequence[Pair], levels: Sequence[Level], guard: LengthGuard, *, alpha: float, verdicts: bool
) -> tuple[Cell, ...]:
    """One cell a metric and level, in that order. ``verdicts`` false: single runs, which only show numbers.

    Marks are by the two-sided paired t test after Benjamini–Hochberg at 0.10 over all cells. A level that is invalid
    in any run gets no mark.
    """
    cells = [_cell(pairs, metric, level, alpha) for metric in shown_metrics(pairs, guard) for level in levels]
    adjusted = benjamini_hochberg([cell.p for cell in cells])
    return tuple(
        replace(cell, p_adjusted=value, mark=_mark(cell, value, pairs, guard, verdicts))
        for cell, value in zip(cells, adjusted, strict=True)
    )


def _cell(pairs: Sequence[Pair], metric: str, level: Level, alpha: float) -> Cell:
    both = [
        (effect, *_values(pair, metric, level))
        for pair in pairs
        if (effect := _effect(pair, metric, level)) is not None
    ]
    if not both:
        before, after = (_mean([_values(pair, metric, level)[side] for pair in pairs]) for side in (0, 1))
        return Cell(metric, level, 0, before, after, None, None, None, None, Mark.MISSING)
    effect = paired_effect([one for one, _, _ in both], points=METRICS[metric].points)
    average = statistics.fmean if METRICS[metric].as_share else statistics.geometric_mean
    p = None
    if effect.sd is not None:
        p_above, p_below = one_sided_p(np.array([effect.mean, -effect.mean]), np.array([effect.sd] * 2), effect.pairs)
        p = min(1.0, 2 * float(min(p_above, p_below)))
    sign = worse_sign(METRICS[metric].better)
    return Cell(
        metric=metric,
        concurrency=level,
        pairs=effect.pairs,
        before=average([before for _, before, _ in both]),
        after=average([after for _, _, after in both]),
        change=effect.change,
        interval=effect.interval(1 - 2 * alpha),
        p=p,
        p_adjusted=None,
        mark=Mark.NOTHING,
        better_pairs=sum(sign * one < 0 for one, _, _ in both),
    )


def _mark(cell: Cell, p_adjusted: float | None, pairs: Sequence[Pair], guard: LengthGuard, verdicts: bool) -> Mark:
    if cell.change is None:
        return Mark.MISSING
    if any(level.why for pair in pairs for run in pair if (level := run.level(cell.concurrency)) is not None):
        return Mark.INVALID
    if guard.tripped and METRICS[cell.metric].with_length is WithLength.BIASED:
        return Mark.LENGTH_GUARD
    if not verdicts or p_adjusted is None:
        return Mark.ADVISORY
    if p_adjusted > CELL_FALSE_DISCOVERY_RATE:
        return Mark.SAME if _excludes_loss(cell.interval) else Mark.NOTHING
    return Mark.WORSE if worse_sign(METRICS[cell.metric].better) * cell.change > 0 else Mark.BETTER


def _excludes_loss(interval: tuple[float, float] | None) -> bool:
    return interval is not None and interval[0] > -LOSS_LIMIT and interval[1] < LOSS_LIMIT


def pair_changes(
    pairs: Sequence[Pair], numbers: Sequence[int], effects: Mapping[str, Sequence[Mapping[Level, float | None]]]
) -> tuple[PairChange, ...]:
    """Each primary in each pair. ``effects``: by metric, :func:`level_effects` of these pairs; ``numbers``: theirs."""
    found = []
    for metric, of_pairs in effects.items():
        levels = common_levels(of_pairs)
        logs = averaged_over_levels(of_pairs)
        if logs is None:
            continue
        far = apart(logs)
        for index, (pair, log) in enumerate(zip(pairs, logs, strict=True)):
            values: tuple[float | None, float | None] = (None, None)
            if METRICS[metric].relative_to is None:
                sides = zip(*(_values(pair, metric, level) for level in levels), strict=True)
                average = statistics.fmean if METRICS[metric].points else statistics.geometric_mean
                values = tuple(average(side) for side in sides)  # type: ignore[assignment,type-var]
            better = worse_sign(METRICS[metric].better) * log < 0
            change = as_change(log, points=METRICS[metric].points)
            found.append(PairChange(numbers[index], metric, *values, change, better, index == far))
    return tuple(found)


def compare_percentiles(pairs: Sequence[Pair], levels: Sequence[Level]) -> tuple[Percentiles, ...]:
    """Every metric of requests that both arms have, with its percentiles."""
    found = []
    for level in levels:
        for metric in METRICS:
            figures = tuple((name, *_arm_figures(pairs, level, metric, name)) for name in DETAIL_FIGURES)
            if any(before is not None and after is not None for _, before, after in figures):
                found.append(Percentiles(metric, level, figures))
    return tuple(found)


def _arm_figures(pairs: Sequence[Pair], level: Level, metric: str, figure: str) -> tuple[float | None, float | None]:
    def of(side: int) -> float | None:
        views = [pair[side].level(level) for pair in pairs]
        return _mean([view.figure(metric, figure) if view is not None else None for view in views])

    return of(0), of(1)


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean; None if any run lacks the value, as a mean over fewer runs would be of something else."""
    present = [value for value in values if value is not None]
    return statistics.fmean(present) if present and len(present) == len(values) else None
