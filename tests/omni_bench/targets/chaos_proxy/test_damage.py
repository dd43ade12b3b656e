"""What each fault makes of hand-made streams, the shortest ones too."""

from __future__ import annotations

import pytest

from omni_bench.load.clients.openai_speech import SampleCodec
from omni_bench.load.clients.units import Unit
from omni_bench.targets.chaos_proxy import catalogue
from omni_bench.targets.chaos_proxy.catalogue import DRIP_BYTES, WIRE_FAULTS, RelayedAnswer, StreamCutError
from reference_impl.http.framing import wav_header


class Codec(SampleCodec):
    def error(self):
        yield Unit(INJECTED_ERROR)
        yield Unit(LAST)


async def given(*chunks):
    for chunk in chunks:
        yield chunk if isinstance(chunk, Unit) else Unit(chunk, chunk)


async def out(name, *chunks, stall_s=0.0):
    got = []
    try:
        async for unit in WIRE_FAULTS[name].damage(given(*chunks), RelayedAnswer(Codec(), stall_s, 24_000)):
            got.append(unit.wire)
    except StreamCutError:
        got.append("cut")
    return got


A, B, C = b"aa", b"bbbb", b"cccccc"
INJECTED_ERROR, LAST = b"error", b"last"
TEXT, END, OVER = Unit(b"text", own=True), Unit(b"end", ends=True), Unit(b"over")


@pytest.mark.parametrize(
    ("name", "chunks", "expected"),
    [
        ("in_band_error", (A, B, C), [A, B, INJECTED_ERROR, LAST]),
        ("in_band_error", (A,), [A, INJECTED_ERROR, LAST]),
        ("in_band_error", (), [INJECTED_ERROR, LAST]),
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
        ("odd_bytes", (), []),
        ("silence_on_200", (A, C), [b"\0\0", b"\0" * 6]),
        ("silence_on_200", (), []),
        ("slow_drip", (A, b"xyz"), [b"a", b"a", b"x", b"y", b"z"]),
        ("header_first", (A,), [wav_header(24_000, None), A]),
    ],
)
async def test_streams(name, chunks, expected, monkeypatch):
    monkeypatch.setattr(catalogue, "HEADER_EARLY_S", 0.0)
    assert await out(name, *chunks) == expected


@pytest.mark.parametrize(
    ("name", "units", "expected"),
    [
        # what is no audio is neither counted nor damaged; nothing comes behind the end
        ("in_band_error", (TEXT, A, TEXT, B, C, END), [b"text", A, b"text", B, INJECTED_ERROR, LAST]),
        ("in_band_error", (TEXT, A, END, OVER), [b"text", A, INJECTED_ERROR, LAST]),
        ("in_band_error", (TEXT, END), [b"text", INJECTED_ERROR, LAST]),
        ("cut", (TEXT, A, END, OVER), [b"text", A, "cut"]),
        ("cut", (A, TEXT, TEXT, B, C), [A, b"text", b"text", B, "cut"]),
        ("stall", (A, END, OVER), [A, b"end", b"over"]),
        ("drop_chunk", (TEXT, A, TEXT, B, C, END), [b"text", A, b"text", C, b"end"]),
        ("duplicate_chunk", (TEXT, A, TEXT, B, C, END), [b"text", A, b"text", B, B, C, b"end"]),
        ("odd_bytes", (A, TEXT, B, END, OVER), [A, b"text", B, b"\x01", b"end", b"over"]),
        ("odd_bytes", (A, END, B, END), [A, b"\x01", b"end", B, b"end"]),
        ("odd_bytes", (TEXT, END), [b"text", b"end"]),
        ("silence_on_200", (TEXT, A, END), [b"text", b"\0\0", b"end"]),
        ("slow_drip", (TEXT, A, END), [b"text", b"a", b"a", b"end"]),
    ],
)
async def test_what_stands_beside_the_audio(name, units, expected):
    assert await out(name, *units) == expected


async def test_a_unit_is_encoded_anew_only_where_its_samples_changed():
    def wrapped(pcm):
        return b"<" + pcm + b">"

    unit = Unit(b"( ab )", b"ab", wrapped)
    assert await out("silence_on_200", unit) == [b"<\0\0>"]
    assert await out("slow_drip", unit) == [b"<a>", b"<b>"]
    assert await out("odd_bytes", unit) == [b"( ab )", b"<\x01>"]
    assert await out("duplicate_chunk", unit, unit) == [b"( ab )"] * 3


async def test_what_makes_odd_is_odd():
    for chunks in [(A,), (b"a",), (A, b"b")]:
        assert len(b"".join(await out("odd_bytes", *chunks))) % 2 == 1


async def test_a_drip_ends(monkeypatch):
    monkeypatch.setattr(catalogue, "DRIP_PAUSE_S", 0.0)
    first, second = bytes(DRIP_BYTES - 10), bytes(range(30))
    got = await out("slow_drip", first, second, C)
    assert [len(chunk) for chunk in got] == [1] * DRIP_BYTES + [20, len(C)]
    assert b"".join(got) == first + second + C


async def test_a_stall_comes_after_some_audio(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append((seconds, list(got)))

    monkeypatch.setattr(catalogue.asyncio, "sleep", sleep)
    got = []
    async for unit in WIRE_FAULTS["stall"].damage(given(A, B, C), RelayedAnswer(Codec(), 30.0, 24_000)):
        got.append(unit.wire)
    assert slept == [(30.0, [A, B])]


def test_every_fault_does_one_thing():
    for fault in WIRE_FAULTS.values():
        does = [fault.damage is not None, fault.status is not None, fault.swaps, fault.crashes]
        assert does.count(True) == 1, fault.name
