"""The rebuffering player: exact on hand-made streams, and true to its definition on any."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.metrics.stalls import Playback, playback, sample_played_ns

S = 10**9
RATE = 1000  # a sample is a millisecond


def simulate(arrived_ns, samples, rate_hz, delay_ns):
    """An independent player, sample by sample, in exact fractions: (stalls, stalled ns) after a start delay."""
    now = Fraction(arrived_ns[0]) + delay_ns
    stalls, stalled = 0, Fraction(0)
    for arrival, count in zip(arrived_ns, samples, strict=True):
        if arrival > now:
            stalls, stalled, now = stalls + 1, stalled + (arrival - now), Fraction(arrival)
        for _ in range(count):
            now += Fraction(S, rate_hz)
    return stalls, stalled


def test_a_stream_that_is_always_ahead():
    assert playback([0, S // 2], [1000, 1000], RATE) == Playback(stalls=0, stall_s=0.0, prebuffer_s=0.0)


def test_exactly_on_time_is_no_stall_at_a_rate_that_does_not_divide():
    # 24,001 samples last 1.00004166... s; the next chunk comes in the last whole ns, or one later
    assert playback([0, 24_001 * S // 24_000], [24_001, 1], 24_000).stalls == 0
    assert playback([0, 24_001 * S // 24_000 + 1], [24_001, 1], 24_000).stalls == 1


def test_two_stalls_and_the_prebuffer_that_avoids_them():
    # plays 0-1, waits for 1.5, plays to 2.5, waits for 2.75, plays on
    result = playback([0, 3 * S // 2, 11 * S // 4], [1000, 1000, 1000], RATE)
    assert result == Playback(stalls=2, stall_s=0.75, prebuffer_s=0.75)


def test_a_late_chunk_is_forgiven_if_others_had_come_early():
    result = playback([0, 0, 3 * S // 2, 4 * S], [1000, 1000, 1000, 500], RATE)
    assert result == Playback(stalls=1, stall_s=1.0, prebuffer_s=1.0)


@pytest.mark.parametrize("chunks", [([], []), ([5], [1000]), ([5, 9], [1000, 0]), ([5, 9], [0, 0])])
def test_fewer_than_two_chunks_show_nothing(chunks):
    assert playback(*chunks, RATE) is None


def test_reads_without_a_whole_sample_are_no_chunks():
    assert playback([0, 1, S // 2, 3 * S], [0, 1000, 0, 1000], RATE) == playback([1, 3 * S], [1000, 1000], RATE)


def test_when_a_sample_is_played():
    arrived, samples = [0, 3 * S // 2], [1000, 1000]
    assert sample_played_ns(arrived, samples, RATE, 0) == 0
    assert sample_played_ns(arrived, samples, RATE, 999) == 0.999 * S
    assert sample_played_ns(arrived, samples, RATE, 1000) == 1.5 * S
    assert sample_played_ns(arrived, samples, RATE, 1500) == 2.0 * S
    with pytest.raises(IndexError, match="2000"):
        sample_played_ns(arrived, samples, RATE, 2000)


streams = st.lists(
    st.tuples(st.integers(0, 40 * 10**6), st.integers(1, 60)), min_size=2, max_size=12
)  # gaps of up to 40 ms, chunks of up to 60 samples
rates = st.sampled_from([1000, 7000, 8000, 22_050, 24_000])


def unpack(stream):
    arrived, at = [], 123
    for gap, _ in stream:
        at += gap
        arrived.append(at)
    return arrived, [count for _, count in stream]


@given(streams, rates)
def test_the_player_agrees_with_a_simulation_of_every_sample(stream, rate):
    arrived, samples = unpack(stream)
    result = playback(arrived, samples, rate)
    stalls, stalled = simulate(arrived, samples, rate, delay_ns=0)
    assert result.stalls == stalls
    assert result.stall_s == pytest.approx(float(stalled / S), rel=1e-12, abs=0)


@given(streams, rates)
def test_the_prebuffer_is_enough_and_nothing_less_is(stream, rate):
    arrived, samples = unpack(stream)
    needed = max(
        Fraction(at - arrived[0]) - Fraction(sum(samples[:index]) * S, rate) for index, at in enumerate(arrived)
    )
    assert playback(arrived, samples, rate).prebuffer_s == pytest.approx(float(needed / S), rel=1e-12, abs=0)
    assert simulate(arrived, samples, rate, delay_ns=needed) == (0, 0)
    if needed > 0:
        stalls, stalled = simulate(arrived, samples, rate, delay_ns=needed - Fraction(1, 1000))
        assert stalls >= 1 and stalled == Fraction(1, 1000)


@given(streams, rates)
def test_no_stall_no_stall_time_and_no_prebuffer_go_together(stream, rate):
    result = playback(*unpack(stream), rate)
    assert (result.stalls == 0) == (result.stall_s == 0) == (result.prebuffer_s == 0)
    assert result.prebuffer_s <= result.stall_s * (1 + 1e-12)


@given(streams, rates)
def test_samples_are_played_in_order_and_never_before_they_arrive(stream, rate):
    arrived, samples = unpack(stream)
    owner = [index for index, count in enumerate(samples) for _ in range(count)]
    played = [sample_played_ns(arrived, samples, rate, index) for index in range(len(owner))]
    assert all(later > earlier for earlier, later in pairwise(played))
    assert all(at >= arrived[index] - 1e-3 for at, index in zip(played, owner, strict=True))
