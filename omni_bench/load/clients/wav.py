"""WAV containers as they come, in any split, and audio payloads that may or may not be in one. Pure."""

from __future__ import annotations

import math

from omni_bench.load.clients.decoder import WireFailure
from omni_bench.load.clients.responses import (
    ERROR_BODY_LIMIT_BYTES,
    SAMPLE_RATES_HZ,
    describe_body,
    error_in_body,
    is_rate_name,
    rate_of_text,
)
from omni_bench.records.timeline import SAMPLE_WIDTH_BYTES

HEADER_LIMIT_BYTES = 64 * 1024
RIFF_BYTES = 12  # "RIFF", a size, "WAVE"
FORM_BYTES, LONG_FORM_BYTES = 16, 26  # of a "fmt " chunk: at least, and with the subformat of an extensible one
PCM_FORMAT, EXTENSIBLE_FORMAT = 1, 0xFFFE
# A size from here on is what a server writes that does not know it yet: 0xFFFFFFFF, 0x7FFFFFFF, and
# either less the header's own length. A WAV of that size would be a day of speech.
UNKNOWN_SIZE_FROM = 0x7FFF_F000


def begins_wav(data: bytes | bytearray) -> bool | None:
    """Whether ``data`` begins a WAV container; None while it is too short to say."""
    head = bytes(data[:RIFF_BYTES])
    if not (b"RIFF".startswith(head[:4]) and b"WAVE".startswith(head[8:])):
        return False
    return True if len(head) == RIFF_BYTES else None


class WavStream:
    """One container: bytes in, samples out.

    Unknown is a size of 0, one from :data:`UNKNOWN_SIZE_FROM` on, and one of more than ``longest_s`` of audio: so long
    an answer would be refused anyway, and servers that stream write any large number (pocket-tts issue 229).
    ``lenient``: the header is not checked; everything after the beginning of its data is samples.
    """

    def __init__(self, longest_s: float = math.inf, *, lenient: bool = False) -> None:
        self._longest_s = longest_s
        self.sample_rate_hz: int | None = None
        self._lenient = lenient
        self._head = bytearray()
        self._chunk_at = RIFF_BYTES
        self._in_data = False
        self._left_bytes: int | None = None  # of the samples; None: unknown
        self._size = 0
        self._after = bytearray()

    def feed(self, data: bytes) -> bytes:
        """The samples in ``data``. Raises WireFailure for a header that cannot be of s16le mono."""
        if self._in_data:
            return self._samples(data)
        self._head += data
        if begins_wav(self._head) is False:
            self._refuse_if_long()
            return b""
        return self._samples(self._rest_of_head()) if self._find_samples() else b""

    @property
    def states_size(self) -> bool:
        """Whether the header says how many samples there are."""
        return self._left_bytes is not None

    @property
    def is_complete(self) -> bool:
        """Whether all samples that the header announces have come."""
        return self._left_bytes == 0

    def end(self) -> None:
        """The container ends here. Raises WireFailure if it cannot."""
        if self._lenient:
            return
        if not self._in_data:
            if (message := error_in_body(bytes(self._head))) is not None:
                raise WireFailure("in_band_error", f"HTTP 200 with an error instead of a WAV: {message}")
            if self._head:
                raise self._not_a_wav()
            return
        if self._left_bytes:
            raise WireFailure(
                "disconnected", f"the WAV header announces {self._size} bytes of audio, {self._left_bytes} did not come"
            )
        self._check_what_follows()

    def _find_samples(self) -> bool:
        """Go on from chunk to chunk until "data". Raises WireFailure."""
        head = self._head
        while len(head) >= self._chunk_at + 8:
            name = bytes(head[self._chunk_at : self._chunk_at + 4])
            size = int.from_bytes(head[self._chunk_at + 4 : self._chunk_at + 8], "little")
            body = self._chunk_at + 8
            if name == b"data":
                self._begin_samples(body, size)
                return True
            if name == b"fmt " and not self._lenient:
                form_bytes = min(size, LONG_FORM_BYTES)
                if len(head) < body + form_bytes:
                    return False
                self._read_form(bytes(head[body : body + form_bytes]))
            self._chunk_at = body + size + size % 2
        if max(len(head), self._chunk_at) <= HEADER_LIMIT_BYTES:
            return False
        if not self._lenient:
            raise WireFailure("content_type", f"no audio within the first {HEADER_LIMIT_BYTES} bytes of the WAV header")
        if len(head) <= HEADER_LIMIT_BYTES:
            return False
        self._begin_samples(HEADER_LIMIT_BYTES, 0)
        return True

    def _begin_samples(self, at: int, size: int) -> None:
        if self.sample_rate_hz is None and not self._lenient:
            raise WireFailure("content_type", "the WAV header has no 'fmt ' chunk before its samples")
        self._in_data, self._chunk_at = True, at
        longest_bytes = self._longest_s * (self.sample_rate_hz or 0) * SAMPLE_WIDTH_BYTES
        known = not self._lenient and 0 < size < min(UNKNOWN_SIZE_FROM, longest_bytes)
        self._size = size
        self._left_bytes = size if known else None

    def _rest_of_head(self) -> bytes:
        rest = bytes(self._head[self._chunk_at :])
        self._head.clear()
        return rest

    def _read_form(self, form: bytes) -> None:
        kind, channels, rate_hz = (int.from_bytes(form[at:end], "little") for at, end in ((0, 2), (2, 4), (4, 8)))
        bits = int.from_bytes(form[14:16], "little")
        if kind == EXTENSIBLE_FORMAT and len(form) == LONG_FORM_BYTES:
            kind = int.from_bytes(form[24:26], "little")
        fits = len(form) >= FORM_BYTES and kind == PCM_FORMAT and channels == 1 and bits == 16
        if not fits or rate_hz not in SAMPLE_RATES_HZ:
            raise WireFailure(
                "content_type",
                f"the WAV header says format {kind}, {channels} channels, {bits} bits at {rate_hz} Hz; only mono "
                "16-bit PCM can be judged",
            )
        self.sample_rate_hz = rate_hz

    def _samples(self, data: bytes) -> bytes:
        if self._left_bytes is None:
            return data
        samples = data[: self._left_bytes]
        self._left_bytes -= len(samples)
        self._after += data[len(samples) :]
        if len(self._after) > HEADER_LIMIT_BYTES:
            raise self._more_than_announced()
        return samples

    def _check_what_follows(self) -> None:
        """After the samples may come further RIFF chunks, nothing else: audio beyond the stated size would be lost."""
        after = bytes(self._after)
        at = self._size % 2 if after[:1] == b"\0" else 0
        while at < len(after):
            name, size = after[at : at + 4], int.from_bytes(after[at + 4 : at + 8], "little")
            end = at + 8 + size
            if not name.isascii() or not name.decode("ascii").isprintable() or name == b"RIFF" or end > len(after):
                raise self._more_than_announced()
            at = end + size % 2

    def _more_than_announced(self) -> WireFailure:
        return WireFailure(
            "content_type",
            f"{len(self._after)} bytes or more follow the {self._size} bytes of audio that the WAV header announces",
        )

    def _refuse_if_long(self) -> None:
        if len(self._head) > ERROR_BODY_LIMIT_BYTES and not self._lenient:
            raise self._not_a_wav()

    def _not_a_wav(self) -> WireFailure:
        if begins_wav(self._head) is not False:
            return WireFailure("content_type", "the stream ends within its WAV header")
        return WireFailure("content_type", f"no WAV header: {describe_body(bytes(self._head[:200]))}")


class AudioPayload:
    """The audio of events one after another: bare samples, one container over all of them, or one each.

    A payload that begins with a WAV header begins a new container, whatever the server calls its format. Payloads
    may be smaller than a header: before the first samples, and behind a container that is complete, what may still
    become the beginning of one is held back until that is clear.
    ``sample_rate_hz``: as stated, None while nothing states it. ``longest_s``: see :class:`WavStream`.
    """

    def __init__(self, longest_s: float = math.inf) -> None:
        self._longest_s = longest_s
        self.sample_rate_hz: int | None = None
        self._wav: WavStream | None = None
        self._held = b""
        self._rate_from = ""
        self._says_wav = self._is_bare = False
        self._payload_bytes = 0  # of the audio that has not ended

    def decode(self, data: bytes, stated_format: str | None = None) -> bytes:
        """The samples that one payload completes. Raises WireFailure for another format, and for rates that differ."""
        name = (stated_format or "").lower().removeprefix("audio/")
        if name not in ("", "pcm", "pcm16", "wav", "x-wav"):
            raise WireFailure("content_type", f"audio of format {stated_format!r}, not pcm or wav")
        self._says_wav = name.endswith("wav")
        self._payload_bytes += len(data)
        return self._decode(data)

    def _decode(self, data: bytes) -> bytes:
        begins = begins_wav(self._held + data)
        if begins is None and (self._wav.is_complete if self._wav is not None else not self._is_bare):
            self._held += data
            return b""
        held, self._held = self._held, b""
        if begins:
            self._end_container()
            self._wav = WavStream(self._longest_s)
        elif held:  # it was no header; ``data`` by itself may yet begin one
            return self._samples(held) + self._decode(data)
        return self._samples(held + data)

    def _samples(self, data: bytes) -> bytes:
        if self._wav is None and self._says_wav:
            self._wav = WavStream(self._longest_s)
        if self._wav is None:
            self._is_bare = self._is_bare or bool(data)
            return data
        samples = self._wav.feed(data)
        if self._wav.sample_rate_hz is not None:
            self.state_rate(self._wav.sample_rate_hz, "a WAV header")
        return samples

    def state_rate(self, rate_hz: object, where: str) -> None:
        """Note what rate ``where`` states, None for none. Raises WireFailure if it is none, or another than before."""
        if rate_hz is None:
            return
        found_hz = None if isinstance(rate_hz, bool) else rate_of_text(str(rate_hz))
        if found_hz is None:
            raise WireFailure("content_type", f"{where} states a sample rate of {str(rate_hz)[:40]!r}")
        if self.sample_rate_hz is not None and self.sample_rate_hz != found_hz:
            before = f"after {self.sample_rate_hz} Hz of {self._rate_from}"
            raise WireFailure("content_type", f"{where} states {found_hz} Hz {before}")
        if self.sample_rate_hz is None:
            self.sample_rate_hz, self._rate_from = found_hz, where

    def state_rates(self, value: object, where: str, depth: int = 6) -> None:
        """Note the rates that ``value``, of JSON, states under any name and at any place. Raises WireFailure.

        What is called an input is not of the answer.
        """
        if depth and isinstance(value, dict):
            for name, one in value.items():
                if isinstance(one, (dict, list)):
                    if not name.startswith("input"):
                        self.state_rates(one, where, depth - 1)
                elif one is not None and is_rate_name(name):
                    self.state_rate(one, where)
        elif depth and isinstance(value, list):
            for one in value[:4]:
                self.state_rates(one, where, depth - 1)

    def end(self, stated_bytes: object = None, where: str = "") -> bytes:
        """The audio is over: the samples that were held back. Raises WireFailure if a container is cut.

        What comes after it is another audio, at the same rate. ``stated_bytes``: how much ``where`` says that was sent,
        None if it says nothing; if less came, some was lost.
        """
        held, self._held = self._held, b""
        samples = self._samples(held) if held else b""
        self._end_container()
        self._is_bare = False
        came_bytes, self._payload_bytes = self._payload_bytes, 0
        if type(stated_bytes) is int and stated_bytes > came_bytes:
            raise WireFailure("disconnected", f"{where} states {stated_bytes} bytes of audio, {came_bytes} came")
        return samples

    def _end_container(self) -> None:
        if self._wav is not None:
            self._wav.end()
            self._wav = None
