"""The interface of every wire form's decoder: bytes in, audio and text out. Pure; the load worker imports it.

The decoders are in openai_speech.py and its neighbours. A decoder never waits, reads no clock and
knows no socket. It may be fed any split of a body and yields the same audio bytes and the same text for
each; only how many parts they come in may differ.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Union

from omni_bench.errors import shorten
from omni_bench.load.clients.responses import message_of, one_line
from omni_bench.load.clients.session import WireOptions
from omni_bench.records.timeline import SAMPLE_WIDTH_BYTES, RequestError

MAX_TEXT_CHARS = 256 * 1024  # of one reply
MAX_TOKENS = 10_000_000  # a count beyond is not of one reply
MAX_ID_CHARS = 200
MAX_KINDS, MAX_KIND_CHARS = 8, 60  # of unknown events that are named
EVENT_ROOM_BYTES = 64 * 1024  # of an event, beside its audio


class WireFailure(Exception):
    """What makes a request fail, found by the rules of its wire form. ``error`` is as the timeline keeps it."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.error = RequestError(kind, one_line(message))


@dataclass(frozen=True)
class AudioPart:
    """Some samples (bytes of s16le mono). ``ends_chunk``: whether they end what the server sent as one."""

    pcm: bytes
    ends_chunk: bool = True


@dataclass(frozen=True)
class TextPart:
    """Some text. ``tokens``: how many tokens it holds, None if the server does not say."""

    text: str
    tokens: int | None = None


Part = Union[AudioPart, TextPart]


class ResponseFacts(Protocol):
    """What a decoder has learnt beside the parts; None where the answer does not say.

    ``sample_rate_hz``: of the audio; ``states_rate``: whether the answer says so, and not only the configuration.
    ``server_id``: what the server calls the request. ``completion_tokens``: of the text. ``unknown_events``: kinds of
    events that were passed over, and how many of each came.
    """

    @property
    def sample_rate_hz(self) -> int | None: ...
    @property
    def states_rate(self) -> bool: ...
    @property
    def server_id(self) -> str | None: ...
    @property
    def completion_tokens(self) -> int | None: ...
    @property
    def unknown_events(self) -> str | None: ...


class Decoder(ResponseFacts, Protocol):
    """Takes the body of one response apart. Used once."""

    def feed(self, data: bytes, ends_chunk: bool) -> Iterator[Part]:
        """The parts that ``data`` completes. ``ends_chunk``: whether it ends an HTTP chunk. Raises WireFailure."""

    def end(self) -> Iterator[Part]:
        """The parts that only the clean end of the body completes. Raises WireFailure if it should not end here."""


class UnknownEvents:
    """Events of kinds that a decoder does not know: passed over beside audio, and named where there was none."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def note(self, kind: Any) -> None:
        """One more of this kind, whatever the server put there."""
        name = one_line(str(kind))[:MAX_KIND_CHARS]
        if name in self._counts or len(self._counts) < MAX_KINDS:
            self._counts[name] = self._counts.get(name, 0) + 1

    def __str__(self) -> str:
        return ", ".join(f"{name!r} ({count})" for name, count in self._counts.items())

    @property
    def also(self) -> str:
        """For the end of a message; empty if there are none."""
        return f"; of unknown kinds came {self}" if self._counts else ""

    def refuse_if_all(self, heard: bool) -> None:
        """The answer is over. Raises WireFailure if nothing was ``heard`` in it and such events came."""
        if self._counts and not heard:
            raise WireFailure(
                "content_type",
                f"no audio, but events of kinds that this client does not know: {self}; another client may "
                "(omni-bench list)",
            )


def audio_limit_bytes(options: WireOptions, sample_rate_hz: int | None) -> float:
    """Bytes of samples above which a response is too long: ``options.max_audio_s`` of audio."""
    return options.max_audio_s * (sample_rate_hz or options.sample_rate_hz) * SAMPLE_WIDTH_BYTES


def event_limit_bytes(options: WireOptions) -> int:
    """Bytes of one event or message above which it is too long: all audio that is allowed, in base64, and some room."""
    return int(audio_limit_bytes(options, None)) * 4 // 3 + EVENT_ROOM_BYTES


def parse_object(text: str, where: str) -> dict[str, Any]:
    """A JSON object; ``where`` begins the message. Raises WireFailure for anything else, and for deep nesting.

    NaN and infinities, which are not JSON but stand in statistics beside the audio, are null.
    """
    try:
        value = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise WireFailure("content_type", f"{where} is not JSON ({error}): {shorten(text, 80)!r}") from None
    if not isinstance(value, dict):
        raise WireFailure("content_type", f"{where} is not a JSON object: {shorten(text, 80)!r}")
    return value


def decode_base64(value: Any, where: str) -> bytes:
    """The bytes of strict base64, with its padding and without line breaks. Raises WireFailure."""
    if not isinstance(value, str):
        raise WireFailure("content_type", f"{where} is not a string of base64 but {type(value).__name__}")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise WireFailure("content_type", f"{where} is not base64 ({error}): {shorten(value, 40)!r}") from None


def token_count(value: Any, where: str) -> int | None:
    """A stated number of tokens, None for null. Raises WireFailure for what is no such number."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_TOKENS:
        raise WireFailure("content_type", f"{where} is {shorten(repr(value), 40)}; must be 0 to {MAX_TOKENS}")
    return value


def stated_id(value: Any) -> str | None:
    """What the server calls the request, cut to a bound; None for what is no name."""
    return (one_line(value)[:MAX_ID_CHARS] or None) if isinstance(value, str) else None


def stated_format(value: Any, where: str) -> str | None:
    """The name of an audio format, None for none. Raises WireFailure for what is no name."""
    if value is not None and not isinstance(value, str):
        raise WireFailure("content_type", f"{where} states an audio format of type {type(value).__name__}")
    return value


FAILED_KINDS = ("error", "failed", "failure")  # ends of the names of events


def reject_error(event: dict[str, Any], kind: Any = None, where: str = "HTTP 200, then an error in the stream") -> None:
    """Raise WireFailure if an event of a stream is an error object, holds one, or is called a failure by its ``kind``.

    ``where`` begins the message.
    """
    message = message_of(event)
    if message is None:
        inner = next((one for one in event.values() if isinstance(one, dict) and one.get("error")), None)
        message = message_of(inner)
    names = (kind, event.get("type"), event.get("object"), event.get("event"))
    ends = {str(name).replace("_", ".").rsplit(".", 1)[-1].lower() for name in names}
    if message is None and not ends.isdisjoint(FAILED_KINDS):
        told = next((event[name] for name in ("message", "msg", "reason", "code") if event.get(name)), None)
        message = one_line(str(told)) if told is not None else one_line(json.dumps(event))
    if message is not None:
        raise WireFailure("in_band_error", f"{where}: {message}")
