"""Decoders of bodies that are audio from the first byte to the last: bare samples, and a WAV. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from omni_bench.load.clients.decoding import AudioPart, Part, WireFailure
from omni_bench.load.clients.responses import TAIL_BYTES, error_at_end
from omni_bench.load.clients.wav import WavStream, begins_wav

_ERROR_BEGINNINGS = (b'{"error":', b'{"detail":')


class _Tail:
    """The end of a body, in which a server may have written an error object."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        self._bytes += data
        del self._bytes[:-TAIL_BYTES]

    def check(self) -> None:
        """Raise WireFailure if an error object ends the body."""
        if (found := error_at_end(bytes(self._bytes))) is not None:
            raise WireFailure("in_band_error", f"HTTP 200, then an error in the stream: {found[1]}")


class PcmDecoder:
    """Bare samples. Other things come under the same name: a WAV file, or an error object in place of audio.

    A body that begins like one of those is held back until it is clear what it is, so that neither
    header nor error counts as audio; samples do not begin so but by chance, and then for four bytes at most.
    """

    server_id: str | None = None
    completion_tokens: int | None = None

    def __init__(self, sample_rate_hz: int) -> None:
        self.sample_rate_hz = sample_rate_hz
        self._held: bytes | None = b""
        self._wav: WavStream | None = None
        self._tail = _Tail()

    def feed(self, data: bytes, ends_chunk: bool) -> Iterator[Part]:
        """See :class:`omni_bench.load.clients.decoding.Decoder`."""
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
        """See :class:`omni_bench.load.clients.decoding.Decoder`."""
        if self._wav is not None:
            raise WireFailure("content_type", "the stream begins with a WAV header although raw pcm was asked for")
        self._tail.check()
        if self._held:
            yield AudioPart(self._held)


class WavDecoder:
    """A WAV of unknown, or of true sizes; further chunks and a header that comes early are no audio.

    ``stated_rate_hz``: what the content type says, None if it does not.
    """

    server_id: str | None = None
    completion_tokens: int | None = None

    def __init__(self, default_rate_hz: int, stated_rate_hz: int | None) -> None:
        self._default_rate_hz = default_rate_hz
        self._stated_rate_hz = stated_rate_hz
        self._wav = WavStream()
        self._tail = _Tail()

    @property
    def sample_rate_hz(self) -> int:
        """As the header says; before, as the content type or the configuration does."""
        return self._wav.sample_rate_hz or self._stated_rate_hz or self._default_rate_hz

    def feed(self, data: bytes, ends_chunk: bool) -> Iterator[Part]:
        """See :class:`omni_bench.load.clients.decoding.Decoder`."""
        self._tail.add(data)
        pcm = self._wav.feed(data)
        rates = (self._stated_rate_hz, self._wav.sample_rate_hz)
        if None not in rates and rates[0] != rates[1]:
            raise WireFailure("content_type", f"the content type states {rates[0]} Hz, the WAV header {rates[1]} Hz")
        if pcm:
            yield AudioPart(pcm, ends_chunk)

    def end(self) -> Iterator[Part]:
        """See :class:`omni_bench.load.clients.decoding.Decoder`."""
        self._tail.check()
        self._wav.end()
        return iter(())


def _may_be_error(data: bytes) -> bool:
    """Whether ``data`` may turn out to be an error object alone: it begins like one and is no longer than one."""
    if len(data) > TAIL_BYTES or not data.startswith(b"{"):
        return False
    compact = b"".join(data[:64].split())
    return any(begin.startswith(compact[: len(begin)]) for begin in _ERROR_BEGINNINGS)
