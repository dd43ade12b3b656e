"""Messages between the HTTP process and the engine's process: lengths, JSON and raw arrays. Pure functions.

A message is ``<u32 length of the rest> <u8 kind> <body>``. Nothing in it can name code (no
pickle): a body is JSON with at most one array of samples or codes after it, or a report. A
report is what happened in the engine since the one before, usually the audio of one
step: the engine's counters, then items ``<u32 request> <u8 kind> <u32 frames> <u32 bytes>``
with their payloads. Requests are numbered by the HTTP process.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from omni_bench.errors import EngineError
from reference_impl.engine_api import (
    AudioChunk,
    EngineDead,
    EngineStats,
    Event,
    Failed,
    Finished,
    QueueFull,
    RequestRejected,
    SpeechRequest,
)

START, SUBMIT, CANCEL, PROFILE = 1, 2, 3, 4  # to the engine
READY, BROKEN, REPORT = 16, 17, 18  # from the engine
TAKEN, REFUSED, CHUNK, FINISHED, FAILED, PROFILED = 1, 2, 3, 4, 5, 6  # items of a report

MAX_MESSAGE_BYTES = 2**28  # far more than the longest recording or report: beyond it the stream is out of step
REPORT_BYTES = 2**20  # a report is closed at this size

_HEAD = struct.Struct("<IB")
_SIZE = struct.Struct("<I")
_ITEM = struct.Struct("<IBII")
_STATS = struct.Struct(
    "<" + "".join({"bool": "?", "int": "q", "float": "d"}[field.type] for field in fields(EngineStats))
)
_NUMBER = struct.Struct("<I")
MAX_NUMBER = 2**32 - 1


class Item(NamedTuple):
    """One event of request ``number`` in a report; ``frames`` counts for a chunk only."""

    number: int
    kind: int
    frames: int = 0
    payload: bytes = b""


def message(kind: int, body: bytes) -> bytes:
    """A whole message."""
    return _HEAD.pack(len(body) + 1, kind) + body


def missing_bytes(buffer: bytearray) -> int:
    """How many bytes may be read into ``buffer`` without going beyond its first message; at least 1."""
    if len(buffer) < _HEAD.size:
        return _HEAD.size - len(buffer)
    return max(1, _SIZE.size + _SIZE.unpack_from(buffer)[0] - len(buffer))


def take_message(buffer: bytearray) -> tuple[int, bytes] | None:
    """Remove the first whole message from ``buffer`` -> (kind, body); None if there is none yet.

    Raises EngineError for an impossible length.
    """
    if len(buffer) < _HEAD.size:
        return None
    length, kind = _HEAD.unpack_from(buffer)
    if not 1 <= length <= MAX_MESSAGE_BYTES:
        raise EngineError(f"a message of {length} bytes between the server and its engine; at most {MAX_MESSAGE_BYTES}")
    end = _SIZE.size + length
    if len(buffer) < end:
        return None
    with memoryview(buffer) as view:
        body = bytes(view[_HEAD.size : end])
    del buffer[:end]
    return kind, body


def json_message(kind: int, value: dict[str, Any], blob: bytes = b"", prefix: bytes = b"") -> bytes:
    """A message of ``prefix``, JSON and raw bytes after it."""
    return message(kind, prefix + with_blob(value, blob))


def with_blob(value: dict[str, Any], blob: bytes = b"") -> bytes:
    """JSON with its length before it and raw bytes after it."""
    text = json.dumps(value).encode()
    return _SIZE.pack(len(text)) + text + blob


def split_blob(body: bytes) -> tuple[dict[str, Any], bytes]:
    """The inverse of :func:`with_blob`."""
    (size,) = _SIZE.unpack_from(body)
    end = _SIZE.size + size
    return json.loads(body[_SIZE.size : end]), body[end:]


def submit_message(number: int, request: SpeechRequest) -> bytes:
    """A request; its recording follows as float32."""
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    samples = values.pop("reference_audio")
    blob = b"" if samples is None else np.asarray(samples, dtype="<f4").tobytes()
    return json_message(SUBMIT, values | {"has_reference": samples is not None}, blob, _NUMBER.pack(number))


def read_submit(body: bytes) -> tuple[int, SpeechRequest]:
    """The inverse of :func:`submit_message`, without its head."""
    (number,) = _NUMBER.unpack_from(body)
    values, blob = split_blob(body[_NUMBER.size :])
    samples = np.frombuffer(blob, "<f4") if values.pop("has_reference") else None
    return number, SpeechRequest(**values, reference_audio=samples)


def cancel_message(number: int) -> bytes:
    """Cancel request ``number``."""
    return message(CANCEL, _NUMBER.pack(number))


def read_cancel(body: bytes) -> int:
    """The inverse of :func:`cancel_message`, without its head."""
    return _NUMBER.unpack(body)[0]


def event_item(number: int, event: Event) -> Item:
    """An event as an item of a report."""
    if isinstance(event, AudioChunk):
        return Item(number, CHUNK, event.frames, event.pcm)
    if isinstance(event, Failed):
        return Item(number, FAILED, 0, event.message.encode(errors="backslashreplace"))
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    if event.codes is None:
        return Item(number, FINISHED, 0, with_blob(values))
    codes = np.ascontiguousarray(event.codes, dtype="<i2")
    return Item(number, FINISHED, 0, with_blob(values | {"codes": codes.shape}, codes.tobytes()))


def read_event(item: Item) -> Event:
    """The inverse of :func:`event_item`."""
    if item.kind == CHUNK:
        return AudioChunk(item.payload, item.frames)
    if item.kind == FAILED:
        return Failed(item.payload.decode())
    values, blob = split_blob(item.payload)
    if values["codes"] is not None:
        values["codes"] = np.frombuffer(blob, "<i2").reshape(values["codes"])
    return Finished(**values)


_REFUSALS: dict[str, type[EngineError]] = {kind.__name__: kind for kind in (QueueFull, EngineDead)}


def refusal_item(number: int, error: EngineError) -> Item:
    """Why the engine did not take a request."""
    values = {"error": type(error).__name__, "message": str(error), "param": getattr(error, "param", None)}
    return Item(number, REFUSED, 0, with_blob(values))


def read_refusal(item: Item) -> EngineError:
    """The inverse of :func:`refusal_item`."""
    values, _ = split_blob(item.payload)
    if values["error"] == RequestRejected.__name__:
        return RequestRejected(values["message"], values["param"])
    return _REFUSALS.get(values["error"], EngineError)(values["message"])


def report_message(stats: EngineStats, items: Iterable[Item]) -> bytes:
    """A report."""
    parts = [b"", _STATS.pack(*(getattr(stats, name) for name in EngineStats.__dataclass_fields__))]
    for item in items:
        parts.append(_ITEM.pack(item.number, item.kind, item.frames, len(item.payload)))
        parts.append(item.payload)
    parts[0] = _HEAD.pack(1 + sum(map(len, parts)), REPORT)
    return b"".join(parts)


def read_report(body: bytes) -> tuple[EngineStats, Iterator[Item]]:
    """The inverse of :func:`report_message`, without its head."""
    return EngineStats(*_STATS.unpack_from(body)), _items(body)


def _items(body: bytes) -> Iterator[Item]:
    at = _STATS.size
    while at < len(body):
        number, kind, frames, size = _ITEM.unpack_from(body, at)
        at += _ITEM.size
        yield Item(number, kind, frames, body[at : at + size])
        at += size
