"""Checks of the client's configuration that a type cannot express."""

from __future__ import annotations

import math

from omni_bench.clients.forms import CHAT, FORMS, Asked
from omni_bench.clients.openai_chat_audio import MODALITIES
from omni_bench.clients.speech_body import REFERENCE_FORMS
from omni_bench.config.explain import alternatives
from omni_bench.config.schema import ClientConfig, RunConfig
from omni_bench.errors import ConfigError

CLIENT_KINDS = tuple(FORMS)
DAMAGED = "openai_speech"
"""The form that the proxy of ``target.chaos`` knows how to damage."""


def validate_client(client: ClientConfig) -> None:
    """Raise ConfigError for the first value that cannot be used."""
    _choice("client.kind", client.kind, CLIENT_KINDS)
    _choice("client.reference_form", client.reference_form, REFERENCE_FORMS)
    _modalities(client)
    if client.sample_rate_hz < 1:
        raise ConfigError(f"client.sample_rate_hz={client.sample_rate_hz}: at least 1, such as 24000")
    if client.max_new_tokens is not None and client.max_new_tokens < 1:
        raise ConfigError(f"client.max_new_tokens={client.max_new_tokens}: at least 1, or null")
    for name in ("request_timeout_s", "connect_timeout_s", "stall_timeout_s", "max_audio_s"):
        value = getattr(client, name)
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"client.{name}={value}: a finite number above 0")


def validate_asked(config: RunConfig) -> None:
    """Raise ConfigError for checks that cannot be made of what the client asks for."""
    if config.target.chaos is not None and config.client.kind != DAMAGED:
        raise ConfigError(
            f"target.chaos={config.target.chaos} with client.kind={config.client.kind}: faults of the wire are "
            f"made for bare samples; valid: client={DAMAGED}"
        )
    asked = Asked.of(config.client)
    listed = ", ".join(config.client.modalities)
    if not asked.audio:
        if config.asr.kind != "none":
            raise ConfigError(
                f"asr={config.asr.kind} with client.modalities=[{listed}]: a run of text alone has nothing to hear; "
                "add asr=none"
            )
        if config.checks.parity_requests:
            raise ConfigError(
                f"checks.parity_requests={config.checks.parity_requests} with client.modalities=[{listed}]: the parity "
                "check compares audio, and a run of text alone has none; set it to 0"
            )
        if config.slo.ttfp_ms is not None or config.slo.stall_s is not None:
            raise ConfigError(
                f"slo.ttfp_ms and slo.stall_s are limits on audio, and client.modalities=[{listed}] asks for none; "
                "add slo=none"
            )
    elif config.client.kind == CHAT and not asked.text and config.asr.kind != "none":
        raise ConfigError(
            f"asr={config.asr.kind} with client.modalities=[{listed}]: what a chat says is only known from its text; "
            "add text to client.modalities, or asr=none"
        )


def _modalities(client: ClientConfig) -> None:
    if client.kind != CHAT:
        if client.modalities:
            raise ConfigError(
                f"client.modalities={list(client.modalities)} is for client.kind={CHAT}, not for {client.kind}"
            )
        return
    if not client.modalities:
        raise ConfigError("client.modalities=[]: what to ask a chat for; valid: [text], [text,audio], [audio]")
    for modality in client.modalities:
        _choice("client.modalities", modality, MODALITIES)
    if len(set(client.modalities)) != len(client.modalities):
        raise ConfigError(f"client.modalities={list(client.modalities)} lists one twice")


def _choice(key: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise ConfigError(f"{key}={value!r}{alternatives(value, valid)}")
