"""The wire forms that a client can speak, by the value of ``client.kind``. The load worker imports this module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omni_bench.load.clients import (
    openai_chat_audio,
    openai_speech,
    openai_speech_sse,
    openai_speech_ws,
    sglang_omni_speech,
)
from omni_bench.load.clients.wire_form import WireForm
from omni_bench.plugins import Registry

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig

BUILT_IN = (
    openai_speech.FORM,
    openai_speech_sse.FORM,
    openai_speech.WAV_FORM,
    openai_speech_ws.FORM,
    openai_chat_audio.FORM,
    sglang_omni_speech.FORM,
)
FORMS = Registry("omni_bench.wire_forms", WireForm, {form.name: form for form in BUILT_IN})


@dataclass(frozen=True)
class RequestedModalities:
    """What is asked of a server: ``audio``, ``text``, or both; by default speech.

    ``scripted``: whether what is to be said is the text of the prompt, and not what a chat makes of it.
    """

    audio: bool = True
    text: bool = False
    scripted: bool = True

    @classmethod
    def of(cls, client: ClientConfig) -> RequestedModalities:
        """By the configuration of the client."""
        if not FORMS[client.kind].modalities:
            return cls()
        return cls("audio" in client.modalities, "text" in client.modalities, scripted=False)
