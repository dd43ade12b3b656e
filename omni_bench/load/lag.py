"""How late the client's own event loop runs: the client's error bar on every time it reports."""

from __future__ import annotations

import asyncio
import statistics
import time

from omni_bench.records.recording import LoopLag

SAMPLE_EVERY_MS = 5.0


def fill_in(overshoots_ms: list[float], every_ms: float = SAMPLE_EVERY_MS) -> list[float]:
    """Add the samples that a late sampler could not take.

    A loop that is blocked for 100 ms delays one sample by 100 ms and loses the next twenty;
    they would have seen 95, 90, ... ms. Without them the percentiles would be of samples and
    not of time (the correction for coordinated omission of Gil Tene's HdrHistogram).
    """
    filled: list[float] = []
    for overshoot_ms in overshoots_ms:
        filled.append(overshoot_ms)
        missed_ms = overshoot_ms - every_ms
        while missed_ms > 0:
            filled.append(missed_ms)
            missed_ms -= every_ms
    return filled


def summarise_lag(overshoots_ms: list[float], every_ms: float = SAMPLE_EVERY_MS) -> LoopLag | None:
    """Percentiles of the lag by linear interpolation; None without a sample."""
    samples = fill_in(overshoots_ms, every_ms)
    if not samples:
        return None
    if len(samples) == 1:
        return LoopLag(p50_ms=samples[0], p99_ms=samples[0], max_ms=samples[0], samples=1)
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    return LoopLag(p50_ms=cuts[49], p99_ms=cuts[98], max_ms=max(samples), samples=len(samples))


class LagSampler:
    """Sleeps 5 ms at a time and records by how much each sleep was too long. Use as ``async with``.

    An idle loop overshoots by up to about 1 ms, the resolution of the selector's timeout.
    """

    def __init__(self) -> None:
        self._overshoots_ms: list[float] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LagSampler:
        self._task = asyncio.get_running_loop().create_task(self._sample())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._task is not None:
            if not self._overshoots_ms:  # shorter than one sleep: that one began within, let it end
                await asyncio.wait([self._task], timeout=2 * SAMPLE_EVERY_MS / 1e3)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def result(self) -> LoopLag | None:
        """The lag so far; None before the first sample."""
        return summarise_lag(self._overshoots_ms)

    async def _sample(self) -> None:
        while True:
            before_ns = time.perf_counter_ns()
            try:
                await asyncio.sleep(SAMPLE_EVERY_MS / 1e3)
            finally:  # a sampler that is stopped while its sleep is overdue has still seen that lag
                overshoot_ms = (time.perf_counter_ns() - before_ns) / 1e6 - SAMPLE_EVERY_MS
                if overshoot_ms >= 0:
                    self._overshoots_ms.append(overshoot_ms)
