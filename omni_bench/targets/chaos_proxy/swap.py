"""Two requests in flight get each other's audio, as when a server mixes up two of its output queues."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from enum import Enum

import aiohttp

from omni_bench.load.clients.units import Unit, Units
from omni_bench.targets.chaos_proxy.catalogue import StreamCutError

log = logging.getLogger("omni_bench.targets.chaos_proxy")

QUEUE_UNITS = 16  # a client that does not read holds up the server, not the memory


class _End(Enum):
    CLEAN = "the stream is over"
    BROKEN = "the stream broke off"


class _Stream:
    """One response: ``queue`` is what its client gets, ``goes_to`` whose client gets what its server sends.

    ``audio_over``: its client has been told so, by whichever server.
    """

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.queue: asyncio.Queue[Unit | _End] = asyncio.Queue(QUEUE_UNITS)
        self.goes_to = self
        self.partner: _Stream | None = None
        self.pump: asyncio.Task[None] | None = None
        self.sent_all = False
        self.audio_over = False
        self.closed = False

    def stop_pump(self) -> None:
        if self.pump is not None:
            self.pump.cancel()

    def break_off(self) -> None:
        if self.queue.full():
            self.queue.get_nowait()
        self.queue.put_nowait(_End.BROKEN)


class StreamSwap:
    """Pairs the streams that pass through :meth:`exchange`; a stream without a partner passes unchanged.

    The first two streams in flight that have both passed a chunk of their own, and have more to come,
    become a pair: from then on each client gets what the other's server sends, its end included, but for
    what is its ``own``. A stream is in one pair at most.
    """

    def __init__(self) -> None:
        self._waiting: _Stream | None = None
        self._pumps: set[asyncio.Task[None]] = set()

    async def exchange(self, units: Units, request_id: str) -> Units:
        """What the client of ``request_id`` gets in the place of ``units``.

        Raises StreamCutError where the server's stream of either broke off. If a client leaves,
        the other one of the pair gets its own audio again, or, when that is all gone, a cut.
        """
        stream = _Stream(request_id)
        stream.pump = asyncio.create_task(self._pump(stream, units))
        self._pumps.add(stream.pump)
        stream.pump.add_done_callback(self._pumps.discard)
        finished = False
        try:
            while not isinstance(item := await stream.queue.get(), _End):
                finished = finished or item.last  # its client may leave, and its server is still heard by the other
                yield item
            finished = True
            if item is _End.BROKEN:
                raise StreamCutError
        finally:
            self._close(stream, finished)

    async def stop(self) -> None:
        """End what is still read for a client that has its own part already."""
        pumps = list(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, stream: _Stream, units: Units) -> None:
        end = _End.CLEAN
        try:
            async with aclosing(units):
                async for unit in units:
                    await self._pass_on(stream, unit)
        except (aiohttp.ClientError, OSError) as error:
            log.warning("request %s: the server broke off: %s", stream.request_id, error)
            end = _End.BROKEN
        stream.sent_all = True
        self._forget(stream)
        await stream.goes_to.queue.put(end)

    async def _pass_on(self, stream: _Stream, unit: Unit) -> None:
        if unit.own:
            if not (stream.audio_over or stream.closed):  # nothing may follow the end, and a closed stream is not read
                await stream.queue.put(unit)
            return
        receiver = stream.goes_to
        receiver.audio_over = receiver.audio_over or unit.ends
        await receiver.queue.put(unit)
        if unit.pcm:
            self._pair(stream)
        elif unit.ends:
            self._forget(stream)

    def _pair(self, stream: _Stream) -> None:
        other = self._waiting
        if stream.partner is not None or stream.closed or other is stream:
            return
        if other is None:
            self._waiting = stream
            return
        self._waiting = None
        stream.partner, other.partner = other, stream
        stream.goes_to, other.goes_to = other, stream
        log.warning(
            "FAULT INJECTED at the wire: swap_streams: requests %s and %s get each other's audio from here on",
            other.request_id,
            stream.request_id,
        )

    def _forget(self, stream: _Stream) -> None:
        if self._waiting is stream:
            self._waiting = None

    def _close(self, stream: _Stream, finished: bool) -> None:
        """The client of ``stream`` has all it will get (``finished``), or has left."""
        stream.closed = True
        self._forget(stream)
        while not stream.queue.empty():  # a writer that waits for room may go on
            stream.queue.get_nowait()
        partner = stream.partner
        if partner is None:
            stream.stop_pump()
        elif partner.closed:  # neither of them has a listener left
            stream.stop_pump()
            partner.stop_pump()
        elif not finished:
            partner.goes_to = partner
            if not stream.sent_all:
                stream.stop_pump()
                if partner.sent_all:
                    partner.break_off()
