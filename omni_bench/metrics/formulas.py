"""The formulas of a request's metrics: from its raw timeline, and its samples for the time to first audio.

Each takes an :class:`AnsweredRequest` and returns None where the request has no such value. What they mean for a
reader is written beside their names in :mod:`omni_bench.metrics.definitions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from omni_bench.metrics import pace
from omni_bench.metrics.pcm import audible_span, samples_from_pcm
from omni_bench.metrics.stalls import Playback, playback, sample_played_ns
from omni_bench.records.timeline import Timeline

NS_PER_MS = 1e6
NS_PER_S = 1e9


@dataclass(frozen=True)
class AnsweredRequest:
    """A request whose stream ended cleanly. ``pcm``: the payload as received (s16le mono), None if it was not kept."""

    timeline: Timeline
    pcm: bytes | None

    @property
    def duration_ns(self) -> int:
        """ended − started."""
        return self.timeline.ended_ns - self.timeline.started_ns

    @cached_property
    def samples(self) -> int:
        """Whole samples of audio received."""
        return sum(self.timeline.chunk_samples)

    @cached_property
    def chunks(self) -> tuple[tuple[int, int], ...]:
        """(first byte in ns, samples) of each chunk as the server sent it, however many reads it came in."""
        return self.timeline.http_chunks

    @cached_property
    def playback(self) -> Playback | None:
        """Simulated playback, each read available to the player on arrival; None with fewer than two chunks of audio.

        A real player can play the first half of a chunk before the second half is there.
        """
        timeline = self.timeline
        if timeline.sample_rate_hz is None or sum(samples > 0 for _, samples in self.chunks) < 2:
            return None
        return playback(timeline.chunk_arrived_ns, timeline.chunk_samples, timeline.sample_rate_hz)


def queue_ms(request: AnsweredRequest) -> float:
    """started − scheduled."""
    return (request.timeline.started_ns - request.timeline.scheduled_ns) / NS_PER_MS


def ttfp_ms(request: AnsweredRequest) -> float | None:
    """first_audio − started."""
    return _ms_between(request.timeline.started_ns, request.timeline.first_audio_ns)


def ttfp_sched_ms(request: AnsweredRequest) -> float | None:
    """first_audio − scheduled."""
    return _ms_between(request.timeline.scheduled_ns, request.timeline.first_audio_ns)


def ttfa_ms(request: AnsweredRequest) -> float | None:
    """When a player plays the first sample of the first audible 20 ms window, minus started; None without samples.

    The player starts at the first audio, plays at real time and waits when it runs dry
    (:mod:`omni_bench.metrics.stalls`): silence that a server sends ahead of the voice is part of it.
    """
    timeline = request.timeline
    if request.pcm is None or timeline.sample_rate_hz is None:
        return None
    span = audible_span(samples_from_pcm(request.pcm), timeline.sample_rate_hz)
    if span is None:
        return None
    played_ns = sample_played_ns(
        timeline.chunk_arrived_ns, timeline.chunk_samples, timeline.sample_rate_hz, sample_index=span[0]
    )
    return (played_ns - timeline.started_ns) / NS_PER_MS


def e2el_ms(request: AnsweredRequest) -> float:
    """ended − started."""
    return request.duration_ns / NS_PER_MS


def audio_s(request: AnsweredRequest) -> float | None:
    """samples / sample rate."""
    rate_hz = request.timeline.sample_rate_hz
    return None if rate_hz is None else request.samples / rate_hz


def speech_s(request: AnsweredRequest) -> float | None:
    """From the first to the last audible 20 ms window; None without samples, and for silence."""
    rate_hz = request.timeline.sample_rate_hz
    return None if request.pcm is None or rate_hz is None else pace.speech_s(samples_from_pcm(request.pcm), rate_hz)


def rtf(request: AnsweredRequest) -> float | None:
    """(ended − started) / audio; None without audio."""
    length_s = audio_s(request)
    return request.duration_ns / NS_PER_S / length_s if length_s else None


def decode_rtf(request: AnsweredRequest) -> float | None:
    """(ended − first_audio) / (audio − first chunk's audio); None with one chunk, or no audio after the first."""
    timeline, chunks = request.timeline, request.chunks
    if len(chunks) < 2 or request.samples <= chunks[0][1]:
        return None
    if timeline.first_audio_ns is None or timeline.sample_rate_hz is None:
        return None
    decode_s = (timeline.ended_ns - timeline.first_audio_ns) / NS_PER_S
    return decode_s / ((request.samples - chunks[0][1]) / timeline.sample_rate_hz)


def icl_ms(request: AnsweredRequest) -> tuple[float, ...]:
    """Gaps between the first bytes of consecutive chunks."""
    return _gaps_ms(at_ns for at_ns, _ in request.chunks)


def stalls(request: AnsweredRequest) -> int | None:
    """Pauses of the player."""
    return None if request.playback is None else request.playback.stalls


def stall_s(request: AnsweredRequest) -> float | None:
    """How long the player stood still, all pauses together."""
    return None if request.playback is None else request.playback.stall_s


def prebuffer_s(request: AnsweredRequest) -> float | None:
    """The smallest start delay after the first audio with which the player would not have paused."""
    return None if request.playback is None else request.playback.prebuffer_s


def ttft_ms(request: AnsweredRequest) -> float | None:
    """First text delta − started; None without text."""
    return _ms_between(request.timeline.started_ns, next(iter(request.timeline.text_arrived_ns), None))


def tpot_ms(request: AnsweredRequest) -> float | None:
    """(last − first text delta) / (tokens − 1).

    The tokens are those the server counts (``Timeline.output_tokens``): a delta may hold several, or half of one, so
    that deltas are no substitute. None if the server does not count, with fewer than two tokens, and with a single
    delta, in which nothing can be seen of the time between tokens.
    """
    tokens, arrived_ns = request.timeline.output_tokens, request.timeline.text_arrived_ns
    if tokens is None or tokens < 2 or len(arrived_ns) < 2:
        return None
    return (arrived_ns[-1] - arrived_ns[0]) / NS_PER_MS / (tokens - 1)


def itl_ms(request: AnsweredRequest) -> tuple[float, ...]:
    """Gaps between text deltas."""
    return _gaps_ms(request.timeline.text_arrived_ns)


def _ms_between(start_ns: int, end_ns: int | None) -> float | None:
    return None if end_ns is None else (end_ns - start_ns) / NS_PER_MS


def _gaps_ms(at_ns: Iterable[int]) -> tuple[float, ...]:
    return tuple((after - before) / NS_PER_MS for before, after in pairwise(at_ns))
