"""A speech server without a model: POST /v1/audio/speech answers a tone, as PCM in two chunks.

python fake_speech_server.py PORT SECONDS_A_REQUEST [FIRST_S [LATE_S]]

The first chunk comes after FIRST_S, that of every seventh request LATE_S later; 0 if not given.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

import numpy as np
from aiohttp import web

PORT, SECONDS = int(sys.argv[1]), float(sys.argv[2])
FIRST_S, LATE_S = (*map(float, sys.argv[3:]), 0.0, 0.0)[:2]
NUMBERS = itertools.count(1)


async def speech(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    samples = (8000 * np.sin(0.05 * np.arange(24000 * len(body["input"]) // 14))).astype("<i2").tobytes()
    response = web.StreamResponse(headers={"Content-Type": "audio/pcm"})
    await asyncio.sleep(FIRST_S + LATE_S * (next(NUMBERS) % 7 == 0))
    await response.prepare(request)
    await response.write(samples[: len(samples) // 4 * 2])
    await asyncio.sleep(SECONDS)
    await response.write(samples[len(samples) // 4 * 2 :])
    await response.write_eof()
    return response


async def health(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok", "model": "tone"})


app = web.Application()
app.add_routes([web.post("/v1/audio/speech", speech), web.get("/health", health)])
web.run_app(app, host="127.0.0.1", port=PORT, print=None)
