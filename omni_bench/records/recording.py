"""What the load phase of one level leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omni_bench.records.level import Level
from omni_bench.records.plan import PlannedRequest
from omni_bench.records.timeline import SAMPLE_WIDTH_BYTES, RequestError, Timeline


@dataclass(frozen=True)
class LevelRecording:
    """Raw facts of one level.

    ``timelines``: one for every measured request of the plan, in plan order; ``warmup`` the
    same for the warm-up. ``audio``: request id -> file of the payload bytes as received
    (s16le), for each measured request that succeeded (possibly empty) or got some audio
    before it failed. ``lag``: event-loop lag of the measured phase, None if it was never
    entered. ``interrupted``: the user stopped it; ``target_died``: the server did. ``measured_before``: how many of
    ``timelines`` are of an attempt that was cut short; 0 of a level that was measured in one go.
    """

    concurrency: Level
    timelines: tuple[Timeline, ...]
    warmup: tuple[Timeline, ...]
    audio: dict[str, Path]
    lag: LoopLag | None
    interrupted: bool
    target_died: bool
    measured_before: int = 0


def unsent_timeline(planned: PlannedRequest, concurrency: Level, error: RequestError, now_ns: int) -> Timeline:
    """The timeline of a request that was given up before it was sent: it begins and fails at ``now_ns``."""
    return Timeline(
        request_id=planned.request_id,
        prompt_id=planned.prompt_id,
        concurrency=concurrency,
        seed=planned.seed,
        scheduled_ns=now_ns,
        started_ns=now_ns,
        headers_ns=None,
        first_byte_ns=None,
        first_audio_ns=None,
        ended_ns=None,
        failed_ns=now_ns,
        chunk_arrived_ns=(),
        chunk_bytes=(),
        sample_rate_hz=None,
        sample_width_bytes=SAMPLE_WIDTH_BYTES,
        http_status=None,
        error=error,
        warmup=planned.warmup,
    )


@dataclass(frozen=True)
class CpuWait:
    """How long the client could have run and had no CPU: the run-queue wait of its thread over a level.

    ``lag_p99_ms``: the p99 of the lag without these waits, which is the client's own. ``cores``: that it may run on;
    ``with_server``: the server may run on them too.
    """

    wait_s: float
    lag_p99_ms: float
    cores: int
    with_server: bool


BIAS_TARGETS_MS = ((32, 1.0), (512, 5.0))
"""Up to how many streams the p99 of the client's TTFP bias should be how small, on two idle cores (issue 17)."""


def bias_target_ms(concurrency: int) -> float | None:
    """What the p99 should not be above; None for more streams than there is a target for."""
    return next((limit_ms for streams, limit_ms in BIAS_TARGETS_MS if concurrency <= streams), None)


@dataclass(frozen=True)
class TtfpBias:
    """How late the client stamped first audio that a server of known send times sent, over ``requests`` requests.

    ``concurrency`` streams in ``workers`` processes; see :mod:`omni_bench.run.calibration`.
    """

    p50_ms: float
    p99_ms: float
    concurrency: int
    workers: int
    requests: int


@dataclass(frozen=True)
class NodeClock:
    """The clock of one node of a Ray cluster: what its stamps were moved by, and how exact that is.

    ``workers``: its load processes. ``offset_ms``: how far its clock was ahead of this machine's; 0 for another
    process of this machine (``one_machine``). ``error_ms``: the most by which a stamp of it can be wrong after that,
    drift over the level included; see :mod:`omni_bench.load.clocks`.
    """

    address: str
    workers: int
    offset_ms: float
    error_ms: float
    one_machine: bool


@dataclass(frozen=True)
class LoopLag:
    """Lag of the event loop over a level; ``samples`` is how many the percentiles stand on.

    ``workers``: how many processes drove the level; the lag is of the one that lagged most. ``cpu``: None where the
    system does not tell how long a thread waits for a CPU. ``bias``: None without a calibration. ``nodes``: of a level
    that was spread over machines; () of any other.
    """

    p50_ms: float
    p99_ms: float
    max_ms: float
    samples: int
    cpu: CpuWait | None = None
    workers: int = 1
    bias: TtfpBias | None = None
    nodes: tuple[NodeClock, ...] = ()

    @property
    def clock_error_ms(self) -> float | None:
        """Of the node whose clock is least well known; None of a level of one machine's own load processes."""
        return max((node.error_ms for node in self.nodes), default=None)
