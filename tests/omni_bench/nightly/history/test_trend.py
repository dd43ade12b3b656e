"""Trends, their table and plots."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import figures
import night_factory as made
import pytest
from reasons import because

from omni_bench.compare.stats.nightly import prediction
from omni_bench.nightly.gate.night import gate_night
from omni_bench.nightly.history import plots
from omni_bench.nightly.history.database import Baseline, HistoryAlarm
from omni_bench.nightly.history.plots import draw_trends
from omni_bench.nightly.history.series import series_of
from omni_bench.nightly.history.table import HEADERS, alarm_lines, baseline_line, heading, trend_rows
from omni_bench.nightly.history.trend import Trend, commit_range, expected_values, trends
from omni_bench.records.invalid_reason import Code
from omni_bench.report.style import look


@pytest.fixture
def runs():
    """Twenty nights, a loss of 10 % from the thirteenth on, and a broken night."""
    good = [made.night(number, slower=1.1 if number > 12 else 1.0) for number in range(1, 21)]
    broken = made.night(16, hour=3, faulty=1, level_reasons=(because(Code.INVALID_AUDIO),))
    return sorted([*good, broken], key=lambda run: run.started_utc)


def test_a_change_has_its_night_and_commits(runs):
    by_metric = {trend.series.metric: trend for trend in trends(runs)}
    assert set(by_metric) == {"ttfp_ms", "rtf", "audio_per_s"}
    for metric, trend in by_metric.items():
        (change,) = trend.changes
        assert change.night.started_utc.startswith("2026-01-13") and change.worse
        assert change.commits == (made.commit_of(12), made.commit_of(13))
        assert change.point.change == pytest.approx(-0.09 if metric == "audio_per_s" else 0.1, abs=0.01)
        assert trend.segment[1] == 8 and len(trend.series.logs) == 20
    assert by_metric["rtf"].segment[0] == pytest.approx(0.33, rel=0.01)


def test_against_the_baseline(runs):
    baseline = Baseline(runs[0].series, "2026-01-05T00:00:00Z", "", tuple(runs[:4]))
    rtf = next(trend for trend in trends(runs, baseline) if trend.series.metric == "rtf")
    assert rtf.against_baseline == pytest.approx(0.1, abs=0.01)


def test_a_share_changes_in_points_also_against_the_baseline(tmp_path, monkeypatch):
    runs = [made.night(number, ttfp_tail_ms=75.0, stalled=0.25 if number > 12 else 0.0) for number in range(1, 21)]
    baseline = Baseline(runs[0].series, "2026-01-05T00:00:00Z", "", tuple(runs[:4]))
    found = trends(runs, baseline)
    share = next(trend for trend in found if trend.series.metric == "stalled")
    assert share.against_baseline == pytest.approx(0.25)
    row = next(dict(zip(HEADERS, row, strict=True)) for row in trend_rows(found) if row[0] == "stalling requests")
    assert row["mean vs baseline"] == "+25.0 points" and row["change points"].startswith(
        "2026-01-13 +25.0 points worse"
    )
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    draw_trends(runs, found, tmp_path, baseline)
    assert any("2026-01-13 +25.0 points worse" in " ".join(figures.words(figure)) for figure in drawn)


def test_segments_begin_with_the_baseline_as_at_the_gate(runs):
    baseline = Baseline(runs[0].series, "2026-01-19T00:00:00Z", "", tuple(runs[-3:]))
    rtf = next(trend for trend in trends(runs, baseline) if trend.series.metric == "rtf")
    assert rtf.segment[1] == 3 and rtf.start == 17 == rtf.baseline_start
    assert expected_values(rtf)[17] is None is expected_values(rtf)[19], "two nights are no band"
    with made.history_of(runs[:-1]) as history:
        history.set_baseline([run.run_id for run in runs[-3:-1]])
        reasons = {one.reason for one in gate_night(history, runs[-1]).series}
    assert all("too little history: 2 of 10 valid nights since the baseline" in reason for reason in reasons)


def test_an_accepted_alarm_says_so(runs):
    alarm = HistoryAlarm("rtf", "c = 1", "drift", runs[12].run_id, runs[14].run_id, 0.1)
    for first, accepted in ((12, True), (15, True), (10, False)):
        (line,) = alarm_lines([alarm], runs, Baseline("s", "2026-01-20T00:00:00Z", "", tuple(runs[first:])))
        assert line.endswith(", accepted by the baseline") == accepted


def test_the_picture_marks_injected_faults_and_has_the_baseline_from_its_first_night(runs, tmp_path, monkeypatch):
    runs = [replace(run, faults=("reference.fault=x",) if number == 4 else ()) for number, run in enumerate(runs)]
    assert "1 of them with a fault injected on purpose" in heading(runs)
    baseline = Baseline(runs[0].series, "2026-01-20T00:00:00Z", "", tuple(runs[15:18]))
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: drawn.append(figure))
    draw_trends(runs, trends(runs, baseline), tmp_path, baseline)
    lines = {line.get_label(): line for line in drawn[0].axes[0].get_lines()}
    dates = [plots._moment(run) for run in runs]
    assert list(lines["FAULT INJECTED on purpose"].get_xdata()) == [dates[4]]
    assert list(lines["baseline, set 2026-01-20"].get_xdata()) == [dates[15], dates[-1]]


def test_the_table(runs):
    rows = trend_rows(trends(runs))
    assert all(len(row) == len(HEADERS) for row in rows)
    rtf = dict(zip(HEADERS, rows[1], strict=True))
    assert rtf["metric"] == "RTF p50" and rtf["nights"] == "20" and rtf["segment"] == "8 nights"
    assert (
        rtf["change points"].startswith("2026-01-13 +") and "worse (000c000c000c..000d000d000d)" in rtf["change points"]
    )
    assert [dict(zip(HEADERS, row, strict=True))["last"].partition(" ")[2] for row in rows] == ["ms", "", "s/s"]
    assert "21 nights" in heading(runs) and "1 of them invalid and left out" in heading(runs)


def test_a_trend_without_nights():
    assert trends([]) == []


def test_lines(runs):
    alarm = HistoryAlarm("rtf", "c = 1", "drift", runs[12].run_id, runs[14].run_id, 0.1)
    assert alarm_lines([alarm], runs) == ["2026-01-15: drift RTF p50 c = 1 +10.0 % since 2026-01-13"]
    nobody = Baseline("s", "2026-01-05T00:00:00Z", "", ())
    (line,) = alarm_lines([replace(alarm, metric="of_a_later_version")], runs, nobody)
    assert line == "2026-01-15: drift of_a_later_version c = 1 +10.0 % since 2026-01-13"
    assert "none was set" in baseline_line(None) and ", 2026-01-01; series" in heading(runs[:1])
    baseline = Baseline("s", "2026-01-05T00:00:00Z", "why", (runs[0],))
    assert runs[0].run_id[:12] in baseline_line(baseline) and "(why)" in baseline_line(baseline)


def test_commit_ranges():
    assert commit_range(("a" * 40, "b" * 40)) == "aaaaaaaaaaaa..bbbbbbbbbbbb"
    assert commit_range(("a" * 40, "a" * 40)) == "same commit aaaaaaaaaaaa"
    assert commit_range((None, None)) == "unknown..unknown"


def test_each_night_is_expected_by_those_before_it_since_the_last_change(runs):
    (rtf,) = (trend for trend in trends(runs) if trend.series.metric == "rtf")
    expected = expected_values(rtf)
    assert expected[:10] == [None] * 10 and expected[13:] == [None] * 7, "fewer than ten nights before them"
    own = prediction(rtf.series.logs[:12])
    assert expected[12] == pytest.approx((math.exp(own.low), math.exp(own.high)))
    assert expected[12][1] < rtf.series.values[12], "the night of the change lies above"
    alarm = HistoryAlarm("rtf", "c = 1", "acute", runs[12].run_id, runs[12].run_id, 0.2)
    unseen = replace(rtf, changes=())
    assert expected_values(unseen, [alarm])[12:] == [expected[12]] * len(expected[12:]), "alarmed nights are left out"
    assert expected_values(unseen)[13][1] > expected[12][1], "and are not without an alarm"


def test_expected_fixed_costs_are_in_their_own_unit(runs):
    series = series_of(runs, "e2el_intercept_ms", "c = 1")
    ends = expected_values(Trend(series, (), (None, 0), None))[11]
    assert ends[0] < min(series.values[:11]) < max(series.values[:11]) < ends[1] < 1.2 * max(series.values[:11])


def test_plots(runs, tmp_path):
    baseline = Baseline(runs[0].series, "2026-01-05T00:00:00Z", "", tuple(runs[:4]))
    paths = draw_trends(runs, trends(runs, baseline), tmp_path, baseline)
    assert [path.name.rpartition("-")[2] for path in paths] == ["ttfp_ms.png", "rtf.png", "audio_per_s.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert all(path.with_suffix(".svg").is_file() for path in paths)


def test_a_picture_of_a_trend_explains_itself(runs):
    baseline = Baseline(runs[0].series, "2026-01-05T00:00:00Z", "", tuple(runs[:4]))
    found = [trend for trend in trends(runs, baseline) if trend.series.metric == "ttfp_ms"]
    night = next(run for run in runs if run.started_utc.startswith("2026-01-13"))
    alarm = HistoryAlarm("ttfp_ms", "c = 1", "acute", night.run_id, night.run_id, 0.1)
    with look():
        figure = plots._figure(runs, found, "ttfp_ms", baseline, [alarm])
        (axes,) = figure.axes
        said = figures.words(figure)
        assert figures.cut_off(figure) == []
        assert "Time to first packet: TTFP p50 (ms) of every night" in said and axes.get_ylabel() == "TTFP p50 (ms)"
        assert {
            "expected: 99.5 % prediction interval", "INVALID night: no performance claim", "change point, worse",
            "ALARM of the gate", "baseline, set 2026-01-05",
        } == set(figures.legend_words(axes))  # fmt: skip
        labels = figures.point_labels(axes)
        point, box = labels["ALARM (acute) +10.0 %"]
        assert axes.transData.inverted().transform(point)[1] == pytest.approx(night.levels[0].value("ttfp_ms"))
        assert figures.gap_pt(axes, point, box) < 15
        assert axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > max(found[0].series.values)
        dates = [text.get_text() for text in axes.get_xticklabels()]
        assert dates[-1] == "2026-01-20" and 3 < len(dates) <= 8
        boxes = [text.get_window_extent() for text in axes.get_xticklabels()]
        assert all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_faults_and_an_invalid_newest_night_are_said(runs):
    bad = [*runs[:-1], replace(runs[-1], faults=("target.chaos=drip",), valid=False)]
    said = " ".join(figures.words(plots._figure(bad, trends(bad)[:1], "ttfp_ms", None, [])))
    assert "FAULT INJECTED on purpose in 1 of 21 nights: target.chaos=drip" in said
    assert "INVALID (no performance claim): the newest night, 2026-01-20" in said


def test_what_servers_say_of_a_fault_is_marked_and_said(runs):
    odd = [
        replace(run, settings={"server.fault": "slow"} if number in (3, 4) else {}) for number, run in enumerate(runs)
    ]
    figure = plots._figure(odd, trends(odd)[:1], "ttfp_ms", None, [])
    assert f"the server says: fault slow, in 2 of {len(odd)} nights" in " ".join(figures.words(figure))
    assert "the server says: fault" in figures.legend_words(figure.axes[0])
    assert "in 2 of them the server says that it has a fault" in heading(odd)
