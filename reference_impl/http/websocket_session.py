"""GET /v1/audio/speech/stream: text comes in over a WebSocket as it is written, speech goes out.

For every utterance the server sends ``audio.start``, its samples as binary frames, and
``audio.done``; for every input.done a ``session.done``. The connection then waits for more text.
An ``error`` message ends the session. What the client may send is in
:mod:`reference_impl.http.websocket_request`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from contextvars import ContextVar
from typing import Any

import numpy as np
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from reference_impl.engine_api import Failed, Finished
from reference_impl.http import stream_response
from reference_impl.http.errors import ApiError, bad_request
from reference_impl.http.event_stream import EventStream
from reference_impl.http.framing import RawFramer, usage
from reference_impl.http.metrics import RequestMeter
from reference_impl.http.service import SpeechService
from reference_impl.http.speech_request import SpeechCall
from reference_impl.http.websocket_request import (
    Close,
    Config,
    Done,
    Message,
    Text,
    TextBuffer,
    parse_message,
    utterance,
)

log = logging.getLogger("reference_impl.http.server")

IDLE_TIMEOUT_S = 60.0  # how long the next message is waited for
CLOSE_TIMEOUT_S = 2.0
# Messages that wait while an utterance is spoken; more stay in the socket, and its sender waits.
MAX_WAITING_MESSAGES = 16
answered: ContextVar[bool] = ContextVar("answered", default=False)
"""Of the request that is handled: whether a WebSocket said all it was asked for, so that its client may go."""
MAX_KEPT_CODES = 64  # utterances whose codes can be fetched


class SocketRoute:
    """Answers WebSockets; at most ``max_message_bytes`` come in one message."""

    def __init__(self, service: SpeechService, max_message_bytes: int):
        self._service, self._max_message_bytes = service, max_message_bytes

    async def answer(self, request: web.Request) -> web.WebSocketResponse:
        """The handler. Raises ApiError: 426 for a request that is not a handshake, 503."""
        self._service.ready()
        # never compressed: what comes in cannot be larger than what was sent
        socket = web.WebSocketResponse(
            timeout=CLOSE_TIMEOUT_S, max_msg_size=self._max_message_bytes, compress=False, autoping=True
        )
        if not socket.can_prepare(request).ok:
            message = "/v1/audio/speech/stream is a WebSocket: send a handshake (Upgrade: websocket)"
            raise ApiError(426, message, code="upgrade_required", headers={"Upgrade": "websocket"})
        socket.headers["x-request-id"] = self._service.request_id()
        await socket.prepare(request)
        session = _Session(socket, self._service)
        try:
            await session.run()
        finally:
            answered.set(session.answered)
        return socket


class _Session:
    """One connection, from its first message to its end."""

    def __init__(self, socket: web.WebSocketResponse, service: SpeechService):
        self._socket, self._service = socket, service
        self._request_id = service.request_id()
        self._messages: asyncio.Queue[Message | ApiError] = asyncio.Queue(MAX_WAITING_MESSAGES)
        self._config: Config | None = None
        self._buffer = TextBuffer("none")
        self.answered = False
        self._flush = self._sentence = self._spoken = 0
        self._codes: deque[Any] = deque(maxlen=MAX_KEPT_CODES)

    async def run(self) -> None:
        """Serve until either side closes."""
        reading = asyncio.create_task(self._read())
        speaking = asyncio.create_task(self._speak_all())
        try:
            # a client that has gone ends the reading: the rest need not be spoken
            await asyncio.wait((reading, speaking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            speaking.cancel()
            await asyncio.gather(reading, speaking, return_exceptions=True)
        code: int = WSCloseCode.GOING_AWAY
        if not speaking.cancelled():
            code = speaking.result()
        elif not reading.cancelled() and (error := reading.exception()) is not None:
            log.error("%s: WebSocket broken off", self._request_id, exc_info=error)
            code = WSCloseCode.INTERNAL_ERROR
        await self._socket.close(code=code)

    async def _read(self) -> None:
        """Queue checked messages until the connection closes; those after an invalid or the last one are dropped."""
        last = False
        async for message in self._socket:
            if last:
                continue
            checked = self._checked(message)
            await self._messages.put(checked)
            last = isinstance(checked, ApiError | Close)

    def _checked(self, message: WSMessage) -> Message | ApiError:
        try:
            if message.type != WSMsgType.TEXT:
                raise bad_request("messages must be JSON text, not binary", None, "invalid_type")
            engine = self._service.ready()
            return parse_message(message.data, engine)
        except ApiError as error:
            return error

    async def _speak_all(self) -> int:
        """Do what the messages say, in their order; returns the code to close with."""
        try:
            while not isinstance(message := await self._next(), Close):
                await self._handle(message)
            return WSCloseCode.OK
        except ApiError as error:
            await self._say_error(error)
            return WSCloseCode.INTERNAL_ERROR if error.status >= 500 else WSCloseCode.POLICY_VIOLATION
        except TimeoutError:
            log.warning("%s: WebSocket broken off: the client does not read", self._request_id)
            return WSCloseCode.POLICY_VIOLATION
        except ConnectionError:  # the client has gone
            return WSCloseCode.GOING_AWAY
        except Exception:
            log.exception("%s: WebSocket broken off", self._request_id)
            message = f"internal error; see the server's log for {self._request_id}"
            await self._say_error(ApiError(500, message, code="internal"))
            return WSCloseCode.INTERNAL_ERROR

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                message = await self._messages.get()
        except TimeoutError:
            raise ApiError(408, f"no message within {IDLE_TIMEOUT_S:g} s", code="timeout") from None
        if isinstance(message, ApiError):
            raise message
        return message

    async def _handle(self, message: Message) -> None:
        if isinstance(message, Config):
            self._config, self._buffer = message, TextBuffer(message.split)
        elif self._config is None:
            raise bad_request("the first message must be session.config", "type")
        elif isinstance(message, Text):
            self.answered = False
            for text in self._buffer.feed(message.text):
                await self._speak(text)
        elif isinstance(message, Done):
            for text in self._buffer.flush():
                await self._speak(text)
            await self._say("session.done", total_sentences=self._sentence)
            self.answered = True
            self._flush, self._sentence = self._flush + 1, 0

    async def _speak(self, text: str) -> None:
        """One utterance. Raises ApiError for a failure."""
        assert self._config is not None
        call = utterance(self._config, text, self._spoken)
        job = await self._service.job(call)
        engine = self._service.ready()
        meter = self._service.metrics.meter(engine.sample_rate_hz, time.perf_counter())
        async with EventStream(engine, job, self._keep_codes) as events:
            finished = await self._send_audio(events, call, meter)
        meter.finished()
        total_bytes = meter.pcm_bytes
        await self._say("audio.done", sentence_index=self._sentence, total_bytes=total_bytes, usage=usage(finished))
        self._spoken, self._sentence = self._spoken + 1, self._sentence + 1

    async def _send_audio(self, events: EventStream, call: SpeechCall, meter: RequestMeter) -> Finished:
        """The utterance's own messages but the last; returns its clean end."""
        rate_hz = self._service.ready().sample_rate_hz
        framer = RawFramer(call.response_format, rate_hz)
        start = {"sentence_text": call.text, "format": call.response_format, "sample_rate": rate_hz, "channels": 1}
        event, begun = await events.next(), False
        while True:
            if isinstance(event, Failed):
                raise _Broken(events.error(event), meter.pcm_bytes > 0)
            if not begun:
                await self._say("audio.start", sentence_index=self._sentence, seed=call.seed, **start)
                begun = True
            if isinstance(event, Finished):
                if last := framer.done(event):
                    await self._send(last)
                return event
            await self._send(framer.audio(event.pcm))
            meter.sent(len(event.pcm))
            event = await events.next()

    def _keep_codes(self, finished: Finished) -> None:
        """The codes of an input.done are those of its last utterances, concatenated."""
        if finished.codes is None:
            return
        if self._sentence == 0:
            self._codes.clear()
        self._codes.append(finished.codes)
        codes = np.concatenate(self._codes)
        self._service.keep_codes(Finished(finished.reason, len(codes), finished.prompt_tokens, codes))

    async def _say(self, kind: str, **fields: Any) -> None:
        await self._send(json.dumps({"type": kind, "utterance_index": self._flush, **fields}))

    async def _say_error(self, error: ApiError) -> None:
        """Send the error, if the client is still connected."""
        partial = {"partial_audio": True, "action": "discard"} if isinstance(error, _Broken) and error.partial else {}
        body = {**error.body()["error"], **partial}
        try:
            await self._say("error", message=str(error), error=body, **partial)
        except (ConnectionError, TimeoutError):
            log.info("%s: the client left before it got the error: %s", self._request_id, error)

    async def _send(self, data: str | bytes) -> None:
        async with asyncio.timeout(stream_response.WRITE_TIMEOUT_S):
            await (self._socket.send_str(data) if isinstance(data, str) else self._socket.send_bytes(data))


class _Broken(ApiError):
    """A failure within an utterance; ``partial``: some of its audio has been sent."""

    def __init__(self, error: ApiError, partial: bool):
        super().__init__(error.status, str(error), code=error.code, param=error.param, headers=error.headers)
        self.partial = partial
