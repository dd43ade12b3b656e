"""A run as the history keeps it: raw results of each level, and where they come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from omni_bench.compare.keys import comparability_keys, schema_defaults, settings_of, versions_of
from omni_bench.compare.views import OMNI_BENCH, VLLM_BENCH, HasMetrics, LevelView, RunView
from omni_bench.foreign_text import one_field
from omni_bench.records.config import CLOSED_LOOP
from omni_bench.records.invalid_reason import InvalidReason, reasons_of
from omni_bench.records.level import Rate, level_of, short_title
from omni_bench.records.old_reasons import as_written
from omni_bench.report.format import hardware_name, injected_faults, target_name

POISSON, GAMMA = "poisson", "gamma"
ADVISORY = "no per-request data: advisory"
_SERIES_DIGITS = 16


class Role(StrEnum):
    """Why a run is in the history. Only nights make up series."""

    NIGHT = "night"
    PINNED = "pinned"
    RERUN = "rerun"


@dataclass(frozen=True)
class StoredLevel(HasMetrics):
    """One level. ``load`` tells levels of a run apart ("c = 16", "5 req/s").

    ``failed``, ``faulty``: None where it is not known. ``accuracy``, ``cross_talk``, ``parity``: as in run.json.
    """

    load: str
    concurrency: int
    arrival: str
    requests: int
    failed: int | None
    faulty: int | None
    valid: bool
    reasons: tuple[InvalidReason, ...]
    metrics: Mapping[str, Mapping[str, Any]]
    accuracy: Mapping[str, Any] | None = None
    cross_talk: Mapping[str, Any] | None = None
    parity: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class StoredRun:
    """One run. ``run_id``: SHA-256 of its run.json (of its content, not of how it is laid out).

    ``series``: a hash of scenario, target and comparability ``keys``: runs of one series may be drawn in one line.
    The target's settings and versions are no part of it, so that a changed default shows as a change of speed.
    """

    run_id: str
    kind: str
    scenario: str
    series: str
    target: str
    hardware: str
    started_utc: str | None
    valid: bool
    reasons: tuple[InvalidReason, ...]
    keys: Mapping[str, Any]
    settings: Mapping[str, Any]
    versions: Mapping[str, Any]
    levels: tuple[StoredLevel, ...]
    command: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    source: str = ""
    role: Role = Role.NIGHT

    @property
    def advisory(self) -> str | None:
        """Why it can be shown but not gated; None if it can be."""
        return ADVISORY if self.kind == VLLM_BENCH else None

    @property
    def date(self) -> str:
        """``2026-01-31``, of its start; "undated" if that is not known."""
        return (self.started_utc or "undated")[:10]

    @property
    def commit(self) -> str | None:
        """What was measured: the target's commit or version; the harness's commit for the bundled server."""
        own = self.versions.get("target.commit")
        if own is None and self.target.startswith("reference"):
            own = self.versions.get("omni-bench.commit")
        return own or self.versions.get("target.version")

    @property
    def stated_fault(self) -> str | None:
        """What a server that is not ours says of a fault of its own; None if it says nothing."""
        said = self.settings.get("server.fault")
        ours = any(fault.startswith("reference.fault=") for fault in self.faults)
        return f"the server says: fault {one_field(said)}" if said and not ours else None

    def level(self, load: str) -> StoredLevel | None:
        """The level under this load, None if there is none."""
        return next((level for level in self.levels if level.load == load), None)


def record_of_run(run: Mapping[str, Any], source: str, role: Role = Role.NIGHT) -> StoredRun:
    """A run.json (valid by its schema) as a record."""
    keys, target = comparability_keys(run), target_name(run)
    return StoredRun(
        run_id=content_hash(as_written(run)),
        kind=OMNI_BENCH,
        scenario=run["scenario"],
        series=series_id(run["scenario"], target, keys),
        target=target,
        hardware=hardware_name(run),
        started_utc=run["started_utc"],
        valid=run["valid"],
        reasons=reasons_of(run),
        keys=keys,
        settings=settings_of(run),
        versions=versions_of(run),
        levels=tuple(map(_level, run["levels"])),
        command=tuple(run["provenance"]["command"]),
        faults=tuple(injected_faults(run)),
        source=source,
        role=role,
    )


def record_of_bench(view: RunView, results: Sequence[Mapping[str, Any]]) -> StoredRun:
    """Results of ``vllm bench serve`` as a record; ``results``: the JSON that ``view`` was read from, one a level.

    Its scenario is the label of the benchmark, if it has one.
    """
    label = view.settings.get("bench.label")
    scenario = str(label) if label else VLLM_BENCH
    target = view.facts.target or VLLM_BENCH
    reasons = view.invalid
    return StoredRun(
        run_id=content_hash(list(results) if len(results) > 1 else results[0]),
        kind=VLLM_BENCH,
        scenario=scenario,
        series=series_id(scenario, target, view.keys),
        target=target,
        hardware="unknown hardware",
        started_utc=_bench_date(view.started_utc),
        valid=not reasons,
        reasons=reasons,
        keys=view.keys,
        settings=view.settings,
        versions=view.versions,
        levels=tuple(
            StoredLevel(
                load=short_title(level.concurrency),
                concurrency=_in_flight(level, result),
                arrival=_bench_arrival(level, result),
                requests=level.requests,
                failed=None,
                faulty=None,
                valid=not level.why,
                reasons=level.why,
                metrics=level.metrics,
            )
            for level, result in zip(view.levels, results, strict=True)
        ),
        source=view.source,
    )


def content_hash(document: Any) -> str:
    """SHA-256 of a JSON document, whatever its white space and order of names."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def series_id(scenario: str, target: str, keys: Mapping[str, Any]) -> str:
    """What runs of one series have in common, as a short hash.

    Keys at their default are left out, so that a series goes on when a newer omni-bench knows one more of them.
    """
    defaults = schema_defaults()
    told = {name: value for name, value in keys.items() if name not in defaults or value != defaults[name]}
    return content_hash([scenario, target, told])[:_SERIES_DIGITS]


def _level(level: Mapping[str, Any]) -> StoredLevel:
    return StoredLevel(
        load=short_title(level_of(level)),
        concurrency=level["concurrency"],
        arrival=level["arrival"],
        requests=level["requests"],
        failed=level["failed"],
        faulty=level.get("faulty"),
        valid=level["valid"],
        reasons=reasons_of(level),
        metrics=level["metrics"],
        accuracy=level["accuracy"],
        cross_talk=level.get("cross_talk"),
        parity=level.get("parity"),
    )


def _in_flight(level: LevelView, result: Mapping[str, Any]) -> int:
    """The concurrency, or at a request rate the peak, which vllm bench counts by whole seconds; no more than all."""
    if not isinstance(level.concurrency, Rate):
        return level.concurrency
    peak = result.get("max_concurrent_requests")
    return peak if type(peak) is int and 0 < peak <= level.requests else level.requests


def _bench_arrival(level: LevelView, result: Mapping[str, Any]) -> str:
    if not isinstance(level.concurrency, Rate):
        return CLOSED_LOOP
    return POISSON if result.get("burstiness", 1.0) == 1.0 else GAMMA


def _bench_date(text: str | None) -> str | None:
    """``20261128-031500``, as vllm bench writes it (local time, taken as UTC), in the form of run.json."""
    try:
        return datetime.strptime(text or "", "%Y%m%d-%H%M%S").replace(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None
