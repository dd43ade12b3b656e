"""Server-sent events as they come, in any split. Pure; the load worker imports it.

By the WHATWG's HTML standard, section 9.2.6 "Interpreting an event stream": lines end with CR LF,
LF or CR, ``data`` lines of an event are joined by LF, a blank line ends it, and lines that begin
with a colon are comments.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from omni_bench.load.clients.decoder import (
    AudioPart,
    Part,
    UnknownEvents,
    WireFailure,
    event_limit_bytes,
    parse_object,
    reject_error,
)
from omni_bench.load.clients.responses import describe_body, error_in_body
from omni_bench.load.clients.session import WireOptions
from omni_bench.load.clients.units import Unit, json_object
from omni_bench.load.clients.wav import AudioPayload

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BROKEN_OFF = ("abort", "error")  # values of finish_reason that are none of the model's
OTHER_FIELDS = (b"", b"id", b"retry")  # b"": a comment
STRAY_BYTES = 4096
END_MARK = "[DONE]"  # of chat; some servers end every event stream with it


class SseParser:
    """Bytes in, the data of events out. ``limit_bytes``: of one event or line; more is a failure.

    ``name``: the ``event`` field of the event that was yielded last.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._skip_line_feed = False
        self._first_line = True
        self._strays = bytearray()
        self._name = b""
        self.name = ""

    @property
    def strays(self) -> bytes:
        """The beginning of what is in no field of an event: an error's JSON, or a page of a proxy, in their place."""
        return bytes((self._strays + self._line)[:STRAY_BYTES])

    def feed(self, data: bytes) -> Iterator[str]:
        """The data of the events that ``data`` completes. Raises WireFailure (too_large, content_type)."""
        at, feed_at, return_at = 0, -1, -1
        while at < len(data):
            if self._skip_line_feed:
                self._skip_line_feed = False
                if data[at : at + 1] == b"\n":
                    at += 1
                    continue
            # each is looked for again only once it has been passed, as most streams have one of the two only
            feed_at = data.find(b"\n", at) if feed_at < at else feed_at
            feed_at = len(data) if feed_at < 0 else feed_at
            return_at = data.find(b"\r", at) if return_at < at else return_at
            return_at = len(data) if return_at < 0 else return_at
            end = min(feed_at, return_at)
            self._grow(data[at:end])
            if end == len(data):
                return
            self._skip_line_feed = end == return_at
            at = end + 1
            yield from self._end_line()

    def end(self) -> Iterator[str]:
        """The data of an event that the end of the body completes.

        The standard drops an event without its blank line. Here the body's own end is known to be
        clean, so that a last event whose lines are whole counts; half a line never does. Whole is a line without its
        end too, if it ends as an event's JSON does.
        """
        if self._line.startswith(b"data:") and self._line.endswith((b"}", END_MARK.encode())):
            yield from self._end_line()
        if self._data and not self._line:
            yield self._event()

    def _grow(self, data: bytes) -> None:
        self._line += data
        if len(self._line) + self._data_bytes > self._limit_bytes:
            raise WireFailure("too_large", f"an event of the stream is longer than {self._limit_bytes} bytes")

    def _end_line(self) -> Iterator[str]:
        line = bytes(self._line)
        self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not line:
            if self._data:
                yield self._event()
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(value) + 1
        elif name == b"event":
            self._name = value.strip()
        elif name not in OTHER_FIELDS and len(self._strays) < STRAY_BYTES:
            self._strays += line + b"\n"

    def _event(self) -> str:
        data = b"\n".join(self._data)
        self.name, self._name = self._name.decode("utf-8", "replace"), b""
        self._data.clear()
        self._data_bytes = 0
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise WireFailure("content_type", f"an event of the stream is not UTF-8: {error}") from None


# ---- Cutting a stream into server-sent events ----


class EventDecoder(ABC):
    """Implements ``feed`` and ``end`` of :class:`omni_bench.load.clients.decoder.Decoder`.

    A subclass takes the events one by one and sets ``_done`` with the one called ``last``, without which the
    stream has no clean end.
    """

    last: ClassVar[str]

    def __init__(self, options: WireOptions, stated_rate_hz: int | None = None) -> None:
        self._default_rate_hz = options.sample_rate_hz
        self._events = SseParser(event_limit_bytes(options))
        self._payload = AudioPayload(options.max_audio_s)
        self._payload.state_rate(stated_rate_hz, "a header")
        self._unknown = UnknownEvents()
        self._has_audio = self._done = False
        self._any = False
        self.server_id: str | None = None
        self.completion_tokens: int | None = None

    @property
    def sample_rate_hz(self) -> int | None:
        """As the events say, or else as configured."""
        return self._payload.sample_rate_hz or self._default_rate_hz

    @property
    def states_rate(self) -> bool:
        """See :class:`omni_bench.load.clients.decoder.ResponseFacts`."""
        return self._payload.sample_rate_hz is not None

    @property
    def unknown_events(self) -> str | None:
        """See :class:`omni_bench.load.clients.decoder.ResponseFacts`."""
        return str(self._unknown) or None

    def feed(self, data: bytes, ends_chunk: bool) -> Iterator[Part]:
        """See :class:`omni_bench.load.clients.decoder.Decoder`."""
        for event in self._events.feed(data):
            yield from self._take_named(event)

    def end(self) -> Iterator[Part]:
        """See :class:`omni_bench.load.clients.decoder.Decoder`."""
        for event in self._events.end():
            yield from self._take_named(event)
        if self._done:
            return
        strays = self._events.strays.strip()
        if strays and (message := error_in_body(strays)) is not None:
            raise WireFailure("in_band_error", f"HTTP 200 with an error in place of events: {message}")
        came = f"; between its events stands: {describe_body(strays)}" if strays else ""
        if not self._any:
            came = f": {describe_body(strays)}" if strays else ": nothing came"
        raise WireFailure("disconnected", f"the stream ends without {self.last}{came}{self._unknown.also}")

    def _take_named(self, data: str) -> Iterator[Part]:
        """An event that is called an error may hold anything; one without data keeps the connection alive."""
        self._any = True
        if self._events.name == "error" and not data.lstrip().startswith("{"):
            raise WireFailure("in_band_error", f"HTTP 200, then an error in the stream: {describe_body(data.encode())}")
        if not (data := data.strip()):
            return
        if data == END_MARK:
            yield from self._take_mark()
            return
        event = parse_object(data, "an event of the stream")
        reject_error(event, self._events.name)
        self._payload.state_rates(event, self._kind(event) or "an event")
        yield from self._take(event)

    def _kind(self, event: dict[str, Any]) -> Any:
        """What an event is called: by itself, or by its ``event`` field alone."""
        return event.get("type") or event.get("object") or self._events.name or None

    def _end_audio(self) -> Iterator[Part]:
        """The event called ``last`` has come. Raises WireFailure if it cuts a WAV."""
        self._done = True
        if pcm := self._payload.end():
            yield AudioPart(pcm)

    def _take_mark(self) -> Iterator[Part]:
        """``[DONE]``, which ends the answer; some servers say it twice. Raises WireFailure if none was understood."""
        if not self._done:
            yield from self._end_audio()
            self._unknown.refuse_if_all(heard=self._heard)

    def _refuse_after_end(self, what: str) -> None:
        """``what`` must not come any more. Raises WireFailure."""
        if self._done:
            raise WireFailure("content_type", f"{what} after {self.last}")

    @property
    def _heard(self) -> bool:
        return self._has_audio

    @abstractmethod
    def _take(self, event: dict[str, Any]) -> Iterator[Part]:
        """One event, which is no error. Raises WireFailure."""


# ---- Events for the chaos proxy, which sends them on ----

MAX_EVENT_BYTES = 64 * 1024 * 1024
_LINE_END = rb"(?>\r\n|\n|\r)"
_EVENT_END = re.compile(_LINE_END + _LINE_END)
_LONGEST_END = 4


class EventCodec(ABC):
    """Server-sent events: a unit each, sent on byte by byte as it came unless a fault changes its samples."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Unit]:
        """See :class:`omni_bench.load.clients.units.Codec`."""
        search_from = max(0, len(self._bytes) - _LONGEST_END)
        self._bytes += data
        begin = 0
        for end in _EVENT_END.finditer(self._bytes, search_from):
            yield from self._take(bytes(self._bytes[begin : end.end()]))
            begin = end.end()
        del self._bytes[:begin]
        if len(self._bytes) > MAX_EVENT_BYTES:  # no event that anybody would read
            yield Unit(bytes(self._bytes))
            self._bytes.clear()

    def end(self) -> Iterator[Unit]:
        """See :class:`omni_bench.load.clients.units.Codec`."""
        if self._bytes:
            yield from self._take(bytes(self._bytes))

    def _take(self, wire: bytes) -> Iterator[Unit]:
        text = _data_of(wire)
        yield from self._take_mark(wire) if text == END_MARK else self._take_event(wire, json_object(text))

    @abstractmethod
    def _take_mark(self, wire: bytes) -> Iterator[Unit]:
        """``[DONE]``."""

    @abstractmethod
    def _take_event(self, wire: bytes, event: dict[str, Any]) -> Iterator[Unit]:
        """One event, {} for what is none."""


def _data_of(wire: bytes) -> str | None:
    """The data of one event, None if there is none (a comment) or it cannot be read."""
    parser = SseParser(len(wire) + 1)
    try:
        found = [*parser.feed(wire), *parser.end()]
    except WireFailure:
        return None
    return found[0].strip() if len(found) == 1 else None


def event_bytes(like: bytes, event: dict[str, Any]) -> bytes:
    """``event`` with the lines of ``like`` that are not its data, such as its name, and without a byte order mark."""
    kept = [line for line in like.removeprefix(BYTE_ORDER_MARK).splitlines() if line and not line.startswith(b"data")]
    return b"\n".join([*kept, b"data: " + json.dumps(event).encode()]) + b"\n\n"
