"""The plan of an open loop: every level's schedule, prompts and seeds, decided before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from omni_bench.errors import ConfigError, DatasetError
from omni_bench.load.arrivals import POISSON, TRACE, RateProfile, arrival_offsets_ns
from omni_bench.load.closed_plan import WARMUP_POOL_PROMPTS, planned_request
from omni_bench.load.trace import read_trace
from omni_bench.records.level import Rate, level_name, rate_of
from omni_bench.records.plan import LevelPlan

if TYPE_CHECKING:
    from omni_bench.records.config import ClientConfig, LoadConfig
    from omni_bench.records.prompt import Prompt


@dataclass(frozen=True)
class LevelSchedule:
    """When the requests of a level are due, in ns after the start of its warm-up and of its measured phase."""

    level: Rate
    warmup_ns: tuple[int, ...]
    measured_ns: tuple[int, ...]


def level_schedules(load: LoadConfig) -> list[LevelSchedule]:
    """The levels of ``load.rate_hz``, or the one of ``load.ramp`` or ``load.trace``, in that order.

    Raises ConfigError for a trace that cannot be used, and a duration in which nothing would be sent.
    """
    if load.arrival == TRACE:
        if load.trace is None:
            raise ConfigError("load.trace is needed for load.arrival=trace: a .jsonl or .csv file of arrivals")
        offsets_ns = read_trace(Path(load.trace))
        if load.duration_s is not None:
            offsets_ns = tuple(at_ns for at_ns in offsets_ns if at_ns < load.duration_s * 1e9)
        if len(offsets_ns) < 2 or offsets_ns[-1] == 0:
            raise ConfigError(f"load.duration_s={load.duration_s}: fewer than two arrivals of {load.trace} in it")
        mean = RateProfile.constant(rate_of((len(offsets_ns) - 1) / (offsets_ns[-1] / 1e9)).hz)
        return [LevelSchedule(Rate(mean.start_hz), _warmup(load, mean), offsets_ns)]
    if load.ramp is not None:
        requests = None if load.duration_s is not None else load.requests_per_level
        profile = RateProfile.ramp(*load.ramp, requests=requests, duration_s=load.duration_s)
        return [_schedule(load, rate_of(profile.mean_hz), profile)]
    return [rate_schedule(load, rate_hz) for rate_hz in load.rate_hz]


def rate_schedule(load: LoadConfig, rate_hz: float) -> LevelSchedule:
    """The level of one constant rate. Raises ConfigError as :func:`level_schedules` does."""
    level = rate_of(rate_hz)
    return _schedule(load, level, RateProfile.constant(level.hz))


def probe_schedule(load: LoadConfig, rate_hz: float) -> LevelSchedule:
    """The same with the requests of a probe: ``load.probe_requests``, and at least ``load.probe_s`` of them."""
    requests = max(load.probe_requests, math.ceil(rate_of(rate_hz).hz * load.probe_s))
    return rate_schedule(replace(load, requests_per_level=requests), rate_hz)


def _schedule(load: LoadConfig, level: Rate, profile: RateProfile) -> LevelSchedule:
    measured_ns = arrival_offsets_ns(
        load.arrival,
        profile,
        seed=f"{load.seed}/{level_name(level)}",
        requests=None if load.duration_s is not None else load.requests_per_level,
        duration_s=load.duration_s,
        burstiness=load.burstiness,
    )
    if not measured_ns:
        raise ConfigError(f"load.duration_s={load.duration_s}: no request is due in it at {level}; make it longer")
    return LevelSchedule(level, _warmup(load, RateProfile.constant(profile.start_hz)), measured_ns)


def _warmup(load: LoadConfig, profile: RateProfile) -> tuple[int, ...]:
    """The level's own arrivals at its first rate (a trace has none to spare: Poisson at its mean rate)."""
    arrival = POISSON if load.arrival == TRACE else load.arrival
    return arrival_offsets_ns(
        arrival,
        profile,
        seed=f"{load.seed}/warm-up",
        requests=load.warmup_requests,
        burstiness=load.burstiness,
    )


def warmup_pool_size(load: LoadConfig) -> int:
    """Prompts of which no measured request uses any; warm-up may cycle over them."""
    return min(load.warmup_requests, WARMUP_POOL_PROMPTS)


class OpenPlanner:
    """Makes the plans of levels one after another, each from its own slice of the prompts.

    ``measured``: how many measured requests there are at most in all levels. As in a closed loop, prompts after that
    many are for warm-up alone, and request number ``k`` has seed ``client.seed + k``, warm-up after all measured.
    With ``cycle`` (a rate search, whose probes are as long as it takes) measured prompts that are used up begin anew.
    """

    def __init__(
        self, prompts: Sequence[Prompt], measured: int, load: LoadConfig, client: ClientConfig, *, cycle: bool = False
    ) -> None:
        needed = measured + warmup_pool_size(load)
        if len(prompts) < needed:
            raise DatasetError(
                f"the load plan needs {needed} prompts ({measured} measured, the rest for warm-up), "
                f"got {len(prompts)}; lower load.requests_per_level, or allow repeats (dataset.allow_repeats=true)"
            )
        self._prompts, self._measured, self._load, self._client = prompts, measured, load, client
        self._pool, self._cycle = prompts[measured:], cycle
        self._taken = self._warmed_up = 0

    def plan(self, schedule: LevelSchedule) -> LevelPlan:
        """The next level. Raises DatasetError when the measured prompts are used up."""
        name = level_name(schedule.level)
        if not self._cycle and self._taken + len(schedule.measured_ns) > self._measured:
            raise DatasetError(f"level {name} needs {len(schedule.measured_ns)} prompts more than were planned for")
        measured, warmup = [], []
        for number, at_ns in enumerate(schedule.measured_ns):
            prompt = self._prompts[self._taken % self._measured]
            request = f"{name}-{number:04d}"
            measured.append(
                planned_request(request, prompt, self._client, self._taken, warmup=False, scheduled_offset_ns=at_ns)
            )
            self._taken += 1
        for number, at_ns in enumerate(schedule.warmup_ns):
            prompt = self._pool[self._warmed_up % len(self._pool)]
            index = self._measured + self._warmed_up
            request = f"{name}-w{number:04d}"
            warmup.append(planned_request(request, prompt, self._client, index, warmup=True, scheduled_offset_ns=at_ns))
            self._warmed_up += 1
        return LevelPlan(schedule.level, tuple(warmup), tuple(measured), self._load.max_in_flight)


def rotated(plans: list[LevelPlan], by: int) -> list[LevelPlan]:
    """The levels in the order in which they run: from number ``by`` on (``load.rotate_levels``)."""
    first = by % len(plans) if plans else 0
    return plans[first:] + plans[:first]
