"""What a response says its payload is. Pure functions; the load worker imports them."""

from __future__ import annotations

from email.message import Message

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
