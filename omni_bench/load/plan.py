"""The load plan of any kind of load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omni_bench.load.closed_plan import build_level_plans, measured_requests, prompts_needed
from omni_bench.load.open_plan import LevelSchedule, OpenPlanner, level_schedules, rotated, warmup_pool_size
from omni_bench.records.config import CLOSED_LOOP, RATE_SEARCH
from omni_bench.records.plan import LevelPlan

if TYPE_CHECKING:
    from omni_bench.records.config import ClientConfig, LoadConfig
    from omni_bench.records.prompt import Prompt


@dataclass(frozen=True)
class LoadSize:
    """What a load asks for: measured requests (at most, in a rate search), and prompts with those of the warm-up."""

    measured: int
    prompts: int
    schedules: tuple[LevelSchedule, ...] = ()


def size_load(load: LoadConfig) -> LoadSize:
    """How much there is to send, with the schedules of an open loop. Raises ConfigError for a trace of no use."""
    if load.kind == CLOSED_LOOP:
        return LoadSize(measured_requests(load), prompts_needed(load))
    schedules: tuple[LevelSchedule, ...] = ()
    if load.kind == RATE_SEARCH:
        measured = load.max_probes * load.probe_requests
    else:
        schedules = tuple(level_schedules(load))
        measured = sum(len(schedule.measured_ns) for schedule in schedules)
    return LoadSize(measured, measured + warmup_pool_size(load), schedules)


def plan_levels(prompts: Sequence[Prompt], size: LoadSize, load: LoadConfig, client: ClientConfig) -> list[LevelPlan]:
    """The levels in the order in which they run; none of a rate search, whose levels depend on one another.

    Raises DatasetError or ConfigError as the planners do.
    """
    if load.kind == CLOSED_LOOP:
        return build_level_plans(prompts, load, client)
    planner = OpenPlanner(prompts, size.measured, load, client)
    return rotated([planner.plan(schedule) for schedule in size.schedules], load.rotate_levels)
