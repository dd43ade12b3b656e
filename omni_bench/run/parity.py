"""The parity check's part of a run: requests sent alone, their results, and what is written of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from omni_bench.accuracy.parity.codes import codes_record, fetch_codes
from omni_bench.accuracy.parity.compare import ParityAnswer, ParityComparison, Words, compare_answers
from omni_bench.accuracy.parity.records import comparison_of, comparison_record
from omni_bench.accuracy.parity.verdict import LevelParity, is_mismatch, level_parity
from omni_bench.accuracy.wer import UtteranceScore, is_corrupted, score_utterance
from omni_bench.errors import StoreError
from omni_bench.load.clients.wire_forms import RequestedModalities
from omni_bench.load.runner import LevelBroken, LevelInterrupted
from omni_bench.records.config import OutputConfig
from omni_bench.records.level import Level
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.stages import Tell, untold
from omni_bench.run.judging import Verdicts
from omni_bench.run.level_result import LevelResult, RequestResult
from omni_bench.run.measure import SPEECH, measure_level
from omni_bench.run.stored_results import read_solos, result_record

WHILE_ALONE = "while requests were sent alone for the parity check (every level had been measured)"


class AloneInterrupted(KeyboardInterrupt):
    """Ctrl-C while requests were sent alone."""


@dataclass(frozen=True)
class ParityResult:
    """``solos``: the requests that were sent alone, a group for each level. ``codes``: by request id."""

    solos: tuple[LevelResult, ...]
    comparisons: tuple[ParityComparison, ...]
    codes: Mapping[str, np.ndarray]

    def level(self, concurrency: Level, provenance: Mapping[str, Any]) -> LevelParity | None:
        """A level's parity; None if nothing of it was sent alone."""
        return level_parity(self.comparisons, concurrency, deterministic=claims_determinism(provenance))

    def heard(self, verdicts: Verdicts, levels: Sequence[LevelResult]) -> ParityResult:
        """The same with what the judge heard of the ``levels`` and of the requests sent alone."""
        languages = {request.request_id: request.language for level in levels for request in level.requests}
        languages |= {request.request_id: request.language for level in self.solos for request in level.requests}
        comparisons = (
            replace(one, words=_words(one, verdicts.scores, languages.get(one.request_id))) for one in self.comparisons
        )
        return replace(self, comparisons=tuple(comparisons))


def send_alone(
    phase: ParityPhase,
    plans: Sequence[LevelPlan],
    recordings: Sequence[LevelRecording],
    *,
    base_url: str,
    begin: Callable[[int], None],
    drive: Callable[[LevelPlan], LevelRecording],
    check_target: Callable[[LevelRecording], None],
) -> None:
    """Send the requests of ``phase`` once more, one after another, and keep what came of them in it.

    ``begin(requests)`` is called first, ``drive`` does the load of one plan and ``check_target`` raises if the
    server is gone. Raises AloneInterrupted for Ctrl-C, and what those raise.
    """
    planned = phase.plan(plans, recordings)
    begin(sum(len(level.plan.measured) for level in planned))
    try:
        for level in planned:
            try:
                recording = drive(level.plan)
            except (LevelInterrupted, LevelBroken) as error:
                phase.solos[level.concurrency] = error.recording
                raise
            phase.solos[level.concurrency] = recording
            check_target(recording)
            keep_codes(phase, base_url, recording, [first for first, _, _ in level.pairs])
    except KeyboardInterrupt as error:
        raise AloneInterrupted(f"interrupted {WHILE_ALONE}") from error


def keep_codes(
    phase: ParityPhase, base_url: str, recording: LevelRecording, counterparts: Sequence[str] | None = None
) -> None:
    """Ask the server for the codes of what it just spoke, as far as the check can use them.

    ``counterparts``: of requests sent alone, whom they are compared with; without codes of any of those there is
    nothing to ask for.
    """
    if counterparts is None:
        names = phase.candidates(recording)
    elif any(name in phase.codes for name in counterparts):
        names = [timeline.request_id for timeline in recording.timelines if timeline.ok]
    else:
        names = []
    ours = {
        one.wire_id or one.request_id: one.request_id for one in recording.timelines if one.request_id in set(names)
    }
    fetched = fetch_codes(base_url, sorted(ours, key=lambda wire_id: names.index(ours[wire_id])))
    phase.codes.update({ours[wire_id]: codes for wire_id, codes in fetched.codes.items()})


def parity_result(
    phase: ParityPhase | None,
    recordings: Sequence[LevelRecording],
    prompts: Mapping[str, Prompt],
    requested: RequestedModalities = SPEECH,
    tell: Tell = untold,
) -> ParityResult | None:
    """Compare what was recorded; None if the check was off or nothing was sent alone. Raises StoreError.

    ``tell`` hears how far it is.
    """
    if phase is None or not (phase.codes or phase.solos):
        return None
    solos = tuple(measure_level(recording, prompts, requested=requested) for recording in phase.solos.values())
    return ParityResult(solos, tuple(phase.compare(recordings, tell)), phase.codes)


def claims_determinism(provenance: Mapping[str, Any]) -> bool:
    """Whether the server promises the same answer to the same request: its /health says ``"deterministic": true``."""
    health = provenance["target"]["description"].get("health")
    return isinstance(health, Mapping) and health.get("deterministic") is True


def recordings_to_keep(
    result: ParityResult,
    levels: Iterable[LevelResult],
    output: OutputConfig,
    provenance: Mapping[str, Any],
    kept: Container[str],
) -> list[RequestResult]:
    """Whose recordings stay for this check: all that were sent alone, or both of each pair that is a mismatch.

    Also both of each pair whose first is ``kept`` already.
    """
    if output.save_audio == "none":
        return []
    solos = [request for level in result.solos for request in level.requests if request.audio is not None]
    if output.save_audio == "all":
        return solos
    named: set[str] = set()
    for concurrency in {one.concurrency for one in result.comparisons}:
        parity = result.level(concurrency, provenance)
        for one in result.comparisons:
            if parity is None or one.concurrency != concurrency:
                continue
            if one.request_id in kept or is_mismatch(one, parity.kind):
                named |= {one.request_id, one.solo_id}
    recorded = [request for level in levels for request in level.requests if request.audio is not None]
    return [request for request in (*recorded, *solos) if request.request_id in named]


def write_parity(folder: RunFolder, result: ParityResult, kept: Mapping[str, str]) -> None:
    """Write solo.jsonl, parity.jsonl and codes.jsonl. ``kept``: request id -> recording. Raises StoreError."""
    folder.close()
    requests = [request for level in result.solos for request in level.requests]
    if requests:
        folder.write_lines(folder.solo_jsonl, [result_record(one, kept.get(one.request_id)) for one in requests])
    write_comparisons(folder, result.comparisons)
    if result.codes:
        folder.write_lines(folder.codes_jsonl, [codes_record(name, codes) for name, codes in result.codes.items()])


def write_comparisons(folder: RunFolder, comparisons: Sequence[ParityComparison]) -> None:
    """Write parity.jsonl; nothing if there is nothing to compare. Raises StoreError."""
    if comparisons:
        folder.write_lines(folder.parity_jsonl, [comparison_record(one) for one in comparisons])


def read_parity(folder: RunFolder) -> ParityResult:
    """What a run on disk has of the check (without the codes, which are compared already). Raises StoreError."""
    comparisons = []
    for number, record in enumerate(folder.read_lines(folder.parity_jsonl), start=1):
        try:
            comparisons.append(comparison_of(record))
        except StoreError as error:
            raise StoreError(f"{folder.parity_jsonl}, line {number}: {error}") from None
    solos = read_solos(folder) if comparisons else None
    return ParityResult((solos,) if solos is not None else (), tuple(comparisons), {})


def _words(comparison: ParityComparison, scores: Mapping[str, UtteranceScore], language: str | None) -> Words | None:
    """What was heard of both; None if one was not judged, failed, or their text has no words."""
    mine, alone = scores.get(comparison.request_id), scores.get(comparison.solo_id)
    if mine is None or alone is None or comparison.equal is None or language is None:
        return None
    if mine.wer is None or alone.wer is None:
        return None
    between = score_utterance(comparison.request_id, alone.hypothesis, mine.hypothesis, language)
    return Words(
        heard=mine.hypothesis,
        heard_alone=alone.hypothesis,
        wer=mine.wer,
        wer_alone=alone.wer,
        wer_between=between.wer,
        worse=bool(is_corrupted(mine, alone)),
        worse_alone=bool(is_corrupted(alone, mine)),
        corrupted=bool(is_corrupted(mine)),
        corrupted_alone=bool(is_corrupted(alone)),
    )


# ---- The requests that are sent once more alone, and their results ----

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

    def compare(self, recordings: Sequence[LevelRecording], tell: Tell = untold) -> list[ParityComparison]:
        """Every pair of which both were recorded, level by level. Raises StoreError for unreadable audio."""
        levels = {recording.concurrency: recording for recording in recordings}
        comparisons: list[ParityComparison] = []
        pairs = sum(len(solo.pairs) for solo in self.planned)
        for solo in self.planned:
            alone = self.solos.get(solo.concurrency)
            if alone is None:
                continue
            level = levels[solo.concurrency]
            answers = {
                timeline.request_id: ParityAnswer(
                    timeline, one.audio.get(timeline.request_id), self.codes.get(timeline.request_id)
                )
                for one in (level, alone)
                for timeline in one.timelines
            }
            for first, second, repeat in solo.pairs:
                flight = () if repeat else level.timelines
                comparisons.append(
                    compare_answers(
                        answers[first], answers[second], flight, repeat=repeat, concurrency=solo.concurrency
                    )
                )
                tell("comparing answers in company and alone", len(comparisons), pairs)
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
