"""A rebuffering audio player in exact integer arithmetic.

The player starts when the first whole sample has arrived, which is ``first_audio`` unless a
read ended within the very first sample. It plays at real time, stands still when it has
nothing to play, and goes on with the next chunk (``stall`` and ``prebuffer`` of the metric
definitions). Reads that complete no sample are no chunks.

All times inside are in ticks of 1/(10^9 · rate) s: both a nanosecond (``rate`` ticks) and a
sample (10^9 ticks) are whole numbers of them, so "exactly on time" is never a rounding error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NS_PER_S = 10**9


@dataclass(frozen=True)
class Playback:
    """``stalls`` pauses of together ``stall_s`` seconds; ``prebuffer_s``: the start delay that avoids them."""

    stalls: int
    stall_s: float
    prebuffer_s: float


def playback(arrived_ns: Sequence[int], samples: Sequence[int], sample_rate_hz: int) -> Playback | None:
    """Play chunks of ``samples[i]`` samples that arrive at ``arrived_ns[i]`` (ascending).

    ``prebuffer`` is the largest lateness of a chunk against a player that never stops:
    max over i of (arrival_i − arrival_0 − audio before i). None with fewer than two chunks:
    one blob shows nothing about continuity.
    """
    chunks = _chunks(arrived_ns, samples)
    if len(chunks) < 2:
        return None
    stalled = _stalled_ticks(chunks, sample_rate_hz)
    ticks_per_s = NS_PER_S * sample_rate_hz
    return Playback(
        stalls=len(stalled),
        stall_s=sum(until - since for since, until in stalled) / ticks_per_s,
        prebuffer_s=_prebuffer_ticks(chunks, sample_rate_hz) / ticks_per_s,
    )


def stall_spans_ns(arrived_ns: Sequence[int], samples: Sequence[int], sample_rate_hz: int) -> list[tuple[float, float]]:
    """When the player of :func:`playback` stood still: (from, to) in ns on the clock of ``arrived_ns``."""
    stalled = _stalled_ticks(_chunks(arrived_ns, samples), sample_rate_hz)
    return [(since / sample_rate_hz, until / sample_rate_hz) for since, until in stalled]


def _stalled_ticks(chunks: list[tuple[int, int]], sample_rate_hz: int) -> list[tuple[int, int]]:
    """(buffer ran empty, next chunk arrived) of each stall."""
    ends = _buffer_ends_ticks(chunks, sample_rate_hz)
    pairs = ((end, arrival_ns * sample_rate_hz) for end, (arrival_ns, _) in zip(ends, chunks[1:], strict=False))
    return [(end, arrival) for end, arrival in pairs if arrival > end]


def sample_played_ns(
    arrived_ns: Sequence[int], samples: Sequence[int], sample_rate_hz: int, sample_index: int
) -> float:
    """When the player plays sample ``sample_index`` (0-based), in ns on the clock of ``arrived_ns``.

    Raises IndexError when there is no such sample.
    """
    chunks = _chunks(arrived_ns, samples)
    first_sample = 0
    for (_, count), end_ticks in zip(chunks, _buffer_ends_ticks(chunks, sample_rate_hz), strict=True):
        if sample_index < first_sample + count:
            remaining = first_sample + count - sample_index
            return (end_ticks - remaining * NS_PER_S) / sample_rate_hz
        first_sample += count
    raise IndexError(f"sample {sample_index} of {first_sample}")


def _chunks(arrived_ns: Sequence[int], samples: Sequence[int]) -> list[tuple[int, int]]:
    return [(arrival, count) for arrival, count in zip(arrived_ns, samples, strict=True) if count > 0]


def _buffer_ends_ticks(chunks: list[tuple[int, int]], sample_rate_hz: int) -> list[int]:
    """When the player will have played each chunk to its end."""
    ends: list[int] = []
    for arrival_ns, count in chunks:
        arrival_ticks = arrival_ns * sample_rate_hz
        start_ticks = max(arrival_ticks, ends[-1]) if ends else arrival_ticks
        ends.append(start_ticks + count * NS_PER_S)
    return ends


def _prebuffer_ticks(chunks: list[tuple[int, int]], sample_rate_hz: int) -> int:
    first_arrival_ns = chunks[0][0]
    needed_ticks = 0
    samples_before = 0
    for arrival_ns, count in chunks:
        late_ticks = (arrival_ns - first_arrival_ns) * sample_rate_hz - samples_before * NS_PER_S
        needed_ticks = max(needed_ticks, late_ticks)
        samples_before += count
    return needed_ticks
