"""The OpenAI speech protocol: POST /v1/audio/speech, answered by a stream of headerless s16le samples.

:func:`build_body` runs before the load phase (it reads and encodes reference audio);
:func:`stream_request` runs in the load worker and only moves bytes and reads the clock.
"""

from __future__ import annotations

import asyncio
import base64
import json
import mimetypes
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from omni_bench.clients.abort import AbortSwitch
from omni_bench.clients.payload import AUDIO_CONTENT_TYPES, parse_content_type, wav_header_bytes
from omni_bench.clients.pool import WireOptions
from omni_bench.clients.server_error import TAIL_BYTES, describe_body, error_at_end, error_in_body, one_line
from omni_bench.clients.timeline import RequestError, Timeline
from omni_bench.errors import ConfigError, DatasetError
from omni_bench.levels import Level

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.config.schema import ClientConfig
    from omni_bench.datasets.prompt import Prompt
    from omni_bench.load.plan import PlannedRequest

SAMPLE_WIDTH_BYTES = 2  # s16le
ERROR_BODY_LIMIT_BYTES = 64 * 1024
ERROR_BODY_TIMEOUT_S = 5.0  # how long an error's text is waited for
BODY_LIMIT_BYTES = 32 * 1024 * 1024  # what the reference server takes, as others do
# base64 makes four bytes of three; a MiB is left for the text and the other fields.
REFERENCE_AUDIO_LIMIT_BYTES = (BODY_LIMIT_BYTES - 1024 * 1024) // 4 * 3


def build_body(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """The JSON body of one request. Fields that are not configured are not sent; ``extra_body`` goes last.

    Raises DatasetError when a reference is to be sent and the prompt has none (or it cannot
    be read), ConfigError when ``client.extra_body`` is not JSON.
    """
    body: dict[str, Any] = {
        "model": client.model,
        "input": prompt.text,
        "response_format": "pcm",
        "stream": True,
        "stream_format": "audio",
    }
    optional = {
        "voice": client.voice,
        "seed": seed,
        "task_type": client.task_type,
        "language": client.language,
        "max_new_tokens": client.max_new_tokens,
    }
    body.update({name: value for name, value in optional.items() if value is not None})
    if client.send_reference:
        if prompt.ref_audio is None or prompt.ref_text is None:
            lacking = "ref_audio" if prompt.ref_audio is None else "ref_text"
            raise DatasetError(f"prompt {prompt.id!r} has no {lacking}, which client.send_reference=true needs")
        body["ref_audio"] = _data_url(prompt.id, prompt.ref_audio)
        body["ref_text"] = prompt.ref_text
    try:
        body.update(json.loads(json.dumps(dict(client.extra_body), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"client.extra_body={client.extra_body!r} is not JSON: {error}") from None
    return body


def _data_url(prompt_id: str, path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > REFERENCE_AUDIO_LIMIT_BYTES:
            raise DatasetError(
                f"prompt {prompt_id!r}: reference audio {path} has {size} bytes; at most {REFERENCE_AUDIO_LIMIT_BYTES}"
            )
        audio = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"prompt {prompt_id!r}: cannot read reference audio {path}: {error}") from None
    is_wav = path.suffix.lower() == ".wav"
    mime = "audio/wav" if is_wav else mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{mime};base64,{base64.b64encode(audio).decode('ascii')}"


class _RequestFailed(Exception):
    """A failure that the protocol rules found."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.error = RequestError(kind, message)


@dataclass
class _Record:
    """The timeline while it is being written."""

    headers_ns: int | None = None
    first_byte_ns: int | None = None
    ended_ns: int | None = None
    http_status: int | None = None
    sample_rate_hz: int | None = None
    arrived_ns: list[int] = field(default_factory=list)
    audio: list[bytes] = field(default_factory=list)
    chunk_ends: list[bool] = field(default_factory=list)


async def stream_request(
    session: aiohttp.ClientSession,
    url: str,
    planned: PlannedRequest,
    payload: bytes,
    *,
    concurrency: Level,
    scheduled_ns: int,
    options: WireOptions,
    abort: AbortSwitch,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> tuple[Timeline, list[bytes]]:
    """Send one request and read its audio; returns its timeline and the reads, in order.

    ``payload`` is ``planned.body`` as JSON bytes (made before the load phase), ``url`` the
    endpoint. Never raises for a failure of the request: the timeline carries the error.
    A response that is delimited by neither a length nor chunks ends, as HTTP has it, where
    its connection is closed, so a cut of such a stream can only be seen in its audio.
    """
    record = _Record()
    error: RequestError | None = None
    silence = asyncio.timeout(None)  # begins with the first audio, and anew with every read
    headers = {"Content-Type": "application/json", "x-request-id": planned.request_id}
    started_ns = clock()
    try:
        async with (
            abort.deadline(options.request_timeout_s),
            silence,
            session.post(url, data=payload, headers=headers, allow_redirects=False) as response,
        ):
            record.headers_ns = clock()
            try:
                await _receive(response, record, options, silence, clock)
            except BaseException:
                response.close()  # what is still to come must not reach the next request of this connection
                raise
    except _RequestFailed as failure:
        error = failure.error
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as cause:
        error = RequestError("connect", one_line(f"no connection: {cause}"))
    except TimeoutError:
        if abort.reason is not None:
            error = abort.reason.in_flight
        elif silence.expired():
            received_bytes = sum(map(len, record.audio))
            error = RequestError(
                "timeout",
                f"no byte for client.stall_timeout_s={options.stall_timeout_s:g} s after {received_bytes} B of audio",
            )
        else:
            error = RequestError("timeout", f"not finished after {options.request_timeout_s:g} s")
    except (aiohttp.ClientError, OSError) as cause:
        error = RequestError("disconnected", one_line(f"no clean end of the stream: {type(cause).__name__}: {cause}"))
    failed_ns = None if error is None else clock()
    _drop_wav_header(record)
    first_audio_ns = record.arrived_ns[0] if record.arrived_ns else None
    timeline = Timeline(
        request_id=planned.request_id,
        prompt_id=planned.prompt_id,
        concurrency=concurrency,
        seed=planned.seed,
        scheduled_ns=scheduled_ns,
        started_ns=started_ns,
        headers_ns=record.headers_ns,
        first_byte_ns=record.first_byte_ns if record.first_byte_ns is not None else first_audio_ns,
        first_audio_ns=first_audio_ns,
        ended_ns=record.ended_ns if error is None else None,
        failed_ns=failed_ns,
        chunk_arrived_ns=tuple(record.arrived_ns),
        chunk_bytes=tuple(len(data) for data in record.audio),
        sample_rate_hz=record.sample_rate_hz,
        sample_width_bytes=SAMPLE_WIDTH_BYTES,
        http_status=record.http_status,
        error=error,
        warmup=planned.warmup,
        chunk_ends=() if all(record.chunk_ends) else tuple(record.chunk_ends),
    )
    return timeline, record.audio


async def _receive(
    response: aiohttp.ClientResponse,
    record: _Record,
    options: WireOptions,
    silence: asyncio.Timeout,
    clock: Callable[[], int],
) -> None:
    """Read a response to its end into ``record``. Raises _RequestFailed, aiohttp.ClientError, TimeoutError."""
    record.http_status = response.status
    content_type = response.headers.get("Content-Type", "application/octet-stream")
    if response.status != 200:
        body = await _error_body(response, record, clock)
        raise _RequestFailed("http_status", f"HTTP {response.status}: {describe_body(body)}")
    mime, rate_hz, problem = parse_content_type(content_type)
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding != "identity":
        problem = f"content encoding {encoding!r}, which was not asked for"
    if mime not in AUDIO_CONTENT_TYPES:
        body = await _error_body(response, record, clock)
        message = error_in_body(body)
        if message is not None:
            raise _RequestFailed("in_band_error", f"HTTP 200 with an error as {mime}: {message}")
        wanted = ", ".join(AUDIO_CONTENT_TYPES)
        raise _RequestFailed(
            "content_type", one_line(f"content type {content_type!r}, not {wanted}: {describe_body(body)}")
        )
    if problem is not None:
        raise _RequestFailed("content_type", one_line(problem))
    record.sample_rate_hz = rate_hz if rate_hz is not None else options.sample_rate_hz

    limit_bytes = options.max_audio_s * record.sample_rate_hz * SAMPLE_WIDTH_BYTES
    chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    content, received_bytes, now_s = response.content, 0, asyncio.get_running_loop().time
    while True:
        # Where the body is not chunked, a read returns all that has arrived, and counts as a chunk.
        data, ends_chunk = await content.readchunk() if chunked else (await content.readany(), True)
        if data:
            record.arrived_ns.append(clock())
            record.audio.append(data)
            record.chunk_ends.append(ends_chunk)
            silence.reschedule(now_s() + options.stall_timeout_s)
            received_bytes += len(data)
            if received_bytes > limit_bytes:
                raise _RequestFailed("too_large", f"more than client.max_audio_s={options.max_audio_s:g} s of audio")
        elif chunked and ends_chunk:  # the end of a chunk whose last bytes had been read before
            if record.chunk_ends:
                record.chunk_ends[-1] = True
        else:
            break
    record.ended_ns = clock()
    silence.reschedule(None)
    _reject_disguised_content(record)


def _reject_disguised_content(record: _Record) -> None:
    """Raise _RequestFailed for a WAV file or an error object that came under an audio content type."""
    if wav_header_bytes(record.audio) > 0:
        raise _RequestFailed("content_type", "the stream begins with a WAV header although raw pcm was asked for")
    first, tail_bytes = len(record.audio), 0
    while first > 0 and tail_bytes < TAIL_BYTES:
        first -= 1
        tail_bytes += len(record.audio[first])
    found = error_at_end(b"".join(record.audio[first:])[-TAIL_BYTES:])
    if found is None:
        return
    offset, message = found
    if first == 0 and tail_bytes <= TAIL_BYTES and offset == 0:  # nothing but the error: no audio has come
        record.first_byte_ns = record.arrived_ns[0]
        record.audio.clear()
        record.arrived_ns.clear()
        record.chunk_ends.clear()
    raise _RequestFailed("in_band_error", f"HTTP 200, then an error in the stream: {message}")


def _drop_wav_header(record: _Record) -> None:
    """Take a WAV header out of the audio, so that neither the first audio nor the samples are of it."""
    header_bytes = wav_header_bytes(record.audio)
    if header_bytes == 0:
        return
    record.first_byte_ns = record.arrived_ns[0]
    while record.audio and header_bytes >= len(record.audio[0]):
        header_bytes -= len(record.audio.pop(0))
        del record.arrived_ns[0], record.chunk_ends[0]
    if record.audio:
        record.audio[0] = record.audio[0][header_bytes:]


async def _error_body(response: aiohttp.ClientResponse, record: _Record, clock: Callable[[], int]) -> bytes:
    """The first bytes of a body that is not audio: bounded in size and time, whatever the server does."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(ERROR_BODY_TIMEOUT_S) as timeout:
            while sum(map(len, parts)) < ERROR_BODY_LIMIT_BYTES and (data := await response.content.readany()):
                record.first_byte_ns = record.first_byte_ns if record.first_byte_ns is not None else clock()
                parts.append(data)
    except aiohttp.ClientError:
        pass  # the status is the failure; a cut body only shortens its message
    except TimeoutError:
        if not timeout.expired():
            raise
    if not response.content.at_eof():
        response.close()
    return b"".join(parts)[:ERROR_BODY_LIMIT_BYTES]
