"""POST /v1/audio/speech, answered by server-sent events: speech.audio.delta, then speech.audio.done or .error."""

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
from omni_bench.load.clients.responses import SSE_CONTENT_TYPES
from omni_bench.load.clients.speech_body import extra_fields, speech_fields
from omni_bench.load.clients.sse import END_MARK, EventCodec, EventDecoder, event_bytes
from omni_bench.load.clients.units import INJECTED, Unit, base64_unit
from omni_bench.load.clients.wire_form import WireForm, WireRecording

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt

DELTA, DONE, ERROR = "speech.audio.delta", "speech.audio.done", "speech.audio.error"
CHUNK = "audio.speech.chunk"  # of SGLang-Omni: sglang_omni_speech.py


def build_body(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """As :func:`omni_bench.load.clients.openai_speech.build_body`, for events that hold samples."""
    form = {"response_format": "pcm", "stream": True, "stream_format": "sse"}
    return {"input": prompt.text, **speech_fields(prompt, client, seed), **form, **extra_fields(client)}


class SpeechEvents(EventDecoder):
    """The decoder of one answer. Events of other types are passed over; after the end no audio may come."""

    last = DONE

    def _take_mark(self) -> Iterator[Part]:
        if not self._done:  # the end of other forms
            self._unknown.refuse_if_all(heard=self._has_audio)
            raise WireFailure("disconnected", f"the stream ends with {END_MARK}, without {DONE}")
        return iter(())

    def _take(self, event: dict[str, Any]) -> Iterator[Part]:
        kind = self._kind(event)
        self.server_id = self.server_id or stated_id(event.get("id"))
        if kind == DELTA:
            self._refuse_after_end(DELTA)
            audio = decode_base64(event.get("audio"), f"audio of {DELTA}")
            pcm = self._payload.decode(audio, stated_format(event.get("response_format"), DELTA))
            self._has_audio = True
            if pcm:
                yield AudioPart(pcm)
        elif kind == DONE:
            if not self._done:  # some servers say it twice
                yield from self._end_audio()
                self._unknown.refuse_if_all(heard=self._has_audio)
        else:
            self._unknown.note(kind)


class SpeechEventCodec(EventCodec):
    """``speech.audio.delta`` and ``speech.audio.done``, or SGLang-Omni's ``audio.speech.chunk``: one path."""

    def _take_mark(self, wire: bytes) -> Iterator[Unit]:
        yield Unit(wire)

    def _take_event(self, wire: bytes, event: dict[str, Any]) -> Iterator[Unit]:
        if event.get("type") == DELTA:
            yield base64_unit(wire, event.get("audio"), lambda text, _: event_bytes(wire, {**event, "audio": text}))
        elif event.get("object") == CHUNK and isinstance(audio := event.get("audio"), dict) and audio.get("data"):
            yield base64_unit(
                wire, audio["data"], lambda text, _: event_bytes(wire, {**event, "audio": {**audio, "data": text}})
            )
        else:
            is_last = event.get("type") == DONE or bool(event.get("finish_reason"))
            yield Unit(wire, ends=is_last, last=is_last)

    def error(self) -> Iterator[Unit]:
        """``speech.audio.error``, the last event."""
        yield Unit(event_bytes(b"", {"type": ERROR, **INJECTED}))


FORM = WireForm(
    name="openai_speech_sse",
    what="POST /v1/audio/speech, server-sent events with base64 of 16-bit PCM",
    path="/v1/audio/speech",
    build_body=build_body,
    content_types=SSE_CONTENT_TYPES,
    decoder=SpeechEvents,
    codec=SpeechEventCodec,
    recordings={
        "speech_sse": WireRecording(),
        "speech_sse_wav": WireRecording({"response_format": "wav"}),
        "speech_sse_error": WireRecording(error="in_band_error"),
    },
)
