"""The rows of a comparison's tables, as text."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.compare.headline import pairs_text
from omni_bench.compare.result import WITHOUT_VERDICT, Accuracy, Cell, Comparison, Mark, PairChange
from omni_bench.compare.stats.verdicts import PrimaryVerdict, Verdict, worse_sign
from omni_bench.foreign_text import code_span
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.metric import Part
from omni_bench.records.level import is_open_loop
from omni_bench.report.format import (
    NA,
    change_text,
    count,
    milliseconds,
    number,
    p_text,
    percent,
    probability,
    signed,
)
from omni_bench.report.table import markdown_table

HEADERS = ("metric", "c", "before", "after", "delta", "%", "interval (%)", "p", "p adjusted", "verdict")
_UNITS = {"ms": " (ms)", "s": " (s)"}
NOTHING = "–"
UP, DOWN, LEVEL = "↑", "↓", "→"


def headers(comparison: Comparison) -> tuple[str, ...]:
    """:data:`HEADERS`, with the name of the levels: rates of an open loop are no concurrencies."""
    return (HEADERS[0], level_header(comparison), *HEADERS[2:])


def level_header(comparison: Comparison) -> str:
    """What stands above the levels: "c", or "rate" in an open loop."""
    return "rate" if is_open_loop(comparison.levels) else "c"


def interval_text(interval: tuple[float, float] | None) -> str:
    """``[+6.0, +10.3]`` in percent; n/a for None."""
    return NA if interval is None else f"[{signed(100 * interval[0], 1)}, {signed(100 * interval[1], 1)}]"


def metric_label(metric: str) -> str:
    """``TTFP p50 (ms)``."""
    entry = METRICS[metric]
    return entry.short + (" p50" if entry.headline == "p50" else "") + _UNITS.get(entry.unit, "")


def advisory_text(comparison: Comparison) -> str:
    """What stands in the verdict column where there is no verdict to give."""
    why = [text for code, text in comparison.advisory.items() if code in WITHOUT_VERDICT]
    return "; ".join(why) + ": advisory"


def primary_row(comparison: Comparison, primary: PrimaryVerdict) -> list[str]:
    """The row of a primary over all levels, with its verdict."""
    if primary.verdict is not None:
        text = _verdict(primary)
    elif primary.change is None:
        text = NA
    elif comparison.gives_verdicts:
        text = "no claim"
    else:
        text = advisory_text(comparison)
    change = change_text(METRICS[primary.metric], primary.change)
    bold = "**" if comparison.judges_speed else ""
    return [
        f"{bold}{metric_label(primary.metric)}{bold}",
        "all",
        NOTHING,
        NOTHING,
        NOTHING,
        change if change == NA else f"{bold}{change}{bold}",
        interval_text(primary.interval),
        NOTHING,
        probability(corrected_p(primary)) if primary.verdict is not None else NOTHING,
        text,
    ]


def corrected_p(primary: PrimaryVerdict) -> float | None:
    """One-sided p of a change into the direction that it took, after the looks and Holm; None for no test."""
    if primary.change is None:
        return None
    return primary.p_worse if worse_sign(primary.better) * primary.change > 0 else primary.p_better


def _verdict(primary: PrimaryVerdict) -> str:
    assert primary.verdict is not None
    if primary.verdict is Verdict.NO_REGRESSION:
        return f"{LEVEL} no regression"
    if primary.verdict is Verdict.INCONCLUSIVE:
        return f"? {Mark.NOTHING}"
    return f"{_arrow(primary.change)} **{primary.verdict}**"


def cell_rows(cells: Sequence[Cell], comparison: Comparison) -> list[list[str]]:
    """One row a level of one metric."""
    return [
        [
            metric_label(cell.metric),
            str(cell.concurrency),
            value_text(cell.metric, cell.before),
            value_text(cell.metric, cell.after),
            _signed(cell.metric, cell.delta),
            change_text(METRICS[cell.metric], cell.change),
            interval_text(cell.interval),
            probability(cell.p),
            probability(cell.p_adjusted),
            _mark(cell, comparison),
        ]
        for cell in cells
    ]


def value_text(metric: str, value: float | None) -> str:
    """A value in the metric's own digits."""
    if METRICS[metric].percent:
        return percent(value)
    return milliseconds(value) if METRICS[metric].unit == "ms" else number(value, 4)


def _signed(metric: str, value: float | None) -> str:
    if METRICS[metric].unit == "ms":
        return signed(value, 1 if value is not None and abs(value) < 99.95 else 0)
    if METRICS[metric].percent:
        return change_text(METRICS[metric], value)
    text = number(value, 3)
    return text if value is None or value < 0 or text == NA else f"+{text}"


def _mark(cell: Cell, comparison: Comparison) -> str:
    if cell.mark is Mark.ADVISORY:
        return advisory_text(comparison) if not comparison.gives_verdicts else "advisory"
    if cell.mark is Mark.SAME:
        return f"{LEVEL} {cell.mark}"
    if cell.mark is Mark.NOTHING:
        return f"? {cell.mark} ({pairs_text(cell.metric, cell.better_pairs, cell.pairs)})"
    if cell.mark in (Mark.WORSE, Mark.BETTER):
        return f"{_arrow(cell.change)} {cell.mark}"
    return str(cell.mark)


def _arrow(change: float | None) -> str:
    return UP if change is not None and change > 0 else DOWN


def is_spoken(comparison: Comparison) -> bool:
    """Whether there is anything to be heard: False of text alone."""
    of_audio = any(METRICS[primary.metric].part is Part.AUDIO for primary in comparison.primaries)
    return of_audio or any(comparison.accuracy.rates)


def accuracy_rows(comparison: Comparison) -> list[list[str]]:
    """WER or CER, corrupted utterances, cross-talk and parity of both arms; n/a for what was not checked.

    None of them is of a text: a comparison of text alone has no such rows.
    """
    accuracy = comparison.accuracy
    flags = accuracy.flags
    if not is_spoken(comparison):
        return []
    before, after = (flags.before, flags.after) if flags is not None else (None, None)
    tested = NA
    if flags is not None:
        direction = f"? {Mark.NOTHING}" if flags.before or flags.after else "none"
        if flags.p < 0.05:
            direction = f"{UP} **worse**" if flags.worse > flags.better else f"{DOWN} better"
        tested = f"{direction} (McNemar {p_text(flags.p)})"
    rows = [_rate_row(accuracy), _count_row("corrupted utterances", before, after, tested)]
    cross_talk = (accuracy.cross_talk_before, accuracy.cross_talk_after)
    rows.append(_count_row("cross-talk hits", *cross_talk, _counts_said(*cross_talk, bool(comparison.failures))))
    parity = (accuracy.parity_before, accuracy.parity_after)
    rows.append(_count_row("parity mismatches", *parity, _counts_said(*parity, False)))
    return rows


def _rate_row(accuracy: Accuracy) -> list[str]:
    before, after, wer = accuracy.wer_before, accuracy.wer_after, accuracy.wer
    if accuracy.rate is None:
        values = [f"{rate} {percent(value)}" for rate, value in zip(accuracy.rates, (before, after), strict=True)]
        return ["errors", "all", *values, NA, NOTHING, NA, NOTHING, NOTHING, "not compared: not the same rate"]
    difference = None if before is None or after is None else 100 * (after - before)
    if wer is None:
        said = NA if difference is None else "not tested"
    else:
        said = f"{UP} worse" if wer.low > 0 else f"{DOWN} better" if wer.high < 0 else f"? {Mark.NOTHING}"
        said = "no errors" if not (before or after) else said
    return [
        accuracy.rate,
        "all",
        percent(before),
        percent(after),
        NA if difference is None else f"{signed(difference, 2)} points",
        NOTHING,
        NA if wer is None else f"[{signed(100 * wer.low, 2)}, {signed(100 * wer.high, 2)}] points",
        NOTHING,
        NOTHING,
        said,
    ]


def _count_row(name: str, before: int | None, after: int | None, said: str) -> list[str]:
    delta = NA if before is None or after is None else f"{after - before:+d}"
    return [name, "all", count(before), count(after), delta, *[NOTHING] * 4, said]


def _counts_said(before: int | None, after: int | None, failure: bool) -> str:
    if after is None:
        return NA
    arrow = "" if before is None else f"{LEVEL} " if after == before else f"{UP} " if after > before else f"{DOWN} "
    if failure:
        return f"{arrow}**HARD FAILURE**"
    if after and before is None:
        return "look at it: before was not checked"
    if not after:
        return "none"
    return f"{arrow}{'look at it' if after > before else 'as before' if after == before else 'fewer'}"


def pair_table(comparison: Comparison) -> str | None:
    """One row a pair: each primary before → after, over all levels. None with a single pair."""
    metrics = list(dict.fromkeys(one.metric for one in comparison.pair_changes))
    pairs = sorted({one.pair for one in comparison.pair_changes})
    if len(pairs) < 2:
        return None
    found = {(one.pair, one.metric): one for one in comparison.pair_changes}
    rows = []
    for pair in pairs:
        runs = (arm.sources[pair - 1] for arm in (comparison.before, comparison.after))
        of_pair = (found.get((pair, metric)) for metric in metrics)
        rows.append([str(pair), *(NA if one is None else _pair_cell(one) for one in of_pair), *map(code_span, runs)])
    heads = ("pair", *map(metric_label, metrics), "before", "after")
    return markdown_table(heads, rows, left=range(1, len(heads)))


def _pair_cell(one: PairChange) -> str:
    change = f"{change_text(METRICS[one.metric], one.change)}{' (outlier)' if one.stands_apart else ''}"
    if one.before is None:
        return change
    return f"{value_text(one.metric, one.before)} {LEVEL} {value_text(one.metric, one.after)}, {change}"


def percentile_table(comparison: Comparison) -> str | None:
    """Percentiles of every metric of requests, ``before → after``; None if there are none."""
    if not comparison.percentiles:
        return None
    names = [name for name, _, _ in comparison.percentiles[0].figures]
    rows = [
        [
            f"`{one.metric}`",
            str(one.concurrency),
            *(
                NA if before is None or after is None else f"{number(before, 4)} {LEVEL} {number(after, 4)}"
                for _, before, after in one.figures
            ),
        ]
        for one in comparison.percentiles
    ]
    return markdown_table(("metric", level_header(comparison), *names), rows, left=(0,))
