"""The rows of a comparison's tables, as text."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.compare.result import NO_REQUESTS, SINGLE_RUNS, Cell, Comparison, Mark
from omni_bench.metrics.definitions import METRICS
from omni_bench.report.format import NA, count, milliseconds, number, percent
from omni_bench.report.table import markdown_table
from omni_bench.stats.verdicts import PrimaryVerdict, Verdict

HEADERS = ("metric", "c", "before", "after", "delta", "%", "interval (%)", "verdict")
METRIC_NAMES = {
    "ttfp_ms": "TTFP",
    "rtf": "RTF",
    "e2el_ms": "E2EL",
    "audio_per_s": "audio/s",
    "e2el_slope": "E2EL slope",
    "e2el_intercept_ms": "E2EL intercept",
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "tokens_per_s": "tokens/s",
}
_MEDIANS = ("ttfp_ms", "rtf", "e2el_ms", "ttft_ms", "tpot_ms")
_UNITS = {"ms": " (ms)", "s": " (s)"}
NOTHING = "–"
UP, DOWN, LEVEL = "↑", "↓", "→"


def signed_percent(fraction: float | None) -> str:
    """``+8.1 %``; n/a for None."""
    return NA if fraction is None else f"{100 * fraction:+.1f} %"


def interval_text(interval: tuple[float, float] | None) -> str:
    """``[+6.0, +10.3]`` in percent; n/a for None."""
    return NA if interval is None else f"[{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]"


def metric_label(metric: str) -> str:
    """``TTFP p50 (ms)``."""
    name = METRIC_NAMES[metric] + (" p50" if metric in _MEDIANS else "")
    return name + _UNITS.get(METRICS[metric].unit, "")


def advisory_text(comparison: Comparison) -> str:
    """What stands in the verdict column where there is no verdict to give."""
    return "; ".join(reason for reason in comparison.advisory if reason in (SINGLE_RUNS, NO_REQUESTS)) + ": advisory"


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
    change = signed_percent(primary.change)
    return [
        f"**{metric_label(primary.metric)}**",
        "all",
        NOTHING,
        NOTHING,
        NOTHING,
        change if change == NA else f"**{change}**",
        interval_text(primary.interval),
        text,
    ]


def _verdict(primary: PrimaryVerdict) -> str:
    assert primary.verdict is not None
    if primary.verdict is Verdict.NO_REGRESSION:
        return f"{LEVEL} no regression"
    if primary.verdict is Verdict.INCONCLUSIVE:
        return "? inconclusive"
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
            signed_percent(cell.change),
            interval_text(cell.interval),
            _mark(cell, comparison),
        ]
        for cell in cells
    ]


def value_text(metric: str, value: float | None) -> str:
    """A value in the metric's own digits."""
    return milliseconds(value) if METRICS[metric].unit == "ms" else number(value, 4)


def _signed(metric: str, value: float | None) -> str:
    text = value_text(metric, value) if METRICS[metric].unit == "ms" else number(value, 3)
    return text if value is None or value < 0 or text == NA else f"+{text}"


def _mark(cell: Cell, comparison: Comparison) -> str:
    if cell.mark is Mark.ADVISORY:
        return advisory_text(comparison) if not comparison.gives_verdicts else "advisory"
    if cell.mark is Mark.NOTHING:
        return f"{LEVEL} {cell.mark}"
    if cell.mark in (Mark.WORSE, Mark.BETTER):
        return f"{_arrow(cell.change)} {cell.mark}"
    return str(cell.mark)


def _arrow(change: float | None) -> str:
    return UP if change is not None and change > 0 else DOWN


def accuracy_rows(comparison: Comparison) -> list[list[str]]:
    """WER, corrupted utterances, cross-talk and parity of both arms; n/a for what was not checked."""
    accuracy = comparison.accuracy
    wer, flags = accuracy.wer, accuracy.flags
    points = None if wer is None else f"[{100 * wer.low:+.2f}, {100 * wer.high:+.2f}] points"
    difference = None
    if accuracy.wer_before is not None and accuracy.wer_after is not None:
        difference = accuracy.wer_after - accuracy.wer_before
    if wer is None:
        said = NA if difference is None else "not tested"
    else:
        said = f"{UP} worse" if wer.low > 0 else f"{DOWN} better" if wer.high < 0 else f"{LEVEL} {Mark.NOTHING}"
    rows = [
        [
            "WER",
            "all",
            percent(accuracy.wer_before),
            percent(accuracy.wer_after),
            NA if difference is None else f"{100 * difference:+.2f} points",
            NOTHING,
            points or NA,
            said,
        ]
    ]
    before, after = (flags.before, flags.after) if flags is not None else (None, None)
    tested = NA
    if flags is not None:
        direction = f"{LEVEL} {Mark.NOTHING}"
        if flags.p < 0.05:
            direction = f"{UP} **worse**" if flags.worse > flags.better else f"{DOWN} better"
        tested = f"{direction} (McNemar p = {number(flags.p, 2)})"
    rows.append(_count_row("corrupted utterances", before, after, tested))
    cross_talk = (accuracy.cross_talk_before, accuracy.cross_talk_after)
    rows.append(_count_row("cross-talk hits", *cross_talk, _counts_said(*cross_talk, bool(comparison.failures))))
    parity = (accuracy.parity_before, accuracy.parity_after)
    rows.append(_count_row("parity mismatches", *parity, _counts_said(*parity, False)))
    return rows


def _count_row(name: str, before: int | None, after: int | None, said: str) -> list[str]:
    delta = NA if before is None or after is None else f"{after - before:+d}"
    return [name, "all", count(before), count(after), delta, NOTHING, NOTHING, said]


def _counts_said(before: int | None, after: int | None, failure: bool) -> str:
    if after is None:
        return NA
    if failure:
        return f"{UP} **HARD FAILURE**"
    if after and (before is None or after > before):
        return f"{UP} look at it"
    return "none" if not after else f"{LEVEL} as before" if after == before else f"{DOWN} fewer"


def detail_table(comparison: Comparison) -> str:
    """The test of every cell, and the WER of every level."""
    rows = [
        [
            metric_label(cell.metric),
            str(cell.concurrency),
            str(cell.pairs),
            signed_percent(cell.change),
            interval_text(cell.interval),
            number(cell.p, 2),
            number(cell.p_adjusted, 2),
        ]
        for cell in comparison.cells
    ]
    table = markdown_table(("metric", "c", "pairs", "%", "interval (%)", "p", "p adjusted"), rows, left=(0,))
    wer = [
        [str(level.concurrency), percent(level.before), percent(level.after)]
        for level in comparison.accuracy.levels
        if level.before is not None or level.after is not None
    ]
    return f"{table}\n\n{markdown_table(('c', 'WER before', 'WER after'), wer)}" if wer else table


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
    return markdown_table(("metric", "c", *names), rows, left=(0,))
