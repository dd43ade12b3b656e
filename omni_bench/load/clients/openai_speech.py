"""The OpenAI speech protocol: POST /v1/audio/speech, answered by a stream of headerless s16le samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.http_stream import stream_http
from omni_bench.load.clients.raw_stream import PcmDecoder
from omni_bench.load.clients.responses import PCM_CONTENT_TYPES
from omni_bench.load.clients.session import WireOptions
from omni_bench.load.clients.speech_body import extra_fields, speech_fields
from omni_bench.records.timeline import Timeline

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt


def build_body(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """The JSON body of one request. Fields that are not configured are not sent; ``extra_body`` goes last.

    Raises DatasetError when a reference is to be sent and the prompt has none (or it cannot
    be read), ConfigError when ``client.extra_body`` is not JSON.
    """
    form = {"response_format": "pcm", "stream": True, "stream_format": "audio"}
    return {"input": prompt.text, **speech_fields(prompt, client, seed), **form, **extra_fields(client)}


def make_decoder(options: WireOptions, stated_rate_hz: int | None) -> PcmDecoder:
    """The decoder of one answer."""
    return PcmDecoder(stated_rate_hz or options.sample_rate_hz)


async def send(context: RequestContext) -> tuple[Timeline, list[bytes]]:
    """Make one request, as :func:`omni_bench.load.clients.http_stream.stream_http` does."""
    return await stream_http(context, PCM_CONTENT_TYPES, make_decoder)
