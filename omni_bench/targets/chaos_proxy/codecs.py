"""How each wire form is taken apart, and put together again around other samples."""

from __future__ import annotations

import base64
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from omni_bench.load.clients.decoding import WireFailure
from omni_bench.load.clients.openai_chat_audio import AUDIO
from omni_bench.load.clients.openai_speech_sse import DELTA, DONE, END_MARK, ERROR
from omni_bench.load.clients.sse import BYTE_ORDER_MARK, SseParser
from omni_bench.targets.chaos_proxy.units import (
    INJECTED,
    Codec,
    Unit,
    Wire,
    header_bytes,
    payload_unit,
    stated_size,
    with_sizes,
)

MAX_EVENT_BYTES = 64 * 1024 * 1024
_LINE_END = rb"(?>\r\n|\n|\r)"
_EVENT_END = re.compile(_LINE_END + _LINE_END)
_LONGEST_END = 4


class SampleCodec:
    """A body of samples: bare ones, or a WAV, which then announces no size, as a fault may change it."""

    def __init__(self) -> None:
        self._head: bytearray | None = bytearray()
        self._left_bytes: int | None = None  # of a WAV that states its size: what follows is no audio

    def feed(self, data: bytes) -> Iterator[Unit]:
        """See :class:`omni_bench.targets.chaos_proxy.units.Codec`."""
        if self._head is None:
            yield from self._samples(data)
            return
        self._head += data
        if (size := header_bytes(self._head)) is None:
            return
        begin, self._head = bytes(self._head), None
        if size:
            self._left_bytes = stated_size(begin[:size])
            yield Unit(with_sizes(begin[:size], None))
        yield from self._samples(begin[size:])

    def end(self) -> Iterator[Unit]:
        """See :class:`omni_bench.targets.chaos_proxy.units.Codec`."""
        if self._head:
            yield Unit(bytes(self._head), bytes(self._head))

    def error(self) -> Iterator[Unit]:
        """An error object behind the samples, as some servers write it."""
        yield Unit(json.dumps(INJECTED).encode())

    def _samples(self, data: bytes) -> Iterator[Unit]:
        if self._left_bytes is not None:
            data = data[: self._left_bytes]
            self._left_bytes -= len(data)
        if data:
            yield Unit(data, data)


class _EventCodec(ABC):
    """Server-sent events: a unit each, sent on byte by byte as it came unless a fault changes its samples."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Unit]:
        """See :class:`omni_bench.targets.chaos_proxy.units.Codec`."""
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
        """See :class:`omni_bench.targets.chaos_proxy.units.Codec`."""
        if self._bytes:
            yield from self._take(bytes(self._bytes))

    def _take(self, wire: bytes) -> Iterator[Unit]:
        text = _data_of(wire)
        yield from self._take_mark(wire) if text == END_MARK else self._take_event(wire, _object(text))

    @abstractmethod
    def _take_mark(self, wire: bytes) -> Iterator[Unit]:
        """``[DONE]``."""

    @abstractmethod
    def _take_event(self, wire: bytes, event: dict[str, Any]) -> Iterator[Unit]:
        """One event, {} for what is none."""


class SpeechEventCodec(_EventCodec):
    """``speech.audio.delta`` and ``speech.audio.done``."""

    def _take_mark(self, wire: bytes) -> Iterator[Unit]:
        yield Unit(wire)

    def _take_event(self, wire: bytes, event: dict[str, Any]) -> Iterator[Unit]:
        if event.get("type") == DELTA:
            yield _base64_unit(wire, event.get("audio"), lambda text, _: _event(wire, {**event, "audio": text}))
        else:
            is_last = event.get("type") == DONE
            yield Unit(wire, ends=is_last, last=is_last)

    def error(self) -> Iterator[Unit]:
        """``speech.audio.error``, the last event."""
        yield Unit(_event(b"", {"type": ERROR, **INJECTED}))


class ChatCodec(_EventCodec):
    """Chunks of a chat, in both dialects of the client ``openai_chat_audio``. Its text stays its own."""

    def _take_mark(self, wire: bytes) -> Iterator[Unit]:
        yield Unit(wire, ends=True, last=True)

    def _take_event(self, wire: bytes, event: dict[str, Any]) -> Iterator[Unit]:
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        audio = delta.get("audio")
        if event.get("modality") == AUDIO and delta.get("content"):
            yield _base64_unit(
                wire,
                delta["content"],
                lambda text, size: _event(wire, _with_delta(event, choice, {**delta, "content": text}, size)),
            )
        elif isinstance(audio, dict) and audio.get("data"):
            yield from self._take_audio(wire, event, choice, delta)
        else:
            yield Unit(wire, own=True)

    def _take_audio(
        self, wire: bytes, event: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any]
    ) -> Iterator[Unit]:
        """OpenAI's dialect. Words in the same chunk become one of their own: no fault of the audio may hit them."""
        audio = delta["audio"]
        if delta.get("content") or audio.get("transcript"):
            words = {name: value for name, value in audio.items() if name != "data"}
            yield Unit(_event(wire, _with_delta(event, choice, {**delta, "audio": words}, None)), own=True)
            delta = {"audio": {name: value for name, value in audio.items() if name != "transcript"}}
            wire = _event(wire, _with_delta(event, choice, delta, None))
        yield _base64_unit(
            wire,
            audio["data"],
            lambda text, size: _event(
                wire, _with_delta(event, choice, {**delta, "audio": {**delta["audio"], "data": text}}, size)
            ),
        )

    def error(self) -> Iterator[Unit]:
        """An error in the place of a chunk, and the end."""
        yield Unit(_event(b"", INJECTED))
        yield Unit(b"data: " + END_MARK.encode() + b"\n\n")


class MessageCodec:
    """Messages of the WebSocket form. ``over``: session.done has passed."""

    def __init__(self) -> None:
        self.over = False

    def feed(self, data: Wire) -> Iterator[Unit]:
        """See :class:`omni_bench.targets.chaos_proxy.units.Codec`."""
        if isinstance(data, bytes):
            yield payload_unit(data, data, bytes)
            return
        event = _object(data)
        kind = event.get("type")
        is_last = kind == "session.done"
        self.over = self.over or is_last
        if kind == "audio.chunk":
            yield _base64_unit(data, event.get("audio_b64"), lambda text, _: json.dumps({**event, "audio_b64": text}))
        else:
            yield Unit(data, ends=kind == "audio.done", last=is_last)

    def end(self) -> Iterator[Unit]:
        """See :class:`omni_bench.targets.chaos_proxy.units.Codec`."""
        return iter(())

    def error(self) -> Iterator[Unit]:
        """The message that ends a session."""
        yield Unit(json.dumps({"type": "error", "message": INJECTED["error"]["message"], **INJECTED}))


def codec_of(form: str) -> Codec:
    """A new codec of the wire form ``form``, a value of client.kind. Raises KeyError for another."""
    makers: dict[str, Callable[[], Codec]] = {
        "openai_speech": SampleCodec,
        "openai_speech_wav": SampleCodec,
        "openai_speech_sse": SpeechEventCodec,
        "openai_speech_ws": MessageCodec,
        "openai_chat_audio": ChatCodec,
    }
    return makers[form]()


def _base64_unit(wire: Wire, encoded: Any, place: Callable[[str, int], Wire]) -> Unit:
    """``place``: from another payload as base64, and its size in bytes of samples, to what is sent."""
    try:
        payload = base64.b64decode(encoded, validate=True)
    except (ValueError, TypeError):  # the client will say what is wrong with it
        return Unit(wire)

    def put(other: bytes) -> Wire:
        return place(base64.b64encode(other).decode("ascii"), len(other) - (header_bytes(other) or 0))

    return payload_unit(wire, payload, put)


def _with_delta(
    event: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any], pcm_bytes: int | None
) -> dict[str, Any]:
    """A chunk with another delta; ``pcm_bytes`` of samples are stated where their number was, None leaves it."""
    choice = {**choice, "delta": delta}
    metadata = choice.get("audio_metadata")
    if pcm_bytes is not None and isinstance(metadata, dict) and "frame_count" in metadata:
        choice["audio_metadata"] = {**metadata, "frame_count": pcm_bytes // 2}
    return {**event, "choices": [choice, *event["choices"][1:]]}


def _data_of(wire: bytes) -> str | None:
    """The data of one event, None if there is none (a comment) or it cannot be read."""
    parser = SseParser(len(wire) + 1)
    try:
        found = [*parser.feed(wire), *parser.end()]
    except WireFailure:
        return None
    return found[0].strip() if len(found) == 1 else None


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _event(like: bytes, event: dict[str, Any]) -> bytes:
    """``event`` with the lines of ``like`` that are not its data, such as its name, and without a byte order mark."""
    kept = [line for line in like.removeprefix(BYTE_ORDER_MARK).splitlines() if line and not line.startswith(b"data")]
    return b"\n".join([*kept, b"data: " + json.dumps(event).encode()]) + b"\n\n"
