"""The WebSocket form of speech: /v1/audio/speech/stream, with text in and binary frames of samples out.

The client sends session.config, input.text and input.done; the server answers with audio.start, binary
frames and audio.done for each sentence, then session.done, which ends the request. The connection is
made for the request and counts from ``started`` on: an upgraded connection cannot be kept for another protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import aiohttp

from omni_bench.load.clients.decoder import (
    AudioPart,
    Part,
    UnknownEvents,
    WireFailure,
    decode_base64,
    event_limit_bytes,
    parse_object,
    reject_error,
    stated_format,
    stated_id,
)
from omni_bench.load.clients.exchange import Record, RequestContext, exchange
from omni_bench.load.clients.responses import one_line, said_in_headers, stated_rate
from omni_bench.load.clients.session import WireOptions
from omni_bench.load.clients.speech_body import extra_fields, speech_fields
from omni_bench.load.clients.units import INJECTED, Unit, Wire, base64_unit, json_object, payload_unit
from omni_bench.load.clients.urls import redirect_advice
from omni_bench.load.clients.wav import AudioPayload
from omni_bench.load.clients.wire_form import WireForm, WireRecording
from omni_bench.records.timeline import Timeline

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt

CLOSE_TIMEOUT_S = 1.0  # how long a server may take to answer the close of a connection that is not needed any more
TOO_BIG_CODE = 1009  # RFC 6455, section 7.4.1
CONFIG, TEXT, DONE = "session.config", "input.text", "input.done"


def build_body(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """The messages of one request by their type, without ``type``; ``extra_body`` goes last into session.config.

    Raises DatasetError and ConfigError as :func:`omni_bench.load.clients.openai_speech.build_body` does.
    """
    form = {"response_format": "pcm", "stream_audio": True}
    config = {**speech_fields(prompt, client, seed), **form, **extra_fields(client)}
    return {CONFIG: config, TEXT: {"text": prompt.text}, DONE: {}}


def encode_messages(body: dict[str, Any]) -> bytes:
    """The messages, one a line."""
    return b"\n".join(json.dumps({"type": kind, **fields}).encode() for kind, fields in body.items())


class SpeechMessages:
    """The decoder of one answer, message by message."""

    completion_tokens: int | None = None

    def __init__(self, options: WireOptions, stated_rate_hz: int | None = None) -> None:
        self._default_rate_hz = options.sample_rate_hz
        self._payload = AudioPayload(options.max_audio_s)
        self._payload.state_rate(stated_rate_hz, "a header")
        self._format: str | None = None
        self._in_audio = self._heard = False
        self.unknown = UnknownEvents()
        self.done = False
        self.server_id: str | None = None

    @property
    def sample_rate_hz(self) -> int:
        """As the messages say, or else as configured."""
        return self._payload.sample_rate_hz or self._default_rate_hz

    @property
    def states_rate(self) -> bool:
        """See :class:`omni_bench.load.clients.decoder.ResponseFacts`."""
        return self._payload.sample_rate_hz is not None

    @property
    def unknown_events(self) -> str | None:
        """See :class:`omni_bench.load.clients.decoder.ResponseFacts`."""
        return str(self.unknown) or None

    def feed(self, message: str | bytes) -> Iterator[Part]:
        """The parts in a text or a binary message. Raises WireFailure."""
        if self.done:
            raise WireFailure("content_type", "a message after session.done")
        if isinstance(message, bytes):
            yield from self._take_audio(message, "a binary message")
            return
        event = parse_object(message, "a message")
        kind = event.get("type")
        if kind == "audio.done" and event.get("error"):
            raise WireFailure("in_band_error", "audio.done says that the sentence failed")
        reject_error(event, where="the server says")
        self._payload.state_rates(event, str(kind)[:40])
        self.server_id = self.server_id or stated_id(event.get("request_id", event.get("id")))
        if kind == "audio.start":
            self._start(event)
        elif kind == "audio.chunk":  # samples with the times of words, as text
            yield from self._take_audio(decode_base64(event.get("audio_b64"), "audio_b64"), kind)
        elif kind == "audio.done":
            yield from self._end_audio(kind, event.get("total_bytes"))
        elif kind == "session.done":
            if self._in_audio:
                raise WireFailure("disconnected", "session.done before audio.done")
            self.unknown.refuse_if_all(heard=self._heard)
            self.done = True
        else:
            self.unknown.note(kind)

    def _start(self, event: dict[str, Any]) -> None:
        if self._in_audio:
            raise WireFailure("content_type", "audio.start within an audio that has not ended")
        if event.get("channels", 1) not in (1, None):
            raise WireFailure("content_type", f"{str(event['channels'])[:40]} channels; only mono can be judged")
        self._format = stated_format(event.get("format"), "audio.start")
        self._in_audio = True

    def _take_audio(self, data: bytes, what: str) -> Iterator[Part]:
        if not self._in_audio:
            raise WireFailure("content_type", f"{what} outside of audio.start and audio.done")
        self._heard = True
        pcm = self._payload.decode(data, self._format)
        if pcm:
            yield AudioPart(pcm)

    def _end_audio(self, kind: str, stated_bytes: object) -> Iterator[Part]:
        if not self._in_audio:
            raise WireFailure("content_type", f"{kind} without audio.start")
        self._in_audio = False
        if pcm := self._payload.end(stated_bytes, kind):
            yield AudioPart(pcm)


async def converse(context: RequestContext) -> tuple[Timeline, list[bytes]]:
    """Make one request; returns its timeline and the audio messages, in order. The timeline carries an error."""

    async def receive(record: Record) -> None:
        try:
            socket = await context.session.ws_connect(
                context.url, headers=context.headers, max_msg_size=event_limit_bytes(context.options)
            )
        except aiohttp.WSServerHandshakeError as refusal:
            record.headers(refusal.status, None)
            place = (refusal.headers or {}).get("Location")
            where = f" to {one_line(place)}; {redirect_advice(context.url, place)}" if place is not None else ""
            where += said_in_headers(refusal.headers or {})
            raise WireFailure("http_status", f"HTTP {refusal.status}{where}: no WebSocket: {refusal.message}") from None
        try:
            headers = getattr(socket, "upgrade_headers", {})
            record.headers(101, headers.get("x-request-id"))
            rate_hz, problem = stated_rate(headers)
            if problem is not None:
                raise WireFailure("content_type", problem)
            for line in context.payload.split(b"\n"):
                await socket.send_str(line.decode())
            await _read(socket, record, SpeechMessages(context.options, rate_hz))
        except BaseException:
            record.failed_ns = context.clock()  # not after the close below, which may take its time
            raise
        finally:
            await _close(socket)

    return await exchange(context, receive)


async def _close(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Say that nothing more is needed, and do not wait long for the server to agree."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await socket.close()


async def _read(socket: aiohttp.ClientWebSocketResponse, record: Record, decoder: SpeechMessages) -> None:
    """Read messages until session.done. Raises WireFailure."""
    record.decoder = decoder
    while not decoder.done:
        message = await socket.receive()
        if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            record.take(decoder.feed(message.data), record.byte())
            continue
        if message.type is aiohttp.WSMsgType.ERROR:
            code = getattr(message.data, "code", None)
            kind = "too_large" if code == TOO_BIG_CODE else "disconnected"
            raise WireFailure(kind, f"the WebSocket broke: {message.data}")
        code = message.data if message.type is aiohttp.WSMsgType.CLOSE else socket.close_code
        reason = f" ({message.extra})" if message.extra else ""
        what = f"the WebSocket was closed with code {code}{reason} before session.done"
        raise WireFailure("disconnected", what + decoder.unknown.also)
    record.ended()


class MessageCodec:
    """Messages of the WebSocket form."""

    def feed(self, data: Wire) -> Iterator[Unit]:
        """See :class:`omni_bench.load.clients.units.Codec`."""
        if isinstance(data, bytes):
            yield payload_unit(data, data, bytes)
            return
        event = json_object(data)
        kind = event.get("type")
        if kind == "audio.chunk":
            yield base64_unit(data, event.get("audio_b64"), lambda text, _: json.dumps({**event, "audio_b64": text}))
        elif kind == "audio.done":  # faults change the size that it states
            stated = {name: value for name, value in event.items() if name != "total_bytes"}
            yield Unit(data if len(stated) == len(event) else json.dumps(stated), ends=True)
        else:
            yield Unit(data, last=kind == "session.done")

    def end(self) -> Iterator[Unit]:
        """See :class:`omni_bench.load.clients.units.Codec`."""
        return iter(())

    def error(self) -> Iterator[Unit]:
        """The message that ends a session."""
        yield Unit(json.dumps({"type": "error", "message": INJECTED["error"]["message"], **INJECTED}))


FORM = WireForm(
    name="openai_speech_ws",
    what="WebSocket /v1/audio/speech/stream, a connection a request",
    path="/v1/audio/speech/stream",
    build_body=build_body,
    encode=encode_messages,
    converse=converse,
    codec=MessageCodec,
    own_keys={
        "split_granularity": "servers ignore it there, as the text comes whole; valid with client=openai_speech_ws: "
        "none, sentence, clause"
    },
    recordings={
        "socket_pcm": WireRecording(),
        "socket_wav": WireRecording({"response_format": "wav"}),
        "socket_error": WireRecording(error="in_band_error"),
    },
)
