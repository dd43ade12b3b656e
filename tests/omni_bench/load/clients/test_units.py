"""WAV headers as the proxy reads and writes them."""

from __future__ import annotations

import io
import wave

from omni_bench.load.clients.units import header_bytes, stated_size, with_sizes
from reference_impl.http.framing import wav_header


def test_the_header_is_one_that_players_read():
    header = wav_header(16_000, None)
    assert len(header) == 44
    with wave.open(io.BytesIO(header + bytes(320))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)


def test_sizes_are_read_and_written():
    header = wav_header(16_000, None)
    assert stated_size(header) is None and stated_size(header[:-4] + bytes(4)) is None
    known = with_sizes(header, 320)
    assert stated_size(known) == 320 and with_sizes(known, None) == header
    assert int.from_bytes(known[4:8], "little") == 320 + 36


def test_where_the_samples_begin():
    header = wav_header(16_000, None)
    assert [header_bytes(header[:end]) for end in (0, 3, 12, 43)] == [None] * 4
    assert header_bytes(header + b"ab") == 44
    assert header_bytes(header[:36] + b"LIST\x03\0\0\0abc\0" + header[36:]) == 56
    assert header_bytes(b"RIFX") == 0 and header_bytes(b"RIFF    AVI ") == 0
    assert header_bytes(b"RIFF    WAVEjunk\xff\xff\xff\xff") == 0, "a header that skips gigabytes"
