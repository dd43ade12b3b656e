"""What the decoders of server-sent events share: cutting the stream into events, and asking for a clean end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from omni_bench.clients.decoding import AudioPart, Part, WireFailure, event_limit_bytes
from omni_bench.clients.pool import WireOptions
from omni_bench.clients.sse import SseParser
from omni_bench.clients.wav import AudioPayload


class EventDecoder(ABC):
    """Implements ``feed`` and ``end`` of :class:`omni_bench.clients.decoding.Decoder`.

    A subclass takes the events one by one and sets ``_done`` with the one called ``last``, without which the
    stream has no clean end.
    """

    last: ClassVar[str]

    def __init__(self, options: WireOptions, stated_rate_hz: int | None = None) -> None:
        self._default_rate_hz = stated_rate_hz or options.sample_rate_hz
        self._events = SseParser(event_limit_bytes(options))
        self._payload = AudioPayload()
        self._done = False
        self.server_id: str | None = None
        self.completion_tokens: int | None = None

    def feed(self, data: bytes, ends_chunk: bool) -> Iterator[Part]:
        """See :class:`omni_bench.clients.decoding.Decoder`."""
        for event in self._events.feed(data):
            yield from self._take(event)

    def end(self) -> Iterator[Part]:
        """See :class:`omni_bench.clients.decoding.Decoder`."""
        for event in self._events.end():
            yield from self._take(event)
        if not self._done:
            raise WireFailure("disconnected", f"the stream ends without {self.last}")

    def _end_audio(self) -> Iterator[Part]:
        """The event called ``last`` has come. Raises WireFailure if it cuts a WAV."""
        self._done = True
        if pcm := self._payload.end():
            yield AudioPart(pcm)

    @abstractmethod
    def _take(self, data: str) -> Iterator[Part]:
        """One event's data. Raises WireFailure."""
