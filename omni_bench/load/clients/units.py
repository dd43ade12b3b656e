"""An answer in pieces, whatever the wire form, and which of their bytes are samples: what the chaos proxy works on.

A codec takes the wire of one form apart into :class:`Unit`; a fault (:mod:`omni_bench.targets.chaos_proxy`) leaves
units out, repeats or changes them; what is sent is the ``wire`` of each. Unchanged units are sent as received.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Protocol, Union

from omni_bench.load.clients.wav import HEADER_LIMIT_BYTES, RIFF_BYTES, UNKNOWN_SIZE_FROM, begins_wav

UNKNOWN_SIZE = 0xFFFFFFFF
SAMPLE_WIDTH_BYTES = 2
INJECTED: dict[str, Any] = {
    "error": {"message": "injected fault: in_band_error", "type": "server_error", "code": "injected"}
}
"""The error object of a stream that ends by one."""

Wire = Union[bytes, str]
"""Some of a body, or one message of a WebSocket (text or binary)."""


@dataclass(frozen=True)
class Unit:
    """One piece of an answer. ``wire``: as it is sent. ``pcm``: its samples, b"" if it holds none.

    ``encode``: from other samples to what is sent in the place of ``wire``. ``ends``: it says that the audio is
    over, and ``last``: that the answer is, so that a client may leave. ``own``: it stays with its request where two
    requests get each other's audio, as the text of a chat does.
    """

    wire: Wire
    pcm: bytes = b""
    encode: Callable[[bytes], Wire] = bytes
    ends: bool = False
    last: bool = False
    own: bool = False

    def with_pcm(self, pcm: bytes) -> Unit:
        """The same with other samples."""
        return replace(self, pcm=pcm, wire=self.encode(pcm))


Units = AsyncIterator[Unit]


class Codec(Protocol):
    """Takes one answer apart. Used once; what it does not understand becomes a unit without samples."""

    def feed(self, data: Any) -> Iterator[Unit]:
        """The units that ``data`` completes."""

    def end(self) -> Iterator[Unit]:
        """What is left at the end of the answer."""

    def error(self) -> Iterator[Unit]:
        """What the form says instead of the rest when it has failed."""


async def units_of(codec: Codec, parts: AsyncIterator[Any]) -> Units:
    """The units of an answer that comes in ``parts``, which are closed with it."""
    async with aclosing(parts):
        async for data in parts:
            for unit in codec.feed(data):
                yield unit
        for unit in codec.end():
            yield unit


def header_bytes(data: bytes | bytearray) -> int | None:
    """How many bytes stand before the samples: 0 where no WAV begins, None while it is too early to say."""
    begins = begins_wav(data)
    if not begins:
        return None if begins is None else 0
    at = RIFF_BYTES
    while len(data) >= at + 8:
        if data[at : at + 4] == b"data":
            return at + 8
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8 + size + size % 2
    return 0 if at > HEADER_LIMIT_BYTES else None


def stated_size(header: bytes) -> int | None:
    """The bytes of samples that a WAV header announces, None if it does not know them."""
    size = int.from_bytes(header[-4:], "little")
    return size if 0 < size < UNKNOWN_SIZE_FROM else None


def with_sizes(header: bytes, data_bytes: int | None) -> bytes:
    """A WAV header that announces ``data_bytes`` of samples, None for as many as come."""
    riff = UNKNOWN_SIZE if data_bytes is None else len(header) - 8 + data_bytes
    data = UNKNOWN_SIZE if data_bytes is None else data_bytes
    return header[:4] + struct.pack("<I", riff) + header[8:-4] + struct.pack("<I", data)


def payload_unit(wire: Wire, payload: bytes, place: Callable[[bytes], Wire]) -> Unit:
    """The unit of an event's or a message's audio: bare samples, or a container of its own.

    ``place``: from another payload to what is sent. Half a header passes as it is.
    """
    size = header_bytes(payload)
    if size is None:
        return Unit(wire)
    header = payload[:size]
    stated = stated_size(header) if header else None
    pcm = payload[size:] if stated is None else payload[size : size + stated]
    if not pcm:
        return Unit(wire)

    def encode(other: bytes) -> Wire:
        container = with_sizes(header, None if stated is None else len(other)) if header else b""
        return place(container + other)

    return Unit(wire, pcm, encode)


def base64_unit(wire: Wire, encoded: Any, place: Callable[[str, int], Wire]) -> Unit:
    """``place``: from another payload as base64, and its size in bytes of samples, to what is sent."""
    try:
        payload = base64.b64decode(encoded, validate=True)
    except (ValueError, TypeError):  # the client will say what is wrong with it
        return Unit(wire)

    def put(other: bytes) -> Wire:
        return place(base64.b64encode(other).decode("ascii"), len(other) - (header_bytes(other) or 0))

    return payload_unit(wire, payload, put)


def json_object(text: str | None) -> dict[str, Any]:
    """The JSON object in ``text``, {} if there is none: the client will say what is wrong with it."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
