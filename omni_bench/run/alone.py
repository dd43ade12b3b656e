"""The parity check's part of a run: requests sent alone, their results, and what is written of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from omni_bench.accuracy.corruption import is_corrupted
from omni_bench.accuracy.wer import UtteranceScore, score_utterance
from omni_bench.clients.forms import Asked
from omni_bench.config.schema import OutputConfig
from omni_bench.datasets.prompt import Prompt
from omni_bench.errors import StoreError
from omni_bench.levels import Level
from omni_bench.load.plan import LevelPlan
from omni_bench.load.recording import LevelRecording
from omni_bench.load.runner import LevelInterrupted
from omni_bench.parity.codes import codes_record, fetch_codes
from omni_bench.parity.compare import Comparison, Words
from omni_bench.parity.phase import ParityPhase
from omni_bench.parity.records import comparison_of, comparison_record
from omni_bench.parity.verdict import LevelParity, is_mismatch, level_parity
from omni_bench.run.answers import SPEECH
from omni_bench.run.judging import Verdicts
from omni_bench.run.results import LevelResult, RequestResult, measure_level, read_solos, result_record
from omni_bench.store.run_folder import RunFolder

WHILE_ALONE = "while requests were sent alone for the parity check (every level had been measured)"


class AloneInterrupted(KeyboardInterrupt):
    """Ctrl-C while requests were sent alone."""


@dataclass(frozen=True)
class ParityResult:
    """``solos``: the requests that were sent alone, a group for each level. ``codes``: by request id."""

    solos: tuple[LevelResult, ...]
    comparisons: tuple[Comparison, ...]
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
            except LevelInterrupted as error:
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
    phase.codes.update(fetch_codes(base_url, names).codes)


def parity_result(
    phase: ParityPhase | None,
    recordings: Sequence[LevelRecording],
    prompts: Mapping[str, Prompt],
    asked: Asked = SPEECH,
) -> ParityResult | None:
    """Compare what was recorded; None if the check was off or nothing was sent alone. Raises StoreError."""
    if phase is None or not (phase.codes or phase.solos):
        return None
    solos = tuple(measure_level(recording, prompts, asked=asked) for recording in phase.solos.values())
    return ParityResult(solos, tuple(phase.compare(recordings)), phase.codes)


def claims_determinism(provenance: Mapping[str, Any]) -> bool:
    """Whether the server promises the same answer to the same request: its /health says ``"deterministic": true``."""
    health = provenance["target"]["description"].get("health")
    return isinstance(health, Mapping) and health.get("deterministic") is True


def recordings_to_keep(
    result: ParityResult, levels: Iterable[LevelResult], output: OutputConfig, provenance: Mapping[str, Any]
) -> list[RequestResult]:
    """Whose recordings stay for this check: all that were sent alone, or both of each pair that is a mismatch."""
    if output.save_audio == "none":
        return []
    solos = [request for level in result.solos for request in level.requests if request.audio is not None]
    if output.save_audio == "all":
        return solos
    named: set[str] = set()
    for concurrency in {one.concurrency for one in result.comparisons}:
        parity = result.level(concurrency, provenance)
        for one in result.comparisons:
            if parity is not None and one.concurrency == concurrency and is_mismatch(one, parity.kind):
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


def write_comparisons(folder: RunFolder, comparisons: Sequence[Comparison]) -> None:
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


def _words(comparison: Comparison, scores: Mapping[str, UtteranceScore], language: str | None) -> Words | None:
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
