"""The requests of a run that are sent once more alone: which they are, and what has come of them so far.

They are sent after the levels, to the same server. Before them they would change what the levels
measure: a server that has seen the prompts is warmer than it would be in a run without this check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from omni_bench.levels import Level
from omni_bench.load.plan import LevelPlan, PlannedRequest
from omni_bench.load.recording import LevelRecording
from omni_bench.parity.compare import Answer, Comparison, compare_answers

SOLO, AGAIN = "solo-", "-again"
REPEATS = 2
"""Requests that are sent twice alone, so that it is known whether the server repeats itself at all."""


@dataclass(frozen=True)
class SoloLevel:
    """What is sent alone for one level, and its pairs: (first request id, second request id, is a repeat)."""

    concurrency: Level
    plan: LevelPlan
    pairs: tuple[tuple[str, str, bool], ...]


@dataclass
class ParityPhase:
    """What the check has come to so far: ``codes`` by request id, ``solos`` by the concurrency of the level."""

    requests: int
    codes: dict[str, np.ndarray] = field(default_factory=dict)
    planned: list[SoloLevel] = field(default_factory=list)
    solos: dict[Level, LevelRecording] = field(default_factory=dict)

    def candidates(self, recording: LevelRecording) -> list[str]:
        """The requests of a level that are sent alone: the first ``requests`` that ended cleanly, in plan order."""
        return [timeline.request_id for timeline in recording.timelines if timeline.ok][: self.requests]

    def plan(self, plans: Sequence[LevelPlan], recordings: Sequence[LevelRecording]) -> list[SoloLevel]:
        """Plan the phase after the levels; the first :data:`REPEATS` requests of it are sent twice."""
        by_concurrency = {plan.concurrency: plan for plan in plans}
        repeats_left = REPEATS
        for recording in recordings:
            names = self.candidates(recording)
            if names:
                level = by_concurrency[recording.concurrency]
                self.planned.append(solo_level(level, names, repeats_left))
                repeats_left = max(0, repeats_left - len(names))
        return self.planned

    def compare(self, recordings: Sequence[LevelRecording]) -> list[Comparison]:
        """Every pair of which both were recorded, level by level. Raises StoreError for unreadable audio."""
        levels = {recording.concurrency: recording for recording in recordings}
        comparisons = []
        for solo in self.planned:
            alone = self.solos.get(solo.concurrency)
            if alone is None:
                continue
            level = levels[solo.concurrency]
            answers = {
                timeline.request_id: Answer(
                    timeline, one.audio.get(timeline.request_id), self.codes.get(timeline.request_id)
                )
                for one in (level, alone)
                for timeline in one.timelines
            }
            comparisons += [
                compare_answers(
                    answers[first],
                    answers[second],
                    () if repeat else level.timelines,
                    repeat=repeat,
                    concurrency=solo.concurrency,
                )
                for first, second, repeat in solo.pairs
            ]
        return comparisons


def solo_level(level: LevelPlan, request_ids: Sequence[str], repeats: int) -> SoloLevel:
    """Plan ``request_ids`` of ``level`` alone: one slot, no warm-up, the same bodies and seeds.

    The first ``repeats`` of them go twice, the second time when each of them has gone once, so that
    something else has been spoken in between.
    """
    by_id = {planned.request_id: planned for planned in level.measured}
    once = [_renamed(by_id[name], SOLO + name) for name in request_ids]
    twice = [_renamed(planned, planned.request_id + AGAIN) for planned in once[:repeats]]
    pairs = [(name, planned.request_id, False) for name, planned in zip(request_ids, once, strict=True)]
    pairs += [(first.request_id, second.request_id, True) for first, second in zip(once, twice, strict=False)]
    measured = (*once[:repeats], *twice, *once[repeats:])
    return SoloLevel(level.concurrency, LevelPlan(concurrency=1, warmup=(), measured=measured), tuple(pairs))


def _renamed(planned: PlannedRequest, name: str) -> PlannedRequest:
    return replace(planned, request_id=name, warmup=False, scheduled_offset_ns=None)
