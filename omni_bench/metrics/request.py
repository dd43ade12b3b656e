"""The metrics of one request, from its raw timeline (and its samples, for the time to first audio)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from omni_bench.errors import StoreError
from omni_bench.metrics.signal import first_audible_sample, samples_from_pcm
from omni_bench.metrics.stalls import playback, sample_played_ns
from omni_bench.records.timeline import Timeline

NS_PER_MS = 1e6
NS_PER_S = 1e9


@dataclass(frozen=True)
class RequestMetrics:
    """Metrics of :data:`omni_bench.metrics.definitions.REQUEST_METRICS`; None (or empty) where there is none.

    ``stalls`` is how many pauses make up ``stall_s``. The text metrics are of omni chat and None for
    speech; a reply of text alone has only those, queue and E2EL. All are None for a request that
    failed: only successful requests have a performance.
    """

    request_id: str
    queue_ms: float | None = None
    ttfp_ms: float | None = None
    ttfp_sched_ms: float | None = None
    ttfa_ms: float | None = None
    e2el_ms: float | None = None
    audio_s: float | None = None
    rtf: float | None = None
    decode_rtf: float | None = None
    icl_ms: tuple[float, ...] = ()
    stalls: int | None = None
    stall_s: float | None = None
    prebuffer_s: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    itl_ms: tuple[float, ...] = ()


def request_metrics(timeline: Timeline, pcm: bytes | None) -> RequestMetrics:
    """Derive the metrics of one request; formulas as in the metric definitions, version 1.

    ``pcm``: the payload as received (s16le mono), or None if it was not kept, in which case
    there is no TTFA. TTFA is the moment a player that starts at the first audio, plays at
    real time and waits when it runs dry (:mod:`omni_bench.metrics.stalls`) comes to the first
    sample of the first audible 20 ms window, minus ``started``: silence that a server sends
    ahead of the voice is part of it.

    A chunk is what the server sent as one (``Timeline.http_chunks``), however many reads it
    came in: ICL is the time between the first bytes of consecutive chunks, and with fewer
    than two chunks of audio there are no decode RTF, stalls and prebuffer. The player of
    stalls and prebuffer gets each read as it came, because a real one can play the first half
    of a chunk before the second half is there. Raises StoreError when ``pcm`` is not this request's.
    """
    if pcm is not None and len(pcm) != timeline.audio_bytes:
        raise StoreError(
            f"request {timeline.request_id}: its audio has {len(pcm)} bytes, its timeline {timeline.audio_bytes}"
        )
    if not timeline.ok or timeline.ended_ns is None:
        return RequestMetrics(request_id=timeline.request_id)
    rate_hz = timeline.sample_rate_hz
    chunk_samples = timeline.chunk_samples
    samples = sum(chunk_samples)
    audio_s = samples / rate_hz if rate_hz is not None else None
    e2el_s = (timeline.ended_ns - timeline.started_ns) / NS_PER_S
    chunks = timeline.http_chunks
    streamed = rate_hz is not None and sum(samples > 0 for _, samples in chunks) >= 2
    played = playback(timeline.chunk_arrived_ns, chunk_samples, rate_hz) if streamed else None
    return RequestMetrics(
        request_id=timeline.request_id,
        queue_ms=(timeline.started_ns - timeline.scheduled_ns) / NS_PER_MS,
        ttfp_ms=_ms_between(timeline.started_ns, timeline.first_audio_ns),
        ttfp_sched_ms=_ms_between(timeline.scheduled_ns, timeline.first_audio_ns),
        ttfa_ms=_ttfa_ms(timeline, pcm),
        e2el_ms=(timeline.ended_ns - timeline.started_ns) / NS_PER_MS,
        audio_s=audio_s,
        rtf=e2el_s / audio_s if audio_s else None,
        decode_rtf=_decode_rtf(timeline, samples),
        icl_ms=tuple((after - before) / NS_PER_MS for before, after in pairwise(at_ns for at_ns, _ in chunks)),
        stalls=played.stalls if played is not None else None,
        stall_s=played.stall_s if played is not None else None,
        prebuffer_s=played.prebuffer_s if played is not None else None,
        ttft_ms=ttft_ms(timeline),
        tpot_ms=tpot_ms(timeline),
        itl_ms=itl_ms(timeline),
    )


def _ms_between(start_ns: int, end_ns: int | None) -> float | None:
    return None if end_ns is None else (end_ns - start_ns) / NS_PER_MS


def _decode_rtf(timeline: Timeline, samples: int) -> float | None:
    """(ended − first_audio) / (audio − first chunk's audio); None with one chunk, or no audio after the first."""
    chunks = timeline.http_chunks
    if len(chunks) < 2 or samples <= chunks[0][1]:
        return None
    if timeline.ended_ns is None or timeline.first_audio_ns is None or timeline.sample_rate_hz is None:
        return None
    decode_s = (timeline.ended_ns - timeline.first_audio_ns) / NS_PER_S
    return decode_s / ((samples - chunks[0][1]) / timeline.sample_rate_hz)


def _ttfa_ms(timeline: Timeline, pcm: bytes | None) -> float | None:
    if pcm is None or timeline.sample_rate_hz is None:
        return None
    audible = first_audible_sample(samples_from_pcm(pcm), timeline.sample_rate_hz)
    if audible is None:
        return None
    played_ns = sample_played_ns(
        timeline.chunk_arrived_ns, timeline.chunk_samples, timeline.sample_rate_hz, sample_index=audible
    )
    return (played_ns - timeline.started_ns) / NS_PER_MS


# The metrics of a reply's text, from its raw timeline: omni chat, and text alone.


NS_PER_MS = 1e6


def ttft_ms(timeline: Timeline) -> float | None:
    """First text delta − started; None without text."""
    if not timeline.text_arrived_ns:
        return None
    return (timeline.text_arrived_ns[0] - timeline.started_ns) / NS_PER_MS


def tpot_ms(timeline: Timeline) -> float | None:
    """(last − first text delta) / (tokens − 1).

    The tokens are those the server counts (``Timeline.output_tokens``): a delta may hold several, or half of one, so
    that deltas are no substitute. None if the server does not count, with fewer than two tokens, and with a single
    delta, in which nothing can be seen of the time between tokens.
    """
    tokens, arrived_ns = timeline.output_tokens, timeline.text_arrived_ns
    if tokens is None or tokens < 2 or len(arrived_ns) < 2:
        return None
    return (arrived_ns[-1] - arrived_ns[0]) / NS_PER_MS / (tokens - 1)


def itl_ms(timeline: Timeline) -> tuple[float, ...]:
    """Gaps between text deltas."""
    return tuple((after - before) / NS_PER_MS for before, after in pairwise(timeline.text_arrived_ns))
