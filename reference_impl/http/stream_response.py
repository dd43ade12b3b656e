"""What every streamed answer needs: its response, bounded writes, and breaking it off when it cannot be completed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator

from aiohttp import web
from aiohttp.http import HttpVersion11

from omni_bench.errors import EngineError

log = logging.getLogger("reference_impl.http.server")

# A client that reads nothing for this long has its stream broken off.
WRITE_TIMEOUT_S = 120.0
# What the transport's buffer (64 KiB until it asks for a pause) takes with the framing of a chunk and the headers.
SMALL_WRITE_BYTES = 48 * 2**10


class SpeechStream(web.StreamResponse):
    """A streamed answer; ``broken_off``: it did not come to its end.

    Its headers go with its first bytes: they are prepared when the first audio is there, and a packet
    of their own would wake the client for nothing. (aiohttp before 3.12 does not know the attribute.)
    """

    _send_headers_immediately = False
    broken_off = False


@contextlib.asynccontextmanager
async def breaking_off(request: web.Request, response: SpeechStream, request_id: str) -> AsyncIterator[None]:
    """Break ``response`` off if what is inside fails; a client that has gone raises ConnectionError as it is."""
    try:
        yield
    except ConnectionError:
        raise
    except (EngineError, TimeoutError) as error:
        log.warning("%s: stream broken off: %s", request_id, str(error) or "the client does not read")
        _break_off(request, response)
    except Exception:
        log.exception("%s: stream broken off", request_id)
        _break_off(request, response)


async def write(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    """Send some bytes. Raises TimeoutError if the client does not read."""
    if not data:
        return
    transport = request.transport
    if transport is not None and len(data) < SMALL_WRITE_BYTES and not transport.get_write_buffer_size():
        # what the socket does not take at once fits into the transport's buffer: nothing to wait for
        await response.write(data)
        return
    async with asyncio.timeout(WRITE_TIMEOUT_S):
        await response.write(data)


def _break_off(request: web.Request, response: SpeechStream) -> None:
    """Close the connection so that the client cannot take what it got for the whole.

    With HTTP/1.1 the missing last chunk shows it; an HTTP/1.0 body ends where the connection
    does, so there the connection is reset.
    """
    response.broken_off = True
    transport = request.transport
    if transport is None:
        return
    if request.version < HttpVersion11:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
