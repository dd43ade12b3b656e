"""The metrics of a reply's text, from its raw timeline: omni chat, and text alone."""

from __future__ import annotations

from itertools import pairwise

from omni_bench.clients.timeline import Timeline

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
