"""The body of POST /v1/audio/speech: JSON in, a checked :class:`SpeechCall` out. Pure functions.

The fields are those that OpenAI's API and vllm-omni clients send; unknown ones are ignored.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reference_impl.engine_api import Capabilities, EngineLike
from reference_impl.http.errors import bad_request, shown

MAX_INPUT_CHARS = 4096  # as in OpenAI's API
MAX_GUIDE_CHARS = 4096  # of instructions and ref_text each, like the input
MAX_NEW_TOKENS = 4096  # as in vllm-omni
MAX_SEED = 2**63 - 1
RESPONSE_FORMATS = ("wav", "pcm")
STREAM_FORMATS = ("audio", "sse")
GUIDES = ("ref_audio", "ref_text", "instructions")
LANGUAGES = {"english": "English", "en": "English", "auto": None}  # others go to the engine as it spells them
_JSON_TYPES = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


@dataclass(frozen=True)
class SpeechCall:
    """One checked call. ``delivery``: ``file`` (whole), ``audio`` (raw stream) or ``sse``.

    ``ref_audio`` is still as the client wrote it (:mod:`reference_impl.http.reference_audio` decodes
    it). ``ignored``: fields the client set that have no effect with this voice.
    """

    text: str
    voice: str
    seed: int
    response_format: str
    delivery: str
    max_new_tokens: int | None = None
    language: str | None = None
    instructions: str | None = None
    ref_audio: str | None = None
    ref_text: str | None = None
    ignored: tuple[str, ...] = ()


def parse_speech_call(body: bytes, engine: EngineLike) -> SpeechCall:
    """Check a request body against what ``engine`` says of itself.

    Raises ApiError (400) that names the field and its valid values.
    """
    return speech_call(json_object(body), engine)


def speech_call(values: Mapping[str, Any], engine: EngineLike) -> SpeechCall:
    """The same of a body that has been parsed, for other forms that carry these fields."""
    fields, capabilities = Fields(values), engine.capabilities
    _check_model(fields, engine.model_name)
    _check_unsupported(fields, engine.sample_rate_hz)
    seed = fields.integer("seed", 0, MAX_SEED)
    fields.choice("task_type", capabilities.task_types, "unsupported")
    language = fields.choice("language", capabilities.languages)
    guides = {name: fields.text(name) or None for name in GUIDES}
    if guides["ref_audio"] is None and guides["ref_text"] is None:
        guides |= _first_reference(fields)
    ref_audio, ref_text, instructions = (guides[name] for name in GUIDES)
    ignored = _ignored(capabilities)
    if capabilities.clones and fields.boolean("x_vector_only_mode"):
        ref_text = None  # the speaker's vector alone: the transcript does not matter
    return SpeechCall(
        text=_input(fields),
        voice=_voice(fields, engine.voices),
        seed=secrets.randbelow(MAX_SEED + 1) if seed is None else seed,
        response_format=fields.choice("response_format", RESPONSE_FORMATS) or "wav",
        delivery=_delivery(fields),
        max_new_tokens=fields.integer("max_new_tokens", 1, MAX_NEW_TOKENS),
        language=LANGUAGES.get(language, language) if language else None,
        instructions=None if "instructions" in ignored else _bounded(instructions, "instructions"),
        ref_audio=None if "ref_audio" in ignored else ref_audio,
        ref_text=None if "ref_text" in ignored else _bounded(ref_text, "ref_text"),
        ignored=tuple(name for name in ignored if guides[name]),
    )


def _ignored(capabilities: Capabilities) -> tuple[str, ...]:
    """The fields that have no effect with such a checkpoint."""
    reference = () if capabilities.clones else ("ref_audio", "ref_text")
    return reference if capabilities.follows_instructions else (*reference, "instructions")


def _first_reference(fields: Fields) -> dict[str, str | None]:
    """``references[0]`` with ``audio_path`` and ``text``, another name of ref_audio and ref_text."""
    references = fields.raw("references")
    if not references:
        return {}
    if not isinstance(references, list) or not isinstance(references[0], dict):
        raise bad_request(
            f"references must be an array of objects, not {type_name(references)}", "references", "invalid_type"
        )
    first = Fields(references[0], "references[0].")
    return {"ref_audio": first.text("audio_path") or None, "ref_text": first.text("text") or None}


def _bounded(text: str | None, name: str) -> str | None:
    if text is not None and len(text) > MAX_GUIDE_CHARS:
        raise bad_request(f"{name} has {len(text)} characters; at most {MAX_GUIDE_CHARS} are allowed", name, "too_long")
    return text


def json_object(body: bytes | str) -> dict[str, Any]:
    """The object that ``body`` is. Raises ApiError (400)."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:  # bad JSON or UTF-8; absurdly long numbers or deep nesting
        raise bad_request(f"the request body is not JSON: {shown(str(error))}", None, "invalid_json") from None
    if not isinstance(values, dict):
        raise bad_request(f"the request body must be a JSON object, not {type_name(values)}", None, "invalid_json")
    return values


def type_name(value: Any) -> str:
    """What JSON calls the type of ``value``, for a message."""
    return _JSON_TYPES.get(type(value), "null")


class Fields:
    """Typed access to the fields of a body; null counts as absent.

    ``prefix`` comes before a field's name in messages ("audio."), for an object within a body.
    """

    def __init__(self, values: Mapping[str, Any], prefix: str = ""):
        self._values, self._prefix = values, prefix

    def raw(self, name: str) -> Any:
        """The value as it is."""
        return self._values.get(name)

    def typed(self, name: str, wanted: type) -> Any:
        """A value of the JSON type ``wanted``. Like all below, raises ApiError (400) for anything else."""
        value = self.raw(name)
        if value is None or type(value) is wanted:  # not isinstance: a bool is no integer in JSON
            return value
        name = self._prefix + name
        raise bad_request(
            f"{name} must be {_JSON_TYPES[wanted]}, not {type_name(value)}: {shown(value)}", name, "invalid_type"
        )

    def text(self, name: str) -> str | None:
        """A string that can be encoded."""
        value = self.typed(name, str)
        if value and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                name = self._prefix + name
                raise bad_request(f"{name} holds half of a surrogate pair: {shown(value)}", name) from None
        return value

    def boolean(self, name: str) -> bool | None:
        """True or false."""
        return self.typed(name, bool)

    def integer(self, name: str, low: int, high: int) -> int | None:
        """An integer of ``low`` to ``high``."""
        value = self.typed(name, int)
        if value is not None and not low <= value <= high:
            name = self._prefix + name
            raise bad_request(f"{name} is {shown(value)}; valid: {low} to {high}", name)
        return value

    def choice(self, name: str, valid: Sequence[str], code: str = "invalid_value") -> str | None:
        """One of ``valid`` in any case, as ``valid`` writes it."""
        value = self.text(name)
        return None if value is None else match_name(value, valid, self._prefix + name, code)


def match_name(value: str, valid: Sequence[str], param: str, code: str = "invalid_value") -> str:
    """``value`` as ``valid`` spells it. Raises ApiError (400) that lists ``valid``."""
    by_lower = {name.lower(): name for name in valid}
    if value.lower() not in by_lower:
        raise bad_request(f"{param} {shown(value)} is not supported; valid: {', '.join(valid)}", param, code)
    return by_lower[value.lower()]


def _check_model(fields: Fields, model_name: str) -> None:
    model = fields.text("model")
    if model is not None and model != model_name:
        raise bad_request(f"model {shown(model)} does not exist; valid: {model_name}", "model", "model_not_found")


def _check_unsupported(fields: Fields, sample_rate_hz: int) -> None:
    """Fields that would give the client other audio than it asked for if they were ignored."""
    speed = fields.raw("speed")
    if isinstance(speed, bool) or not isinstance(speed, int | float | None):
        raise bad_request(f"speed must be a number, not {type_name(speed)}: {shown(speed)}", "speed", "invalid_type")
    if speed is not None and speed != 1:
        raise bad_request(f"speed {shown(speed)} is unsupported by this server; valid: 1.0", "speed", "unsupported")
    rate = fields.integer("sample_rate", 0, MAX_SEED)
    if rate is not None and rate != sample_rate_hz:
        raise bad_request(f"sample_rate {rate} is unsupported; valid: {sample_rate_hz}", "sample_rate", "unsupported")


def _input(fields: Fields) -> str:
    text = fields.text("input")
    if text is None:
        raise bad_request("input is missing: the text to speak, a string", "input", "missing")
    if not text.strip():
        raise bad_request("input is empty: it must hold some text to speak", "input")
    if len(text) > MAX_INPUT_CHARS:
        raise bad_request(
            f"input has {len(text)} characters; at most {MAX_INPUT_CHARS} are allowed", "input", "too_long"
        )
    return text


def _voice(fields: Fields, voices: Sequence[str]) -> str:
    param = "voice" if fields.raw("voice") is not None else "speaker"
    value = fields.raw(param)
    if value is None:
        return voices[0]
    if isinstance(value, dict):
        value = value.get("id")
    if not isinstance(value, str):
        found = type_name(fields.raw(param))
        raise bad_request(f'{param} must be a string or {{"id": string}}, not {found}', param, "invalid_type")
    return match_name(value, voices, param, "voice_not_found")


def _delivery(fields: Fields) -> str:
    """``stream_format`` "sse" always streams, "audio" unless ``stream`` is false; ``stream`` alone means SSE."""
    stream = fields.boolean("stream")
    stream_format = fields.choice("stream_format", STREAM_FORMATS)
    if stream_format == "sse" or (stream_format is None and stream):
        return "sse"
    return "audio" if stream_format == "audio" and stream is not False else "file"
