"""Plots: files that are pictures, lines that leave out what is missing, axes with the tested levels."""

from __future__ import annotations

import json
from pathlib import Path

import figures
import matplotlib
import numpy as np
import pytest
import run_factory as runs
from matplotlib import image
from matplotlib.collections import LineCollection
from scipy import stats

from omni_bench.errors import StoreError
from omni_bench.metrics.request import request_metrics
from omni_bench.records.invalid_reason import reasons_of
from omni_bench.report import plots, style
from omni_bench.report.format import number
from omni_bench.report.markdown import render_report
from omni_bench.report.style import look


def drawn(run, name, requests=()):
    """The axes of one plot of ``run``."""
    plot = next(plot for plot in plots.plots_of(run) if plot.name == name)
    with look():
        (axes,) = plots._single(run, plot, requests).axes
    return axes


def records(concurrency=8, requests=12):
    """Lines of requests.jsonl of a level that :func:`run_factory.make_level` makes, as far as plots read them."""
    timelines = runs.level_timelines(concurrency, requests)
    return [
        {
            "request_id": one.request_id,
            "concurrency": concurrency,
            "faults": [],
            "metrics": dict(request_metrics(one, None).values),
        }
        for one in timelines
    ]


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
    assert sorted(tmp_path.rglob("*.*")) == sorted([*paths, *(path.with_suffix(".svg") for path in paths)])


def test_the_overview_counts_prompts_as_the_report_does():
    run = runs.make_run((1, 4))
    panel = plots._overview(run).axes[-1]
    assert "60 measured and 16 warm-up of seed_tts_mini" in texts(panel)
    assert "**prompts**: 60 measured and 16 warm-up of" in render_report(run)
    for name in ("measured", "warmup"):  # schema 1.0
        del run["provenance"]["prompts"][name]
    assert "76 of seed_tts_mini" in texts(plots._overview(run).axes[-1])


@pytest.mark.parametrize(
    ("modalities", "names", "empty_panels"),
    [
        (["text"], ["ttft", "tpot", "tokens_per_s", "e2el"], 1),
        (["text", "audio"], ["ttfp", "rtf", "e2el", "audio_per_s", "wer", "ttft", "tpot", "tokens_per_s"], 0),
        (["audio"], ["ttfp", "rtf", "e2el", "audio_per_s", "wer"], 0),
    ],
)
def test_a_chat_has_plots_of_what_it_was_asked_for(tmp_path, monkeypatch, modalities, names, empty_panels):
    monkeypatch.setattr(plots, "save_figure", lambda *_: None)
    run = runs.make_run((1, 4))
    run["provenance"]["config"]["client"] = {"kind": "openai_chat_audio", "modalities": modalities}
    for level in run["levels"]:
        level["metrics"]["ttft_ms"].update(n=12, p50=20.0, p90=30.0)
    paths = plots.draw_plots(run, tmp_path / "plots")
    assert [path.stem for path in paths] == ["overview", *names]
    panels = plots._overview(run).axes
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


def test_one_level_shows_every_request_and_not_a_lone_dot():
    run, requests = runs.make_run((8,)), records()
    axes = drawn(run, "e2el", requests)
    (line,) = [line for line in axes.get_lines() if line.get_label() == "E2EL, n = 12"]
    dots = list(zip(line.get_xdata()[::2], line.get_ydata()[::2], strict=True))
    values = sorted(one["metrics"]["e2el_ms"] for one in requests)
    assert np.allclose(dots, [(value, 100 * (rank + 1) / 12) for rank, value in enumerate(values)])
    summary = run["levels"][0]["metrics"]["e2el_ms"]
    points = {label: axes.transData.inverted().transform(at) for label, (at, _) in figures.point_labels(axes).items()}
    assert points[f"p50 {number(summary['p50'])}"] == pytest.approx((summary["p50"], 50))
    assert points[f"p90 {number(summary['p90'])}"] == pytest.approx((summary["p90"], 90))
    assert "Each dot is one request" in " ".join(figures.words(axes.figure))
    assert [plot.name for plot in plots.plots_of(run)] == ["ttfp", "rtf", "e2el", "wer"]
    facts = figures.words(plots._overview(run, requests))
    assert "audio/s" in facts and f"{run['levels'][0]['metrics']['audio_per_s']['mean']:.2f} s/s" in facts
    assert "real time: at 1.00, outside of this axis" in figures.legend_words(drawn(run, "rtf", requests))


def test_one_level_of_which_only_run_json_is_left_shows_its_percentiles():
    run = runs.make_run((8,))
    axes = drawn(run, "ttfp")
    summary = run["levels"][0]["metrics"]["ttfp_ms"]
    label = "TTFP: percentiles alone, the requests are not here"
    assert line_points(axes, label) == [(summary["p50"], 50), (summary["p90"], 90)]


def test_requests_with_faults_are_no_dots():
    requests = records()
    requests[0]["faults"] = ["silent"]
    assert "TTFP, n = 11" in figures.legend_words(drawn(runs.make_run((8,)), "ttfp", requests))


@pytest.mark.parametrize("source", ["made", "reports/qwen3_tts_cpu"])
@pytest.mark.parametrize("name", ["ttfp", "rtf", "e2el", "audio_per_s", "wer"])
def test_labels_stand_at_their_dots_and_no_line_goes_through_them(source, name):
    run = runs.make_run((1, 2, 4, 8, 16))
    if source != "made":
        run = json.loads((Path(__file__).parents[3] / source / "run.json").read_text())
    axes = drawn(run, name)
    labels = figures.point_labels(axes)
    ink = style._ink(axes)
    for point, box in labels.values():
        assert figures.gap_pt(axes, point, box) < 15
        assert ((ink > box.min) & (ink < box.max)).all(axis=1).sum() <= 2
    for label, (point, box) in labels.items():
        others = [other for other, _ in labels.values() if tuple(other) != tuple(point)]
        own = figures.gap_pt(axes, point, box)
        assert all(own <= figures.gap_pt(axes, other, box) for other in others), f"{label} is nearer to another dot"
    for cap in (line for line in axes.get_lines() if line.get_marker() == "_"):
        for x, y in axes.transData.transform(cap.get_xydata()):
            above = [(point, box) for point, box in labels.values() if abs(point[0] - x) < 1 and box.y0 > y > point[1]]
            assert not above, "a value above the cap of its bar is read as that of the cap"


def test_errors_have_an_interval_the_judges_own_error_and_the_limit():
    run = runs.make_run((1, 4))
    run["provenance"]["judge"]["own_wer"] = {"wer": 0.021, "cer": 0.01, "utterances": 12, "words": 150}
    run["provenance"]["config"] = {"asr": {"wer_limit": 0.15}}
    axes = drawn(run, "wer")
    (bars,) = [item for item in axes.collections if isinstance(item, LineCollection)]
    for level, segment in zip(run["levels"], bars.get_segments(), strict=True):
        accuracy = level["accuracy"]
        exact = stats.binomtest(accuracy["edits"], accuracy["words"]).proportion_ci(0.95, method="wilson")
        assert [y for _, y in segment] == pytest.approx([100 * exact.low, 100 * exact.high])
    assert {"the judge's own error 2.10 %", "limit of a valid level 15.00 %: above this axis"} <= set(
        figures.legend_words(axes)
    )
    assert line_points(axes, "the judge's own error 2.10 %") == [(0, pytest.approx(2.1)), (1, pytest.approx(2.1))]
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] >= 5
    assert "95 % interval (Wilson)" in " ".join(figures.words(axes.figure))
    run["provenance"]["config"]["asr"]["wer_limit"] = 0.03
    assert line_points(drawn(run, "wer"), "limit of a valid level 3.00 %")[0][1] == pytest.approx(3)


@pytest.mark.parametrize("concurrencies", [(1, 4), (8,)])
def test_every_picture_says_by_itself_that_a_fault_was_injected_and_that_it_claims_nothing(tmp_path, concurrencies):
    health = {**runs.CPU_HEALTH, "fault": "neighbour_slot"}
    levels = [runs.make_level(concurrency, failures=1) for concurrency in concurrencies]
    run = runs.make_run(levels=levels, provenance=runs.make_provenance(health=health))
    made = [plots._overview(run), *(plots._single(run, plot, ()) for plot in plots.plots_of(run))]
    for figure in made:
        said = " ".join(figures.words(figure)).replace("\n", " ")
        assert "FAULT INJECTED on purpose: reference.fault=neighbour_slot" in said
        assert "INVALID (no performance claim): " in said and str(reasons_of(run)[0])[:40] in said
    stranger = runs.make_run(concurrencies, provenance=runs.make_provenance(kind="external", health={"fault": "x"}))
    assert "the server says: fault x" in " ".join(figures.words(plots._overview(stranger)))
    good = " ".join(figures.words(plots._overview(runs.make_run((1, 4)))))
    assert "FAULT" not in good and "INVALID" not in good


def test_nothing_is_cut_off_by_long_names():
    name = "Genuine Very Long Processor Name 9000 with Graphics, "
    provenance = runs.make_provenance(health={"model": "m" * 90, "device_name": name * 3})
    run = runs.make_run((1, 4, 16), scenario="s" * 70, provenance=provenance)
    with look():
        for figure in (plots._overview(run), *(plots._single(run, plot, ()) for plot in plots.plots_of(run))):
            assert figures.cut_off(figure) == []


def test_invalid_levels_are_hollow():
    run = runs.make_run(levels=[runs.make_level(1), runs.make_level(4, failures=1)])
    axes = drawn(run, "rtf")
    hollow = [line for line in axes.get_lines() if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [list(line.get_xdata()) for line in hollow] == [[4]]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "INVALID level" in labels and "real time" in labels


def test_all_zero_values_still_have_an_axis():
    level = runs.make_level(1)
    level["accuracy"].update(wer=0.0, cer=0.0)
    axes = drawn(runs.make_run(levels=[level]), "wer")
    assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 5 and texts(axes) == ["0.00 %"]


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
