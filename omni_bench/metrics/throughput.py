"""Throughput of a level: audio and requests over the whole window and over its steady part."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from omni_bench.records.level import Level, Rate
from omni_bench.records.timeline import Timeline

NS_PER_S = 1e9
STEADY_COVERAGE = 0.90


@dataclass(frozen=True)
class Throughput:
    """Seconds of audio, requests and text tokens per second; None where the window does not exist.

    ``tokens_per_s`` is None too unless every request says how many tokens it has.
    """

    audio_per_s: float | None
    audio_per_s_steady: float | None
    requests_per_s: float | None
    tokens_per_s: float | None = None


def throughput(timelines: Sequence[Timeline], concurrency: Level, faulty: Collection[str] = ()) -> Throughput:
    """Rates of the measured requests of one level.

    Whole window: from the first ``started`` of all requests to the last clean ``ended``. The
    numerators count successful requests, without those whose ids are in ``faulty`` (their audio
    failed a check): noise is no output, though the time it took was spent. The steady rate
    counts the audio that arrives within :func:`steady_window`.
    """
    successful = [timeline for timeline in timelines if timeline.ok]
    valid = [timeline for timeline in successful if timeline.request_id not in faulty]
    spoken = any(timeline.sample_rate_hz is not None for timeline in valid)  # else they are of text alone
    steady = steady_window(timelines, concurrency)
    audio_per_s = requests_per_s = tokens_per_s = steady_rate = None
    if valid:
        start_ns = min(timeline.started_ns for timeline in timelines)
        window_s = (max(timeline.finished_ns for timeline in successful) - start_ns) / NS_PER_S
        if window_s > 0:
            audio_per_s = sum(audio_between(timeline, None, None) for timeline in valid) / window_s if spoken else None
            requests_per_s = len(valid) / window_s
            tokens = [timeline.output_tokens for timeline in valid]
            if None not in tokens:
                tokens_per_s = sum(tokens) / window_s
    if steady is not None and spoken:
        audio_s = sum(audio_between(timeline, *steady) for timeline in valid)
        steady_rate = audio_s / ((steady[1] - steady[0]) / NS_PER_S)
    return Throughput(
        audio_per_s=audio_per_s,
        audio_per_s_steady=steady_rate,
        requests_per_s=requests_per_s,
        tokens_per_s=tokens_per_s,
    )


def audio_between(timeline: Timeline, after_ns: int | None, until_ns: int | None) -> float:
    """Seconds of audio of one request whose chunks arrived in (after, until]; None: no bound."""
    if timeline.sample_rate_hz is None:
        return 0.0
    samples = sum(
        count
        for arrived_ns, count in zip(timeline.chunk_arrived_ns, timeline.chunk_samples, strict=True)
        if (after_ns is None or arrived_ns > after_ns) and (until_ns is None or arrived_ns <= until_ns)
    )
    return samples / timeline.sample_rate_hz


def steady_window(timelines: Sequence[Timeline], concurrency: Level) -> tuple[int, int] | None:
    """(start, end) in ns of the time in which the target concurrency was in flight, or None.

    A request is in flight from ``started`` until it ended or failed. The window goes from the
    first moment at which ``concurrency`` requests are in flight to the last one. It is one
    piece: the moments in which a slot passes from one request to the next belong to it,
    because the neighbours' chunks that arrive just then were made before. It is None

    - when the concurrency was never reached;
    - when less than 90 % of it really had that many requests in flight;
    - when it is shorter than the median time from start to end of the successful requests:
      such a window is mostly the start-up, in which no audio can have arrived yet.

    In an open loop, whose ``concurrency`` is a Rate, nothing fixes how many are in flight. There it is the time in
    which the level's load was offered: from the first scheduled start to the last, None when it is
    shorter than that median.
    """
    if isinstance(concurrency, Rate):
        return _offered_window(timelines)
    changes = []
    for timeline in timelines:
        if timeline.finished_ns > timeline.started_ns:
            changes += [(timeline.started_ns, 1), (timeline.finished_ns, -1)]
    full: list[tuple[int, int]] = []
    in_flight = 0
    full_since_ns: int | None = None
    for at_ns, change in sorted(changes):
        in_flight += change
        if full_since_ns is None and in_flight >= concurrency:
            full_since_ns = at_ns
        elif full_since_ns is not None and in_flight < concurrency:
            full.append((full_since_ns, at_ns))
            full_since_ns = None
    durations_ns = [timeline.finished_ns - timeline.started_ns for timeline in timelines if timeline.ok]
    if not full or not durations_ns:
        return None
    start_ns, end_ns = full[0][0], full[-1][1]
    length_ns = end_ns - start_ns
    covered_ns = sum(until_ns - since_ns for since_ns, until_ns in full)
    if length_ns <= 0 or covered_ns < STEADY_COVERAGE * length_ns or length_ns < statistics.median(durations_ns):
        return None
    return start_ns, end_ns


def _offered_window(timelines: Sequence[Timeline]) -> tuple[int, int] | None:
    sent = [timeline for timeline in timelines if timeline.finished_ns > timeline.started_ns]
    durations_ns = [timeline.finished_ns - timeline.started_ns for timeline in sent if timeline.ok]
    if not durations_ns:
        return None
    start_ns = min(timeline.scheduled_ns for timeline in sent)
    end_ns = max(timeline.scheduled_ns for timeline in sent)
    return (start_ns, end_ns) if end_ns - start_ns >= max(statistics.median(durations_ns), 1) else None
