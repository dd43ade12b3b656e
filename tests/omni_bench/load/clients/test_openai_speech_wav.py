"""Speech as a streamed WAV: the header is never audio, and the container's word holds against the transport's."""

from __future__ import annotations

import struct

import pytest
from streams import stream_of

from omni_bench.load.clients.openai_speech import build_wav_body as build_body
from omni_bench.records.config import ClientConfig
from omni_bench.records.prompt import Prompt


def header(size=0xFFFFFFFF, rate=24_000, extra=b""):
    form = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    return b"RIFF" + struct.pack("<I", size) + b"WAVEfmt \x10\0\0\0" + form + extra + b"data" + struct.pack("<I", size)


@pytest.fixture
def fetch(ask):
    async def fetch_one(*parts, **how):
        return await ask(
            stream_of(*parts, **{"content_type": "audio/wav", "pause_s": 0.02, **how}), kind="openai_speech_wav"
        )

    return fetch_one


def test_the_body_asks_for_a_streamed_wav():
    body = build_body(Prompt("p", "Hi.", None, None, "en"), ClientConfig(kind="openai_speech_wav"), 3)
    form = ("input", "response_format", "stream", "stream_format")
    assert [body[name] for name in form] == ["Hi.", "wav", True, "audio"]


@pytest.mark.parametrize("parts", [[header()], [header()[:10], header()[10:]], [header(extra=b"LIST\2\0\0\0ab")]])
async def test_a_header_ahead_of_the_audio_is_no_packet(fetch, parts):
    timeline, audio = await fetch(*parts, b"abcd")
    assert timeline.ok and audio == [b"abcd"]
    assert timeline.first_byte_ns < timeline.first_audio_ns == timeline.chunk_arrived_ns[0]


async def test_true_sizes_and_what_follows_the_audio(fetch):
    timeline, audio = await fetch(header(size=4) + b"abcd", b"LIST\2\0\0\0xy", content_type="audio/x-wav")
    assert timeline.ok and audio == [b"abcd"]


async def test_a_header_and_nothing_else_is_a_clean_end_without_audio(fetch):
    timeline, audio = await fetch(header())
    assert timeline.ok and audio == [] and timeline.first_audio_ns is None and timeline.sample_rate_hz == 24_000


@pytest.mark.parametrize(
    ("parts", "how", "kind"),
    [
        ([header() + b"abcd"], {"cut": True}, "disconnected"),
        ([header(size=9) + b"abcd"], {}, "disconnected"),
        ([header()[:20]], {}, "content_type"),
        ([b"abcd" * 20], {}, "content_type"),
        ([header() + b"abcd"], {"content_type": "audio/mpeg"}, "content_type"),
        ([header() + b"abcd"], {"content_type": "audio/wav; rate=16000"}, "content_type"),
        ([header() + b"abcd"], {"content_type": "audio/wav; channels=2"}, "content_type"),
        ([header(size=4) + b"abcd" * 9], {}, "content_type"),
        ([b'{"error": {"message": "boom"}}'], {}, "in_band_error"),
        ([header() + b"abcd", b'{"error": {"message": "boom"}}'], {}, "in_band_error"),
        ([header(size=4) + b"abcd", b'{"error": {"message": "boom"}}'], {}, "in_band_error"),
    ],
)
async def test_streams_that_do_not_end_well(fetch, parts, how, kind):
    timeline, audio = await fetch(*parts, **how)
    assert timeline.error is not None and timeline.error.kind == kind, timeline.error
    assert b"RIFF" not in b"".join(audio)
