"""What a run asked its server for: speech, a chat's text and audio, or its text alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omni_bench.clients.forms import CHAT
from omni_bench.clients.openai_chat_audio import AUDIO, TEXT


def has_audio(run: Mapping[str, Any]) -> bool:
    """Whether audio was asked for: always, but for a chat of text alone."""
    return AUDIO in modalities(run)


def has_text(run: Mapping[str, Any]) -> bool:
    """Whether text was asked for: in a chat only."""
    return TEXT in modalities(run)


def modalities(run: Mapping[str, Any]) -> tuple[str, ...]:
    """What was asked for, by run.json's own configuration; audio of a run that does not say (speech)."""
    client = (run.get("provenance") or {}).get("config", {}).get("client") or {}
    if client.get("kind") != CHAT:
        return (AUDIO,)
    return tuple(client.get("modalities") or ())
