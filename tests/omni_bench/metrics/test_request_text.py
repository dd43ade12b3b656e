"""TTFT, TPOT and ITL of hand-made replies, and tokens per second of a level."""

from __future__ import annotations

from dataclasses import replace

import pytest
from timelines import make_timeline

from omni_bench.metrics.level import summarise_level
from omni_bench.metrics.request import request_metrics
from omni_bench.metrics.throughput import throughput
from omni_bench.run.validity import level_reasons

BASE_NS = 5_000_000_000  # as of make_timeline


@pytest.fixture
def reply():
    """``reply(arrivals in ms, tokens)``: a reply of text alone unless it has ``chunks``."""

    def make(arrivals, tokens=None, request_id="r", per_delta=(), **timeline):
        return replace(
            make_timeline(request_id, rate_hz=None if "chunks" not in timeline else 24_000, **timeline),
            text_arrived_ns=tuple(BASE_NS + round(at * 1e6) for at in arrivals),
            text_tokens=per_delta,
            completion_tokens=tokens,
            reply_text="a" * len(arrivals),
        )

    return make


def test_a_token_a_delta(reply):
    metrics = request_metrics(reply([120, 140, 150, 200], tokens=4, started=100), b"")
    assert metrics["ttft_ms"] == 20
    assert metrics["tpot_ms"] == pytest.approx(80 / 3)
    assert metrics["itl_ms"] == (20, 10, 50)


def test_a_text_alone_has_no_metric_of_audio(reply):
    metrics = request_metrics(reply([120, 140], tokens=2, started=100, ended=150), None)
    assert (metrics["e2el_ms"], metrics["queue_ms"]) == (50, 0)
    of_audio = ("ttfp_ms", "ttfp_sched_ms", "ttfa_ms", "audio_s", "rtf", "decode_rtf", "stalls", "stall_s")
    assert [metrics[name] for name in of_audio] == [None] * len(of_audio)
    assert metrics["icl_ms"] == ()


def test_deltas_of_several_tokens_count_by_the_servers_word(reply):
    assert request_metrics(reply([100, 200], tokens=11), None)["tpot_ms"] == 10
    assert request_metrics(reply([100, 200], per_delta=(5, 6)), None)["tpot_ms"] == 10
    assert request_metrics(reply([100, 200], tokens=21, per_delta=(5, 6)), None)["tpot_ms"] == 5


@pytest.mark.parametrize(
    ("arrivals", "tokens"),
    [
        ([100, 200], None),  # deltas are not tokens: nobody counted
        ([100, 200], 1),
        ([100, 200], 0),
        ([100], 5),  # all in one piece: nothing is seen between tokens
        ([], 5),
    ],
)
def test_no_time_per_token_without_a_count_and_two_deltas(reply, arrivals, tokens):
    assert request_metrics(reply(arrivals, tokens=tokens), None)["tpot_ms"] is None


def test_a_failed_reply_has_none(reply):
    metrics = request_metrics(reply([100, 200], tokens=2, failed="disconnected"), None)
    assert metrics["ttft_ms"] is None and metrics["tpot_ms"] is None and metrics["itl_ms"] == ()


def test_speech_has_none():
    metrics = request_metrics(make_timeline(chunks=[(100, 2400)]), None)
    assert metrics["ttft_ms"] is None and metrics["tpot_ms"] is None and metrics["itl_ms"] == ()
    assert throughput([make_timeline(chunks=[(100, 2400)])], 1).tokens_per_s is None


def test_tokens_per_second_of_a_level(reply):
    one = reply([100, 200], tokens=10, request_id="a", started=0, ended=500)
    two = reply([600, 700], tokens=30, request_id="b", started=500, ended=2000)
    assert throughput([one, two], 1).tokens_per_s == 20
    assert throughput([one, two], 1, {"b"}).tokens_per_s == 5  # the time that it took was spent
    assert throughput([one, replace(two, completion_tokens=None)], 1).tokens_per_s is None


def test_a_level_of_text_alone_is_valid_and_has_its_metrics(reply):
    timelines = [reply([100 + i, 200], tokens=3, request_id=f"r{i}", ended=300) for i in range(4)]
    metrics = [request_metrics(timeline, None) for timeline in timelines]
    summary = summarise_level(1, timelines, metrics, {})
    assert level_reasons(summary) == ()
    assert summary.distributions["ttft_ms"].n == summary.distributions["tpot_ms"].n == 4
    assert summary.distributions["itl_ms"].n == 4
    assert summary.metrics_json()["tokens_per_s"]["mean"] == pytest.approx(12 / 0.3)
    assert all(summary.distributions[name].n == 0 for name in ("ttfp_ms", "rtf", "icl_ms", "stall_s"))
    assert summary.scalars["audio_per_s"] is None and summary.scalars["audio_per_s_steady"] is None
    assert summary.scalars["requests_per_s"] == pytest.approx(4 / 0.3)


def test_a_reply_without_its_text_is_told_by_name(reply):
    timelines = [reply([100], tokens=1, request_id="a"), reply([], tokens=0, request_id="b")]
    metrics = [request_metrics(timeline, None) for timeline in timelines]
    summary = summarise_level(1, timelines, metrics, {"b": ("no_text",)})
    assert [str(one) for one in level_reasons(summary)] == ["1 of 2 requests have an invalid answer (no_text 1)"]
