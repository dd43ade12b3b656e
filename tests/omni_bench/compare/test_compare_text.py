"""Comparisons of chats: the text beside the audio, and text alone with verdicts of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omni_bench.compare import plots
from omni_bench.compare.compare import compare_runs
from omni_bench.compare.document import to_document, validate_comparison
from omni_bench.compare.markdown import render_comparison

CELL_METRICS = ("ttfp_ms", "rtf", "e2el_ms", "audio_per_s", "ttfp_tail_ms")
TEXT_PRIMARIES = ("ttft_ms", "tpot_ms", "tokens_per_s")
FIGURES = {"n": 14, "std": 1.0, "p90": None, "p95": None, "p99": None}


def with_text(run, slower, *, alone):
    """``run`` as the chat that it was not: TTFT and TPOT that are ``slower``, tokens/s that are fewer."""
    values = {"ttft_ms": 20.0 * slower, "tpot_ms": 5.0 * slower, "tokens_per_s": 400.0 / slower}
    text = {name: {**FIGURES, "mean": value, "p50": value} for name, value in values.items()}
    levels = []
    for level in run.levels:
        metrics = dict(level.metrics)
        if alone:
            nothing = {"n": 0, "mean": None, "std": None, "p50": None, "p90": None, "p95": None, "p99": None}
            metrics = {name: one if name == "e2el_ms" else nothing for name, one in metrics.items()}
        levels.append(replace(level, metrics={**metrics, **text}))
    requests = tuple(replace(one, audio_s=None) for one in run.requests) if alone else run.requests
    return replace(run, levels=tuple(levels), requests=requests)


def arms(make, slower, *, alone=False, pairs=5):
    before, after = make.arm("before", pairs), make.arm("after", pairs, start=pairs)
    steps = [1 + 0.002 * number for number in range(pairs)]
    return (
        [with_text(run, step, alone=alone) for run, step in zip(before, steps, strict=True)],
        [with_text(run, slower * step**0.5, alone=alone) for run, step in zip(after, steps, strict=True)],
    )


def test_speech_has_no_rows_of_text(make):
    comparison = compare_runs(make.arm("before", 2), make.arm("after", 2, start=2))
    assert {cell.metric for cell in comparison.cells} == set(CELL_METRICS)


def test_a_chat_has_rows_of_both_and_is_judged_by_its_audio(make):
    comparison = compare_runs(*arms(make, 1.5))
    assert {cell.metric for cell in comparison.cells} == {*CELL_METRICS, *TEXT_PRIMARIES}
    assert [primary.metric for primary in comparison.primaries] == [
        "ttfp_ms",
        "rtf",
        "audio_per_s",
        "ttfp_tail_ms",
        "stalled",
    ]
    changes = {cell.metric: cell.change for cell in comparison.cells if cell.concurrency == 1}
    assert changes["ttft_ms"] == pytest.approx(0.5, abs=0.01)
    assert changes["tokens_per_s"] == pytest.approx(-1 / 3, abs=0.01)
    text = render_comparison(comparison)
    assert "TTFT p50 (ms)" in text and "tokens/s" in text and "Text alone" not in text


@pytest.mark.parametrize(("slower", "outcome"), [(1.5, "REGRESSION"), (0.7, "IMPROVEMENT")])
def test_text_alone_is_judged_by_its_text(make, slower, outcome):
    comparison = compare_runs(*arms(make, slower, alone=True))
    assert [primary.metric for primary in comparison.primaries] == [*TEXT_PRIMARIES, "ttft_tail_ms"]
    assert str(comparison.outcome) == outcome
    assert [cell.metric for cell in comparison.cells][::2] == [*TEXT_PRIMARIES, "e2el_ms"]
    assert any("Text alone" in note for note in comparison.notes)
    assert not any("Without audio lengths" in note for note in comparison.notes)
    document = to_document(comparison)
    validate_comparison(document)
    assert {one["metric"] for one in document["primaries"]} == {*TEXT_PRIMARIES, "ttft_tail_ms"}


@pytest.mark.parametrize(("alone", "panels"), [(False, 9), (True, 5)])
def test_panels_are_those_of_the_rows(make, tmp_path, monkeypatch, alone, panels):
    both, drawn = arms(make, 1.2, alone=alone, pairs=2), {}
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.update({path: figure}))
    paths = plots.draw_comparison(compare_runs(*both), *both, tmp_path)
    assert list(drawn) == paths and len([axes for axes in drawn[paths[0]].axes if axes.axison]) == panels
