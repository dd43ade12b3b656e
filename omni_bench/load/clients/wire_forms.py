"""The wire forms that a client can speak, by the value of ``client.kind``. The load worker imports this module."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omni_bench.load.clients import (
    openai_chat_audio,
    openai_speech,
    openai_speech_sse,
    openai_speech_wav,
    openai_speech_ws,
)
from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.speech_body import encode_json
from omni_bench.load.clients.urls import chat_url, speech_stream_url, speech_url
from omni_bench.records.timeline import Timeline

if TYPE_CHECKING:
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt

CHAT = "openai_chat_audio"


@dataclass(frozen=True)
class WireForm:
    """One way of making a request.

    ``url``: from the server's address to the endpoint. ``build_body``: from a prompt, the client's configuration and
    the seed to JSON values; ``encode``: from those to what is sent. ``send`` makes the request.
    ``keeps_connections``: whether a connection serves one request after another.
    """

    url: Callable[[str], str]
    build_body: Callable[[Prompt, ClientConfig, int | None], dict[str, Any]]
    send: Callable[[RequestContext], Awaitable[tuple[Timeline, list[bytes]]]]
    encode: Callable[[dict[str, Any]], bytes] = encode_json
    keeps_connections: bool = True


FORMS: dict[str, WireForm] = {
    "openai_speech": WireForm(speech_url, openai_speech.build_body, openai_speech.send),
    "openai_speech_sse": WireForm(speech_url, openai_speech_sse.build_body, openai_speech_sse.send),
    "openai_speech_wav": WireForm(speech_url, openai_speech_wav.build_body, openai_speech_wav.send),
    "openai_speech_ws": WireForm(
        speech_stream_url,
        openai_speech_ws.build_body,
        openai_speech_ws.send,
        encode=openai_speech_ws.encode_messages,
        keeps_connections=False,
    ),
    CHAT: WireForm(chat_url, openai_chat_audio.build_body, openai_chat_audio.send),
}


@dataclass(frozen=True)
class RequestedModalities:
    """What was asked of a server: ``audio``, ``text``, or both; by default speech.

    ``scripted``: whether what is to be said is the text of the prompt, and not what a chat makes of it.
    """

    audio: bool = True
    text: bool = False
    scripted: bool = True

    @classmethod
    def of(cls, client: ClientConfig) -> RequestedModalities:
        """By the configuration of the client."""
        if client.kind != CHAT:
            return cls()
        return cls(*(name in client.modalities for name in (openai_chat_audio.AUDIO, openai_chat_audio.TEXT)), False)
