"""WAV containers in any split: samples out, nothing else, and every way in which one can be wrong."""

from __future__ import annotations

import io
import struct
import wave
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.load.clients.decoder import WireFailure
from omni_bench.load.clients.wav import HEADER_LIMIT_BYTES, AudioPayload, WavStream, begins_wav

SAMPLES = bytes(range(20))


def form(kind=1, channels=1, rate=24_000, bits=16, more=b""):
    body = struct.pack("<HHIIHH", kind, channels, rate, rate * 2, 2, bits) + more
    return b"fmt " + struct.pack("<I", len(body)) + body


def riff(*chunks, size=0xFFFFFFFF):
    return b"RIFF" + struct.pack("<I", size) + b"WAVE" + b"".join(chunks)


def data(samples=SAMPLES, size=0xFFFFFFFF):
    return b"data" + struct.pack("<I", size) + samples


def decode(whole, *cuts, stream=None):
    stream = stream or WavStream()
    edges = [0, *sorted(cuts), len(whole)]
    samples = b"".join(stream.feed(whole[at:end]) for at, end in pairwise(edges))
    stream.end()
    return samples, stream.sample_rate_hz


GOOD = {
    "unknown sizes": riff(form(), data()),
    "sizes of zero": riff(form(), data(size=0), size=0),
    "the largest signed sizes": riff(form(), data(size=0x7FFFFFFF - 36), size=0x7FFFFFFF),
    "true sizes": riff(form(), data(size=20), size=56),
    "a chunk before the samples": riff(form(), b"LIST\x03\0\0\0abc\0", data()),
    "a chunk before the format": riff(b"JUNK\x02\0\0\0ab", form(), data()),
    "chunks after the samples": riff(form(), data(size=20), b"LIST\x03\0\0\0abc\0", b"id3 \x02\0\0\0ab"),
    "extensible": riff(form(kind=0xFFFE, more=struct.pack("<HHIH", 22, 16, 4, 1) + bytes(14)), data()),
    "a longer format": riff(form(more=b"\0\0"), data()),
}


@pytest.mark.parametrize("whole", GOOD.values(), ids=GOOD.keys())
def test_containers_at_every_split(whole):
    for cut in range(len(whole) + 1):
        assert decode(whole, cut) == (SAMPLES, 24_000), cut
    assert decode(whole, *range(len(whole))) == (SAMPLES, 24_000)


def test_an_odd_number_of_bytes_is_padded_in_the_container_only():
    whole = riff(form(), data(b"abc", size=3), b"\0", b"LIST\x02\0\0\0ab")
    assert decode(whole)[0] == b"abc"


BAD = {
    "stereo": (riff(form(channels=2), data()), "content_type", "2 channels"),
    "eight bits": (riff(form(bits=8), data()), "content_type", "8 bits"),
    "floats": (riff(form(kind=3, bits=32), data()), "content_type", "format 3"),
    "extensible floats": (
        riff(form(kind=0xFFFE, more=struct.pack("<HHIH", 22, 16, 4, 3) + bytes(14)), data()),
        "content_type",
        "format 3",
    ),
    "extensible without its subformat": (riff(form(kind=0xFFFE), data()), "content_type", "format 65534"),
    "no such rate": (riff(form(rate=1), data()), "content_type", "at 1 Hz"),
    "no format": (riff(data()), "content_type", "'fmt '"),
    "a short format": (riff(b"fmt \x04\0\0\0abcd", data()), "content_type", "format"),
    "not a wav": (b"\x01\x02" * 40, "content_type", "no WAV header"),
    "an error": (b'{"error": {"message": "boom"}}', "in_band_error", "boom"),
    "cut in its header": (riff(form(), data())[:20], "content_type", "within its WAV header"),
    "cut in its samples": (riff(form(), data(size=30)), "disconnected", "10 did not come"),
    "more than it says": (riff(form(), data(SAMPLES + b"\x01\x02" * 40, size=20)), "content_type", "follow the 20"),
    "another wav after it": (riff(form(), data(size=20)) + riff(form(), data(size=20)), "content_type", "follow"),
    "a header without end": (riff(b"junk\0\0\0\0" * 10_000), "content_type", "no audio within the first"),
    "a header that skips gigabytes": (riff(b"junk\xff\xff\xff\xff"), "content_type", "no audio within the first"),
    "rubbish after it": (
        riff(form(), data(size=20)) + bytes(HEADER_LIMIT_BYTES + 1),
        "content_type",
        "follow the 20",
    ),
}


@pytest.mark.parametrize(("whole", "kind", "message"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_named_however_it_is_cut(whole, kind, message):
    for cuts in ([], [1], [5, 21, 30], range(0, len(whole), 1000)):
        with pytest.raises(WireFailure, match=message) as caught:
            decode(whole, *cuts)
        assert caught.value.error.kind == kind


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=12))
def test_a_real_file_however_it_is_cut(samples, cuts):
    samples = samples[: len(samples) // 2 * 2]
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(samples)
    whole = file.getvalue()
    cuts = [cut for cut in cuts if cut <= len(whole)]
    assert decode(whole, *cuts) == (samples, 16_000)
    assert decode(whole, *cuts, stream=WavStream(lenient=True))[0] == samples


@given(st.binary(max_size=50))
def test_other_bytes_begin_no_wav(head):
    if not head.startswith(b"RIFF"[: len(head)]):
        assert begins_wav(head) is False


@pytest.mark.parametrize("step", [1000, 7, 200_000])
def test_a_lenient_header_without_end_ends_at_the_bound(step):
    endless = riff(b"junk\0\0\0\0" * 20_000)
    stream = WavStream(lenient=True)
    parts = [stream.feed(endless[at : at + step]) for at in range(0, len(endless), step)]
    assert b"".join(parts) == endless[HEADER_LIMIT_BYTES:]


# --- payloads of events


def test_bare_payloads_are_samples():
    payload = AudioPayload()
    assert [payload.decode(b"ab"), payload.decode(b"c", "pcm"), payload.decode(b"d", "audio/pcm16")] == [
        b"ab",
        b"c",
        b"d",
    ]
    assert payload.sample_rate_hz is None
    payload.end()


def payloads(*parts, name=None):
    payload = AudioPayload()
    samples = b"".join(payload.decode(part, name) for part in parts)
    return samples + payload.end(), payload.sample_rate_hz


@pytest.mark.parametrize("name", [None, "wav", "pcm"])  # a server may call it what it likes
def test_one_container_over_all_payloads_however_small_they_are(name):
    whole = riff(form(rate=16_000), data())
    for cut in range(len(whole) + 1):
        assert payloads(whole[:cut], whole[cut:], name=name) == (SAMPLES, 16_000), cut
        for size in (1, 3):
            small = [whole[at : at + size] for at in range(0, cut, size)]
            assert payloads(*small, whole[len(b"".join(small)) :], name=name) == (SAMPLES, 16_000), (cut, size)


@given(st.lists(st.integers(0, 130), max_size=12))
def test_containers_one_after_another_however_they_are_cut(cuts):
    """Where each says its size the next one is seen for what it is."""
    whole = riff(form(), data(b"ab", size=2)) + riff(form(), data(b"cd", size=2)) + riff(form(), data(b"ef", size=2))
    ends = [46, 92, 138]  # a payload holds one container at most
    edges = sorted({0, *(cut for cut in cuts if cut < 138), *ends})
    assert payloads(*(whole[at:end] for at, end in pairwise(edges))) == (b"abcdef", 24_000)


@pytest.mark.parametrize("samples", [b"R", b"RIFF", b"RIFF\1\2\3\4WAV", b"RIFF\1\2\3\4WAVX", b"RIRIFF", b"RRRRRR"])
def test_samples_that_begin_like_a_container(samples):
    for cut in range(len(samples) + 1):
        assert payloads(samples[:cut], samples[cut:]) == (samples, None)
    assert payloads(*(samples[at : at + 1] for at in range(len(samples)))) == (samples, None)
    whole = riff(form(), data())
    assert payloads(samples, whole) == (samples + SAMPLES, 24_000), "what was held is not taken for a part of it"


def test_once_samples_have_come_none_is_held_back():
    payload = AudioPayload()
    assert [payload.decode(one) for one in (b"R", b"x", b"R", b"RIFF", b"I")] == [b"", b"Rx", b"R", b"RIFF", b"I"]
    assert payload.end() == b""


def test_half_a_header_is_no_audio_where_a_wav_was_named():
    payload = AudioPayload()
    assert payload.decode(b"RIFF", "wav") == b""
    with pytest.raises(WireFailure, match="ends within its WAV header"):
        payload.end()


def test_a_container_each():
    each = AudioPayload()
    parts = [riff(form(), data(b"ab", size=2)), riff(form(), data(b"cd")), riff(form(), data(b"ef", size=2))]
    assert [each.decode(part, "wav") for part in parts] == [b"ab", b"cd", b"ef"]
    each.end()


@pytest.mark.parametrize(
    ("payloads", "message"),
    [
        ([(b"ab", "mp3")], "format 'mp3'"),
        ([(b"abcdabcdabcdabcd", "wav"), None], "no WAV header"),
        ([(riff(form(), data(size=90)), None), None], "did not come"),
        ([(riff(form(), data(size=90)), None), (riff(form(), data()), None)], "did not come"),
        ([(riff(form(), data()), None), (riff(form(rate=8000), data()), None)], "8000 Hz after 24000 Hz"),
    ],
)
def test_payloads_that_cannot_be(payloads, message):
    payload = AudioPayload()
    with pytest.raises(WireFailure, match=message):
        for one in payloads:
            payload.end() if one is None else payload.decode(*one)


@pytest.mark.parametrize("rate", [0, -1, True, 24_000.5, "24q", [24_000], 10**9])
def test_rates_that_are_none(rate):
    with pytest.raises(WireFailure, match="sample rate"):
        AudioPayload().state_rate(rate, "audio.start")
