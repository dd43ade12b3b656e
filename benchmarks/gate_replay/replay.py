"""Synthetic histories with a known truth, night by night through the gate itself.

A time of a night is base · run effect · level noise · drift of the server · drift of the machine, all log-normal. A
run effect is drawn for each run and shared by its loads and metrics (the run is the unit); the machine's drift is an
AR(1) process over the nights, which a pinned run of the same night shares. A second run of a night draws its own run
effect; a spike is a neighbour on the host, and is gone by then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from benchmarks.ab_simulation.simulate import log_sd
from omni_bench.compare.views import OMNI_BENCH
from omni_bench.metrics.definitions import METRICS, gated_metrics
from omni_bench.nightly.gate.night import gate_night
from omni_bench.nightly.gate.result import GateResult
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.records import Role, StoredLevel, StoredRun, content_hash, series_id
from omni_bench.records.config import CLOSED_LOOP
from omni_bench.records.invalid_reason import Code, invalid

BASES = {"ttfp_ms": 60.0, "rtf": 0.3, "e2el_ms": 1200.0, "audio_per_s": 40.0, "ttfp_tail_ms": 75.0, "stalled": 0.0}
"""At c = 1; of any other metric that is gated, 1. No request stalls."""

AUDIO_S = 4.0
REQUESTS = 64
FIRST_NIGHT = datetime(2026, 1, 1, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Nights:
    """A history to be made. CVs and changes as fractions; nights count from 1.

    ``drift``: (first night, change of every time), None for none; ``spikes``: night -> change; ``broken``: nights
    with broken audio. ``machine_cv`` and ``machine_memory``: of the machine's drift. ``pinned``: whether a pinned build
    runs every night too.
    """

    nights: int = 60
    concurrencies: tuple[int, ...] = (1, 4, 16)
    run_cv: float = 0.015
    level_cv: float = 0.005
    machine_cv: float = 0.0
    machine_memory: float = 0.95
    drift: tuple[int, float] | None = None
    spikes: Mapping[int, float] = field(default_factory=dict)
    broken: frozenset[int] = frozenset()
    pinned: bool = False


def replay(world: Nights, seed: int) -> list[GateResult]:
    """The gate's verdict on every night, each judged by those before it; the same ``seed`` gives the same nights."""
    rng = np.random.default_rng(seed)
    machine = _machine(world, rng)
    found = []
    with History(None) as history:
        for night in range(1, world.nights + 1):
            draw = _Draw(world, night, machine[night - 1], rng)
            tonight = draw.run(Role.NIGHT, spike=world.spikes.get(night, 0.0), broken=night in world.broken)
            again = draw.run(Role.RERUN)
            pinned = draw.run(Role.PINNED) if world.pinned else None
            found.append(gate_night(history, tonight, run_again=lambda again=again: again, pinned=pinned))
    return found


def _machine(world: Nights, rng: np.random.Generator) -> np.ndarray:
    steps = rng.standard_normal(world.nights)
    fresh = math.sqrt(1 - world.machine_memory**2)
    for night in range(1, world.nights):
        steps[night] = world.machine_memory * steps[night - 1] + fresh * steps[night]
    return steps * log_sd(world.machine_cv)


class _Draw:
    """The runs of one night."""

    def __init__(self, world: Nights, night: int, machine: float, rng: np.random.Generator):
        self.world, self.night, self.machine, self.rng = world, night, machine, rng

    def run(self, role: Role, *, spike: float = 0.0, broken: bool = False) -> StoredRun:
        shared = self.machine + log_sd(self.world.run_cv) * self.rng.standard_normal() + math.log1p(spike)
        drift = self.world.drift
        if drift is not None and self.night >= drift[0] and role is not Role.PINNED:
            shared += math.log1p(drift[1])
        levels = tuple(self._level(concurrency, shared, broken) for concurrency in self.world.concurrencies)
        started = FIRST_NIGHT + timedelta(days=self.night - 1, hours=list(Role).index(role))
        build = "0" * 40 if role is Role.PINNED else f"{self.night:040x}"
        reasons = tuple(replace(reason, level=level.load) for level in levels for reason in level.reasons)
        keys = {"load.concurrency": list(self.world.concurrencies)}
        return StoredRun(
            run_id=content_hash([self.night, role, shared]),
            kind=OMNI_BENCH,
            scenario="synthetic",
            series=series_id("synthetic", "synthetic", keys),
            target="synthetic",
            hardware="synthetic",
            started_utc=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            valid=not broken,
            reasons=reasons,
            keys=keys,
            settings={},
            versions={"target.commit": build},
            levels=levels,
            source=f"night {self.night}, {role}",
            role=role,
        )

    def _level(self, concurrency: int, shared: float, broken: bool) -> StoredLevel:
        metrics = {name: self._figures(name, concurrency, shared) for name in (*gated_metrics(), "e2el_ms")}
        metrics["audio_s"] = _summary("audio_s", AUDIO_S)
        faulty = 3 if broken else 0
        level = StoredLevel(
            load=f"c = {concurrency}",
            concurrency=concurrency,
            arrival=CLOSED_LOOP,
            requests=REQUESTS,
            failed=0,
            faulty=faulty,
            valid=True,
            reasons=(),
            metrics=metrics,
        )
        reason = invalid(Code.INVALID_AUDIO, faulty=faulty, requests=REQUESTS, faults=f"silent {faulty}")
        return replace(level, valid=False, reasons=(reason,)) if broken else level

    def _figures(self, name: str, concurrency: int, shared: float) -> dict[str, object]:
        log = shared + log_sd(self.world.level_cv) * self.rng.standard_normal()
        slower = math.exp(log if METRICS[name].better == "lower" else -log)
        return _summary(name, BASES.get(name, 1.0) * concurrency**0.5 * slower)


def _summary(name: str, value: float) -> dict[str, object]:
    unit = {"unit": METRICS[name].unit, "better": METRICS[name].better, "n": REQUESTS}
    return unit | {"mean": value, "std": None, "p50": value, "p90": None, "p95": None, "p99": None}
