"""Finding a server's error message in a response body, or in the middle of an audio stream. Pure functions."""

from __future__ import annotations

import json
import re
from email.message import Message
from itertools import islice
from typing import Any

from omni_bench.errors import shorten

MESSAGE_LIMIT_CHARS = 500
ERROR_BODY_LIMIT_BYTES = 64 * 1024  # what is read of a body that is not audio
TAIL_BYTES = 16 * 1024  # an error object that ends a stream is looked for in this much of its end
MAX_CANDIDATES = 16  # places in that tail that are tried, so that a hostile tail costs nothing

_ERROR_OBJECT_START = re.compile(rb'\{\s*"(?:error|detail)"\s*:')


def one_line(text: str) -> str:
    """One line of at most :data:`MESSAGE_LIMIT_CHARS` printable characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return shorten(line, MESSAGE_LIMIT_CHARS)


def message_of(value: Any) -> str | None:
    """The message of a decoded error body, or None if it is not one.

    Understands ``{"error": {"message": ...}}`` and ``{"error": "..."}`` (OpenAI style) and
    FastAPI's ``{"detail": ...}``.
    """
    if not isinstance(value, dict):
        return None
    if value.get("error"):
        error = value["error"]
        message = error.get("message") if isinstance(error, dict) else error
        return one_line(message if isinstance(message, str) else json.dumps(error))
    if value.get("detail"):
        detail = value["detail"]
        return one_line(detail if isinstance(detail, str) else json.dumps(detail))
    return None


def error_in_body(body: bytes) -> str | None:
    """The error message of a JSON body or of an event stream (the first ``data:`` line that holds one)."""
    text = body.decode("utf-8", errors="replace").strip()
    candidates = [text] + [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
    for candidate in candidates:
        try:
            message = message_of(json.loads(candidate))
        except (ValueError, RecursionError):  # not JSON: not an error object
            continue
        if message is not None:
            return message
    return None


def describe_body(body: bytes) -> str:
    """The server's error message, or the start of the body as text, or "(empty body)"."""
    return error_in_body(body) or one_line(body.decode("utf-8", errors="replace")) or "(empty body)"


def error_at_end(tail: bytes) -> tuple[int, str] | None:
    """The error object that ends a stream of samples: (its offset in ``tail``, its message), or None.

    A raw stream has no place for an error, so some servers write the JSON object after (or
    instead of) the samples. Only an object that parses and reaches the end counts: samples
    cannot look like that by chance.
    """
    for match in islice(_ERROR_OBJECT_START.finditer(tail), MAX_CANDIDATES):
        try:
            message = message_of(json.loads(tail[match.start() :].decode("utf-8")))
        except (ValueError, RecursionError):
            continue
        if message is not None:
            return match.start(), message
    return None


# ---- Payload as stated by the response's headers ----

# Not audio/l16: that is big-endian by definition (RFC 2586), and would be judged as noise.
PCM_CONTENT_TYPES = ("audio/pcm", "application/octet-stream")
WAV_CONTENT_TYPES = ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave", "application/octet-stream")
SSE_CONTENT_TYPES = ("text/event-stream",)
SAMPLE_RATES_HZ = range(4_000, 384_001)  # a stated rate outside is a broken header, not audio


def parse_content_type(value: str) -> tuple[str, int | None, str | None]:
    """Of a Content-Type header: type in lower case, stated sample rate, what is wrong with its parameters.

    The last two are None where nothing is stated, or wrong.
    """
    message = Message()
    message["Content-Type"] = value.encode("ascii", errors="replace").decode("ascii")
    parameters = {str(name).lower(): str(text) for name, text in message.get_params(failobj=[])[1:]}
    stated_rate = parameters.get("rate", parameters.get("sample_rate", parameters.get("samplerate")))
    channels = parameters.get("channels", "1")
    rate_hz: int | None = None
    problem: str | None = None
    if stated_rate is not None:
        if stated_rate.isdecimal() and len(stated_rate) < 10 and int(stated_rate) in SAMPLE_RATES_HZ:
            rate_hz = int(stated_rate)
        else:
            problem = f"content type {value!r} states a sample rate of {stated_rate!r}"
    if channels != "1":
        problem = f"content type {value!r} states {channels!r} channels; only mono can be judged"
    return message.get_content_type(), rate_hz, problem
