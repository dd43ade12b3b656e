"""What a fault does to one answer: async generators from units to units, the same for every wire form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from omni_bench.load.clients.units import SAMPLE_WIDTH_BYTES, Codec, Unit, Units
from reference_impl.http.framing import wav_header

STALL_S = 30.0
SOME_CHUNKS = 2  # chunks of good audio before a stream is stalled, cut or ended by an error
DAMAGED_CHUNK = 1  # counted from 0: a stream of two chunks still has it
HEADER_EARLY_S = 0.2
DRIP_BYTES = 1024
DRIP_PAUSE_S = 0.0005


class StreamCutError(Exception):
    """The connection to the client is to be closed here, without an end of the stream."""


async def in_band_error(units: Units, codec: Codec) -> Units:
    """Some chunks, then an error as the form has it and a clean end."""
    async for unit in _with_break(units):
        if unit is None:
            for last in codec.error():
                yield last
            return
        yield unit


async def cut(units: Units) -> Units:
    """Some chunks. Raises StreamCutError after them, also where there were no more."""
    async for unit in _with_break(units):
        if unit is None:
            raise StreamCutError
        yield unit


async def stall(units: Units, seconds: float) -> Units:
    """Some chunks, nothing for ``seconds`` (before the end of the audio, if there were no more), the rest."""
    async for unit in _with_break(units):
        if unit is None:
            await asyncio.sleep(seconds)
        else:
            yield unit


async def drop_chunk(units: Units) -> Units:
    """All but the second chunk of audio."""
    async for unit, index in _numbered(units):
        if index != DAMAGED_CHUNK:
            yield unit


async def duplicate_chunk(units: Units) -> Units:
    """Everything, the second chunk of audio twice."""
    async for unit, index in _numbered(units):
        yield unit
        if index == DAMAGED_CHUNK:
            yield unit


async def header_first(units: Units, sample_rate_hz: int) -> Units:
    """A WAV header for a stream of unknown length, 200 ms of nothing, then everything."""
    yield Unit(wav_header(sample_rate_hz, None))
    await asyncio.sleep(HEADER_EARLY_S)
    async for unit in units:
        yield unit


async def odd_bytes(units: Units) -> Units:
    """Everything, and one byte of audio more (two, should it have been odd already) where the audio ends."""
    total_bytes, latest, added = 0, None, False
    async for unit in units:
        if unit.pcm:
            total_bytes, latest = total_bytes + len(unit.pcm), unit
        elif unit.ends and latest is not None and not added:
            added = True
            yield _crumb(latest, total_bytes)
        yield unit
    if latest is not None and not added:
        yield _crumb(latest, total_bytes)


async def silence(units: Units) -> Units:
    """Zeros, as many as there were bytes of samples."""
    async for unit in units:
        yield unit.with_pcm(bytes(len(unit.pcm))) if unit.pcm else unit


async def slow_drip(units: Units) -> Units:
    """The first KiB of samples one byte at a time, half a millisecond apart, then whole chunks."""
    left_bytes = DRIP_BYTES
    async for unit in units:
        dripped, rest = unit.pcm[:left_bytes], unit.pcm[left_bytes:]
        left_bytes -= len(dripped)
        for index in range(len(dripped)):
            yield unit.with_pcm(dripped[index : index + 1])
            await asyncio.sleep(DRIP_PAUSE_S)
        if not dripped:
            yield unit
        elif rest:
            yield unit.with_pcm(rest)


def transform(name: str, codec: Codec, *, stall_s: float, sample_rate_hz: int) -> Callable[[Units], Units]:
    """What fault ``name`` does to an answer. Raises KeyError if it is not a fault of one answer by itself."""
    return {
        "in_band_error": lambda units: in_band_error(units, codec),
        "stall": lambda units: stall(units, stall_s),
        "cut": cut,
        "drop_chunk": drop_chunk,
        "duplicate_chunk": duplicate_chunk,
        "header_first": lambda units: header_first(units, sample_rate_hz),
        "odd_bytes": odd_bytes,
        "silence_on_200": silence,
        "slow_drip": slow_drip,
    }[name]


async def _with_break(units: Units) -> AsyncIterator[Unit | None]:
    """Everything, and once None: behind some chunks of audio, at the latest where the audio or the answer ends."""
    chunks, is_behind = 0, False
    async for unit in units:
        if unit.ends and not is_behind:
            is_behind = True
            yield None
        yield unit
        chunks += bool(unit.pcm)
        if chunks == SOME_CHUNKS and not is_behind:
            is_behind = True
            yield None
    if not is_behind:
        yield None


async def _numbered(units: Units) -> AsyncIterator[tuple[Unit, int | None]]:
    """Every unit, with the number of its chunk of audio, from 0; None for a unit without samples."""
    chunks = 0
    async for unit in units:
        yield unit, chunks if unit.pcm else None
        chunks += bool(unit.pcm)


def _crumb(like: Unit, total_bytes: int) -> Unit:
    """What makes ``total_bytes`` of audio an odd number, wrapped as ``like`` is."""
    return like.with_pcm(b"\x01" * (1 + total_bytes % SAMPLE_WIDTH_BYTES))
