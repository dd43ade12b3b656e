"""The registry names exactly the metrics of the run.json contract."""

from dataclasses import fields

from omni_bench.metrics.definitions import LEVEL_METRICS, METRICS, REQUEST_METRICS
from omni_bench.metrics.request import RequestMetrics

CONTRACT = [
    *("queue_ms", "ttfp_ms", "ttfp_sched_ms", "ttfa_ms", "e2el_ms", "audio_s", "rtf", "decode_rtf", "icl_ms"),
    *("stall_s", "prebuffer_s", "ttft_ms", "tpot_ms", "itl_ms", "audio_per_s", "audio_per_s_steady"),
    *("tokens_per_s", "requests_per_s", "e2el_intercept_ms", "e2el_slope", "goodput"),
]


def test_names_are_those_of_the_contract():
    assert list(METRICS) == CONTRACT
    assert len(REQUEST_METRICS) + len(LEVEL_METRICS) == len(CONTRACT)


def test_every_request_metric_is_a_field():
    assert {metric.name for metric in REQUEST_METRICS} <= {field.name for field in fields(RequestMetrics)}


def test_units_and_directions():
    for metric in METRICS.values():
        assert metric.better in ("lower", "higher", None)
        assert metric.description
        if metric.name.endswith("_ms"):
            assert metric.unit == "ms"
    assert {name for name, metric in METRICS.items() if metric.better == "higher"} == {
        "audio_per_s",
        "audio_per_s_steady",
        "tokens_per_s",
        "requests_per_s",
        "goodput",
    }
