"""Finding a server's error message in a response body, or in the middle of an audio stream. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any

from omni_bench.errors import shorten

MESSAGE_LIMIT_CHARS = 500
ERROR_BODY_LIMIT_BYTES = 64 * 1024  # what is read of a body that is not audio
TAIL_BYTES = 16 * 1024  # an error object that ends a stream is looked for in this much of its end
STRANGE_SHARE = 0.2  # of characters that are no text: above, a body is binary
GLIMPSE_BYTES = 16  # of a binary body, that are shown
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
    """What a person can read of a body: the server's error message, its text, or what kind of bytes it begins with."""
    if (message := error_in_body(body)) is not None:
        return message
    if not body:
        return "(empty body)"
    text = body[: 4 * MESSAGE_LIMIT_CHARS].decode("utf-8", errors="replace")
    strange = sum(not (char.isprintable() or char in "\t\r\n") or char == "\ufffd" for char in text)
    if strange > STRANGE_SHARE * len(text):
        kind = container_of(body)
        return f"{len(body)} bytes of {kind or 'binary data'}, beginning with {body[:GLIMPSE_BYTES].hex(' ')}"
    return one_line(text) or "(blank body)"


_CONTAINERS = (
    (b"ID3", "an MP3"),
    (b"OggS", "Ogg (Opus or Vorbis)"),
    (b"fLaC", "FLAC"),
    (b"FORM", "AIFF"),
    (b".snd", "AU"),
    (b"\x1aE\xdf\xa3", "WebM"),
    (b"#!AMR", "AMR"),
    (b"\x1f\x8b", "gzip"),
    (b"RF64", "RF64 (a WAV of 64-bit sizes)"),
    (b"riff\x2e\x91\xcf\x11", "W64"),
    (b"caff", "CAF"),
    (b"NIST_1A", "NIST SPHERE"),
    (b"ADIF", "AAC"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
)


FRAMES = 6  # a third of a second and less
LONGEST_FRAME_BYTES, MAX_FRAME_STARTS = 2881, 512  # of layer III; places that are tried
_FRAME_START = re.compile(rb"\xff(?=[\xe2-\xff])")


def container_of(data: bytes) -> str | None:
    """Which coded form ``data`` begins by its first bytes, for a message; None for none that is known.

    Frames of MP3 and AAC have no more than 11 and 12 bits of their own, which samples have by chance: they count only
    where a second one follows at the place that the first one names, and in the middle of a body, which may begin in
    the middle of a frame, where :data:`FRAMES` do.
    """
    for magic, name in _CONTAINERS:
        if data.startswith(magic):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "a WAV"
    if data[4:8] == b"ftyp":
        return "MP4"
    for name, length in (("AAC", _aac_frame_bytes), ("an MP3", _mp3_frame_bytes)):
        size = length(data)
        if size and length(data[size:]):
            return name
    for match in islice(_FRAME_START.finditer(data, 1, LONGEST_FRAME_BYTES), MAX_FRAME_STARTS):
        for name, length in (("AAC", _aac_frame_bytes), ("an MP3", _mp3_frame_bytes)):
            if _is_chain(data, match.start(), length):
                return f"{name}, from the middle of a frame on"
    return None


def _is_chain(data: bytes, at: int, length: Callable[[bytes], int | None]) -> bool:
    """Whether :data:`FRAMES` frames of one kind follow one another from here on."""
    kind = None
    for _ in range(FRAMES):
        head = data[at : at + 8]
        if len(head) < 8 or (size := length(head)) is None or kind not in (None, (head[1], head[2] & 0x0C)):
            return False
        kind = head[1], head[2] & 0x0C
        at += size
    return True


def _aac_frame_bytes(data: bytes) -> int | None:
    """Length of the ADTS frame that begins here (ISO/IEC 14496-3, table 1.A.5)."""
    if len(data) < 7 or data[0] != 0xFF or data[1] & 0xF6 != 0xF0:
        return None
    size = (data[3] & 0x03) << 11 | data[4] << 3 | data[5] >> 5
    return size if size > 7 else None


_MP3_KBPS = {  # of layer III by the bits of the rate (ISO/IEC 11172-3 and 13818-3): MPEG 1, and MPEG 2 and 2.5
    True: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


def _mp3_frame_bytes(data: bytes) -> int | None:
    """Length of the layer III frame that begins here."""
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE6 != 0xE2:
        return None
    version, rate, clock = data[1] >> 3 & 3, data[2] >> 4, data[2] >> 2 & 3
    if version == 1 or clock == 3 or not 1 <= rate <= 14:
        return None
    is_first = version == 3
    sample_rate_hz = (44_100, 48_000, 32_000)[clock] // {3: 1, 2: 2, 0: 4}[version]
    return (144 if is_first else 72) * _MP3_KBPS[is_first][rate - 1] * 1000 // sample_rate_hz + (data[2] >> 1 & 1)


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


MIN_TEXT_BYTES = 24  # that samples end with by chance once in 10^10 bodies, if their bytes were random
_TEXT_BYTES = bytes((9, 10, 13, *range(32, 127)))


def text_at_end(tail: bytes) -> bytes | None:
    """The ASCII text that ends a stream of samples, None if there is none.

    Not text are a constant (samples that got stuck) and hexadecimal and base64, which hold samples: no spaces.
    """
    text = tail[len(tail.rstrip(_TEXT_BYTES)) :]
    reads = len(text) >= MIN_TEXT_BYTES and len(set(text)) > 8
    return text if reads and (b" " in text or text.rstrip()[-1:] in b"}>") else None


SAID_HEADERS = ("Retry-After", "WWW-Authenticate")


def said_in_headers(headers: Mapping[str, str]) -> str:
    """What a refusal says in its headers, " (Retry-After: 7)"; empty if it says nothing there."""
    said = ", ".join(f"{name}: {one_line(headers[name])[:80]}" for name in SAID_HEADERS if headers.get(name))
    return f" ({said})" if said else ""


# ---- Payload as stated by the response's headers ----

# Not audio/l16: that is big-endian by definition (RFC 2586), and would be judged as noise.
BYTES_CONTENT_TYPES = ("application/octet-stream", "binary/octet-stream", "application/x-octet-stream")
"""What servers call bytes of which they say no more."""
PCM_CONTENT_TYPES = ("audio/pcm", *BYTES_CONTENT_TYPES)
WAV_CONTENT_TYPES = ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave", *BYTES_CONTENT_TYPES)
SSE_CONTENT_TYPES = ("text/event-stream",)
SAMPLE_RATES_HZ = range(4_000, 384_001)  # a stated rate outside is a broken header, not audio


_RATE_TEXT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?)\s*(k?)\s*(?:hz)?")
_RATE_NAME = re.compile(r"x?(?:audio|pcm|output|wav)*(?:samplerate|samplingrate|rate)(?:hz)?")
"""Names of headers and fields, of their letters alone, in which servers state the rate of samples; HTTP has none."""


def is_rate_name(name: str) -> bool:
    """Whether a header or a field is called as those are that hold a sample rate."""
    return _RATE_NAME.fullmatch("".join(filter(str.isalpha, name)).lower()) is not None


def parse_content_type(value: str) -> tuple[str, int | None, str | None]:
    """Of a Content-Type header: type in lower case, stated sample rate, what is wrong with its parameters.

    The last two are None where nothing is stated, or wrong.
    """
    mime, *written = value.split(";")
    parameters = {}
    for one in written:
        name, _, text = one.partition("=")
        parameters.setdefault(name.strip().lower(), text.strip().strip('"'))
    stated_rate = parameters.get("rate", parameters.get("sample_rate", parameters.get("samplerate")))
    channels = parameters.get("channels", "1")
    shown = one_line(value)
    rate_hz = problem = None
    if stated_rate is not None and (rate_hz := rate_of_text(stated_rate)) is None:
        problem = f"content type {shown!r} states a sample rate of {one_line(stated_rate)!r}"
    if channels != "1":
        problem = f"content type {shown!r} states {one_line(channels)!r} channels; only mono can be judged"
    return one_line(mime).lower(), rate_hz, problem


def stated_rate(headers: Mapping[str, str]) -> tuple[int | None, str | None]:
    """The sample rate that headers state (:func:`is_rate_name`, and in Content-Type), and what is wrong with them.

    None where nothing is stated, or wrong. A header that is no rate at all is not one of these, and says nothing.
    """
    found: dict[int, str] = {}
    for name, text in headers.items():
        if is_rate_name(name) and (rate_hz := rate_of_text(text)) is not None:
            found.setdefault(rate_hz, name)
    _, by_type_hz, problem = parse_content_type(headers.get("Content-Type", ""))
    if by_type_hz is not None:
        found.setdefault(by_type_hz, "Content-Type")
    if len(found) > 1:
        listed = ", ".join(f"{name} {rate_hz} Hz" for rate_hz, name in found.items())
        return None, f"the headers state different sample rates: {listed}"
    return next(iter(found), None), problem


def rate_of_text(text: str) -> int | None:
    """A sample rate as text has it (``16000``, ``16000.0``, ``16000 Hz``, ``22.05 kHz``, ``16k``); None for none."""
    found = _RATE_TEXT.fullmatch(text.strip().lower())
    if found is None:
        return None
    rate_hz = Decimal(found[1]) * (1000 if found[2] else 1)
    return int(rate_hz) if rate_hz == int(rate_hz) and int(rate_hz) in SAMPLE_RATES_HZ else None
