"""Plots: files that are pictures, lines that leave out what is missing, axes with the tested levels."""

from __future__ import annotations

import matplotlib
import pytest
import run_factory as runs
from matplotlib import image
from matplotlib.figure import Figure

from omni_bench.errors import StoreError
from omni_bench.report import plots
from omni_bench.report.format import number
from omni_bench.report.markdown import render_report


def drawn(run, name):
    """The axes of one plot of ``run``."""
    plot = next(plot for plot in plots.plots_of(run) if plot.name == name)
    axes = Figure().add_subplot()
    plots._draw(axes, plot, sorted(run["levels"], key=lambda level: level["concurrency"]))
    return axes


def line_points(axes, label):
    (line,) = [line for line in axes.get_lines() if line.get_label() == label]
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_every_plot_is_a_picture_with_something_on_it(tmp_path):
    paths = plots.draw_plots(runs.make_run((1, 4, 16)), tmp_path / "plots")
    assert [path.name for path in paths] == [
        "overview.png",
        "ttfp.png",
        "rtf.png",
        "e2el.png",
        "audio_per_s.png",
        "wer.png",
    ]
    for path in paths:
        picture = image.imread(path)
        assert min(picture.shape[:2]) > 400
        assert (picture[..., :3] < 0.5).any() and (picture[..., :3] > 0.99).mean() > 0.5
    assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "plots", *paths])


def test_the_overview_counts_prompts_as_the_report_does():
    run = runs.make_run((1, 4))
    panel = plots._overview(run, run["levels"]).axes[-1]
    assert "60 measured and 16 warm-up of seed_tts_mini" in texts(panel)
    assert "**prompts**: 60 measured and 16 warm-up of" in render_report(run)
    for name in ("measured", "warmup"):  # schema 1.0
        del run["provenance"]["prompts"][name]
    assert "76 of seed_tts_mini" in texts(plots._overview(run, run["levels"]).axes[-1])


@pytest.mark.parametrize(
    ("modalities", "names", "empty_panels"),
    [
        (["text"], ["ttft", "tpot", "tokens_per_s", "e2el"], 1),
        (["text", "audio"], ["ttfp", "rtf", "e2el", "audio_per_s", "wer", "ttft", "tpot", "tokens_per_s"], 0),
        (["audio"], ["ttfp", "rtf", "e2el", "audio_per_s", "wer"], 0),
    ],
)
def test_a_chat_has_plots_of_what_it_was_asked_for(tmp_path, modalities, names, empty_panels):
    run = runs.make_run((1, 4))
    run["provenance"]["config"]["client"] = {"kind": "openai_chat_audio", "modalities": modalities}
    for level in run["levels"]:
        level["metrics"]["ttft_ms"].update(n=12, p50=20.0, p90=30.0)
    paths = plots.draw_plots(run, tmp_path / "plots")
    assert [path.stem for path in paths] == ["overview", *names]
    panels = plots._overview(run, run["levels"]).axes
    assert sum(not axes.axison for axes in panels) == 1 + empty_panels  # the words, and what is left over
    assert [axes.get_title(loc="left") for axes in panels if axes.axison] == [
        plot.title for plot in plots.plots_of(run)
    ]


def test_points_are_the_figures_of_the_run():
    run = runs.make_run((16, 1, 4))
    axes = drawn(run, "ttfp")
    expected = {level["concurrency"]: level["metrics"]["ttfp_ms"]["p50"] for level in run["levels"]}
    assert line_points(axes, "p50, bar up to p90") == sorted(expected.items())
    assert axes.get_xscale() == "log"
    assert list(axes.get_xticks()) == [1, 4, 16]
    assert [axes.xaxis.get_major_formatter()(tick, 0) for tick in axes.get_xticks()] == ["1", "4", "16"]
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > run["levels"][0]["metrics"]["ttfp_ms"]["p90"]


def test_error_rates_are_in_percent():
    run = runs.make_run((1, 4))
    assert [y for _, y in line_points(drawn(run, "wer"), "WER")] == pytest.approx(
        [100 * level["accuracy"]["wer"] for level in run["levels"]]
    )


def test_levels_without_a_value_are_left_out():
    levels = [runs.make_level(1), runs.make_level(4, judge=False), runs.make_level(16)]
    axes = drawn(runs.make_run(levels=levels), "wer")
    assert [x for x, _ in line_points(axes, "WER")] == [1, 16]
    assert list(axes.get_xticks()) == [1, 4, 16]


def test_a_plot_without_any_value_says_na():
    run = runs.make_run(levels=[runs.make_level(1, judge=False)], provenance=runs.make_provenance(judge=False))
    axes = drawn(run, "wer")
    assert texts(axes) == ["n/a"] and axes.get_legend() is None and list(axes.get_xticks()) == [1]


def test_single_level_shows_its_point_its_bar_and_its_value():
    run = runs.make_run((8,))
    axes = drawn(run, "e2el")
    summary = run["levels"][0]["metrics"]["e2el_ms"]
    assert line_points(axes, "p50, bar up to p90") == [(8, summary["p50"])]
    (bar,) = [item for item in axes.collections if "Line" in type(item).__name__]
    assert [tuple(point) for point in bar.get_segments()[0]] == [(8, summary["p50"]), (8, summary["p90"])]
    assert texts(axes) == [f"p50 {number(summary['p50'])}"]
    low, high = axes.get_xlim()
    assert low < 8 < high


def test_invalid_levels_are_hollow():
    run = runs.make_run(levels=[runs.make_level(1), runs.make_level(4, failures=1)])
    axes = drawn(run, "rtf")
    hollow = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in hollow] == [[4]]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "invalid level" in labels and "real time" in labels


def test_all_zero_values_still_have_an_axis():
    level = runs.make_level(1)
    level["accuracy"].update(wer=0.0, cer=0.0)
    axes = drawn(runs.make_run(levels=[level]), "wer")
    assert axes.get_ylim()[1] > 0 and texts(axes) == ["0.00 %"]


def test_no_global_state_is_touched_and_odd_names_are_drawn(tmp_path):
    before = dict(matplotlib.rcParams)
    provenance = runs.make_provenance(health={"model": "a $\\frac{ b", "device_name": "c$ " * 40})
    plots.draw_plots(runs.make_run((3,), scenario="$x^{$", provenance=provenance), tmp_path)
    assert dict(matplotlib.rcParams) == before


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "plots").write_text("in the way")
    with pytest.raises(StoreError, match="cannot write"):
        plots.draw_plots(runs.make_run((1,)), tmp_path / "plots")


def test_a_language_without_words_has_a_plot_of_characters(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: path.write_bytes(b""))
    run = runs.make_run((1, 4))
    assert "wer.png" in [path.name for path in plots.draw_plots(run, tmp_path)]
    run["provenance"]["prompts"]["locale"] = "zh"
    names = [path.name for path in plots.draw_plots(run, tmp_path)]
    assert "cer.png" in names and sorted(path.name for path in tmp_path.iterdir()) == sorted(names), (
        "no wer.png is left"
    )
    axes = drawn(run, "cer")
    assert [y for _, y in line_points(axes, "CER")] == pytest.approx(
        [100 * level["accuracy"]["cer"] for level in run["levels"]]
    )
    assert [line.get_label() for line in axes.get_lines() if line.get_label() == "WER"] == []
