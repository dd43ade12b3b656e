"""Offered and achieved rate, and lateness, of a level."""

from dataclasses import replace

import pytest

from omni_bench.metrics.level import summarise_level
from omni_bench.metrics.open_loop import open_loop_facts, peak_in_flight
from omni_bench.metrics.request import request_metrics
from omni_bench.metrics.slo import Slo, goodput
from omni_bench.metrics.throughput import steady_window, throughput
from omni_bench.records.level import Rate
from omni_bench.run.validity import client_late, level_reasons

MS = 1_000_000


def test_offered_and_achieved_rate_and_lateness(request_at):
    timelines = [request_at(number, 200 * number, late_ms=number) for number in range(11)]
    facts = open_loop_facts(timelines, 512)
    assert facts.offered_hz == pytest.approx(5.0) and facts.achieved_hz == pytest.approx(10 / 2.010)
    assert facts.late_max_ms == 10 and facts.late_p99_ms == pytest.approx(9.9)
    assert (facts.waited, facts.schedule_s, facts.peak_in_flight) == (0, 2.0, 2)


def test_what_waits_for_the_cap_is_not_the_clients_lateness(request_at):
    # two slots of 251 ms; the third and the fourth request wait, the fifth is due when both are over
    late_ms = [0, 0, 250, 250, 0]
    timelines = [
        request_at(number, due_ms, late)
        for number, (due_ms, late) in enumerate(zip([0, 1, 2, 3, 900], late_ms, strict=True))
    ]
    facts = open_loop_facts(timelines, 2)
    assert facts.waited == 2 and facts.late_max_ms == 0
    assert open_loop_facts(timelines, 512).late_max_ms == 250
    assert client_late(facts, 25.0) is None
    reason = str(client_late(open_loop_facts(timelines, 512), 25.0))
    assert "could not hold its schedule" in reason and "250.0 ms late at p99, budget 25 ms" in reason
    assert client_late(open_loop_facts(timelines, 512), None) is None


def test_requests_that_were_never_sent_do_not_count(request_at):
    unsent = replace(request_at(9, 5000), started_ns=7 * MS, scheduled_ns=7 * MS, ended_ns=None, failed_ns=7 * MS)
    assert open_loop_facts([request_at(0, 0), request_at(1, 100), unsent], 4).offered_hz == pytest.approx(10.0)
    nothing = open_loop_facts([unsent], 4)
    assert (nothing.peak_in_flight, nothing.offered_hz, nothing.late_p99_ms, nothing.schedule_s) == (
        0,
        None,
        None,
        None,
    )


def test_one_that_ends_as_the_next_starts_is_not_in_flight_with_it(request_at):
    assert peak_in_flight([request_at(0, 0), request_at(1, 251)]) == 1
    assert peak_in_flight([request_at(0, 0), request_at(1, 250)]) == 2


def test_the_steady_window_is_that_of_the_schedule(request_at):
    timelines = [request_at(number, 200 * number, late_ms=5) for number in range(6)]
    assert steady_window(timelines, Rate(5.0)) == (0, 1000 * MS)
    # of each request that is due by 600 ms all four chunks are there at 1000 ms; of that at 800 ms, 2 of 4
    assert throughput(timelines, Rate(5.0)).audio_per_s_steady == pytest.approx(4.5)
    assert steady_window(timelines[:2], Rate(5.0)) is None  # shorter than a request


def test_a_level_of_the_open_loop_is_invalid_if_the_client_was_late(request_at):
    timelines = [request_at(number, 200 * number, late_ms=60) for number in range(12)]
    metrics = [request_metrics(one, None) for one in timelines]
    summary = summarise_level(Rate(5.0), timelines, metrics, {}, arrival="poisson", max_in_flight=9)
    assert summary.open_loop.max_in_flight == 9 and summary.arrival == "poisson"
    assert level_reasons(summary) == ()
    assert any("60.0 ms late at p99" in str(reason) for reason in level_reasons(summary, lag_budget_ms=25.0))


def test_goodput_of_the_open_loop_counts_from_the_schedule(request_at):
    timelines = [request_at(0, 0), request_at(1, 300, late_ms=80)]
    metrics = [request_metrics(one, None) for one in timelines]
    ids = {one.request_id for one in timelines}
    slo = Slo(ttfp_ms=150.0)
    assert goodput(metrics, ids, {}, slo) == 1.0
    assert goodput(metrics, ids, {}, slo, from_schedule=True) == 0.5
    summary = summarise_level(Rate(5.0), timelines, metrics, {}, slo=slo)
    assert summary.scalars["goodput"] == 0.5
