"""POST /v1/chat/completions: text from the stand-in, and its speech from the engine, as one answer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

from aiohttp import web

from reference_impl.engine_api import AudioChunk, Event, Failed, Finished
from reference_impl.http.chat_framing import ChatWire
from reference_impl.http.chat_request import ChatCall, parse_chat_call
from reference_impl.http.chat_text import paced_reply
from reference_impl.http.errors import ApiError
from reference_impl.http.event_stream import EventStream
from reference_impl.http.service import SpeechService
from reference_impl.http.stream_response import SpeechStream, breaking_off, write


class ChatRoute:
    """Answers chats. ``token_ms`` is the pace of the text; see :func:`reference_impl.http.chat_text.paced_reply`.

    The engine gets the whole reply before the first token is sent, so that it can still be refused
    with a status (429, 400, 503), as in the speech form and with the same samples. Its audio is
    passed on once the first sentence has been written.
    """

    def __init__(self, service: SpeechService, token_ms: float):
        self._service, self._token_ms = service, token_ms

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The handler. See :mod:`reference_impl.http.chat_request` for the fields."""
        started_s = time.perf_counter()
        service, engine = self._service, self._service.ready()
        body = await service.read_body(request)
        call = parse_chat_call(body, engine)
        del body
        async with contextlib.AsyncExitStack() as stack:
            events = None
            if call.speech is not None:
                events = await stack.enter_async_context(await self._submit(call))
                call = replace(call, speech=replace(call.speech, ref_audio=None))  # megabytes of text, no longer needed
            elif not engine.stats().alive:
                raise ApiError(503, "the engine has ended", code="engine_dead", headers={"Retry-After": "1"})
            parts = await stack.enter_async_context(
                contextlib.aclosing(paced_reply(call.tokens, self._token_ms, events.next if events else None))
            )
            answer = _Answer(request, call, service, events, started_s)
            return await (answer.stream(parts) if call.stream else answer.whole(parts))

    async def _submit(self, call: ChatCall) -> EventStream:
        """The engine's side of the call, not yet entered."""
        assert call.speech is not None
        return _ChatEvents(self._service.ready(), await self._service.job(call.speech), self._service.keep_codes)


class _ChatEvents(EventStream):
    """Names the field of a chat where the engine refuses the input of a speech."""

    async def __aenter__(self) -> EventStream:
        try:
            return await super().__aenter__()
        except ApiError as error:
            if error.param == "input":
                error.param = "messages"
            raise


class _Answer:
    """One answer while it is given."""

    def __init__(
        self, request: web.Request, call: ChatCall, service: SpeechService, events: EventStream | None, started_s: float
    ):
        self._request, self._call, self._events = request, call, events
        self._request_id, rate_hz = service.request_id(), service.ready().sample_rate_hz
        self._wire = ChatWire(call, f"chatcmpl-{self._request_id}", int(time.time()), rate_hz)
        self._meter = service.metrics.meter(rate_hz, started_s)

    def _headers(self) -> dict[str, str]:
        seed = {} if self._call.speech is None else {"x-seed": str(self._call.speech.seed)}
        return {"x-request-id": self._request_id, **seed}

    async def whole(self, parts: AsyncIterator[str | Event]) -> web.Response:
        """Everything at once. Raises ApiError for a failure."""
        pcm: list[bytes] = []
        finished = None
        async for part in parts:
            if isinstance(part, AudioChunk):
                self._meter.sent(len(part.pcm))
                pcm.append(part.pcm)
            elif not isinstance(part, str):
                finished = self._finished(part)
        return web.json_response(self._wire.whole(b"".join(pcm), finished), headers=self._headers())

    async def stream(self, parts: AsyncIterator[str | Event]) -> web.StreamResponse:
        """Chunk by chunk as they are made."""
        response = SpeechStream(headers={**self._headers(), "Cache-Control": "no-cache"})
        response.content_type = "text/event-stream"
        await response.prepare(self._request)
        async with (
            breaking_off(self._request, response, self._request_id),
            contextlib.aclosing(self._chunks(parts)) as chunks,
        ):
            async for data in chunks:
                await write(self._request, response, data)
            await response.write_eof()
        return response

    async def _chunks(self, parts: AsyncIterator[str | Event]) -> AsyncGenerator[bytes, None]:
        finished = None
        # the role goes out with the first token, as from vLLM: some clients take it for that
        head = self._wire.role()
        try:
            async for part in parts:
                if isinstance(part, str):
                    if self._call.shows_text:
                        yield head + self._wire.text(part)
                        head = b""
                elif isinstance(part, AudioChunk):
                    yield head + self._wire.audio(part.pcm)
                    head = b""
                    self._meter.sent(len(part.pcm))
                else:
                    finished = self._finished(part)
        except ApiError as error:
            yield self._wire.failure(error.body()["error"])
            return
        yield head + self._wire.end(finished)

    def _finished(self, event: Event) -> Finished:
        """The clean end of the speech. Raises ApiError for any other."""
        if isinstance(event, Failed):
            assert self._events is not None
            raise self._events.error(event)
        assert isinstance(event, Finished)
        self._meter.finished()
        return event
