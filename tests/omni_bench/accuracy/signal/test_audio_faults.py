"""Each validity check fires on its fault, and none on good speech-like audio."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import make_timeline

from omni_bench.accuracy.signal.audio_faults import INVALID_REASONS, audio_faults, delivery_faults, speaking_time

RATE = 24_000
TEXT = "x" * 42  # three seconds


def voice(seconds, level=0.1):
    noise = np.random.default_rng(0).laplace(size=round(seconds * RATE))
    return np.clip(noise * level / np.sqrt(2), -1, 1)


def pcm(samples):
    return np.round(samples * 32767).astype("<i2").tobytes()


def test_good_audio_has_no_faults():
    assert audio_faults(pcm(voice(3)), RATE, TEXT, "en") == ()


@pytest.mark.parametrize(
    ("audio", "reasons"),
    [
        (b"", ("empty",)),
        (b"\x01", ("empty", "odd_bytes")),
        (pcm(voice(3)) + b"\x00", ("odd_bytes",)),
        (pcm(np.zeros(3 * RATE)), ("silent",)),
        (pcm(voice(3, level=0.002)), ("silent",)),
        (pcm(voice(0.99)), ("truncated",)),
        (pcm(voice(1.01)), ()),
        (pcm(voice(8.99)), ()),
        (pcm(voice(9.01)), ("runaway",)),
        (pcm(voice(3, level=0.5)), ("clipped",)),
        (pcm(np.zeros(100)), ("silent", "truncated")),
        (np.full(3 * RATE, np.nan), ("silent", "non_finite")),
        (np.where(np.arange(3 * RATE) == 5, np.inf, voice(3)), ("non_finite",)),
        (voice(3).astype(np.float32), ()),
        (voice(3, level=0.5).astype(np.float32), ("clipped",)),
        (np.frombuffer(pcm(voice(3)), dtype="<i2"), ()),
        (np.frombuffer(pcm(voice(3, level=0.5)), dtype="<i2"), ("clipped",)),
    ],
)
def test_each_fault_has_its_name(audio, reasons):
    assert audio_faults(audio, RATE, TEXT, "en") == reasons


def test_speech_normalised_to_full_scale_is_not_clipped_and_3_db_more_is():
    samples = voice(3)
    normalised = samples / np.abs(np.sort(np.abs(samples))[-3])  # three samples at or above full scale
    assert "clipped" not in audio_faults(pcm(np.clip(normalised, -1, 1)), RATE, TEXT, "en")
    crest = voice(3, level=1 / 6)  # a crest factor of 15.6 dB
    assert "clipped" not in audio_faults(pcm(np.clip(crest, -1, 1)), RATE, TEXT, "en")
    assert "clipped" in audio_faults(pcm(np.clip(crest * 10 ** (3 / 20), -1, 1)), RATE, TEXT, "en")


@pytest.mark.parametrize(
    ("before_s", "after_s", "found"), [(0, 4, True), (2, 0, True), (0.9, 0, True), (0, 1.3, True), (0.4, 0.9, False)]
)
@pytest.mark.parametrize("dbfs", [-200, -52])
def test_silence_that_nobody_hears_is_no_output(before_s, after_s, found, dbfs):
    """4 s of zeros, or of hiss, after the speech made 491 audio-s/s of 135, in a valid run (tt-metal 54408).

    Kokoro's answers begin with up to 0.5 s of silence and end with 0.9 s.
    """
    rng = np.random.default_rng(0)
    parts = [rng.normal(0, 10 ** (dbfs / 20), round(seconds * RATE)) for seconds in (before_s, after_s)]
    faults = audio_faults(pcm(np.concatenate([parts[0], voice(3), parts[1]])), RATE, TEXT, "en")
    assert faults == (("dead_air",) if found else ())


def test_the_rate_matters():
    assert audio_faults(pcm(voice(3)), 4 * RATE, TEXT, "en") == ("truncated",)


def test_speaking_time_of_english_and_chinese():
    assert speaking_time(TEXT, "en").expected_s == pytest.approx(3.0)
    assert speaking_time("  a \n b\t ", "en").expected_s == pytest.approx(3 / 14)
    assert speaking_time("今天天气很好啊啊", "zh").expected_s == pytest.approx(8 / 4.5)
    assert speaking_time("今天天气很好啊啊", "en").expected_s == pytest.approx(8 / 4.5)
    assert speaking_time("我用 GPU", "zh").expected_s == pytest.approx(2 / 4.5 + 4 / 14)
    assert speaking_time("1984", "en").expected_s == pytest.approx(4 * 5 / 14)
    assert speaking_time("1984", "zh-CN").expected_s == pytest.approx(4 / 4.5)


def test_short_texts_may_take_their_time():
    limits = speaking_time("Hi.", "en")
    assert limits.longest_s == 6.0
    assert limits.shortest_s == pytest.approx(3 / 14 / 3)
    assert audio_faults(pcm(voice(1.2)), RATE, "Hi.", "en") == ()


@given(st.text(), st.sampled_from(["en", "zh", "de", ""]))
def test_limits_are_in_order_for_any_text(text, language):
    limits = speaking_time(text, language)
    assert 0 <= limits.shortest_s <= limits.expected_s < limits.longest_s


@given(st.binary(max_size=3000), st.text(max_size=200))
def test_any_bytes_are_judged_with_known_names(audio, text):
    reasons = audio_faults(audio, RATE, text, "en")
    assert set(reasons) <= set(INVALID_REASONS)
    assert list(reasons) == sorted(reasons, key=INVALID_REASONS.index)


def test_audio_that_came_in_crumbs_has_no_times():
    crumbs = [(10 + 0.5 * index, 1) for index in range(200)]
    assert delivery_faults(make_timeline(chunks=[*crumbs, (200, 24_000)])) == ("slow_drip",)
    late = [(10, 2400), (20, 2400), *((30 + index, 1) for index in range(16)), (60, 2400)]
    assert delivery_faults(make_timeline(chunks=late)) == ("slow_drip",)
    assert delivery_faults(make_timeline(chunks=late[:-2])) == (), "fifteen of them are no habit"


@pytest.mark.parametrize(
    ("chunks", "reasons"),
    [
        ([(10, 1), (11, 2400)], ()),  # the end of a segment that was full of headers, then the next one
        ([(10, 1), (11, 1), (12, 2400)], ("slow_drip",)),
        ([(10, 23), (210, 2400)], ("slow_drip",)),  # 200 ms for the second crumb: no packet at 10 ms
        ([(10, 23), (110, 2400)], ()),
        ([(10, 24), (900, 2400)], ()),  # a whole millisecond: short, but it can be played
        ([(10, 5)], ()),  # not a millisecond in all: truncated, and named so elsewhere
        ([], ()),
    ],
)
def test_the_first_packet_can_be_played(chunks, reasons):
    assert delivery_faults(make_timeline(chunks=chunks)) == reasons


@given(st.lists(st.integers(25, 5000), min_size=1, max_size=60), st.integers(30, 1460), st.integers(24, 48_000))
def test_no_network_makes_an_honest_server_drip(writes, segment_samples, rate_hz):
    """Each write of a millisecond or more, cut into full segments and a remainder that arrives by itself."""
    segment_samples = max(segment_samples, -(-rate_hz // 1000))
    reads = []
    for samples in writes:
        samples = max(samples, -(-rate_hz // 1000))
        whole, rest = divmod(samples, segment_samples)
        reads += [segment_samples] * whole + [rest] * bool(rest)
    chunks = [(10 + index, samples) for index, samples in enumerate(reads)]
    assert delivery_faults(make_timeline(chunks=chunks, rate_hz=rate_hz)) == ()


def test_failed_requests_and_unknown_rates_are_not_judged_for_delivery():
    crumbs = [(10 + index, 1) for index in range(30)]
    assert delivery_faults(make_timeline(chunks=crumbs)) == ("slow_drip",)
    assert delivery_faults(make_timeline(chunks=crumbs, failed="timeout")) == ()
    assert delivery_faults(make_timeline(chunks=crumbs, rate_hz=None)) == ()
    assert set(delivery_faults(make_timeline(chunks=crumbs))) <= set(INVALID_REASONS)
