"""The fields that all forms of a speech request share. Made before the load phase: reference audio is read here."""

from __future__ import annotations

import base64
import json
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_bench.errors import ConfigError, DatasetError

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt

BODY_LIMIT_BYTES = 32 * 1024 * 1024  # what the reference server takes, as others do
# base64 makes four bytes of three; a MiB is left for the text and the other fields.
REFERENCE_AUDIO_LIMIT_BYTES = (BODY_LIMIT_BYTES - 1024 * 1024) // 4 * 3
REFERENCE_FORMS = ("base64", "file")


def voice_fields(prompt: Prompt, client: ClientConfig) -> dict[str, Any]:
    """Who speaks, and how: fields that are not configured are not sent.

    Raises DatasetError when a reference is to be sent and the prompt has none (or it cannot be read).
    """
    fields = {
        "voice": client.voice,
        "task_type": client.task_type,
        "language": client.language,
        "instructions": prompt.instructions if prompt.instructions is not None else client.instructions,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    if client.send_reference:
        if prompt.ref_audio is None or prompt.ref_text is None:
            lacking = "ref_audio" if prompt.ref_audio is None else "ref_text"
            raise DatasetError(f"prompt {prompt.id!r} has no {lacking}, which client.send_reference=true needs")
        fields["ref_audio"] = _reference(prompt.id, prompt.ref_audio, client.reference_form)
        fields["ref_text"] = prompt.ref_text
    return fields


def speech_fields(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """Everything of a speech request but its text and its form. Raises DatasetError."""
    optional = {"seed": seed, "max_new_tokens": client.max_new_tokens}
    sent = {name: value for name, value in optional.items() if value is not None}
    return {"model": client.model, **voice_fields(prompt, client), **sent}


def extra_fields(client: ClientConfig) -> dict[str, Any]:
    """``client.extra_body`` as JSON has it. Raises ConfigError when it is not JSON."""
    try:
        return json.loads(json.dumps(dict(client.extra_body), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"client.extra_body={client.extra_body!r} is not JSON: {error}") from None


def encode_json(body: dict[str, Any]) -> bytes:
    """A body as it is posted."""
    return json.dumps(body).encode()


def _reference(prompt_id: str, path: Path, form: str) -> str:
    """A file:// URL, for a server that sees the same disk, or a data: URL that holds the audio."""
    try:
        size = path.stat().st_size
        if size > REFERENCE_AUDIO_LIMIT_BYTES:
            raise DatasetError(
                f"prompt {prompt_id!r}: reference audio {path} has {size} bytes; at most {REFERENCE_AUDIO_LIMIT_BYTES}"
            )
        if form == "file":
            return path.absolute().as_uri()
        audio = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"prompt {prompt_id!r}: cannot read reference audio {path}: {error}") from None
    is_wav = path.suffix.lower() == ".wav"
    mime = "audio/wav" if is_wav else mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{mime};base64,{base64.b64encode(audio).decode('ascii')}"
