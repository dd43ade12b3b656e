"""The OpenAI speech protocol: POST /v1/audio/speech, answered by audio from the first byte to the last.

Two forms: headerless s16le samples, and a streamed WAV, whose header does not know its sizes yet.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omni_bench.load.clients.decoder import AudioPart, Part, WireFailure
from omni_bench.load.clients.responses import (
    PCM_CONTENT_TYPES,
    TAIL_BYTES,
    WAV_CONTENT_TYPES,
    describe_body,
    error_at_end,
    text_at_end,
)
from omni_bench.load.clients.speech_body import extra_fields, speech_fields
from omni_bench.load.clients.units import INJECTED, Unit, header_bytes, stated_size, with_sizes
from omni_bench.load.clients.wav import RIFF_BYTES, WavStream, begins_wav
from omni_bench.load.clients.wire_form import WireForm, WireRecording

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig
    from omni_bench.records.prompt import Prompt

WAV_HEAD = b"WAVEfmt "  # in every WAV header that is usual, and by chance once in 2^64 bytes
_ERROR_BEGINNINGS = (b'{"error":', b'{"detail":')


def build_body(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """The JSON body of one request. Fields that are not configured are not sent; ``extra_body`` goes last.

    Raises DatasetError when a reference is to be sent and the prompt has none (or it cannot
    be read), ConfigError when ``client.extra_body`` is not JSON.
    """
    form = {"response_format": "pcm", "stream": True, "stream_format": "audio"}
    return {"input": prompt.text, **speech_fields(prompt, client, seed), **form, **extra_fields(client)}


def build_wav_body(prompt: Prompt, client: ClientConfig, seed: int | None) -> dict[str, Any]:
    """As :func:`build_body`, for a WAV."""
    form = {"response_format": "wav", "stream": True, "stream_format": "audio"}
    return {"input": prompt.text, **speech_fields(prompt, client, seed), **form, **extra_fields(client)}


class _Tail:
    """The end of a body, in which a server may have written text."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._last = b""
        self._begin_bytes = RIFF_BYTES + 4  # of a header that begins the body

    def add(self, data: bytes) -> None:
        """Some of the body. Raises WireFailure if a WAV header stands within it."""
        later = data[self._begin_bytes :]
        self._begin_bytes = max(0, self._begin_bytes - len(data))
        later = self._last + later
        self._last = later[1 - len(WAV_HEAD) :]
        self._bytes += data
        del self._bytes[:-TAIL_BYTES]
        if WAV_HEAD in later:
            raise WireFailure("content_type", "a WAV header within the samples: several WAVs in one body")

    def check_error(self) -> None:
        """Raise WireFailure if an error object ends the body."""
        if (found := error_at_end(bytes(self._bytes))) is not None:
            raise WireFailure("in_band_error", f"HTTP 200, then an error in the stream: {found[1]}")

    def check_text(self) -> None:
        """Raise WireFailure if the body is text, or ends with some."""
        if (text := text_at_end(bytes(self._bytes))) is not None:
            where = "instead of" if len(text) == len(self._bytes) else "behind"
            raise WireFailure("content_type", f"text {where} the samples: {describe_body(text)}")


class PcmDecoder:
    """Bare samples. Other things come under the same name: a WAV file, or an error object in place of audio.

    A body that begins like one of those is held back until it is clear what it is, so that neither
    header nor error counts as audio; real samples begin like this only by chance, and then at most four bytes
    are held back.
    """

    server_id: str | None = None
    completion_tokens: int | None = None
    unknown_events: str | None = None

    def __init__(self, default_rate_hz: int, stated_rate_hz: int | None = None) -> None:
        self.sample_rate_hz = stated_rate_hz or default_rate_hz
        self.states_rate = stated_rate_hz is not None
        self._held: bytes | None = b""
        self._wav: WavStream | None = None
        self._tail = _Tail()

    def feed(self, data: bytes, ends_chunk: bool) -> Iterator[Part]:
        """See :class:`omni_bench.load.clients.decoder.Decoder`."""
        self._tail.add(data)
        if self._held is not None:
            data = self._held + data
            is_wav = begins_wav(data)
            if is_wav:
                self._wav = WavStream(lenient=True)
            elif is_wav is None or _may_be_error(data):
                self._held = data
                return
            self._held = None
        pcm = data if self._wav is None else self._wav.feed(data)
        if pcm:
            yield AudioPart(pcm, ends_chunk)

    def end(self) -> Iterator[Part]:
        """See :class:`omni_bench.load.clients.decoder.Decoder`."""
        if self._wav is not None:
            raise WireFailure("content_type", "the stream begins with a WAV header although raw pcm was asked for")
        self._tail.check_error()
        self._tail.check_text()
        if self._held:
            yield AudioPart(self._held)


class WavDecoder:
    """A WAV whose sizes are unknown or correct. Other RIFF chunks, and a header sent ahead of the audio, are not audio.

    ``stated_rate_hz``: what the headers say, None if they do not. ``longest_s``: see :class:`.wav.WavStream`.
    """

    server_id: str | None = None
    completion_tokens: int | None = None
    unknown_events: str | None = None
    states_rate = True

    def __init__(self, default_rate_hz: int, stated_rate_hz: int | None, longest_s: float = math.inf) -> None:
        self._default_rate_hz = default_rate_hz
        self._stated_rate_hz = stated_rate_hz
        self._wav = WavStream(longest_s)
        self._tail = _Tail()

    @property
    def sample_rate_hz(self) -> int:
        """As the WAV header says; before, as those of HTTP or the configuration do."""
        return self._wav.sample_rate_hz or self._stated_rate_hz or self._default_rate_hz

    def feed(self, data: bytes, ends_chunk: bool) -> Iterator[Part]:
        """See :class:`omni_bench.load.clients.decoder.Decoder`."""
        self._tail.add(data)
        pcm = self._wav.feed(data)
        rates = (self._stated_rate_hz, self._wav.sample_rate_hz)
        if None not in rates and rates[0] != rates[1]:
            raise WireFailure("content_type", f"the headers state {rates[0]} Hz, the WAV header {rates[1]} Hz")
        if pcm:
            yield AudioPart(pcm, ends_chunk)

    def end(self) -> Iterator[Part]:
        """See :class:`omni_bench.load.clients.decoder.Decoder`."""
        self._tail.check_error()
        self._wav.end()
        if not self._wav.states_size:  # else chunks may follow, of which some are text
            self._tail.check_text()
        return iter(())


def _may_be_error(data: bytes) -> bool:
    """Whether ``data`` may turn out to be an error object alone: it begins like one and is no longer than one."""
    if len(data) > TAIL_BYTES or not data.startswith(b"{"):
        return False
    compact = b"".join(data[:64].split())
    return any(begin.startswith(compact[: len(begin)]) for begin in _ERROR_BEGINNINGS)


class SampleCodec:
    """Splits a body for fault injection: bare samples, or a WAV, whose sizes become unknown, as faults change them."""

    def __init__(self) -> None:
        self._head: bytearray | None = bytearray()
        self._left_bytes: int | None = None  # of a WAV that states its size: what follows is no audio

    def feed(self, data: bytes) -> Iterator[Unit]:
        """See :class:`omni_bench.load.clients.units.Codec`."""
        if self._head is None:
            yield from self._samples(data)
            return
        self._head += data
        if (size := header_bytes(self._head)) is None:
            return
        begin, self._head = bytes(self._head), None
        if size:
            self._left_bytes = stated_size(begin[:size])
            yield Unit(with_sizes(begin[:size], None))
        yield from self._samples(begin[size:])

    def end(self) -> Iterator[Unit]:
        """See :class:`omni_bench.load.clients.units.Codec`."""
        if self._head:
            yield Unit(bytes(self._head), bytes(self._head))

    def error(self) -> Iterator[Unit]:
        """An error object behind the samples, as some servers write it."""
        yield Unit(json.dumps(INJECTED).encode())

    def _samples(self, data: bytes) -> Iterator[Unit]:
        if self._left_bytes is not None:
            data = data[: self._left_bytes]
            self._left_bytes -= len(data)
        if data:
            yield Unit(data, data)


FORM = WireForm(
    name="openai_speech",
    what="POST /v1/audio/speech, raw 16-bit PCM as it is made",
    path="/v1/audio/speech",
    build_body=build_body,
    content_types=PCM_CONTENT_TYPES,
    decoder=lambda options, stated_rate_hz: PcmDecoder(options.sample_rate_hz, stated_rate_hz),
    codec=SampleCodec,
    recordings={"speech_pcm": WireRecording()},
)
WAV_FORM = WireForm(
    name="openai_speech_wav",
    what="POST /v1/audio/speech, a WAV that is streamed as it is made",
    path="/v1/audio/speech",
    build_body=build_wav_body,
    content_types=WAV_CONTENT_TYPES,
    decoder=lambda options, stated_rate_hz: WavDecoder(options.sample_rate_hz, stated_rate_hz, options.max_audio_s),
    codec=SampleCodec,
    recordings={"speech_wav": WireRecording(), "speech_wav_file": WireRecording({"stream": False})},
)
