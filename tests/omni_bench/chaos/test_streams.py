"""What each fault makes of hand-made streams, the shortest ones too."""

from __future__ import annotations

import io
import json
import wave

import pytest

from omni_bench.chaos import streams
from omni_bench.chaos.streams import DRIP_BYTES, INJECTED_ERROR, StreamCutError, transform, wav_header


async def given(*chunks):
    for chunk in chunks:
        yield chunk


async def out(name, *chunks, stall_s=0.0):
    change = transform(name, stall_s=stall_s, sample_rate_hz=24_000)
    got = []
    try:
        async for chunk in change(given(*chunks)):
            got.append(chunk)
    except StreamCutError:
        got.append("cut")
    return got


A, B, C = b"aa", b"bbbb", b"cccccc"


@pytest.mark.parametrize(
    ("name", "chunks", "expected"),
    [
        ("in_band_error", (A, B, C), [A, B, INJECTED_ERROR]),
        ("in_band_error", (A,), [A, INJECTED_ERROR]),
        ("in_band_error", (), [INJECTED_ERROR]),
        ("cut", (A, B, C), [A, B, "cut"]),
        ("cut", (A,), [A, "cut"]),
        ("cut", (), ["cut"]),
        ("stall", (A, B, C), [A, B, C]),
        ("stall", (A,), [A]),
        ("drop_chunk", (A, B, C), [A, C]),
        ("drop_chunk", (A,), [A]),
        ("duplicate_chunk", (A, B, C), [A, B, B, C]),
        ("duplicate_chunk", (A,), [A]),
        ("odd_bytes", (A, B), [A, B, b"\x01"]),
        ("odd_bytes", (A, b"b"), [A, b"b", b"\x01\x01"]),
        ("odd_bytes", (), [b"\x01"]),
        ("silence_on_200", (A, C), [b"\0\0", b"\0" * 6]),
        ("silence_on_200", (), []),
        ("slow_drip", (A, b"xyz"), [b"a", b"a", b"x", b"y", b"z"]),
    ],
)
async def test_streams(name, chunks, expected):
    assert await out(name, *chunks) == expected


async def test_what_makes_odd_is_odd():
    for chunks in [(A,), (b"a",), (A, b"b")]:
        assert len(b"".join(await out("odd_bytes", *chunks))) % 2 == 1


async def test_a_drip_ends(monkeypatch):
    monkeypatch.setattr(streams, "DRIP_PAUSE_S", 0.0)
    first, second = bytes(DRIP_BYTES - 10), bytes(range(30))
    got = await out("slow_drip", first, second, C)
    assert [len(chunk) for chunk in got] == [1] * DRIP_BYTES + [20, len(C)]
    assert b"".join(got) == first + second + C


async def test_a_stall_comes_after_some_audio(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append((seconds, list(got)))

    monkeypatch.setattr(streams.asyncio, "sleep", sleep)
    got = []
    async for chunk in transform("stall", stall_s=30.0, sample_rate_hz=24_000)(given(A, B, C)):
        got.append(chunk)
    assert slept == [(30.0, [A, B])]


def test_the_header_is_one_that_players_read():
    header = wav_header(16_000)
    assert len(header) == 44
    with wave.open(io.BytesIO(header + bytes(320))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)


def test_the_injected_error_has_the_common_shape():
    assert "injected fault" in json.loads(INJECTED_ERROR)["error"]["message"]


@pytest.mark.parametrize("name", ["crash_at_c3", "http_500", "swap_streams", "nonsense"])
def test_what_is_no_fault_of_one_stream(name):
    with pytest.raises(KeyError):
        transform(name, stall_s=1.0, sample_rate_hz=24_000)
