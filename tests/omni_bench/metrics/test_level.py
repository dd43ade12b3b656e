"""The summary of a level, by hand."""

import json

import numpy as np
import pytest
from timelines import make_timeline

from omni_bench.metrics.definitions import summarised
from omni_bench.metrics.level import summarise_level
from omni_bench.metrics.measured_level import E2elFit, e2el_fit
from omni_bench.metrics.request import request_metrics
from omni_bench.metrics.slo import Slo, goodput
from omni_bench.records.request_metrics import RequestMetrics

SECOND = 24_000


def level_of(timelines, invalid=None, **how):
    metrics = [request_metrics(timeline, None) for timeline in timelines]
    return summarise_level(2, timelines, metrics, invalid or {}, **how)


def linear_level(count=10):
    """Request i: i + 1 seconds of audio, E2EL of 100 ms + 0.25 s a second; two slots that never idle together."""
    timelines, free = [], [0.0, 0.0]
    for number in range(count):
        slot = free.index(min(free))
        started, seconds = free[slot], number + 1
        ended = started + 100 + 250 * seconds
        timelines.append(
            make_timeline(f"r{number}", started, ended, [(started + 100, SECOND), (ended, SECOND * number)])
        )
        free[slot] = ended
    return timelines


def test_a_good_level():
    summary = level_of(linear_level())
    assert (summary.requests, summary.completed, summary.failed) == (10, 10, 0)
    assert summary.errors == {} and summary.invalid == {}
    assert summary.scalars["e2el_slope"] == pytest.approx(0.25)
    assert summary.scalars["e2el_intercept_ms"] == pytest.approx(100.0)
    assert summary.scalars["goodput"] is None
    # the odd ones in one slot: 5 * 100 + 250 * 25 = 6750 ms; the even ones in the other: 5 * 100 + 250 * 30 = 8000 ms
    assert summary.scalars["requests_per_s"] == pytest.approx(10 / 8.0)
    assert summary.scalars["audio_per_s"] == pytest.approx(55 / 8.0)
    assert summary.scalars["audio_per_s_steady"] == pytest.approx((55 - 9) / 6.75)
    ttfp = summary.distributions["ttfp_ms"]
    assert (ttfp.n, ttfp.mean, ttfp.p50, ttfp.p95) == (10, pytest.approx(100.0), pytest.approx(100.0), None)
    assert summary.distributions["icl_ms"].n == 10
    assert summary.distributions["ttft_ms"].n == summary.distributions["itl_ms"].n == 0


def test_run_json_form():
    metrics = level_of(linear_level(), slo=Slo(ttfp_ms=50)).metrics_json()
    assert list(metrics) == [metric.name for metric in summarised()]
    for name, entry in metrics.items():
        assert list(entry) == ["unit", "better", "n", "mean", "std", "p50", "p90", "p95", "p99"], name
    assert metrics["audio_per_s"]["mean"] == pytest.approx(55 / 8.0) and metrics["audio_per_s"]["n"] == 10
    assert metrics["goodput"] == {
        "unit": "", "better": "higher", "n": 10, "mean": 0.0,
        "std": None, "p50": None, "p90": None, "p95": None, "p99": None,
    }  # fmt: skip
    assert metrics["ttft_ms"]["n"] == 0 and metrics["ttft_ms"]["mean"] is None
    json.dumps(metrics, allow_nan=False)


def test_failures_and_invalid_audio_are_counted_by_name():
    timelines = [
        make_timeline("a", chunks=[(10, SECOND)]),
        make_timeline("b", failed="timeout"),
        make_timeline("c", failed="timeout"),
        make_timeline("d", failed="connect"),
        make_timeline("e", chunks=[(10, SECOND)]),
    ]
    invalid = {"a": ("silent", "truncated"), "e": (), "b": ("empty",)}
    summary = level_of(timelines, invalid)
    assert (summary.requests, summary.completed, summary.faulty, summary.failed) == (5, 2, 1, 3)
    assert summary.errors == {"timeout": 2, "connect": 1}
    assert summary.invalid == {"silent": 1, "truncated": 1}
    assert summary.distributions["e2el_ms"].n == 1


def test_invalid_audio_improves_no_average():
    good = linear_level()
    blob = make_timeline("blob", 0, 10, [(1, SECOND), (2, 600 * SECOND)])  # ten minutes of noise at once
    noisy = level_of([*good, blob], {"blob": ("runaway",)})
    clean = level_of(good)
    assert noisy.distributions == clean.distributions
    for name in ("audio_per_s", "requests_per_s", "e2el_intercept_ms", "e2el_slope"):
        assert noisy.scalars[name] == clean.scalars[name], name
    assert noisy.metrics_json()["audio_per_s"]["n"] == 10


def test_nothing_measured_has_no_figures():
    summary = summarise_level(1, [], [], {})
    assert summary.requests == 0 and summary.scalars["audio_per_s"] is None
    json.dumps(summary.metrics_json(), allow_nan=False)


def test_metrics_of_other_requests_are_refused():
    with pytest.raises(ValueError, match="same requests"):
        summarise_level(1, [make_timeline("a")], [RequestMetrics("b", {})], {})


def test_fit_needs_eight_points_and_lengths_that_vary():
    lengths = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    times = [100 + 250 * length for length in lengths]
    fit = e2el_fit(lengths, times)
    assert fit == E2elFit(intercept_ms=pytest.approx(100.0), slope=pytest.approx(0.25))
    assert e2el_fit(lengths[:7], times[:7]) is None
    assert e2el_fit([4.0] * 8, times) is None
    assert e2el_fit([4.0 + 0.01 * number for number in range(8)], times) is None


def test_fit_shrugs_off_an_outlier():
    lengths = [float(number) for number in range(1, 13)]
    times = [100 + 250 * length for length in lengths]
    times[11] *= 50
    fit = e2el_fit(lengths, times)
    assert fit.slope == pytest.approx(0.25)


def test_fit_of_many_is_that_of_all_pairs():
    rng = np.random.default_rng(5)
    lengths = rng.choice([1.0, 2.5, 3.0, 7.25], 2501) + rng.choice([0.0, 0.08], 2501)  # with ties
    times = 100 + 250 * lengths + 30 * rng.standard_t(2, 2501)
    first, second = np.triu_indices(2501, 1)
    wide = lengths[first] != lengths[second]
    first, second = first[wide], second[wide]
    slopes = np.sort((times[first] - times[second]) / 1e3 / (lengths[first] - lengths[second]))
    lower, upper = slopes[(len(slopes) - 1) // 2], slopes[len(slopes) // 2]
    assert lower - 2e-9 <= e2el_fit(lengths, times).slope <= upper + 2e-9
    exact = e2el_fit(lengths, 100 + 250 * lengths)
    assert exact == E2elFit(intercept_ms=pytest.approx(100.0), slope=pytest.approx(0.25, abs=1e-8))


def test_goodput_counts_what_is_shown_to_be_good():
    nothing = {"ttfp_ms": None, "ttft_ms": None, "tpot_ms": None, "e2el_ms": None, "stall_s": None}
    metrics = [
        RequestMetrics("good", {**nothing, "ttfp_ms": 100.0, "stall_s": 0.1}),
        RequestMetrics("late", {**nothing, "ttfp_ms": 100.1, "stall_s": 0.0}),
        RequestMetrics("stalls", {**nothing, "ttfp_ms": 10.0, "stall_s": 0.2}),
        RequestMetrics("one_blob", {**nothing, "ttfp_ms": 10.0, "stall_s": None}),
        RequestMetrics("invalid", {**nothing, "ttfp_ms": 10.0, "stall_s": 0.0}),
        RequestMetrics("failed", nothing),
    ]
    ok = {"good", "late", "stalls", "one_blob", "invalid"}
    invalid = {"invalid": ("silent",), "good": ()}
    assert goodput(metrics, ok, invalid, Slo(ttfp_ms=100.0, stall_s=0.1)) == pytest.approx(1 / 6)
    assert goodput(metrics, ok, invalid, Slo(ttfp_ms=100.0)) == pytest.approx(3 / 6)
    assert goodput(metrics, ok, invalid, Slo()) == pytest.approx(4 / 6)
    assert goodput(metrics, ok, invalid, None) is None
    assert goodput([], set(), {}, Slo()) is None
