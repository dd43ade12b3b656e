"""Recordings as clients send them: what is decoded, what is refused, and that nothing is fetched or opened."""

from __future__ import annotations

import base64
import builtins
import io
from fractions import Fraction

import numpy as np
import pytest
import scipy.signal
import soundfile

from reference_impl.http.errors import ApiError
from reference_impl.http.reference_audio import MAX_DENOMINATOR, decode_reference

RATE_HZ = 24000


def tone(seconds=1.0, rate_hz=RATE_HZ, pitch_hz=440.0):
    return 0.5 * np.sin(2 * np.pi * pitch_hz * np.arange(round(seconds * rate_hz)) / rate_hz)


def encoded(samples, rate_hz=RATE_HZ, kind="WAV", subtype="PCM_16"):
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format=kind, subtype=subtype)
    return base64.b64encode(file.getvalue()).decode()


def refusal(field):
    with pytest.raises(ApiError) as caught:
        decode_reference(field, RATE_HZ)
    assert (caught.value.status, caught.value.param) == (400, "ref_audio")
    return str(caught.value)


@pytest.mark.parametrize("kind", ["WAV", "WAVEX", "FLAC"])
@pytest.mark.parametrize("head", ["", "data:audio/wav;base64,", "DATA:;charset=x;BASE64,"])
def test_samples_arrive_as_they_were(kind, head):
    found = decode_reference(head + encoded(tone(), kind=kind), RATE_HZ)
    assert found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_allclose(found, tone(), atol=1e-4)


def test_base64_may_be_wrapped():
    text = encoded(tone())
    wrapped = "\r\n".join(text[i : i + 76] for i in range(0, len(text), 76))
    assert np.array_equal(decode_reference(wrapped, RATE_HZ), decode_reference(text, RATE_HZ))


def test_channels_are_averaged():
    both = np.stack([tone(), 0.5 * tone()], axis=1)
    np.testing.assert_allclose(decode_reference(encoded(both), RATE_HZ), 0.75 * tone(), atol=1e-4)


@pytest.mark.parametrize("rate_hz", [8000, 44100, 192000])
def test_other_rates_are_resampled(rate_hz):
    found = decode_reference(encoded(tone(rate_hz=rate_hz), rate_hz), RATE_HZ)
    assert len(found) == RATE_HZ
    inner = slice(500, -500)  # the filter rings at both ends
    np.testing.assert_allclose(found[inner], tone()[inner], atol=2e-3)


@pytest.mark.parametrize("rate_hz", [11025, 16000, 22050, 32000, 44100, 48000, 88200, 96000, 176400, 192000])
def test_rates_in_use_are_exact(rate_hz):
    ratio = Fraction(RATE_HZ, rate_hz)
    assert ratio.limit_denominator(MAX_DENOMINATOR) == ratio


@pytest.mark.parametrize("rate_hz", [8001, 44101, 191904])
def test_an_odd_rate_is_met_nearly(rate_hz, monkeypatch):
    terms = []
    resample = scipy.signal.resample_poly
    monkeypatch.setattr(scipy.signal, "resample_poly", lambda x, *ratio: terms.extend(ratio) or resample(x, *ratio))
    found = decode_reference(encoded(tone(rate_hz=rate_hz), rate_hz), RATE_HZ)
    assert max(terms) <= 3 * MAX_DENOMINATOR  # the filter's cost
    assert abs(terms[0] / terms[1] / (RATE_HZ / rate_hz) - 1) < 1e-3
    assert abs(len(found) - RATE_HZ) <= RATE_HZ / 1000


@pytest.mark.parametrize("seconds", [0.5, 30.0])
def test_the_shortest_and_the_longest(seconds):
    assert len(decode_reference(encoded(tone(seconds, 8000), 8000), RATE_HZ)) == seconds * RATE_HZ


@pytest.mark.parametrize(
    ("samples", "rate_hz", "words"),
    [
        (tone(0.499), RATE_HZ, "lasts 0.499 s; valid: 0.5 to 30 s"),
        (np.zeros(0), RATE_HZ, "lasts 0.000 s"),
        (tone(30.001, 8000), 8000, "more than 30 s"),
        (np.zeros(8000), 7999, "7999 samples a second; valid: 8000 to 192000"),
        (np.zeros(192_001), 192_001, "192001 samples a second"),
        (np.zeros((RATE_HZ, 3)), RATE_HZ, "3 channels; valid: 1 to 2"),
    ],
)
def test_lengths_rates_and_channels_that_are_refused(samples, rate_hz, words):
    assert words in refusal(encoded(samples, rate_hz))


def test_an_hour_of_silence_in_a_small_file_is_refused():
    field = encoded(np.zeros(3600 * 8000, np.int16), 8000, "FLAC")
    assert len(field) < 200_000
    assert "more than 30 s" in refusal(field)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_samples_that_are_no_float32_numbers_are_refused(value):
    samples = tone()
    samples[100] = value
    assert "not finite" in refusal(encoded(samples, subtype="DOUBLE"))


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("http://127.0.0.1:1/x.wav", "URLs are not fetched"),
        (" HTTPS://127.0.0.1:1/x.wav", "URLs are not fetched"),
        ("file:///etc/passwd", "nor files opened"),
        ("C:\\voice.wav", "nor files opened"),
        ("/etc/passwd", "not base64"),
        ("voice.wav", "not base64"),
        ("/etc/hostname///", "neither a WAV nor a FLAC"),  # base64's alphabet holds the slash
        ("data:audio/wav,UklGRg", "not a base64 data URL"),
        ("data:audio/wav;base64", "not a base64 data URL"),
        ("data:audio/wav;base64,", "neither a WAV nor a FLAC"),
        ("UklGR", "not base64"),
        ("ü", "not base64"),
        (base64.b64encode(b"OggS" + bytes(60)).decode(), "neither a WAV nor a FLAC"),
        (base64.b64encode(b"RIFF\0\0\0\0WAVEfmt ").decode(), "cannot be decoded"),
        (base64.b64encode(b"fLaC" + b"\xff" * 64).decode(), "cannot be decoded"),
    ],
)
def test_what_is_no_recording_is_refused_without_a_look_at_the_disk(field, words, monkeypatch):
    decode_reference(encoded(tone()), RATE_HZ)  # lazy imports may open files
    opened = []
    monkeypatch.setattr(builtins, "open", lambda *args, **_: opened.append(args))
    message = refusal(field)
    assert words in message and len(message) < 400 and message.isprintable()
    assert opened == []


def test_a_broken_tail_is_a_refusal_or_shorter_audio():
    whole = base64.b64decode(encoded(tone(), kind="FLAC"))
    assert "ref_audio" in refusal(base64.b64encode(whole[: len(whole) // 4]).decode())
