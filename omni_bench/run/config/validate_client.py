"""Checks of the client's configuration that a type cannot express."""

from __future__ import annotations

import math
import re

from omni_bench.errors import ConfigError, choice
from omni_bench.load.clients.speech_body import REFERENCE_FORMS
from omni_bench.load.clients.wire_form import WireForm
from omni_bench.load.clients.wire_forms import FORMS, RequestedModalities
from omni_bench.records.config import ClientConfig, RunConfig
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS, faults_of

_CONTENT_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", re.ASCII)  # RFC 6838
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)  # a token of RFC 9110
_TAKEN_HEADER = re.compile(
    r"accept(-encoding)?|connection|content-(length|type)|host|sec-websocket-.*|transfer-encoding|upgrade|user-agent|"
    r"x-request-id",
    re.IGNORECASE,
)
_LIMITS = (("ttfp_ms", "stall_s"), ("ttft_ms", "tpot_ms"))
"""Those of the service level that are on audio, and on text."""


def validate_client(client: ClientConfig) -> None:
    """Raise ConfigError for the first value that cannot be used."""
    form = FORMS.require("client.kind", client.kind)
    choice("client.reference_form", client.reference_form, REFERENCE_FORMS)
    _modalities(client, form)
    for key in client.extra_body:
        for other in _forms():
            if key in other.own_keys and key not in form.own_keys:
                raise ConfigError(f"client.extra_body.{key} with client.kind={client.kind}: {other.own_keys[key]}")
    if client.sample_rate_hz < 1:
        raise ConfigError(f"client.sample_rate_hz={client.sample_rate_hz}: at least 1, such as 24000")
    if client.max_new_tokens is not None and client.max_new_tokens < 1:
        raise ConfigError(f"client.max_new_tokens={client.max_new_tokens}: at least 1, or null")
    for one in client.content_types:
        if not _CONTENT_TYPE.fullmatch(one.strip()):
            raise ConfigError(f"client.content_types={one!r}: a type and a subtype, such as audio/mpeg")
    header = client.api_key_header
    if not _HEADER.fullmatch(header):
        raise ConfigError(f"client.api_key_header={header!r}: the name of a header, such as api-key")
    if _TAKEN_HEADER.fullmatch(header):
        raise ConfigError(f"client.api_key_header={header}: it has another use; valid: Authorization, or its own")
    if header != ClientConfig.api_key_header and client.api_key_env is None:
        raise ConfigError(
            f"client.api_key_header={header} without a key: name the variable that holds it (client.api_key_env=NAME)"
        )
    for name in ("request_timeout_s", "connect_timeout_s", "stall_timeout_s", "max_audio_s"):
        value = getattr(client, name)
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"client.{name}={value}: a finite number above 0")


def validate_requested(config: RunConfig) -> None:
    """Raise ConfigError for checks that cannot be made of what the client asks for."""
    requested = RequestedModalities.of(config.client)
    _chaos(config, requested)
    listed = ", ".join(config.client.modalities)
    if not requested.audio:
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
    elif not requested.scripted and not requested.text and config.asr.kind != "none":
        raise ConfigError(
            f"asr={config.asr.kind} with client.modalities=[{listed}]: what a chat says is only known from its text; "
            "add text to client.modalities, or asr=none"
        )
    _slo(config, requested)


def _chaos(config: RunConfig, requested: RequestedModalities) -> None:
    """Raise ConfigError for a fault of the wire that cannot be seen in what this client asks for."""
    name, kind = config.target.chaos, config.client.kind
    valid = faults_of(kind, audio=requested.audio)
    if name is None or name in valid:
        return
    asking = f"client.kind={kind}" + (
        "" if requested.audio else f" and client.modalities={list(config.client.modalities)}"
    )
    why = WIRE_FAULTS[name].why if requested.audio else "it damages audio, and none is asked for"
    raise ConfigError(f"target.chaos={name} with {asking}: {why}; valid there: {', '.join(valid)}")


def _slo(config: RunConfig, requested: RequestedModalities) -> None:
    """Raise ConfigError for a limit on something that no answer of this client has."""
    listed = ", ".join(config.client.modalities)
    of_audio, of_text = ([name for name in names if getattr(config.slo, name) is not None] for names in _LIMITS)
    if of_audio and not requested.audio:
        raise ConfigError(
            f"{_named(of_audio)} on audio, and client.modalities=[{listed}] asks for none; "
            "valid for a text: slo.ttft_ms, slo.tpot_ms and slo.e2el_ms, such as slo=chat_text, or slo=none"
        )
    if of_text and not requested.text:
        way = (
            f"client.modalities=[{listed}] asks for none; add text to it"
            if not requested.scripted
            else f"client.kind={config.client.kind} asks for none"
        )
        raise ConfigError(
            f"{_named(of_text)} on a chat's text, and {way}; "
            "valid for speech: slo.ttfp_ms, slo.stall_s and slo.e2el_ms, such as slo=interactive, or slo=none"
        )


def _named(names: list[str]) -> str:
    listed = " and ".join(f"slo.{name}" for name in names)
    return f"{listed} {'is a limit' if len(names) == 1 else 'are limits'}"


def _forms() -> list[WireForm]:
    return [form for form in FORMS.usable().values() if isinstance(form, WireForm)]


def _modalities(client: ClientConfig, form: WireForm) -> None:
    if not form.modalities:
        if client.modalities:
            chats = ", ".join(one.name for one in _forms() if one.modalities)
            raise ConfigError(
                f"client.modalities={list(client.modalities)} is for client.kind={chats}, not for {client.kind}"
            )
        return
    if not client.modalities:
        raise ConfigError("client.modalities=[]: what to ask a chat for; valid: [text], [text,audio], [audio]")
    for modality in client.modalities:
        choice("client.modalities", modality, form.modalities)
    if len(set(client.modalities)) != len(client.modalities):
        raise ConfigError(f"client.modalities={list(client.modalities)} lists one twice")
