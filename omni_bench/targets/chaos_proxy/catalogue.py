"""The faults of the wire by name: what goes wrong, which requests are hit, and who must notice. Light.

A "chunk of audio" is what the wire form makes of it: an HTTP chunk of samples, an event, or a binary message.
"""

from __future__ import annotations

from dataclasses import dataclass

CRASH_IN_FLIGHT = 3
UNSOURCED = "the fault catalogue of issue 4: a failure of HTTP servers in general"


@dataclass(frozen=True)
class WireFault:
    """One fault of the proxy.

    ``detectors``: named in advance, one of them must notice: error kinds
    (:data:`omni_bench.records.timeline.ERROR_KINDS`), invalid reasons
    (:data:`omni_bench.accuracy.signal.audio_faults.INVALID_REASONS`), or, where the wire itself is in
    order, the checks of the speech (wer, cross_talk, parity, length). ``every``: the proxy
    counts the speech requests as they arrive; 1 hits all, 2 hits the first, third, fifth and so on.
    ``min_concurrency``: below this many requests in flight nothing can be seen of it.
    ``only``: the one wire form (a value of client.kind) that it is a fault of, None if of every one, and ``why``
    so. ``of_audio``: nothing can be seen of it where no audio was asked for.
    """

    name: str
    what: str
    detectors: tuple[str, ...]
    every: int = 1
    min_concurrency: int = 1
    source: str = UNSOURCED
    only: str | None = None
    why: str | None = None
    of_audio: bool = True

    def fits(self, form: str) -> bool:
        """Whether it is a fault of the wire form ``form``."""
        return self.only in (None, form)

    def hits(self, number: int) -> bool:
        """Whether speech request ``number`` (from 1, by arrival) is hit."""
        return (number - 1) % self.every == 0

    @property
    def whom(self) -> str:
        """Which requests are hit, in words."""
        if self.min_concurrency > 1:
            return f"requests in flight together, from {self.min_concurrency} on"
        return "every request" if self.every == 1 else "every second request, the first among them"


# Failures of one request hit every second one, so that healthy requests follow on the same connections;
# what is a property of a whole server (its framing, its flushing) hits all. So do dropped and repeated chunks:
# they cost two words or so, which must be enough to be heard in the WER of a level.
_FAULTS = (
    WireFault(
        "crash_at_c3",
        f"the server dies once {CRASH_IN_FLIGHT} requests are in flight",
        ("disconnected", "connect"),
        min_concurrency=CRASH_IN_FLIGHT,
        source="vllm-omni PR 1913",
        of_audio=False,
    ),
    WireFault("http_500", "the request is answered with status 500", ("http_status",), every=2, of_audio=False),
    WireFault(
        "in_band_error",
        "an error object as JSON ends a stream of status 200",
        ("in_band_error",),
        every=2,
        of_audio=False,
    ),
    WireFault("stall", "no byte for 30 s after some audio, then the rest", ("timeout",), every=2, of_audio=False),
    WireFault("cut", "the connection is closed in the middle of the audio", ("disconnected",), every=2, of_audio=False),
    WireFault("drop_chunk", "the second chunk of audio is left out", ("clicks", "wer", "parity", "length")),
    WireFault(
        "duplicate_chunk",
        "the second chunk of audio comes twice",
        ("repeated_audio", "clicks", "wer", "parity", "length"),
        source="vllm-omni issue 3032",
    ),
    WireFault(
        "swap_streams",
        "two requests in flight get each other's audio once both have had a chunk of their own",
        ("cross_talk", "wer", "parity"),
        min_concurrency=2,
        source="vllm-omni issues 4415 and 4664",
    ),
    WireFault(
        "header_first",
        "a WAV header comes 200 ms before any audio",
        ("content_type",),
        source="coval-ai/benchmarks PR 167, review: a header that was timed as audio",
        only="openai_speech",
        why="it is a mistake in a body of bare samples alone",
    ),
    WireFault("odd_bytes", "half a sample too much ends the stream", ("odd_bytes",), every=2),
    WireFault("silence_on_200", "status 200 and audio of the right length, all zeros", ("silent",), every=2),
    WireFault("slow_drip", "the first KiB of audio comes one byte at a time", ("slow_drip",)),
)

WIRE_FAULTS = {fault.name: fault for fault in _FAULTS}
"""Every fault of the wire, by name, in the order of the catalogue."""


def faults_of(form: str, *, audio: bool = True) -> tuple[str, ...]:
    """The names of the faults that can be injected into the wire form ``form``; ``audio``: whether any is asked for."""
    return tuple(fault.name for fault in _FAULTS if fault.fits(form) and (audio or not fault.of_audio))
