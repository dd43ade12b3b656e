"""The aiohttp application: routes, request ids, one form for every error, counts."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
import uuid
from dataclasses import replace
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from omni_bench.errors import ConfigError, EngineError
from reference_impl.engine_api import EngineLike
from reference_impl.http.chat_response import ChatRoute
from reference_impl.http.errors import ApiError, from_http_exception, shown
from reference_impl.http.event_stream import EventStream
from reference_impl.http.service import MAX_BODY_BYTES, MAX_KEPT_REQUESTS, SpeechService, current_request_id
from reference_impl.http.speech_request import parse_speech_call
from reference_impl.http.speech_response import Delivery
from reference_impl.http.websocket_session import SocketRoute, answered
from reference_impl.settings import DEFAULT_CHAT_TOKEN_MS, MAX_CHAT_TOKEN_MS, PROFILE_VARIABLE

log = logging.getLogger("reference_impl.http.server")

KEEPALIVE_TIMEOUT_S = 75.0  # of a connection at rest, and of one whose request head does not come
# For the counts only: the first is never sent, and the second was announced as a 200.
SWITCHING_PROTOCOLS = 101
CLIENT_CLOSED_REQUEST = 499
BROKEN_OFF = 500
ROUTES = (
    "POST /v1/audio/speech, /v1/chat/completions, GET /v1/audio/speech/stream, /v1/audio/speech/{request_id}/codes, "
    "/v1/models, /v1/audio/voices, /health, /metrics, POST /start_profile, /stop_profile"
)
_VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
SERVICE = web.AppKey("service", SpeechService)


def create_app(engine: EngineLike | None = None, *, chat_token_ms: float = DEFAULT_CHAT_TOKEN_MS) -> web.Application:
    """The application around ``engine``; None while it loads (then call ``app[SERVICE].set_engine``).

    ``chat_token_ms``: the pace of the chat form's text (:mod:`reference_impl.http.chat_text`). Raises
    ConfigError if it is not within 0 to 10 s.
    """
    if not 0 <= chat_token_ms <= MAX_CHAT_TOKEN_MS:
        raise ConfigError(f"reference.chat_token_ms={chat_token_ms}; valid: 0 to {MAX_CHAT_TOKEN_MS:g} ms per token")
    service = SpeechService(engine)
    routes = _Routes(service)
    app = web.Application(
        middlewares=[routes.middleware],
        client_max_size=MAX_BODY_BYTES,
        handler_args={
            "handler_cancellation": True,  # a client that leaves frees its place in the batch
            "auto_decompress": False,  # no decompression bombs
            "access_log": None,  # /metrics counts
            "keepalive_timeout": KEEPALIVE_TIMEOUT_S,
        },
    )
    app[SERVICE] = service
    app.add_routes(
        [
            web.post("/v1/audio/speech", routes.speech),
            web.get("/v1/audio/speech/stream", SocketRoute(service, MAX_BODY_BYTES).answer),
            web.post("/v1/chat/completions", ChatRoute(service, chat_token_ms).answer),
            web.get("/v1/audio/speech/{request_id}/codes", routes.codes),
            web.get("/v1/models", routes.models),
            web.get("/v1/audio/voices", routes.voices),
            web.get("/health", routes.health),
            web.get("/metrics", routes.metrics),
            web.post("/start_profile", routes.profile),
            web.post("/stop_profile", routes.profile),
        ]
    )
    return app


class _Routes:
    """The handlers that are a few lines each, and the middleware around all of them."""

    def __init__(self, service: SpeechService):
        self._service = service
        self._created_s = int(time.time())

    async def speech(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/audio/speech. See :mod:`reference_impl.http.speech_request` for the fields."""
        started_s = time.perf_counter()
        service, engine = self._service, self._service.ready()
        body = await service.read_body(request)
        call = parse_speech_call(body, engine)
        del body
        job = await service.job(call)
        call = replace(call, ref_audio=None)  # megabytes of text, no longer needed
        headers = {"x-request-id": service.request_id(), "x-seed": str(call.seed)}
        meter = service.metrics.meter(engine.sample_rate_hz, started_s)
        delivery = Delivery(request, call, headers, engine.sample_rate_hz, meter)
        async with EventStream(engine, job, service.keep_codes) as events:
            return await delivery.run(events)

    async def codes(self, request: web.Request) -> web.Response:
        """GET /v1/audio/speech/{request_id}/codes: the codes of a finished request. Raises ApiError (404)."""
        asked = request.match_info["request_id"]
        answer = self._service.finished_codes.answer(asked)
        if answer is None:
            message = (
                f"no codes of a finished request {shown(asked)}; the codes of the last {MAX_KEPT_REQUESTS} requests "
                "are kept, by the x-request-id of their answers"
            )
            raise ApiError(404, message, param="request_id", code="codes_not_found")
        return web.json_response(answer)

    async def models(self, _: web.Request) -> web.Response:
        """GET /v1/models: the one model."""
        model = {
            "id": self._service.ready().model_name,
            "object": "model",
            "created": self._created_s,
            "owned_by": "omni-bench",
        }
        return web.json_response({"object": "list", "data": [model]})

    async def voices(self, _: web.Request) -> web.Response:
        """GET /v1/audio/voices, in vllm-omni's form."""
        return web.json_response({"voices": list(self._service.ready().voices), "uploaded_voices": []})

    async def health(self, _: web.Request) -> web.Response:
        """GET /health: 200 only while requests are accepted."""
        engine, status = self._service.engine, self._service.status
        if status != "ok" or engine is None:
            return web.json_response({"status": status}, status=503)
        stats = engine.stats()
        answer: dict[str, Any] = {
            "engine_process": False,
            **engine.describe(),
            "status": "ok" if stats.alive else "dead",
            "model": engine.model_name,
            "voices": list(engine.voices),
            "sample_rate_hz": engine.sample_rate_hz,
            "running": stats.running,
            "waiting": stats.waiting,
        }
        return web.json_response(answer, status=200 if stats.alive else 503)

    async def metrics(self, _: web.Request) -> web.Response:
        """GET /metrics for Prometheus."""
        return web.Response(body=self._service.metrics.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def profile(self, request: web.Request) -> web.Response:
        """POST /start_profile and /stop_profile, as vLLM has them. Raises ApiError: 404 if it was not launched so."""
        if PROFILE_VARIABLE not in os.environ:
            message = f"this server takes no traces: it was launched without {PROFILE_VARIABLE}=FOLDER"
            raise ApiError(404, message, code="no_profile")
        try:
            await asyncio.to_thread(self._service.ready().profile, request.path == "/start_profile")
        except EngineError as error:
            raise ApiError(500, str(error), code="no_profile") from None
        return web.json_response({"status": "ok"})

    @web.middleware
    async def middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Give every request an id, every error one form, and count both."""
        client_id = request.headers.get("x-request-id", "")
        request_id = client_id if _VALID_REQUEST_ID.fullmatch(client_id) else uuid.uuid4().hex
        current_request_id.set(request_id)
        answered.set(False)
        metrics, status = self._service.metrics, CLIENT_CLOSED_REQUEST
        try:
            with metrics.in_flight.track_inprogress():
                response = await _answer(request, handler, request_id)
            status = BROKEN_OFF if getattr(response, "broken_off", False) else response.status
        finally:
            if status == CLIENT_CLOSED_REQUEST and answered.get():
                status = SWITCHING_PROTOCOLS  # with its whole answer it may go before it has heard our close
            resource = request.match_info.route.resource
            metrics.count_request(resource.canonical if resource else "other", request.method, status)
        if not response.prepared:
            response.headers["x-request-id"] = request_id
        return response


async def _answer(request: web.Request, handler: Any, request_id: str) -> web.StreamResponse:
    """The handler's answer, or its error as an answer."""
    try:
        return await handler(request)
    except ApiError as error:
        return error.response()
    except web.HTTPException as error:
        return from_http_exception(error, request, ROUTES).response()
    except ConnectionError:  # the client has gone: this answer is not sent
        return web.Response(status=CLIENT_CLOSED_REQUEST)
    except Exception:
        log.exception("%s: %s %s failed", request_id, request.method, shown(request.path))
        return ApiError(500, f"internal error; see the server's log for {request_id}", code="internal").response()
