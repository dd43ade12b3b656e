"""Metrics of one request, with values worked out by hand."""

import numpy as np
import pytest
from timelines import make_timeline

from omni_bench.errors import StoreError
from omni_bench.metrics.request import request_metrics

RATE = 24_000
SECOND = RATE


def pcm_of(seconds_silent, samples):
    """Silence, then a level of 0.5, ``samples`` in all."""
    audio = np.full(samples, 16_384, dtype="<i2")
    audio[: round(seconds_silent * RATE)] = 0
    return audio.tobytes()


def test_every_metric_of_a_stream_with_a_stall():
    # 1 s of audio at 200 ms, 0.5 s at 600 ms, 0.5 s at 2000 ms (the player is dry at 1700 ms)
    timeline = make_timeline(
        started=100, scheduled=40, ended=2100, chunks=[(200, SECOND), (600, SECOND // 2), (2000, SECOND // 2)]
    )
    metrics = request_metrics(timeline, pcm_of(0.3, 2 * SECOND))
    assert metrics.request_id == "r"
    assert metrics.values == dict(
        queue_ms=60.0,
        ttfp_ms=100.0,
        ttfp_sched_ms=160.0,
        ttfa_ms=400.0,  # 100 ms to the first audio, 300 ms of silence in it
        e2el_ms=2000.0,
        audio_s=2.0,
        speech_s=1.7,
        rtf=1.0,
        decode_rtf=1.9,  # 1.9 s for the 1.0 s after the first chunk
        icl_ms=(400.0, 1400.0),
        stalls=1,
        stall_s=pytest.approx(0.3),
        prebuffer_s=pytest.approx(0.3),
        ttft_ms=None,
        tpot_ms=None,
        itl_ms=(),
    )


def test_ttfa_waits_for_the_player_and_for_the_chunk():
    """The voice begins with the third chunk; the player stood still for 300 ms before it."""
    timeline = make_timeline(started=100, ended=2100, chunks=[(200, SECOND), (600, SECOND // 2), (2000, SECOND // 2)])
    assert request_metrics(timeline, pcm_of(1.5, 2 * SECOND))["ttfa_ms"] == 1900.0
    assert request_metrics(timeline, pcm_of(1.6, 2 * SECOND))["ttfa_ms"] == pytest.approx(2000.0)
    assert request_metrics(timeline, pcm_of(1.2, 2 * SECOND))["ttfa_ms"] == pytest.approx(1300.0)


def test_ttfa_of_a_voice_that_begins_at_once_is_ttfp():
    metrics = request_metrics(make_timeline(chunks=[(50, 4800)]), pcm_of(0.0, 4800))
    assert metrics["ttfa_ms"] == metrics["ttfp_ms"] == 50.0


def test_silent_or_unknown_audio_has_no_ttfa():
    timeline = make_timeline(chunks=[(50, 4800)])
    assert request_metrics(timeline, bytes(9600))["ttfa_ms"] is None
    assert request_metrics(timeline, None)["ttfa_ms"] is None


def test_one_chunk_has_no_gaps_no_decode_rtf_and_no_stalls():
    metrics = request_metrics(make_timeline(ended=500, chunks=[(100, SECOND)]), None)
    assert (metrics["ttfp_ms"], metrics["e2el_ms"], metrics["audio_s"], metrics["rtf"]) == (100.0, 500.0, 1.0, 0.5)
    assert metrics["icl_ms"] == ()
    assert metrics["decode_rtf"] is metrics["stall_s"] is metrics["stalls"] is metrics["prebuffer_s"] is None


def test_a_chunk_that_comes_in_several_reads_is_one_chunk_but_is_played_as_it_comes():
    # the server sent 1 s at 200 ms, in two packets, and 1 s at 1250 ms; the player has half a second to start with
    reads = [(200, SECOND // 2), (900, SECOND // 2), (1250, SECOND)]
    metrics = request_metrics(make_timeline(ended=2100, chunks=reads, ends=[False, True, True]), None)
    assert metrics["icl_ms"] == (1050.0,)
    assert metrics["decode_rtf"] == pytest.approx(1.9)
    assert (metrics["stalls"], metrics["stall_s"]) == (1, pytest.approx(0.2))


def test_one_chunk_in_two_reads_is_still_one_chunk():
    one = make_timeline(ended=500, chunks=[(100, SECOND), (300, SECOND)], ends=[False, True])
    metrics = request_metrics(one, None)
    assert metrics["icl_ms"] == () and metrics["decode_rtf"] is metrics["stall_s"] is metrics["prebuffer_s"] is None


def test_no_audio_is_length_zero_and_nothing_else():
    metrics = request_metrics(make_timeline(ended=500), b"")
    assert metrics["audio_s"] == 0.0 and metrics["e2el_ms"] == 500.0 and metrics["queue_ms"] == 0.0
    for name in ("ttfp_ms", "ttfp_sched_ms", "ttfa_ms", "rtf", "decode_rtf", "stall_s", "stalls", "prebuffer_s"):
        assert metrics[name] is None, name


def test_half_a_sample_is_no_audio():
    metrics = request_metrics(make_timeline(chunks=[(10, 0)], extra_bytes=1), b"\x01")
    assert metrics["audio_s"] == 0.0 and metrics["rtf"] is None and metrics["ttfa_ms"] is None
    assert metrics["ttfp_ms"] == 10.0  # a byte of audio has come


def test_chunks_that_end_within_a_sample_keep_their_exact_length():
    odd = make_timeline(chunks=[(10, 100), (20, 100)], extra_bytes=1)
    assert request_metrics(odd, None)["audio_s"] == 200 / RATE


@pytest.mark.parametrize("kind", ["timeout", "disconnected", "cancelled"])
def test_a_failed_request_has_no_performance(kind):
    timeline = make_timeline(failed=kind, chunks=[(50, 4800), (90, 4800)])
    metrics = request_metrics(timeline, pcm_of(0, 9600))
    assert metrics.values == {name: () if name in ("icl_ms", "itl_ms") else None for name in metrics.values}
    assert {"ttfp_ms", "icl_ms", "itl_ms", "stalls"} < metrics.values.keys()


def test_the_servers_sample_rate_counts():
    assert request_metrics(make_timeline(chunks=[(10, 8000)], rate_hz=8000), None)["audio_s"] == 1.0


def test_audio_of_another_request_is_refused():
    with pytest.raises(StoreError, match="request r: its audio has 4 bytes, its timeline 9600"):
        request_metrics(make_timeline(chunks=[(50, 4800)]), b"abcd")
