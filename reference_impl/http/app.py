"""The aiohttp application: routes, request ids, errors in one shape, counts."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import time
import uuid
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from omni_bench.errors import ConfigError
from reference_impl.engine_api import EngineLike, Finished, SpeechRequest
from reference_impl.http.chat_response import ChatRoute
from reference_impl.http.errors import ApiError, bad_request, from_http_exception, shown, unavailable
from reference_impl.http.finished_codes import MAX_REQUESTS, FinishedCodes
from reference_impl.http.metrics import ServerMetrics
from reference_impl.http.reference_audio import decode_reference
from reference_impl.http.speech_request import TINY_VOICE, SpeechCall, parse_speech_call
from reference_impl.http.speech_response import Delivery, EventStream
from reference_impl.http.websocket_session import SocketRoute
from reference_impl.settings import DEFAULT_CHAT_TOKEN_MS, MAX_CHAT_TOKEN_MS

log = logging.getLogger("reference_impl.http.server")

MAX_BODY_BYTES = 32 * 2**20  # a 30 s reference recording, base64, many times over
BODY_TIMEOUT_S = 60.0
KEEPALIVE_TIMEOUT_S = 3600.0  # a load client's pool may rest between two levels
# For the counts only: nobody reads the first, and the second was announced as a 200.
CLIENT_CLOSED_REQUEST = 499
BROKEN_OFF = 500
ROUTES = (
    "POST /v1/audio/speech, /v1/chat/completions, GET /v1/audio/speech/stream, /v1/audio/speech/{request_id}/codes, "
    "/v1/models, /v1/audio/voices, /health, /metrics"
)
_request_id: ContextVar[str] = ContextVar("request_id")  # each request is a task of its own
_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class SpeechServer:
    """State and handlers. ``engine`` is None while it loads; ``status`` tells why."""

    def __init__(self, engine: EngineLike | None, chat_token_ms: float = DEFAULT_CHAT_TOKEN_MS):
        self.engine = engine
        self._chat_token_ms = chat_token_ms
        self.status = "loading" if engine is None else "ok"
        self._created_s = int(time.time())
        self.measured = ServerMetrics(lambda: self.engine)
        self._sequence = itertools.count(1)
        self._told_ignored: set[str] = set()
        self._codes = FinishedCodes()

    def set_engine(self, engine: EngineLike) -> None:
        """Loading is done: take requests."""
        self.engine, self.status = engine, "ok"

    def routes(self) -> list[web.RouteDef]:
        """Every route."""
        return [
            web.post("/v1/audio/speech", self.speech),
            web.get("/v1/audio/speech/stream", SocketRoute(self, MAX_BODY_BYTES).answer),
            web.post("/v1/chat/completions", ChatRoute(self, self._chat_token_ms).answer),
            web.get("/v1/audio/speech/{request_id}/codes", self.codes),
            web.get("/v1/models", self.models),
            web.get("/v1/audio/voices", self.voices),
            web.get("/health", self.health),
            web.get("/metrics", self.metrics),
        ]

    async def speech(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/audio/speech. See :mod:`reference_impl.http.speech_request` for the fields."""
        started_s = time.perf_counter()
        engine = self.ready()
        body = await self.read_body(request)
        can = getattr(engine, "capabilities", TINY_VOICE)
        call = parse_speech_call(body, engine.model_name, engine.voices, engine.sample_rate_hz, can)
        del body
        job = await self.job(call)
        call = replace(call, ref_audio=None)  # megabytes of text that nobody needs any more
        headers = {"x-request-id": self.request_id(), "x-seed": str(call.seed)}
        delivery = Delivery(request, call, headers, engine.sample_rate_hz, self.measured, started_s)
        async with EventStream(engine, job, self.keep_codes) as events:
            return await delivery.run(events)

    def request_id(self) -> str:
        """The id of the request that this task answers: the client's if it is sane, else one made here."""
        return _request_id.get()

    async def read_body(self, request: web.Request) -> bytes:
        """The bounded body. Raises ApiError: 400 for an encoding, 408 if it does not come, 413 if too large."""
        return await _read_body(request)

    async def job(self, call: SpeechCall) -> SpeechRequest:
        """What the engine gets for ``call``, any reference recording decoded. Raises ApiError (400, 503)."""
        self._tell_ignored(call)
        reference = await _reference(call, self.ready().sample_rate_hz)
        return SpeechRequest(
            # Two clients may send the same id; the engine must be able to tell them apart.
            request_id=f"{self.request_id()}.{next(self._sequence)}",
            text=call.text,
            voice=call.voice,
            seed=call.seed,
            max_new_tokens=call.max_new_tokens,
            language=call.language,
            instructions=call.instructions,
            reference_audio=reference,
            reference_text=call.ref_text,
        )

    def keep_codes(self, finished: Finished) -> None:
        """Remember what a request spoke, under its id."""
        if finished.codes is not None:
            self._codes.keep(self.request_id(), finished.codes)

    async def codes(self, request: web.Request) -> web.Response:
        """GET /v1/audio/speech/{request_id}/codes: what a finished request spoke. Raises ApiError (404)."""
        asked = request.match_info["request_id"]
        answer = self._codes.answer(asked)
        if answer is None:
            message = (
                f"no codes of a finished request {shown(asked)}; those of the last {MAX_REQUESTS} requests are kept, "
                "by the x-request-id of their answers"
            )
            raise ApiError(404, message, param="request_id", code="codes_not_found")
        return web.json_response(answer)

    async def models(self, _: web.Request) -> web.Response:
        """GET /v1/models: the one model."""
        model = {
            "id": self.ready().model_name,
            "object": "model",
            "created": self._created_s,
            "owned_by": "omni-bench",
        }
        return web.json_response({"object": "list", "data": [model]})

    async def voices(self, _: web.Request) -> web.Response:
        """GET /v1/audio/voices, in vllm-omni's form."""
        return web.json_response({"voices": list(self.ready().voices), "uploaded_voices": []})

    async def health(self, _: web.Request) -> web.Response:
        """GET /health: 200 only while requests are taken."""
        if self.status != "ok" or self.engine is None:
            return web.json_response({"status": self.status}, status=503)
        stats = self.engine.stats()
        describe = getattr(self.engine, "describe", dict)
        answer: dict[str, Any] = {
            "engine_process": False,
            **describe(),
            "status": "ok" if stats.alive else "dead",
            "model": self.engine.model_name,
            "voices": list(self.engine.voices),
            "sample_rate_hz": self.engine.sample_rate_hz,
            "running": stats.running,
            "waiting": stats.waiting,
        }
        return web.json_response(answer, status=200 if stats.alive else 503)

    async def metrics(self, _: web.Request) -> web.Response:
        """GET /metrics for Prometheus."""
        return web.Response(body=self.measured.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    @web.middleware
    async def middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Give every request an id, every error one shape, and count both."""
        client_id = request.headers.get("x-request-id", "")
        request_id = client_id if _SANE_REQUEST_ID.fullmatch(client_id) else uuid.uuid4().hex
        _request_id.set(request_id)
        status = CLIENT_CLOSED_REQUEST
        try:
            with self.measured.in_flight.track_inprogress():
                response = await self._answer(request, handler)
            status = BROKEN_OFF if getattr(response, "broken_off", False) else response.status
        finally:
            resource = request.match_info.route.resource
            self.measured.count_request(resource.canonical if resource else "other", request.method, status)
        if not response.prepared:
            response.headers["x-request-id"] = request_id
        return response

    async def _answer(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return error.response()
        except web.HTTPException as error:
            return from_http_exception(error, request, ROUTES).response()
        except ConnectionError:  # the client has gone: aiohttp finds nobody to answer
            return web.Response(status=CLIENT_CLOSED_REQUEST)
        except Exception:
            log.exception("%s: %s %s failed", _request_id.get(), request.method, shown(request.path))
            message = f"internal error; see the server's log for {_request_id.get()}"
            return ApiError(500, message, code="internal").response()

    def ready(self) -> EngineLike:
        """The engine. Raises ApiError (503) while it loads and when it is being stopped."""
        if self.engine is None or self.status != "ok":
            raise unavailable(f"the server is {self.status}", self.status)
        return self.engine

    def _tell_ignored(self, call: SpeechCall) -> None:
        """Say once per field that it has no effect."""
        for name in call.ignored:
            if name not in self._told_ignored:
                self._told_ignored.add(name)
                log.warning("%s is ignored: the voices of this model cannot follow it (said once)", name)


async def _reference(call: SpeechCall, sample_rate_hz: int) -> Any:
    """The decoded recording, float32 [samples], or None. Raises ApiError (400)."""
    if call.ref_audio is None:
        return None
    # decoding and resampling take long enough to be heard as a gap in the other streams
    return await asyncio.get_running_loop().run_in_executor(None, decode_reference, call.ref_audio, sample_rate_hz)


async def _read_body(request: web.Request) -> bytes:
    """The bounded body. Raises ApiError: 400 for an encoding, 408 if it does not come, 413 if too large."""
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise bad_request(f"Content-Encoding {shown(encoding)} is not supported; valid: identity", None, "unsupported")
    too_large = ApiError(413, f"the request body exceeds {MAX_BODY_BYTES} bytes", code="body_too_large")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise too_large
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large from None
    except TimeoutError:
        raise ApiError(408, f"the request body did not arrive within {BODY_TIMEOUT_S:g} s", code="timeout") from None


SERVER = web.AppKey("server", SpeechServer)


def create_app(engine: EngineLike | None = None, *, chat_token_ms: float = DEFAULT_CHAT_TOKEN_MS) -> web.Application:
    """The application around ``engine``; None while it loads (then ``app[SERVER].set_engine``).

    ``chat_token_ms``: the pace of the chat form's text (:mod:`reference_impl.http.chat_text`). Raises
    ConfigError if it is not within 0 to 10 s.
    """
    if not 0 <= chat_token_ms <= MAX_CHAT_TOKEN_MS:
        raise ConfigError(f"reference.chat_token_ms={chat_token_ms}: 0 to {MAX_CHAT_TOKEN_MS:g} ms a token")
    server = SpeechServer(engine, chat_token_ms)
    app = web.Application(
        middlewares=[server.middleware],
        client_max_size=MAX_BODY_BYTES,
        handler_args={
            "handler_cancellation": True,  # a client that leaves frees its place in the batch
            "auto_decompress": False,  # no decompression bombs
            "access_log": None,  # /metrics counts
            "keepalive_timeout": KEEPALIVE_TIMEOUT_S,
        },
    )
    app[SERVER] = server
    app.add_routes(server.routes())
    return app
