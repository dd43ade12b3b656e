"""The service level of a chat's text, and of the whole latency: which requests are good, which rates hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from timelines import make_timeline

from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.metric import Scope
from omni_bench.metrics.probe import judge_probe
from omni_bench.metrics.request import request_metrics
from omni_bench.metrics.slo import Slo, goodput, waited_ms
from omni_bench.records.request_metrics import RequestMetrics


def values(request_id, **measured):
    """A request with these metrics and no others."""
    names = [name for name, metric in METRICS.items() if metric.scope is Scope.REQUEST]
    return RequestMetrics(request_id, {**dict.fromkeys(names), **measured})


REPLIES = (
    values("good", ttft_ms=100.0, tpot_ms=20.0, e2el_ms=500.0, queue_ms=50.0),
    values("late", ttft_ms=100.1, tpot_ms=20.0, e2el_ms=500.0, queue_ms=0.0),
    values("slow", ttft_ms=90.0, tpot_ms=20.1, e2el_ms=500.1, queue_ms=0.0),
    values("uncounted", ttft_ms=90.0, tpot_ms=None, e2el_ms=300.0, queue_ms=0.0),
)
IDS = {one.request_id for one in REPLIES}


def test_a_limit_is_any_of_them():
    assert not Slo().asked
    assert all(Slo(**{name: 1.0}).asked for name in ("ttfp_ms", "stall_s", "ttft_ms", "tpot_ms", "e2el_ms"))
    assert Slo(stall_s=0.0).asked, "no pause at all is a limit too"


@pytest.mark.parametrize(
    ("slo", "good"),
    [
        (Slo(ttft_ms=100.0), {"good", "slow", "uncounted"}),
        (Slo(tpot_ms=20.0), {"good", "late"}),
        (Slo(e2el_ms=500.0), {"good", "late", "uncounted"}),
        (Slo(ttft_ms=100.0, tpot_ms=20.0), {"good"}),
        (Slo(ttfp_ms=1e9), set()),  # a text has no first packet, which shows nothing
    ],
)
def test_goodput_of_a_text(slo, good):
    assert goodput(REPLIES, IDS, {}, slo) == len(good) / 4


def test_in_an_open_loop_times_count_from_the_schedule_but_the_pace_does_not():
    waits = {name: waited_ms(REPLIES[0], name, from_schedule=True) for name in ("ttft_ms", "tpot_ms", "e2el_ms")}
    assert waits == {"ttft_ms": 150.0, "tpot_ms": 20.0, "e2el_ms": 550.0}
    assert waited_ms(values("unknown", ttft_ms=100.0), "ttft_ms", from_schedule=True) is None
    assert goodput(REPLIES[:1], IDS, {}, Slo(ttft_ms=149.0)) == 1.0
    assert goodput(REPLIES[:1], IDS, {}, Slo(ttft_ms=149.0), from_schedule=True) == 0.0
    assert goodput(REPLIES[:1], IDS, {}, Slo(e2el_ms=549.0), from_schedule=True) == 0.0
    assert goodput(REPLIES[:1], IDS, {}, Slo(tpot_ms=20.0), from_schedule=True) == 1.0


@pytest.fixture
def replies():
    """``replies(count, tokens)``: texts whose first delta comes after 100 ms and whose last 90 ms later."""

    def make(count, tokens=10, late_ms=0.0):
        found = []
        for number in range(count):
            begin = 200.0 * number
            one = make_timeline(
                f"r{number}", started=begin + late_ms, scheduled=begin, ended=begin + late_ms + 200, rate_hz=None
            )
            arrived = tuple(one.started_ns + at_ms * 1_000_000 for at_ms in (100, 190))
            found.append(replace(one, text_arrived_ns=arrived, completion_tokens=tokens, reply_text="ab"))
        return found

    return make


def judged(timelines, **slo):
    return judge_probe(timelines, [request_metrics(one, None) for one in timelines], Slo(**slo))


def test_a_rate_holds_by_the_p95_of_text(replies):
    probe = judged(replies(59, late_ms=30.0), ttft_ms=130.0, tpot_ms=10.0, e2el_ms=230.0)
    assert probe.holds and probe.why == ()
    assert (probe.ttft_sched_p95_ms, probe.tpot_p95_ms, probe.e2el_sched_p95_ms) == pytest.approx((130.0, 10.0, 230.0))
    assert probe.ttfp_sched_p95_ms is None and probe.longest_stall_s is None
    missed = judged(replies(59, late_ms=30.0), ttft_ms=129.0, tpot_ms=9.0, e2el_ms=229.0)
    assert missed.why == (
        "p95 of TTFT from the scheduled start is 130.0 ms, limit 129 ms",
        "p95 of TPOT is 10.0 ms, limit 9 ms",
        "p95 of E2EL from the scheduled start is 230.0 ms, limit 229 ms",
    )


def test_a_server_that_does_not_count_tokens_holds_no_pace_and_is_told_why(replies):
    probe = judged(replies(59, tokens=None), tpot_ms=1000.0)
    assert probe.why == ("p95 of TPOT is n/a (0 requests have one, it takes 59), limit 1000 ms",)
    assert judged(replies(59, tokens=None), ttft_ms=1000.0).holds


def test_answers_without_any_text_hold_no_limit_on_the_first_of_it(replies):
    """A server that sheds load by empty replies of status 200 is not a quick one."""
    empty = [replace(one, text_arrived_ns=(), reply_text="") for one in replies(40)]
    probe = judged([*replies(60), *empty], ttft_ms=1000.0)
    assert probe.why == ("40 of 100 requests succeeded without any text",) and not probe.holds
    assert judged([*replies(60), *empty], e2el_ms=1000.0).holds, "there is no limit on its first text"
    assert judged(replies(60), ttfp_ms=1000.0).why[1] == "60 of 60 requests succeeded without any audio"
