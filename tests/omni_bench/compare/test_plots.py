"""Comparison plots: pictures with both arms, intervals from runs, fits, n/a where there is nothing."""

from __future__ import annotations

from dataclasses import replace

import figures
import pytest
from matplotlib import image

from omni_bench.compare import plots
from omni_bench.compare.compare import compare_runs
from omni_bench.compare.result import ComparisonOutcome
from omni_bench.compare.stats.pairs import paired_effect
from omni_bench.compare.vllm_bench import read_result
from omni_bench.report.style import look


def test_pictures(make, tmp_path):
    arms = make.arm("before", 3), make.arm("after", 3, slower=1.3, start=3)
    paths = plots.draw_comparison(compare_runs(*arms), *arms, tmp_path / "plots")
    assert [path.name for path in paths] == ["before_after.png", "e2el_over_audio.png"]
    for path in paths:
        picture = image.imread(path)
        assert min(picture.shape[:2]) > 300 and (picture[..., :3] < 0.5).any()
    assert sorted(tmp_path.joinpath("plots").iterdir()) == sorted(
        [*paths, *(path.with_suffix(".svg") for path in paths)]
    )


def test_points_are_geometric_means_with_an_interval_over_runs(make):
    runs = make.arm("before", 3)
    value, low, high = plots.arm_point(runs, "ttfp_ms", 4)
    logs = [plots.log_ratio(1.0, run.level(4).value("ttfp_ms")) for run in runs]
    assert value == pytest.approx(2.718281828459045 ** paired_effect(logs).mean)
    assert low < value < high
    assert plots.arm_point(runs[:1], "ttfp_ms", 4)[1:] == (None, None)
    assert plots.arm_point(runs, "ttft_ms", 4) is None and plots.arm_point(runs, "ttfp_ms", 64) is None


def test_both_arms_and_both_fits_are_drawn(make):
    arms = make.arm("before", 2), make.arm("after", 2, slower=1.3, start=3)
    comparison = compare_runs(*arms)
    panels = plots._metrics_figure(comparison, arms).axes
    assert [axes.get_legend_handles_labels()[1] for axes in panels] == [["before", "after"]] * 6
    assert panels[0].get_title(loc="left").startswith("TTFP p50 (ms)   +3")
    assert list(panels[0].get_xticks()) == [1, 4]
    fits = plots._fit_figure(comparison, arms).axes
    assert [axes.get_title(loc="left") for axes in fits] == ["c = 1", "c = 4"]
    labels = fits[0].get_legend_handles_labels()[1]
    # 25 ms a chunk of 0.1 s: 0.25 s/s, and 30 % more after
    assert [label.split(": ")[0] for label in labels] == ["before", "after"]
    before, after = (float(label.split(" + ")[1].removesuffix(" s/s")) for label in labels)
    assert before == pytest.approx(0.25, abs=0.01) and after / before == pytest.approx(1.3, abs=0.03)


def test_a_fit_that_is_missing_is_said(make):
    arms = [make.view(levels=(1,), requests=5)], [make.view(levels=(1,), requests=5, started=1)]
    (axes,) = plots._fit_figure(compare_runs(*arms), arms).axes
    assert axes.get_legend_handles_labels()[1] == ["before: fit n/a", "after: fit n/a"]


def test_results_without_requests_have_no_fit(bench_result, tmp_path):
    arms = [[read_result(bench_result(slower=slower), f"{slower}")] for slower in (1.0, 1.2)]
    comparison = compare_runs(*arms)
    (axes,) = plots._fit_figure(comparison, arms).axes
    assert [text.get_text() for text in axes.texts] == ["n/a"]
    assert len(plots.draw_comparison(comparison, *arms, tmp_path)) == 2


def test_more_levels_than_panels_and_a_dollar(make, tmp_path):
    levels = (1, 2, 3, 4, 5, 6, 7)
    arms = [make.view(levels=levels, requests=9)], [make.view(levels=levels, requests=9, started=1)]
    arms = tuple([replace(run, facts=replace(run.facts, hardware="$x")) for run in arm] for arm in arms)
    comparison = compare_runs(*arms)
    assert [axes.get_title(loc="left") for axes in plots._fit_figure(comparison, arms).axes] == [
        f"c = {level}" for level in levels[-6:]
    ]
    plots.draw_comparison(comparison, *arms, tmp_path)


def test_pairs_are_joined_and_the_picture_says_what_the_bars_are(make):
    arms = make.arm("before", 3), make.arm("after", 3, slower=1.3, start=3)
    figure = plots._metrics_figure(compare_runs(*arms), arms)
    axes = figure.axes[0]
    joined = [line.get_ydata() for line in axes.get_lines() if line.get_linewidth() == 0.7]
    values = [[run.level(level).value("ttfp_ms") for run in arm] for level in (1, 4) for arm in arms]
    assert [tuple(ends) for ends in joined] == [*zip(*values[:2], strict=True), *zip(*values[2:], strict=True)]
    said = " ".join(figures.words(figure)).replace("\n", " ")
    assert "a thin line joins the two runs of a pair" in said and "95 % Student t interval over the runs" in said
    assert "audio seconds per second" in said and "WER (%)" in said
    single = plots._metrics_figure(compare_runs(arms[0][:1], arms[1][:1]), (arms[0][:1], arms[1][:1]))
    assert "there is no interval" in " ".join(figures.words(single))


def test_what_was_heard_has_panels_and_no_cross_talk_none(make):
    arms = make.arm("before", 2), make.arm("after", 2, start=2)

    def titles(arms):
        figure = plots._metrics_figure(compare_runs(*arms), arms)
        shown = [axes for axes in figure.axes if axes.axison]
        return {axes.get_title(loc="left").split("   ")[0]: axes for axes in shown}, " ".join(figures.words(figure))

    def with_hits(run, hits):
        levels = [replace(level, accuracy={**level.accuracy, "cross_talk_hits": hits}) for level in run.levels]
        return replace(run, levels=tuple(levels))

    quiet = tuple([with_hits(run, 0) for run in arm] for arm in arms)
    found, said = titles(quiet)
    assert "cross-talk" not in found and "Cross-talk: no hit in any of these runs." in said
    assert found["WER"].get_ylim()[0] == 0 and found["WER"].get_ylim()[1] >= 5
    found, said = titles((quiet[0], [with_hits(run, 3) for run in arms[1]]))
    assert plots.arm_point([with_hits(run, hits) for run, hits in zip(arms[1], (1, 3), strict=True)], "cross_talk", 1)[
        0
    ] == pytest.approx(2)
    assert "3" in [text.get_text() for text in found["cross-talk"].texts] and "no hit in any" not in said


def test_a_change_of_many_times_has_a_log_axis(make):
    before = make.arm("before", 2)
    for slower, scale in ((3.0, "linear"), (30.0, "log")):
        arms = before, make.arm(f"after{slower:g}", 2, slower=slower, start=9)
        axes = plots._metrics_figure(compare_runs(*arms), arms).axes[0]
        assert axes.get_yscale() == scale and axes.get_ylabel().endswith("log axis") == (scale == "log")


def test_faults_and_no_claim_are_in_both_pictures_and_nothing_is_cut_off(make):
    arms = make.arm("before", 2, levels=(1,)), make.arm("after", 2, start=2, levels=(1,))
    name = "Genuine Very Long Processor Name 9000 with Graphics and Many Threads, 2 cores"
    arms = tuple([replace(run, facts=replace(run.facts, hardware=name)) for run in arm] for arm in arms)
    faults = {"faults": ("reference.fault=x",), "stated_faults": ("the server says: fault y",)}
    broken = [replace(run, facts=replace(run.facts, **faults)) for run in arms[1]]
    comparison = replace(compare_runs(arms[0], broken), outcome=ComparisonOutcome.NO_CLAIM)
    for draw in (plots._metrics_figure, plots._fit_figure):
        with look():
            figure = draw(comparison, (arms[0], broken))
            said = " ".join(figures.words(figure)).replace("\n", " ")
            assert "FAULT INJECTED on purpose: after: reference.fault=x" in said
            assert "after: the server says: fault y" in said
            assert "INVALID (no performance claim): " in said
            assert "over all levels" not in said
            assert figures.cut_off(figure) == []


def test_a_fit_says_its_formula_and_that_a_negative_fixed_part_means_nothing(make, monkeypatch):
    arms = make.arm("before", 1), make.arm("after", 1, start=2)
    monkeypatch.setattr(plots, "_mean_line", lambda runs, level: (-92.0 if level == 1 else 92.0, 0.25))
    first, second = plots._fit_figure(compare_runs(*arms), arms).axes
    assert first.get_legend().get_title().get_text() == "E2EL = fixed + per second of audio"
    assert all("below zero: not meaningful" in label for label in figures.legend_words(first))
    assert figures.legend_words(second)[0] == "before: 92 ms + 0.250 s/s"
