"""Comparison plots: pictures with both arms, intervals from runs, fits, n/a where there is nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib import image

from omni_bench.compare import plots
from omni_bench.compare.compare import compare_runs
from omni_bench.compare.stats.pairs import paired_effect
from omni_bench.compare.vllm_bench import read_result


def test_pictures(make, tmp_path):
    arms = make.arm("before", 3), make.arm("after", 3, slower=1.3, start=3)
    paths = plots.draw_comparison(compare_runs(*arms), *arms, tmp_path / "plots")
    assert [path.name for path in paths] == ["before_after.png", "e2el_over_audio.png"]
    for path in paths:
        picture = image.imread(path)
        assert min(picture.shape[:2]) > 300 and (picture[..., :3] < 0.5).any()
    assert sorted(tmp_path.joinpath("plots").iterdir()) == sorted(paths)


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
    assert [axes.get_legend_handles_labels()[1] for axes in panels] == [["before", "after"]] * 5 + [[]]
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
