"""Handlers of misbehaving servers, for tests."""

import asyncio

from aiohttp import web


def stream_of(*parts, content_type="audio/pcm", cut=False, pause_s=0.0):
    """A chunked stream of ``parts``, with a pause before each; ``cut``: the connection is dropped at the end."""

    async def handler(request, server):
        response = web.StreamResponse(headers={"Content-Type": content_type})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for part in parts:
            await asyncio.sleep(pause_s)
            await response.write(part)
        if cut:
            await asyncio.sleep(0.02)
            request.transport.abort()
        return response

    return handler
