"""A streamed HTTP answer: one POST, its body fed to a decoder as it comes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import aiohttp

from omni_bench.load.clients.decoder import Decoder, WireFailure
from omni_bench.load.clients.exchange import Record, RequestContext, exchange
from omni_bench.load.clients.responses import (
    ERROR_BODY_LIMIT_BYTES,
    SSE_CONTENT_TYPES,
    describe_body,
    error_in_body,
    one_line,
    parse_content_type,
    said_in_headers,
    stated_rate,
)
from omni_bench.load.clients.session import WireOptions
from omni_bench.load.clients.urls import redirect_advice
from omni_bench.records.timeline import Timeline

_MIME = re.compile(r"[\w.+-]+/[\w.+-]+")
_EVENT = re.compile(rb"^data:", re.MULTILINE)
ERROR_BODY_TIMEOUT_S = 5.0  # how long an error's text is waited for

MakeDecoder = Callable[[WireOptions, "int | None"], Decoder]
"""From the client's options and the sample rate that the headers state (None: none)."""


async def stream_http(
    context: RequestContext, content_types: tuple[str, ...], make_decoder: MakeDecoder
) -> tuple[Timeline, list[bytes]]:
    """Send one request and read its answer; returns its timeline and the audio reads, in order.

    ``content_types``: what the answer may be. Never raises for a failure of the request: the timeline
    carries the error. A response that is delimited by neither a length nor chunks ends, as HTTP
    has it, where its connection is closed, so a cut of a raw stream can only be seen in its audio.
    """

    async def receive(record: Record) -> None:
        headers = {"Content-Type": "application/json", **context.headers}
        async with context.session.post(
            context.url, data=context.payload, headers=headers, allow_redirects=False, trace_request_ctx=record
        ) as response:
            record.headers(response.status, response.headers.get("x-request-id"))
            try:
                stated_rate_hz = await _check_headers(response, record, content_types + context.options.content_types)
                await _read(response, record, make_decoder(context.options, stated_rate_hz))
            except BaseException:
                response.close()  # what is still to come must not reach the next request of this connection
                raise

    return await exchange(context, receive)


async def _check_headers(
    response: aiohttp.ClientResponse, record: Record, content_types: tuple[str, ...]
) -> int | None:
    """The sample rate that the headers state, None if they state none. Raises WireFailure."""
    content_type = response.headers.get("Content-Type", "application/octet-stream")
    if response.status != 200:
        body = await _error_body(response, record)
        place = response.headers.get("Location")
        where = f" to {one_line(place)}; {redirect_advice(str(response.url), place)}" if place is not None else ""
        where += said_in_headers(response.headers)
        raise WireFailure("http_status", f"HTTP {response.status}{where}: {describe_body(body)}")
    mime = parse_content_type(content_type)[0]
    rate_hz, problem = stated_rate(response.headers)
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding != "identity":
        problem = f"content encoding {encoding!r}, which was not asked for"
    if mime not in content_types:
        body = await _error_body(response, record)
        message = error_in_body(body)
        if message is not None:
            raise WireFailure("in_band_error", f"HTTP 200 with an error as {mime}: {message}")
        wanted = ", ".join(content_types)
        shown = one_line(content_type)
        holds_events = content_types != SSE_CONTENT_TYPES or _EVENT.search(body)
        if _MIME.fullmatch(mime) and mime != "text/html" and holds_events:  # a page is of a proxy, mostly
            wanted += f" (client.content_types=[{mime}] takes it for what was asked for)"
        raise WireFailure("content_type", f"content type {shown!r}, not {wanted}: {describe_body(body)}")
    if problem is not None:
        raise WireFailure("content_type", problem)
    return rate_hz


async def _read(response: aiohttp.ClientResponse, record: Record, decoder: Decoder) -> None:
    """Read a body to its end into ``record``. Raises WireFailure, aiohttp.ClientError, TimeoutError."""
    chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    content, now_ns = response.content, 0
    record.decoder = decoder
    while True:
        # Where the body is not chunked, a read returns all that has arrived, and counts as a chunk.
        data, ends_chunk = await content.readchunk() if chunked else (await content.readany(), True)
        if data:
            now_ns = record.byte()
            record.take(decoder.feed(data, ends_chunk), now_ns)
        elif chunked and ends_chunk:  # the end of a chunk whose last bytes had been read before
            if record.chunk_ends:
                record.chunk_ends[-1] = True
        else:
            break
    record.take(decoder.end(), now_ns)
    record.ended()


async def _error_body(response: aiohttp.ClientResponse, record: Record) -> bytes:
    """The first bytes of a body that is not audio: bounded in size and time, whatever the server does."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(ERROR_BODY_TIMEOUT_S) as timeout:
            while sum(map(len, parts)) < ERROR_BODY_LIMIT_BYTES and (data := await response.content.readany()):
                record.byte()
                parts.append(data)
    except aiohttp.ClientError:
        pass  # the status is the failure; a cut body only shortens its message
    except TimeoutError:
        if not timeout.expired():
            raise
    if not response.content.at_eof():
        response.close()
    return b"".join(parts)[:ERROR_BODY_LIMIT_BYTES]
