"""Omni chat: POST /v1/chat/completions with modalities text and audio, answered by server-sent events.

Two dialects are understood. vllm-omni marks each chunk with a top-level ``modality`` and puts text, or the
base64 of a self-contained WAV, into ``delta.content``; OpenAI puts samples into ``delta.audio.data`` and
their words into ``delta.audio.transcript``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omni_bench.load.clients.decoder import (
    AudioPart,
    Part,
    TextPart,
    WireFailure,
    decode_base64,
    stated_format,
    stated_id,
    token_count,
)
from omni_bench.load.clients.responses import SSE_CONTENT_TYPES
from omni_bench.load.clients.session import WireOptions
from omni_bench.load.clients.speech_body import extra_fields, voice_fields
from omni_bench.load.clients.sse import BROKEN_OFF, END_MARK, EventCodec, EventDecoder, event_bytes
from omni_bench.load.clients.units import INJECTED, Unit, base64_unit
from omni_bench.load.clients.wire_form import WireForm, WireRecording

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt

TEXT, AUDIO = "text", "audio"
MODALITIES = (TEXT, AUDIO)
REASONING = ("reasoning_content", "reasoning")  # fields of a delta in which a model thinks; no part of its reply


def build_body(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """The JSON body of one request: the prompt's text is what the user says. ``extra_body`` goes last.

    Raises DatasetError and ConfigError as :func:`omni_bench.load.clients.openai_speech.build_body` does.
    """
    optional = {"seed": seed, "max_tokens": client.max_new_tokens}
    return {
        "model": client.model,
        "messages": [{"role": "user", "content": prompt.text}],
        "modalities": list(client.modalities),
        "stream": True,
        "stream_options": {"include_usage": True},
        **{name: value for name, value in optional.items() if value is not None},
        **voice_fields(prompt, client),
        **extra_fields(client),
    }


class ChatChunks(EventDecoder):
    """The decoder of one answer. ``[DONE]`` is its clean end, after which neither audio nor text may come."""

    last = END_MARK

    def __init__(self, options: WireOptions, stated_rate_hz: int | None = None) -> None:
        super().__init__(options, stated_rate_hz)
        self._has_content = self._has_reasoning = False
        self._has_text = False
        self._empty_tokens = 0  # of deltas without text, such as half a character

    @property
    def sample_rate_hz(self) -> int | None:
        """As the chunks say, or else as configured; None as long as there is no audio."""
        return (self._payload.sample_rate_hz or self._default_rate_hz) if self._has_audio else None

    @property
    def _heard(self) -> bool:
        return self._has_audio or self._has_text

    def _take(self, chunk: dict[str, Any]) -> Iterator[Part]:
        self.server_id = self.server_id or stated_id(chunk.get("id"))
        modality = chunk.get("modality")
        if modality not in (None, *MODALITIES):
            raise WireFailure("content_type", f"a chunk of modality {str(modality)[:40]!r}, not text or audio")
        if modality != AUDIO:  # a speech stage that counts its own tokens does not mean those of the text
            self._take_usage(chunk.get("usage"))
        if "choices" not in chunk:
            self._unknown.note(self._kind(chunk))
        for choice in _objects(chunk.get("choices"), "choices"):
            if choice.get("index", 0) == 0:  # n=1 is all that was asked for
                yield from self._take_choice(choice, modality)

    def _take_choice(self, choice: dict[str, Any], modality: str | None) -> Iterator[Part]:
        delta = _object(choice.get("delta"), "delta")
        content, audio = delta.get("content"), _object(delta.get("audio"), "delta.audio")
        metadata = _object(choice.get("audio_metadata"), "audio_metadata")
        self._has_reasoning = self._has_reasoning or any(delta.get(name) for name in REASONING)
        if content is not None and not isinstance(content, str):
            raise WireFailure("content_type", f"delta.content is not a string but {type(content).__name__}")
        if modality == AUDIO:
            if content:
                yield from self._take_audio(content, "delta.content", metadata)
        elif content is not None:
            self._has_content = self._has_content or bool(content)
            yield from self._text(content, choice.get("token_ids"))
        if audio.get("data"):
            yield from self._take_audio(audio["data"], "delta.audio.data", metadata)
        transcript = audio.get("transcript")
        if isinstance(transcript, str) and not self._has_content:
            yield from self._text(transcript, None)
        if (reason := choice.get("finish_reason")) in BROKEN_OFF:
            raise WireFailure("in_band_error", f"HTTP 200, then finish_reason {reason!r} in the stream")

    def _take_audio(self, value: Any, where: str, metadata: dict[str, Any]) -> Iterator[Part]:
        payload = decode_base64(value, where)
        if metadata.get("channels", 1) not in (1, None):
            raise WireFailure("content_type", f"{metadata['channels']!r} channels; only mono can be judged")
        self._refuse_after_end("audio")
        pcm = self._payload.decode(payload, stated_format(metadata.get("format"), "audio_metadata"))
        self._has_audio = True
        if pcm:
            yield AudioPart(pcm)

    def _text(self, text: str, token_ids: Any) -> Iterator[Part]:
        tokens = len(token_ids) if isinstance(token_ids, list) else None
        self._has_text = self._has_text or bool(text)
        if text:
            self._refuse_after_end("text")
            yield TextPart(text, None if tokens is None else tokens + self._empty_tokens)
            self._empty_tokens = 0
        elif tokens is not None:
            self._empty_tokens += tokens

    def _take_usage(self, usage: Any) -> None:
        """Tokens of the reply's text alone: a server may count those of the audio and of its reasoning too.

        It then tells them apart; where it does not say how many tokens it spent on a reasoning that was seen, those
        of the reply are not known.
        """
        usage = _object(usage, "usage")
        total = token_count(usage.get("completion_tokens"), "usage.completion_tokens")
        if total is None:
            return
        details = _object(usage.get("completion_tokens_details"), "usage.completion_tokens_details")
        text = token_count(details.get("text_tokens"), "text_tokens")
        audio = token_count(details.get("audio_tokens"), "audio_tokens") or 0
        reasoning = token_count(details.get("reasoning_tokens"), "reasoning_tokens")
        if text is None and not reasoning and self._has_reasoning:
            self.completion_tokens = None
        else:
            self.completion_tokens = text if text is not None else max(total - audio - (reasoning or 0), 0)


def _object(value: Any, name: str) -> dict[str, Any]:
    """An object that may be missing. Raises WireFailure."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WireFailure("content_type", f"{name} of a chunk is not an object but {type(value).__name__}")
    return value


def _objects(value: Any, name: str) -> list[dict[str, Any]]:
    if value is not None and not isinstance(value, list):
        raise WireFailure("content_type", f"{name} of a chunk is not a list but {type(value).__name__}")
    return [_object(one, f"an entry of {name}") for one in value or ()]


class ChatCodec(EventCodec):
    """Chunks of a chat, in both dialects of the client ``openai_chat_audio``. Its text stays its own."""

    def _take_mark(self, wire: bytes) -> Iterator[Unit]:
        yield Unit(wire, ends=True, last=True)

    def _take_event(self, wire: bytes, event: dict[str, Any]) -> Iterator[Unit]:
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        audio = delta.get("audio")
        if event.get("modality") == AUDIO and delta.get("content"):
            yield base64_unit(
                wire,
                delta["content"],
                lambda text, size: event_bytes(wire, _with_delta(event, choice, {**delta, "content": text}, size)),
            )
        elif isinstance(audio, dict) and audio.get("data"):
            yield from self._take_audio(wire, event, choice, delta)
        else:
            yield Unit(wire, own=True)

    def _take_audio(
        self, wire: bytes, event: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any]
    ) -> Iterator[Unit]:
        """OpenAI's dialect. Words in the same chunk become one of their own: no fault of the audio may hit them."""
        audio = delta["audio"]
        if delta.get("content") or audio.get("transcript"):
            words = {name: value for name, value in audio.items() if name != "data"}
            yield Unit(event_bytes(wire, _with_delta(event, choice, {**delta, "audio": words}, None)), own=True)
            delta = {"audio": {name: value for name, value in audio.items() if name != "transcript"}}
            wire = event_bytes(wire, _with_delta(event, choice, delta, None))
        yield base64_unit(
            wire,
            audio["data"],
            lambda text, size: event_bytes(
                wire, _with_delta(event, choice, {**delta, "audio": {**delta["audio"], "data": text}}, size)
            ),
        )

    def error(self) -> Iterator[Unit]:
        """An error in the place of a chunk, and the end."""
        yield Unit(event_bytes(b"", INJECTED))
        yield Unit(b"data: " + END_MARK.encode() + b"\n\n")


def _with_delta(
    event: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any], pcm_bytes: int | None
) -> dict[str, Any]:
    """A chunk with another delta; ``pcm_bytes`` of samples are stated where their number was, None leaves it."""
    choice = {**choice, "delta": delta}
    metadata = choice.get("audio_metadata")
    if pcm_bytes is not None and isinstance(metadata, dict) and "frame_count" in metadata:
        choice["audio_metadata"] = {**metadata, "frame_count": pcm_bytes // 2}
    return {**event, "choices": [choice, *event["choices"][1:]]}


FORM = WireForm(
    name="openai_chat_audio",
    what="POST /v1/chat/completions, text and audio; client.modalities=[text] for text alone (with asr=none)",
    path="/v1/chat/completions",
    build_body=build_body,
    content_types=SSE_CONTENT_TYPES,
    decoder=ChatChunks,
    codec=ChatCodec,
    modalities=MODALITIES,
    recordings={
        "chat": WireRecording(modalities=MODALITIES),
        "chat_openai": WireRecording({"audio": {"format": "pcm16"}, "audio_field": "audio"}, MODALITIES),
        "chat_text": WireRecording(modalities=(TEXT,)),
        "chat_error": WireRecording(modalities=MODALITIES, error="in_band_error"),
    },
)
