"""Whether a rate holds."""

from dataclasses import replace

import pytest
import run_factory as runs

from omni_bench.metrics.probe import judge_probe, stopped_answering
from omni_bench.metrics.request import request_metrics
from omni_bench.metrics.slo import Slo
from omni_bench.records.level import Rate


def judged(timelines, **slo):
    return judge_probe(timelines, [request_metrics(one, None) for one in timelines], Slo(**slo))


def test_a_probe_holds_by_its_p95_from_the_schedule(request_at):
    timelines = [request_at(number, 20 * number, late_ms=number) for number in range(60)]
    probe = judged(timelines, ttfp_ms=160.0, stall_s=0.0)
    assert probe.holds and probe.why == () and probe.ttfp_sched_p95_ms == pytest.approx(156.05)
    missed = judged(timelines, ttfp_ms=156.0)
    assert not missed.holds and "is 156.1 ms, limit 156 ms" in missed.why[0]


def test_a_probe_with_too_few_requests_has_shown_nothing(request_at):
    probe = judged([request_at(number, 20 * number) for number in range(58)], ttfp_ms=1000.0)
    assert not probe.holds and "n/a" in probe.why[0]


def test_a_probe_with_a_stall_or_a_failure_does_not_hold(request_at):
    timelines = [request_at(number, 20 * number) for number in range(59)]
    stalling = [*timelines, request_at(59, 2000, gap_ms=400)]
    assert judged(stalling, ttfp_ms=500.0).holds
    probe = judged(stalling, ttfp_ms=500.0, stall_s=0.0)
    assert not probe.holds and probe.stalled == 1 and probe.longest_stall_s == pytest.approx(0.45)
    failed = judged([*timelines, runs.failed_timeline("r5-x", concurrency=Rate(5.0))], ttfp_ms=500.0)
    assert not failed.holds and failed.failed == 1 and failed.why == ("1 of 60 requests failed (connect 1)",)


def test_a_server_that_answers_nobody_at_the_end_has_broken_down(request_at):
    def failed(number, status):
        lost = runs.failed_timeline(f"r5-{number}", concurrency=Rate(5.0))
        return replace(lost, http_status=status, scheduled_ns=10**12 + number)

    answered = [request_at(number, 20 * number) for number in range(30)]
    broken = [*answered, *(failed(number, 503) for number in range(10))]
    assert "none of the last 10 requests was answered (connect: " in stopped_answering(broken)
    assert stopped_answering([*broken, replace(answered[0], scheduled_ns=2 * 10**12)]) is None, "one was"
    assert stopped_answering([*answered, *(failed(number, 429) for number in range(10))]) is None, "it refuses"
    assert stopped_answering([failed(number, 503) for number in range(7)]) is None, "too few"
    assert stopped_answering([]) is None
