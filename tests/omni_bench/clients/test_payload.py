"""What headers and first bytes say of a payload."""

from __future__ import annotations

import io
import wave

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.clients.payload import WAV_HEADER_LIMIT_BYTES, parse_content_type, wav_header_bytes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("audio/pcm", ("audio/pcm", None, None)),
        ("Audio/PCM; Rate=16000", ("audio/pcm", 16_000, None)),
        ('audio/pcm; sample_rate="24000"; channels=1', ("audio/pcm", 24_000, None)),
    ],
)
def test_content_types(value, expected):
    assert parse_content_type(value) == expected


@pytest.mark.parametrize("value", ["audio/pcm; rate=fast", "audio/pcm; rate=1", "audio/pcm; channels=2"])
def test_content_types_that_cannot_be(value):
    assert parse_content_type(value)[2] is not None


@given(st.binary(max_size=200), st.lists(st.integers(1, 40), max_size=12))
def test_the_header_of_a_real_file_is_found_however_it_is_cut(samples, sizes):
    samples = samples[: len(samples) // 2 * 2]
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(24_000)
        out.writeframes(samples)
    whole, parts = file.getvalue(), []
    for size in sizes:
        parts.append(whole[:size])
        whole = whole[size:]
    parts = [part for part in (*parts, whole) if part]
    assert b"".join(parts)[wav_header_bytes(parts) :] == samples


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=10))
def test_other_bytes_have_no_header(parts):
    if not b"".join(parts).startswith(b"RIFF"):
        assert wav_header_bytes(parts) == 0


def test_a_header_without_end_is_looked_at_to_a_bound():
    endless = b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 20_000
    parts = [endless[at : at + 1000] for at in range(0, len(endless), 1000)]
    assert WAV_HEADER_LIMIT_BYTES <= wav_header_bytes(parts) < WAV_HEADER_LIMIT_BYTES + 1000
    assert wav_header_bytes([endless[:100]]) == 100
    assert wav_header_bytes([]) == 0
