"""What a comparison needs of one run, whichever program wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omni_bench.compare.stats.length_guard import UtteranceKey
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.invalid_reason import InvalidReason
from omni_bench.records.level import Level, short_title

OMNI_BENCH, VLLM_BENCH = "omni-bench", "vllm bench serve"


class HasMetrics:
    """A level. ``metrics``: name -> {n, mean, std, p50, p90, p95, p99}, each None where it is missing."""

    metrics: Mapping[str, Mapping[str, Any]]

    def value(self, metric: str) -> float | None:
        """The figure that is compared: the median over requests, or the level's own figure; None if it is missing."""
        return self.figure(metric, METRICS[metric].headline)

    def figure(self, metric: str, name: str) -> float | None:
        """A figure ("p90", "mean", ...) of a metric; None if it is missing."""
        return (self.metrics.get(metric) or {}).get(name)


@dataclass(frozen=True)
class LevelView(HasMetrics):
    """One level of a run.

    ``accuracy``: the judge's counts and rates as in run.json, None without a judge. ``why``: why the level makes no
    performance claim, empty if it is valid.
    """

    concurrency: Level
    requests: int
    why: tuple[InvalidReason, ...]
    metrics: Mapping[str, Mapping[str, Any]]
    accuracy: Mapping[str, Any] | None


@dataclass(frozen=True)
class RequestView:
    """One request of a run. ``audio_s``, ``e2el_ms``: None if it failed or its audio is invalid.

    ``corrupted``, ``edits`` and ``words`` (of the reference): None if it was not judged. ``text`` was to be said,
    ``heard`` was heard; ``audio``: its recording within the run folder, None if it was not kept.
    """

    key: UtteranceKey
    audio_s: float | None
    e2el_ms: float | None
    corrupted: bool | None = None
    edits: int | None = None
    words: int | None = None
    text: str | None = None
    heard: str | None = None
    audio: str | None = None


@dataclass(frozen=True)
class RunView:
    """One run. ``source``: as the user named it; ``kind``: who wrote it.

    ``keys``: what has to be equal in both arms, by name. ``settings`` and ``versions``: what may differ between the
    arms (target, reference configuration; versions, commits), but ``settings`` not within one. ``order``: what has to
    be equal within a pair only. ``why``: why the whole run makes no performance claim, beyond its
    levels. ``requests``: None without per-request data. ``facts``: texts for the header, None where unknown.
    """

    source: str
    kind: str
    started_utc: str | None
    why: tuple[InvalidReason, ...]
    keys: Mapping[str, Any]
    settings: Mapping[str, Any]
    versions: Mapping[str, Any]
    order: Mapping[str, Any]
    levels: tuple[LevelView, ...]
    requests: tuple[RequestView, ...] | None
    facts: RunFacts

    def level(self, concurrency: Level) -> LevelView | None:
        """The level of this concurrency, None if there is none."""
        return next((level for level in self.levels if level.concurrency == concurrency), None)

    @property
    def invalid(self) -> tuple[InvalidReason, ...]:
        """All reasons why it is invalid; empty if it is valid."""
        of_levels = [
            replace(reason, level=short_title(level.concurrency)) for level in self.levels for reason in level.why
        ]
        return (*self.why, *of_levels)


@dataclass(frozen=True)
class RunFacts:
    """Texts for people: what was measured, on what, with which prompts; ``command`` made the run. None: unknown.

    ``rate``: what errors are counted by, WER (words) or CER (characters); None without a judge. ``highest_rate``: what
    a rate search found; None if the run is none. ``faults``: those that were injected on purpose;
    ``stated_faults``: what a server that is not ours says of one.
    """

    target: str | None = None
    hardware: str | None = None
    on_gpu: bool = False
    prompts: str | None = None
    judge: str | None = None
    rate: str | None = None
    highest_rate: str | None = None
    faults: tuple[str, ...] = ()
    stated_faults: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def faults_by_arm(before: Sequence[RunView], after: Sequence[RunView], fact: str) -> tuple[str, ...]:
    """The ``faults``, or the ``stated_faults``, of any run, by arm."""
    found = {
        name: dict.fromkeys(fault for run in arm for fault in getattr(run.facts, fact))
        for name, arm in (("before", before), ("after", after))
    }
    return tuple(f"{name}: {', '.join(faults)}" for name, faults in found.items() if faults)
