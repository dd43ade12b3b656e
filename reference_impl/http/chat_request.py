"""The body of POST /v1/chat/completions: JSON in, a checked :class:`ChatCall` out. Pure functions.

The fields are those of OpenAI's API and, as vllm-omni clients send them, those of
the speech form (:mod:`reference_impl.http.speech_request`); unknown ones are ignored. What is spoken is the
text of the last user message, because the text model is a stand-in (:mod:`reference_impl.http.chat_text`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reference_impl.engine_api import EngineLike
from reference_impl.http.chat_text import count_tokens, text_tokens
from reference_impl.http.errors import bad_request, shown
from reference_impl.http.speech_request import MAX_INPUT_CHARS, Fields, SpeechCall, json_object, speech_call, type_name

MODALITIES = ("text", "audio")
AUDIO_FORMATS = {"wav": "wav", "pcm16": "pcm", "pcm": "pcm"}
AUDIO_FIELDS = ("content", "audio")
MAX_PROMPT_CHARS = 65_536  # of all messages together
MAX_COMPLETION_TOKENS = 1_000_000


@dataclass(frozen=True)
class ChatCall:
    """One checked call.

    ``tokens``: what is written, one piece a token; ``cut``: the text had more than the client
    wants. ``speech``: what is spoken, None for text alone; ``shows_text`` is false for audio alone.
    ``audio_format``: how the client calls its format (wav, pcm16 or pcm). ``audio_field``: where the
    audio of a chunk is, ``content`` (as in vllm-omni) or ``audio`` (as in OpenAI's API).
    """

    model: str
    tokens: tuple[str, ...]
    prompt_tokens: int
    cut: bool
    speech: SpeechCall | None
    shows_text: bool
    stream: bool
    include_usage: bool
    audio_format: str
    audio_field: str

    @property
    def text(self) -> str:
        """All that is written."""
        return "".join(self.tokens)


def parse_chat_call(body: bytes, engine: EngineLike) -> ChatCall:
    """Check a request body against what ``engine`` says of itself.

    Raises ApiError (400) that names the field and its valid values.
    """
    values = json_object(body)
    fields = Fields(values)
    text, prompt_tokens = _messages(fields)
    modalities = _modalities(fields)
    fields.integer("n", 1, 1)
    tokens = text_tokens(text)
    limit = _max_tokens(fields)
    kept = tuple(tokens if limit is None else tokens[:limit])
    audio = Fields(fields.typed("audio", dict) or {}, "audio.")
    audio_format = audio.choice("format", tuple(AUDIO_FORMATS), "unsupported")
    options = Fields(fields.typed("stream_options", dict) or {}, "stream_options.")
    # checked for text alone as well: a voice that does not exist is a mistake whatever the modalities
    speech = speech_call(_speech_values(values, audio, "".join(kept), audio_format), engine)
    return ChatCall(
        model=engine.model_name,
        tokens=kept,
        prompt_tokens=prompt_tokens,
        cut=len(kept) < len(tokens),
        speech=speech if "audio" in modalities else None,
        shows_text="text" in modalities,
        stream=fields.boolean("stream") or False,
        include_usage=options.boolean("include_usage") or False,
        audio_format=audio_format or "wav",
        audio_field=fields.choice("audio_field", AUDIO_FIELDS) or "content",
    )


def _speech_values(values: Mapping[str, Any], audio: Fields, text: str, audio_format: str | None) -> dict[str, Any]:
    """The call in the fields of the speech form; ``response_format`` means something else in a chat."""
    speech = {name: value for name, value in values.items() if name not in ("stream", "stream_format")}
    speech |= {"input": text, "response_format": AUDIO_FORMATS[audio_format or "wav"]}
    if audio.raw("voice") is not None:
        speech["voice"] = audio.raw("voice")
    return speech


def _modalities(fields: Fields) -> tuple[str, ...]:
    """What to answer with; text and audio unless the client says otherwise, as vllm-omni does."""
    wanted = fields.typed("modalities", list)
    if wanted is None:
        return MODALITIES
    unknown = [one for one in wanted if one not in MODALITIES]
    if unknown or not wanted:
        found = shown(unknown[0]) if unknown else "an empty array"
        raise bad_request(f"modalities: {found} is not supported; valid: {', '.join(MODALITIES)}", "modalities")
    return tuple(wanted)


def _max_tokens(fields: Fields) -> int | None:
    newer = fields.integer("max_completion_tokens", 1, MAX_COMPLETION_TOKENS)
    return newer if newer is not None else fields.integer("max_tokens", 1, MAX_COMPLETION_TOKENS)


def _messages(fields: Fields) -> tuple[str, int]:
    """The text of the last user message, and the tokens in the text of all messages."""
    messages = fields.typed("messages", list)
    if not messages:
        raise bad_request("messages is missing: an array with a user message", "messages", "missing")
    said: str | None = None
    chars, tokens = 0, 0
    for index, message in enumerate(messages):
        name = f"messages[{index}]"
        if not isinstance(message, dict):
            raise bad_request(f"{name} must be an object, not {type_name(message)}", "messages", "invalid_type")
        one = Fields(message, f"{name}.")
        role, text = one.text("role"), _content(one, f"{name}.content")
        chars += len(text)
        if chars > MAX_PROMPT_CHARS:
            raise bad_request(
                f"messages have more than {MAX_PROMPT_CHARS} characters of text together", "messages", "too_long"
            )
        tokens += count_tokens(text)
        if role == "user":
            said = text
    if said is None:
        raise bad_request("messages holds no message with the role user, whose text is spoken", "messages", "missing")
    if not said.strip():
        raise bad_request("the last user message holds no text to speak", "messages")
    if len(said) > MAX_INPUT_CHARS:
        raise bad_request(
            f"the last user message has {len(said)} characters; at most {MAX_INPUT_CHARS} are allowed",
            "messages",
            "too_long",
        )
    return said, tokens


def _content(message: Fields, name: str) -> str:
    """The text of a message: a string, or its text parts, one a line. Other parts are ignored."""
    content = message.raw("content")
    if not isinstance(content, list):
        return message.text("content") or ""
    texts = []
    for part in content:
        if not isinstance(part, dict):
            raise bad_request(f"{name} must hold objects, not {type_name(part)}", "messages", "invalid_type")
        if part.get("type") == "text":
            texts.append(Fields(part, f"{name}[].").text("text") or "")
    return "\n".join(texts)
