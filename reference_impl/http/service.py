"""What every route needs of the engine: the engine itself, a request's id and body, and what it finished with."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import OrderedDict
from contextvars import ContextVar
from typing import Any

import numpy as np
from aiohttp import web

from reference_impl.engine_api import EngineLike, Finished, SpeechRequest
from reference_impl.http.errors import ApiError, bad_request, shown, unavailable
from reference_impl.http.metrics import ServerMetrics
from reference_impl.http.reference_audio import decode_reference
from reference_impl.http.speech_request import SpeechCall

log = logging.getLogger("reference_impl.http.server")

MAX_BODY_BYTES = 32 * 2**20  # a 30 s reference recording in base64 is 8 MB at 48 kHz, 16 bit, stereo
BODY_TIMEOUT_S = 60.0
MAX_KEPT_REQUESTS = 512
MAX_KEPT_FRAMES = 1 << 18  # 8 MiB at 16 codes of two bytes each: 5.8 hours of speech
current_request_id: ContextVar[str] = ContextVar("request_id")  # each request is a task of its own


class SpeechService:
    """The engine as the routes see it. ``engine`` is None while it loads; ``status``: loading, ok or stopping."""

    def __init__(self, engine: EngineLike | None):
        self.engine = engine
        self.status = "loading" if engine is None else "ok"
        self.metrics = ServerMetrics(lambda: self.engine)
        self.finished_codes = FinishedCodes()
        self._sequence = itertools.count(1)
        self._warned_fields: set[str] = set()

    def set_engine(self, engine: EngineLike) -> None:
        """Loading is done: accept requests."""
        self.engine, self.status = engine, "ok"

    def ready(self) -> EngineLike:
        """The engine. Raises ApiError (503) while it loads and while it stops."""
        if self.engine is None or self.status != "ok":
            raise unavailable(f"the server is {self.status}", self.status)
        return self.engine

    def request_id(self) -> str:
        """The id of the request that this task answers: the client's if it is valid, else one made here."""
        return current_request_id.get()

    async def read_body(self, request: web.Request) -> bytes:
        """The body, bounded. Raises ApiError: 400 for an encoding, 408 if it does not arrive, 413 if too large."""
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            message = f"Content-Encoding {shown(encoding)} is not supported; valid: identity"
            raise bad_request(message, None, "unsupported")
        too_large = ApiError(413, f"the request body exceeds {MAX_BODY_BYTES} bytes", code="body_too_large")
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise too_large
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise too_large from None
        except TimeoutError:
            message = f"the request body did not arrive within {BODY_TIMEOUT_S:g} s"
            raise ApiError(408, message, code="timeout") from None

    async def job(self, call: SpeechCall) -> SpeechRequest:
        """What the engine gets for ``call``, any reference recording decoded. Raises ApiError (400, 503)."""
        self._warn_ignored(call)
        sample_rate_hz, reference = self.ready().sample_rate_hz, None
        if call.ref_audio is not None:
            # decoding and resampling would block the event loop long enough to cause a gap in other streams
            loop = asyncio.get_running_loop()
            reference = await loop.run_in_executor(None, decode_reference, call.ref_audio, sample_rate_hz)
        return SpeechRequest(
            # two clients may send the same id; the engine must be able to tell them apart
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
        """Keep the codes of a finished request under its id."""
        if finished.codes is not None:
            self.finished_codes.keep(self.request_id(), finished.codes)

    def _warn_ignored(self, call: SpeechCall) -> None:
        """Log once per field that it has no effect."""
        for name in call.ignored:
            if name not in self._warned_fields:
                self._warned_fields.add(name)
                log.warning("%s is ignored: the voices of this model cannot follow it (logged once)", name)


class FinishedCodes:
    """Codes by the request id that the client was given, the oldest dropped first. Not thread-safe.

    Keeps at most ``max_requests`` requests, and no more than ``max_frames`` frames in all.
    """

    def __init__(self, max_requests: int = MAX_KEPT_REQUESTS, max_frames: int = MAX_KEPT_FRAMES):
        self._max_requests, self._max_frames = max_requests, max_frames
        self._codes: OrderedDict[str, np.ndarray] = OrderedDict()
        self._frames = 0

    def keep(self, request_id: str, codes: np.ndarray) -> None:
        """Store int [frames, codebooks]; an id that comes again replaces what it had."""
        self._drop(request_id)
        self._codes[request_id] = codes
        self._frames += len(codes)
        while len(self._codes) > self._max_requests or self._frames > self._max_frames:
            self._drop(next(iter(self._codes)))

    def answer(self, request_id: str) -> dict[str, Any] | None:
        """The endpoint's answer, ready for JSON; None for an id that is unknown or dropped."""
        codes = self._codes.get(request_id)
        if codes is None:
            return None
        frames, codebooks = codes.shape
        return {"request_id": request_id, "frames": frames, "codebooks": codebooks, "codes": codes.tolist()}

    def _drop(self, request_id: str) -> None:
        codes = self._codes.pop(request_id, None)
        if codes is not None:
            self._frames -= len(codes)
