"""Bytes on the wire: WAV headers, server-sent events, and the framing of a stream. Pure functions."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any, Protocol

from reference_impl.engine_api import Finished

SAMPLE_WIDTH_BYTES = 2
WAV_HEADER_BYTES = 44
# The size of a file that is still being made, as streaming servers write it.
UNKNOWN_SIZE = 0xFFFFFFFF
CONTENT_TYPES = {"pcm": "audio/pcm", "wav": "audio/wav"}


def wav_header(sample_rate_hz: int, data_bytes: int | None) -> bytes:
    """44 bytes of RIFF header for s16le mono; ``data_bytes`` None writes both sizes as unknown."""
    riff_size = UNKNOWN_SIZE if data_bytes is None else data_bytes + WAV_HEADER_BYTES - 8
    data_size = UNKNOWN_SIZE if data_bytes is None else data_bytes
    byte_rate = sample_rate_hz * SAMPLE_WIDTH_BYTES
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate_hz, byte_rate, SAMPLE_WIDTH_BYTES, 16)
    return struct.pack("<4sI4s", b"RIFF", riff_size, b"WAVE") + form + struct.pack("<4sI", b"data", data_size)


def audio_file(pcm: bytes, response_format: str, sample_rate_hz: int) -> bytes:
    """The whole file: bare samples, or a WAV with its true sizes."""
    return pcm if response_format == "pcm" else wav_header(sample_rate_hz, len(pcm)) + pcm


def sse_event(payload: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


def usage(finished: Finished) -> dict[str, int]:
    """Tokens in (text positions) and out (codec frames)."""
    return {
        "input_tokens": finished.prompt_tokens,
        "output_tokens": finished.frames,
        "total_tokens": finished.prompt_tokens + finished.frames,
    }


class Framer(Protocol):
    """How the parts of a stream become bytes. ``audio`` may be called with no samples."""

    content_type: str

    def audio(self, pcm: bytes) -> bytes:
        """A chunk of samples; the container's header goes with the first."""

    def done(self, finished: Finished) -> bytes:
        """What follows the last chunk."""

    def failure(self, error: dict[str, Any]) -> bytes | None:
        """An error as part of the stream, or None where the stream can only break off."""


class RawFramer:
    """``stream_format: "audio"``: bare samples, or a WAV of unknown size."""

    def __init__(self, response_format: str, sample_rate_hz: int):
        self.content_type = CONTENT_TYPES[response_format]
        self._header = wav_header(sample_rate_hz, None) if response_format == "wav" else b""

    def audio(self, pcm: bytes) -> bytes:
        """See :class:`Framer`."""
        if not self._header:
            return pcm
        header, self._header = self._header, b""
        return header + pcm

    def done(self, finished: Finished) -> bytes:
        """The header, if no audio took it along."""
        return self.audio(b"")

    def failure(self, error: dict[str, Any]) -> None:
        """A client could only take it for samples."""
        return None


class SseFramer:
    """``speech.audio.delta`` events, then one ``speech.audio.done`` or ``speech.audio.error``.

    As in vllm-omni, an error says whether samples came before it, and what to do with them.
    """

    content_type = "text/event-stream"

    def __init__(self, response_format: str, sample_rate_hz: int):
        self._format = response_format
        self._partial = False
        self._raw = RawFramer(response_format, sample_rate_hz)

    def audio(self, pcm: bytes) -> bytes:
        """See :class:`Framer`."""
        self._partial = self._partial or bool(pcm)
        audio = base64.b64encode(self._raw.audio(pcm)).decode()
        return sse_event({"type": "speech.audio.delta", "audio": audio, "response_format": self._format})

    def done(self, finished: Finished) -> bytes:
        """See :class:`Framer`."""
        return sse_event({"type": "speech.audio.done", "usage": usage(finished)})

    def failure(self, error: dict[str, Any]) -> bytes:
        """See :class:`Framer`."""
        partial = {"partial_audio": True, "action": "discard"} if self._partial else {"partial_audio": False}
        return sse_event({"type": "speech.audio.error", "error": {**error, **partial}})
