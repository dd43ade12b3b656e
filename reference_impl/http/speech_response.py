"""The answer to one request of the speech form: a whole file, or a stream."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from omni_bench.errors import EngineError
from reference_impl.engine_api import AudioChunk, Event, Failed
from reference_impl.http.event_stream import EventStream
from reference_impl.http.framing import CONTENT_TYPES, Framer, RawFramer, SseFramer, audio_file, usage
from reference_impl.http.metrics import RequestMeter
from reference_impl.http.speech_request import SpeechCall
from reference_impl.http.stream_response import SpeechStream, breaking_off, write


@dataclass(frozen=True)
class Delivery:
    """Answers one request with its speech."""

    request: web.Request
    call: SpeechCall
    headers: dict[str, str]
    sample_rate_hz: int
    meter: RequestMeter

    async def run(self, events: EventStream) -> web.StreamResponse:
        """Wait for the first event, so that an early failure still gets a status, then deliver."""
        first = await events.next()
        if isinstance(first, Failed):
            raise events.error(first)
        return await (self._file(events, first) if self.call.delivery == "file" else self._stream(events, first))

    async def _file(self, events: EventStream, event: Event) -> web.Response:
        parts = []
        while isinstance(event, AudioChunk):
            parts.append(event.pcm)
            event = await events.next()
        if isinstance(event, Failed):
            raise events.error(event)
        pcm = b"".join(parts)
        tokens = {f"x-{name.replace('_', '-')}": str(count) for name, count in usage(event).items()}
        self.meter.sent(len(pcm))
        self.meter.finished()
        return web.Response(
            body=audio_file(pcm, self.call.response_format, self.sample_rate_hz),
            content_type=CONTENT_TYPES[self.call.response_format],
            headers={**self.headers, **tokens},
        )

    async def _stream(self, events: EventStream, event: Event) -> web.StreamResponse:
        make = RawFramer if self.call.delivery == "audio" else SseFramer
        framer: Framer = make(self.call.response_format, self.sample_rate_hz)
        response = SpeechStream(headers={**self.headers, "Cache-Control": "no-cache"})
        response.content_type = framer.content_type
        await response.prepare(self.request)
        async with breaking_off(self.request, response, self.headers["x-request-id"]):
            await self._write_events(events, event, framer, response)
        return response

    async def _write_events(
        self, events: EventStream, event: Event, framer: Framer, response: web.StreamResponse
    ) -> None:
        while isinstance(event, AudioChunk):
            await write(self.request, response, framer.audio(event.pcm))
            self.meter.sent(len(event.pcm))
            event = await events.next()
        if isinstance(event, Failed):
            in_band = framer.failure(events.error(event).body()["error"])
            if in_band is None:
                raise EngineError(event.message)
            await write(self.request, response, in_band)
        else:
            await write(self.request, response, framer.done(event))
            self.meter.finished()
        await response.write_eof()
