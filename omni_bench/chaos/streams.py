"""What a fault does to one stream of audio: async generators from chunks to chunks."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable

Chunks = AsyncIterator[bytes]

STALL_S = 30.0
SOME_CHUNKS = 2  # chunks of good audio before a stream is stalled, cut or ended by an error
DAMAGED_CHUNK = 1  # counted from 0: a stream of two chunks still has it
HEADER_EARLY_S = 0.2
DRIP_BYTES = 1024
DRIP_PAUSE_S = 0.0005
SAMPLE_WIDTH_BYTES = 2
INJECTED_ERROR = json.dumps(
    {"error": {"message": "injected fault: in_band_error", "type": "server_error", "code": "injected"}}
).encode()


class StreamCutError(Exception):
    """The connection to the client is to be closed here, without an end of the stream."""


async def in_band_error(chunks: Chunks) -> Chunks:
    """Some chunks, then an error object and a clean end."""
    async for chunk in _some(chunks):
        yield chunk
    yield INJECTED_ERROR


async def cut(chunks: Chunks) -> Chunks:
    """Some chunks. Raises StreamCutError after them, also where there were no more."""
    async for chunk in _some(chunks):
        yield chunk
    raise StreamCutError


async def stall(chunks: Chunks, seconds: float) -> Chunks:
    """Some chunks, nothing for ``seconds`` (before the end of the stream, if there were no more), the rest."""
    async for chunk in _some(chunks):
        yield chunk
    await asyncio.sleep(seconds)
    async for chunk in chunks:
        yield chunk


async def drop_chunk(chunks: Chunks) -> Chunks:
    """All but the second chunk."""
    index = 0
    async for chunk in chunks:
        if index != DAMAGED_CHUNK:
            yield chunk
        index += 1


async def duplicate_chunk(chunks: Chunks) -> Chunks:
    """All chunks, the second twice."""
    index = 0
    async for chunk in chunks:
        yield chunk
        if index == DAMAGED_CHUNK:
            yield chunk
        index += 1


async def header_first(chunks: Chunks, sample_rate_hz: int) -> Chunks:
    """A WAV header for a stream of unknown length, 200 ms of nothing, then all chunks."""
    yield wav_header(sample_rate_hz)
    await asyncio.sleep(HEADER_EARLY_S)
    async for chunk in chunks:
        yield chunk


async def odd_bytes(chunks: Chunks) -> Chunks:
    """All chunks, and one byte more (one less, should the stream have been odd already)."""
    total_bytes = 0
    async for chunk in chunks:
        total_bytes += len(chunk)
        yield chunk
    yield b"\x01" * (1 + total_bytes % SAMPLE_WIDTH_BYTES)


async def silence(chunks: Chunks) -> Chunks:
    """Zeros, as many as there were bytes."""
    async for chunk in chunks:
        yield bytes(len(chunk))


async def slow_drip(chunks: Chunks) -> Chunks:
    """The first KiB one byte at a time, half a millisecond apart, then whole chunks."""
    left_bytes = DRIP_BYTES
    async for chunk in chunks:
        dripped = chunk[:left_bytes]
        left_bytes -= len(dripped)
        for index in range(len(dripped)):
            yield dripped[index : index + 1]
            await asyncio.sleep(DRIP_PAUSE_S)
        if len(chunk) > len(dripped):
            yield chunk[len(dripped) :]


def transform(name: str, *, stall_s: float, sample_rate_hz: int) -> Callable[[Chunks], Chunks]:
    """What fault ``name`` does to a stream. Raises KeyError if it is not a fault of one stream by itself."""
    return {
        "in_band_error": in_band_error,
        "stall": lambda chunks: stall(chunks, stall_s),
        "cut": cut,
        "drop_chunk": drop_chunk,
        "duplicate_chunk": duplicate_chunk,
        "header_first": lambda chunks: header_first(chunks, sample_rate_hz),
        "odd_bytes": odd_bytes,
        "silence_on_200": silence,
        "slow_drip": slow_drip,
    }[name]


def wav_header(sample_rate_hz: int) -> bytes:
    """The 44 bytes before 16-bit mono samples (RIFF, format 1); both lengths are the largest there are."""
    unknown = 0xFFFFFFFF
    riff = struct.pack("<4sI4s", b"RIFF", unknown, b"WAVE")
    form = struct.pack(
        "<4sIHHIIHH",
        b"fmt ",
        16,
        1,
        1,
        sample_rate_hz,
        sample_rate_hz * SAMPLE_WIDTH_BYTES,
        SAMPLE_WIDTH_BYTES,
        8 * SAMPLE_WIDTH_BYTES,
    )
    return riff + form + struct.pack("<4sI", b"data", unknown)


async def _some(chunks: Chunks) -> Chunks:
    """The first chunks; what follows stays in ``chunks``."""
    for _ in range(SOME_CHUNKS):
        chunk = await anext(chunks, None)
        if chunk is None:
            return
        yield chunk
