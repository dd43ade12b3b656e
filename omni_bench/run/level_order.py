"""The order of levels: as the configuration lists them, whatever the order in which they ran."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.config.schema import LoadConfig
from omni_bench.levels import Level
from omni_bench.load.plan import LevelPlan
from omni_bench.run.results import LevelResult


def configured_levels(load: LoadConfig, plans: Sequence[LevelPlan]) -> list[Level]:
    """The levels of ``plans`` without the rotation of ``load.rotate_levels``."""
    if load.rotate_levels and plans:
        first = len(plans) - load.rotate_levels % len(plans)
        plans = [*plans[first:], *plans[:first]]
    return [plan.concurrency for plan in plans]


def in_configured_order(levels: Sequence[LevelResult], configured: Sequence[Level]) -> list[LevelResult]:
    """``levels`` in the order of ``configured``; those that it lacks (the probes of a rate search) follow, by rate."""
    listed = [level for level in levels if level.concurrency in configured]
    found = sorted((level for level in levels if level.concurrency not in configured), key=lambda one: one.concurrency)
    return sorted(listed, key=lambda level: configured.index(level.concurrency)) + found
