"""The faults of the wire: what goes wrong, which requests are hit, who must notice, and what each does. Light.

A fault of one answer is an async generator from units to units, the same for every wire form. A "chunk of audio" is
what the wire form makes of it: an HTTP chunk of samples, an event, or a binary message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from omni_bench.load.clients.units import SAMPLE_WIDTH_BYTES, Codec, Unit, Units
from reference_impl.http.framing import wav_header

UNSOURCED = "failures of HTTP servers in general"
STALL_S = 30.0
SOME_CHUNKS = 2  # chunks of good audio before a stream is stalled, cut or ended by an error
DAMAGED_CHUNK = 1  # counted from 0: a stream of two chunks still has it
HEADER_EARLY_S = 0.2
DRIP_BYTES = 1024
DRIP_PAUSE_S = 0.0005


@dataclass(frozen=True)
class RelayedAnswer:
    """What a fault may know of the answer that it damages. ``stall_s``: how long a stalled stream is silent."""

    codec: Codec
    stall_s: float
    sample_rate_hz: int


@dataclass(frozen=True)
class WireFault:
    """One fault of the proxy.

    ``detectors``: named in advance, one of them must notice: error kinds
    (:data:`omni_bench.records.timeline.ERROR_KINDS`), invalid reasons
    (:data:`omni_bench.accuracy.signal.audio_faults.INVALID_REASONS`), or, where the wire itself is in
    order, the checks of the speech (wer, cross_talk, parity, length). ``every``: the proxy
    counts the speech requests as they arrive; 1 hits all, 2 hits the first, third, fifth and so on.
    ``min_concurrency``: below this many requests in flight nothing can be seen of it.
    ``only``: the one wire form (a value of client.kind) that it is a fault of, None if of every one, and ``why``
    so. ``of_audio``: nothing can be seen of it where no audio was asked for. ``overrides``: KEY=VALUE that it needs in
    the self-test, beside its switch.

    ``of_samples``: the ``damage`` is this function of ``damages.py``, of the samples of a whole answer, which shows in
    the answers of a level together: the self-test damages recordings of the clean server by it.

    What it does is one of four: ``damage`` changes an answer, ``status`` is all that there is of one, ``swaps`` gives
    two requests each other's audio, ``crashes`` ends the proxy with ``min_concurrency`` requests in flight.
    """

    name: str
    what: str
    detectors: tuple[str, ...]
    every: int = 1
    min_concurrency: int = 1
    source: str = UNSOURCED
    only: str | None = None
    why: str | None = None
    of_audio: bool = True
    overrides: tuple[str, ...] = ()
    damage: Callable[[Units, RelayedAnswer], Units] | None = None
    of_samples: str | None = None
    status: int | None = None
    swaps: bool = False
    crashes: bool = False

    def fits(self, form: str) -> bool:
        """Whether it is a fault of the wire form ``form``."""
        return self.only in (None, form)

    def hits(self, number: int) -> bool:
        """Whether speech request ``number`` (from 1, by arrival) is hit."""
        return (number - 1) % self.every == 0

    @property
    def whom(self) -> str:
        """Which requests are hit, in words."""
        if self.min_concurrency > 1:
            return f"requests in flight together, from {self.min_concurrency} on"
        if self.every == 1:
            return "every request"
        return f"every {_ORDINALS.get(self.every, f'{self.every}th')} request, the first among them"

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for run.json."""
        names = ("name", "what", "detectors", "every", "min_concurrency", "source", "only", "why", "of_audio", "whom")
        return {name: getattr(self, name) for name in names}


_ORDINALS = {2: "second", 3: "third", 4: "fourth"}


class StreamCutError(Exception):
    """The connection to the client is to be closed here, without an end of the stream."""


async def in_band_error(units: Units, answer: RelayedAnswer) -> Units:
    """Some chunks, then an error as the form has it and a clean end."""
    async for unit in _with_break(units):
        if unit is None:
            for last in answer.codec.error():
                yield last
            return
        yield unit


async def cut(units: Units, answer: RelayedAnswer) -> Units:
    """Some chunks. Raises StreamCutError after them, also where there were no more."""
    async for unit in _with_break(units):
        if unit is None:
            raise StreamCutError
        yield unit


async def stall(units: Units, answer: RelayedAnswer) -> Units:
    """Some chunks, nothing for ``answer.stall_s`` (before the end of the audio, if there were no more), the rest."""
    async for unit in _with_break(units):
        if unit is None:
            await asyncio.sleep(answer.stall_s)
        else:
            yield unit


async def drop_chunk(units: Units, answer: RelayedAnswer) -> Units:
    """All but the second chunk of audio."""
    async for unit, index in _numbered(units):
        if index != DAMAGED_CHUNK:
            yield unit


async def duplicate_chunk(units: Units, answer: RelayedAnswer) -> Units:
    """Everything, the second chunk of audio twice."""
    async for unit, index in _numbered(units):
        yield unit
        if index == DAMAGED_CHUNK:
            yield unit


async def header_first(units: Units, answer: RelayedAnswer) -> Units:
    """A WAV header for a stream of unknown length, 200 ms of nothing, then everything."""
    yield Unit(wav_header(answer.sample_rate_hz, None))
    await asyncio.sleep(HEADER_EARLY_S)
    async for unit in units:
        yield unit


async def odd_bytes(units: Units, answer: RelayedAnswer) -> Units:
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


async def silence(units: Units, answer: RelayedAnswer) -> Units:
    """Zeros, as many as there were bytes of samples."""
    async for unit in units:
        yield unit.with_pcm(bytes(len(unit.pcm))) if unit.pcm else unit


async def slow_drip(units: Units, answer: RelayedAnswer) -> Units:
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


def _whole(damage: str) -> Callable[[Units, RelayedAnswer], Units]:
    """Everything, with the samples of the whole answer damaged; they come once all are there, in as many chunks."""

    async def damaged(units: Units, answer: RelayedAnswer) -> Units:
        held: list[Unit] = []
        async for unit in units:
            if unit.pcm or (held and not unit.ends):
                held.append(unit)
                continue
            for late in _damaged(held, damage, answer.sample_rate_hz):
                yield late
            held = []
            yield unit
        for late in _damaged(held, damage, answer.sample_rate_hz):
            yield late

    return damaged


def _damaged(held: list[Unit], damage: str, sample_rate_hz: int) -> Iterator[Unit]:
    from omni_bench.targets.chaos_proxy.damages import damaged_pcm  # brings numpy

    pcm = b"".join(unit.pcm for unit in held)
    changed = damaged_pcm(pcm, damage, sample_rate_hz)
    begin, seen = 0, 0
    for unit in held:
        if not unit.pcm:
            yield unit
            continue
        seen += len(unit.pcm)
        end = round(len(changed) // SAMPLE_WIDTH_BYTES * seen / len(pcm)) * SAMPLE_WIDTH_BYTES
        if end > begin:
            yield unit.with_pcm(changed[begin:end])
        begin = end


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


# Failures of one request hit every second one, so that healthy requests follow on the same connections;
# what is a property of a whole server (its framing, its flushing) hits all. So do dropped and repeated chunks:
# they cost two words or so, which must be enough to be heard in the WER of a level.
_FAULTS = (
    WireFault(
        "crash_at_c3",
        "the server dies once 3 requests are in flight",
        ("disconnected", "connect"),
        min_concurrency=3,
        source="vllm-omni PR 1913",
        of_audio=False,
        crashes=True,
    ),
    WireFault(
        "http_500", "the request is answered with status 500", ("http_status",), every=2, of_audio=False, status=500
    ),
    WireFault(
        "in_band_error",
        "an error object as JSON ends a stream of status 200",
        ("in_band_error",),
        every=2,
        of_audio=False,
        damage=in_band_error,
    ),
    WireFault(
        "stall",
        "no byte for 30 s after some audio, then the rest",
        ("timeout",),
        every=2,
        of_audio=False,
        overrides=("client.stall_timeout_s=4",),
        damage=stall,
    ),
    WireFault(
        "cut",
        "the connection is closed in the middle of the audio",
        ("disconnected",),
        every=2,
        of_audio=False,
        damage=cut,
    ),
    WireFault(
        "drop_chunk", "the second chunk of audio is left out", ("clicks", "wer", "parity", "length"), damage=drop_chunk
    ),
    WireFault(
        "duplicate_chunk",
        "the second chunk of audio comes twice",
        ("repeated_audio", "clicks", "wer", "parity", "length"),
        source="vllm-omni issue 3032",
        damage=duplicate_chunk,
    ),
    WireFault(
        "swap_streams",
        "two requests in flight get each other's audio once both have had a chunk of their own",
        ("cross_talk", "wer", "parity"),
        min_concurrency=2,
        source="vllm-omni issues 4415 and 4664",
        swaps=True,
    ),
    WireFault(
        "header_first",
        "a WAV header comes 200 ms before any audio",
        ("content_type",),
        source="coval-ai/benchmarks PR 167, review: a header that was timed as audio",
        only="openai_speech",
        why="it is a mistake in a body of bare samples alone",
        damage=header_first,
    ),
    WireFault("odd_bytes", "half a sample too much ends the stream", ("odd_bytes",), every=2, damage=odd_bytes),
    WireFault(
        "silence_on_200", "status 200 and audio of the right length, all zeros", ("silent",), every=2, damage=silence
    ),
    *(
        WireFault(
            name,
            what,
            (detector, "audio_lost", "parity"),
            every,
            source="issue 15",
            damage=_whole(name),
            # splices show in levels of many answers alone; in a run of its own the server's account and parity see them
            of_samples=None if detector == "spliced" else name,
        )
        for name, what, detector, every in (
            ("too_fast", "a resampler forgotten: audio is 8.8 % too fast for the stated rate", "wrong_rate", 1),
            ("cut_tail", "the last 200 ms of the voice are missing", "cut_off", 1),
            ("lost_samples", "60 ms of samples are missing in the middle", "spliced", 1),
            ("other_voice", "another voice answers: pitch and formants × 1.22", "other_voice", 4),
            ("silence_first", "0.7 s of silence come before the voice", "long_pauses", 1),
        )
    ),
    WireFault("slow_drip", "the first KiB of audio comes one byte at a time", ("slow_drip",), damage=slow_drip),
)

WIRE_FAULTS = {fault.name: fault for fault in _FAULTS}
"""Every fault of the wire, by name, in the order of the catalogue."""


def faults_of(form: str, *, audio: bool = True) -> tuple[str, ...]:
    """The names of the faults that can be injected into the wire form ``form``; ``audio``: whether any is asked for."""
    return tuple(fault.name for fault in WIRE_FAULTS.values() if fault.fits(form) and (audio or not fault.of_audio))
