"""POST /v1/audio/speech in SGLang-Omni's own form: events of an object ``audio.speech.chunk``, then ``[DONE]``.

Each holds base64 of bare samples, or of a WAV of its own, in ``audio.data``, and its rate in ``audio.sample_rate``
(sglang-omni issue 157). An event without audio carries the ``finish_reason``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omni_bench.load.clients.decoder import (
    AudioPart,
    Part,
    WireFailure,
    decode_base64,
    stated_format,
    stated_id,
)
from omni_bench.load.clients.openai_speech_sse import CHUNK, SpeechEventCodec
from omni_bench.load.clients.responses import SSE_CONTENT_TYPES
from omni_bench.load.clients.speech_body import extra_fields, speech_fields
from omni_bench.load.clients.sse import BROKEN_OFF, END_MARK, EventDecoder
from omni_bench.load.clients.wire_form import WireForm

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt


def build_body(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """As :func:`omni_bench.load.clients.openai_speech.build_body`; ``stream`` alone asks for events."""
    form = {"response_format": "pcm", "stream": True}
    return {"input": prompt.text, **speech_fields(prompt, client, seed), **form, **extra_fields(client)}


class SpeechChunks(EventDecoder):
    """The decoder of one answer. ``[DONE]`` is its clean end."""

    last = END_MARK

    def _take(self, event: dict[str, Any]) -> Iterator[Part]:
        self.server_id = self.server_id or stated_id(event.get("id"))
        if CHUNK not in (event.get("object"), kind := self._kind(event)):
            self._unknown.note(kind)
            return
        audio = event.get("audio")
        if audio is not None and not isinstance(audio, dict):
            raise WireFailure("content_type", f"audio of {CHUNK} is not an object but {type(audio).__name__}")
        if audio:
            self._refuse_after_end("audio")
            payload = decode_base64(audio.get("data"), f"audio.data of {CHUNK}")
            pcm = self._payload.decode(payload, stated_format(audio.get("format"), CHUNK))
            self._has_audio = True
            if pcm:
                yield AudioPart(pcm)
        if (reason := event.get("finish_reason")) in BROKEN_OFF:
            raise WireFailure("in_band_error", f"HTTP 200, then finish_reason {reason!r} in the stream")


FORM = WireForm(
    name="sglang_omni_speech",
    what="POST /v1/audio/speech of SGLang-Omni, its events with base64 of 16-bit PCM",
    path="/v1/audio/speech",
    build_body=build_body,
    content_types=SSE_CONTENT_TYPES,
    decoder=SpeechChunks,
    codec=SpeechEventCodec,
)
