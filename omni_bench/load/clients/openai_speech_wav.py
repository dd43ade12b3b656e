"""POST /v1/audio/speech, answered by a streamed WAV: a header whose sizes are not known yet, then samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.http_stream import stream_http
from omni_bench.load.clients.raw_stream import WavDecoder
from omni_bench.load.clients.responses import WAV_CONTENT_TYPES
from omni_bench.load.clients.session import WireOptions
from omni_bench.load.clients.speech_body import extra_fields, speech_fields
from omni_bench.records.timeline import Timeline

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt


def build_body(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """As :func:`omni_bench.load.clients.openai_speech.build_body`, for a WAV."""
    form = {"response_format": "wav", "stream": True, "stream_format": "audio"}
    return {"input": prompt.text, **speech_fields(prompt, client, seed), **form, **extra_fields(client)}


def make_decoder(options: WireOptions, stated_rate_hz: int | None) -> WavDecoder:
    """The decoder of one answer."""
    return WavDecoder(options.sample_rate_hz, stated_rate_hz)


async def send(context: RequestContext) -> tuple[Timeline, list[bytes]]:
    """Make one request, as :func:`omni_bench.load.clients.http_stream.stream_http` does."""
    return await stream_http(context, WAV_CONTENT_TYPES, make_decoder)
