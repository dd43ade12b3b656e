"""How late the client's own event loop runs: the client's error bar on every time it reports."""

from __future__ import annotations

import asyncio
import math
import os
import selectors
import statistics
import threading
import time
from collections.abc import Sequence

from omni_bench.records.recording import CpuWait, LoopLag

SAMPLE_EVERY_MS = 5.0
OVERDUE_NS = 1_000_000  # how late a call may return by its timeout, which it rounds up to a millisecond itself
SCHEDSTAT = "/proc/self/task/{thread}/schedstat"
"""Of a thread: ns on a CPU, ns of waiting for one, and time slices (the kernel's Documentation/scheduler/sched-stats);
a kernel that does not count has no such file, or zeros in it."""


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


def summarise_lag(
    overshoots_ms: list[float],
    every_ms: float = SAMPLE_EVERY_MS,
    waits_ms: Sequence[float | None] = (),
    with_server: bool = False,
) -> LoopLag | None:
    """Percentiles of the lag by linear interpolation; None without a sample.

    ``waits_ms``: how long the thread waited for a CPU during each sample, if all are known. ``with_server``: see
    :class:`CpuWait`.
    """
    samples = fill_in(overshoots_ms, every_ms)
    if not samples:
        return None
    known = [wait for wait in waits_ms if wait is not None]
    cpu = None
    if len(known) == len(overshoots_ms):
        own = [max(late - wait, 0.0) for late, wait in zip(overshoots_ms, known, strict=True)]
        own_p99_ms = _percentiles(fill_in(own, every_ms))[98]
        cores = len(os.sched_getaffinity(0))
        # a client that is bound to some of the cores need not share these with the server
        cpu = CpuWait(sum(known) / 1e3, own_p99_ms, cores, with_server and cores == os.cpu_count())
    cuts = _percentiles(samples)
    return LoopLag(p50_ms=cuts[49], p99_ms=cuts[98], max_ms=max(samples), samples=len(samples), cpu=cpu)


def _percentiles(samples: list[float]) -> list[float]:
    """The 1st to the 99th; a single sample is all of them."""
    return statistics.quantiles(samples, n=100, method="inclusive") if len(samples) > 1 else samples * 99


class CpuClock:
    """How long this thread has waited for a CPU so far; in ms, None where the system does not tell."""

    def __init__(self) -> None:
        try:  # kept open: a reading is then one system call of a microsecond
            self._file = os.open(SCHEDSTAT.format(thread=threading.get_native_id()), os.O_RDONLY)
        except OSError:
            self._file = -1

    def waited_ms(self) -> float | None:
        """See the class."""
        try:
            _, waited_ns, slices = map(int, os.pread(self._file, 100, 0).split())
        except (OSError, ValueError):
            return None
        return waited_ns / 1e6 if slices else None

    def close(self) -> None:
        """Give the file back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class StampedLoop(asyncio.SelectorEventLoop):
    """An event loop that knows since when it has not looked for bytes: the lag of what a task reads now, at most."""

    def __init__(self) -> None:
        self._stamped = _StampedSelector()
        super().__init__(self._stamped)

    def lag_ns(self, now_ns: int) -> int:
        """How long bytes that a task reads at ``now_ns`` may have waited in the client. By perf_counter_ns.

        A turn of the loop reads what has come from the sockets, and the next one runs the tasks that wait for it. So
        the bytes came after the turn before had looked, or if that one slept until something came, when it awoke. A
        thread that got no CPU awakes late by as much as the system counts; one that was stopped, or whose system does
        not count, is known to be late where it slept beyond its timeout, so within :data:`SAMPLE_EVERY_MS` and a
        millisecond or two while a :class:`LagSampler` runs.
        """
        return now_ns - self._stamped.read_since_ns


class _StampedSelector(selectors.DefaultSelector):  # type: ignore[valid-type, misc]
    """``read_since_ns``: when what was read in the last turn but this one can have come at the earliest."""

    def __init__(self) -> None:
        super().__init__()
        now_ns = time.perf_counter_ns()
        self.read_since_ns = self._since_ns = self._looked_ns = now_ns
        self._clock: CpuClock | None = None  # of the thread that runs the loop
        self._waited_ns = 0.0

    def close(self) -> None:
        super().close()
        if self._clock is not None:
            self._clock.close()

    def _newly_waited_ns(self) -> float:
        """How long the thread has waited for a CPU since this was asked last; 0 where the system does not tell."""
        self._clock = self._clock or CpuClock()
        before, self._waited_ns = self._waited_ns, (self._clock.waited_ms() or 0.0) * 1e6
        return self._waited_ns - before

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        asked_ns = time.perf_counter_ns()
        # Apart, as how long a call takes does not say whether it slept: to hand over a burst takes a while too.
        found = super().select(0)
        slept = not found and (timeout is None or timeout > 0)
        waited_ns = 0.0
        if slept:
            self._newly_waited_ns()
            found = super().select(timeout)
            waited_ns = self._newly_waited_ns()
        now_ns = time.perf_counter_ns()
        longest_ns = math.inf if timeout is None else max(timeout, 0.0) * 1e9 + 1e6 + OVERDUE_NS
        self.read_since_ns = self._since_ns
        if slept and now_ns - asked_ns <= longest_ns + waited_ns:
            self._since_ns, self._looked_ns = now_ns - round(waited_ns), now_ns
        else:
            # One that had nothing to wait for, or awoke too late for no known reason, may find what came any time after
            # the last look, and may miss what comes from now on.
            self._since_ns, self._looked_ns = self._looked_ns, asked_ns
        return found


class LagSampler:
    """Sleeps 5 ms at a time and records by how much each sleep was too long. Use as ``async with``.

    An idle loop overshoots by up to about 1 ms, the resolution of the selector's timeout. ``with_server``: the server
    may be on this machine.
    """

    def __init__(self, with_server: bool = False) -> None:
        self._overshoots_ms: list[float] = []
        self._waits_ms: list[float | None] = []
        self._task: asyncio.Task[None] | None = None
        self._with_server = with_server

    async def __aenter__(self) -> LagSampler:
        self._clock = CpuClock()
        self._task = asyncio.get_running_loop().create_task(self._sample())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._task is not None:
            if not self._overshoots_ms:  # shorter than one sleep: that one began within, let it end
                await asyncio.wait([self._task], timeout=2 * SAMPLE_EVERY_MS / 1e3)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._clock.close()

    def result(self) -> LoopLag | None:
        """The lag so far; None before the first sample."""
        return summarise_lag(self._overshoots_ms, SAMPLE_EVERY_MS, self._waits_ms, self._with_server)

    async def _sample(self) -> None:
        while True:
            before_ns, waited_ms = time.perf_counter_ns(), self._clock.waited_ms()
            try:
                await asyncio.sleep(SAMPLE_EVERY_MS / 1e3)
            finally:  # a sampler that is stopped while its sleep is overdue has still seen that lag
                overshoot_ms = (time.perf_counter_ns() - before_ns) / 1e6 - SAMPLE_EVERY_MS
                if overshoot_ms >= 0:
                    now_ms = self._clock.waited_ms()
                    self._overshoots_ms.append(overshoot_ms)
                    self._waits_ms.append(None if now_ms is None or waited_ms is None else now_ms - waited_ms)
