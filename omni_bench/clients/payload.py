"""What a response says its payload is, and what its first bytes say. Pure functions; the load worker imports them."""

from __future__ import annotations

from email.message import Message

# Not audio/l16: that is big-endian by definition (RFC 2586), and would be judged as noise.
AUDIO_CONTENT_TYPES = ("audio/pcm", "application/octet-stream")
SAMPLE_RATES_HZ = range(4_000, 384_001)  # a stated rate outside is a broken header, not audio
WAV_HEADER_LIMIT_BYTES = 64 * 1024


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


def wav_header_bytes(audio: list[bytes]) -> int:
    """How long the WAV header is that a stream begins with, 0 if it does not begin with one.

    All that was looked at (the first 64 KiB) if the samples do not begin within it.
    """
    head = b"".join(audio[:12])[:12]
    if not (head.startswith(b"RIFF") and head[8:] == b"WAVE"):
        return 0
    head = bytearray()
    for data in audio:
        head += data[:WAV_HEADER_LIMIT_BYTES]
        if len(head) >= WAV_HEADER_LIMIT_BYTES:
            break
    at = 12
    while at + 8 <= len(head):
        if head[at : at + 4] == b"data":
            return at + 8
        size = int.from_bytes(head[at + 4 : at + 8], "little")
        at += 8 + size + size % 2
    return len(head)
