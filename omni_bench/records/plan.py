"""Which request is sent, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omni_bench.records.level import Level


@dataclass(frozen=True)
class PlannedRequest:
    """One request to send. ``body`` is its JSON body; ``scheduled_offset_ns`` is its start
    after the level's start in an open loop, None in a closed loop (it starts when a slot is free)."""

    request_id: str
    prompt_id: str
    body: dict[str, Any]
    seed: int | None
    warmup: bool
    scheduled_offset_ns: int | None


@dataclass(frozen=True)
class LevelPlan:
    """One level of the sweep: its warm-up, which is never counted, and its measured requests.

    ``max_in_flight``: the cap of an open loop, whose ``concurrency`` is a Rate; None in a closed loop.
    """

    concurrency: Level
    warmup: tuple[PlannedRequest, ...]
    measured: tuple[PlannedRequest, ...]
    max_in_flight: int | None = None
