"""The list names exactly the metrics of the run.json contract, and nothing that cannot be used as it says."""

from omni_bench.metrics.definitions import METRICS, gated_metrics, primary_metrics, summarised
from omni_bench.metrics.metric import Compared, Scope, Shown

CONTRACT = [
    *(
        "queue_ms",
        "ttfp_ms",
        "ttfp_tail_ms",
        "ttfp_sched_ms",
        "ttfa_ms",
        "e2el_ms",
        "audio_s",
        "speech_s",
        "rtf",
        "decode_rtf",
    ),
    "icl_ms",
    *(
        "stalled",
        "stall_s",
        "prebuffer_s",
        "ttft_ms",
        "ttft_tail_ms",
        "tpot_ms",
        "itl_ms",
        "audio_per_s",
        "audio_per_s_steady",
    ),
    *("tokens_per_s", "requests_per_s", "e2el_intercept_ms", "e2el_slope", "goodput"),
]


def test_names_are_those_of_the_contract():
    assert [metric.name for metric in summarised()] == CONTRACT
    assert list(METRICS) == [metric.name for metric in METRICS.values()]


def test_units_and_directions():
    for metric in METRICS.values():
        assert metric.better in ("lower", "higher", None)
        if metric.name.endswith("_ms"):
            assert metric.unit == "ms"
    assert {name for name, metric in METRICS.items() if metric.better == "higher"} == {
        "audio_per_s",
        "audio_per_s_steady",
        "tokens_per_s",
        "requests_per_s",
        "goodput",
    }


def test_entries_are_whole():
    for metric in METRICS.values():
        assert metric.definition.endswith(".") and metric.short and metric.label, metric.name
        assert (metric.compute is None) == (metric.scope is Scope.CHECK), metric.name
        assert metric.path is None or metric.scope is Scope.CHECK or metric.name == "stalls"
        if metric.compared or metric.gated:
            assert metric.path is None and (metric.better or metric.compared is not Compared.PRIMARY), metric.name
        for other in (metric.relative_to, metric.plot.joins if metric.plot else None):
            assert other is None or other in METRICS
    orders = [metric.order for metric in METRICS.values() if metric.shown is not Shown.NEVER or metric.compared]
    assert len(set(orders)) == len(orders), "two metrics in one place"


def test_what_is_judged():
    audio, fit = ("ttfp_ms", "rtf", "audio_per_s"), ("ttfp_ms", "e2el_slope", "e2el_intercept_ms")
    text, tails = ("ttft_ms", "tpot_ms", "tokens_per_s"), ("ttfp_tail_ms", "stalled")
    for judged in (primary_metrics, gated_metrics):
        assert judged() == (*audio, *tails) and judged(by_fit=True) == (*fit, "ttfp_tail_ms")  # longer: more may stall
        assert judged(audio=False, text=True) == (*text, "ttft_tail_ms")
        assert set(judged(text=True)) == {*audio, *text, *tails, "ttft_tail_ms"}
        assert len(judged(text=True, by_fit=True)) == len(judged(text=True)) - 1
