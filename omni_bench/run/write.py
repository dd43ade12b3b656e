"""The end of a run, good or bad: audio, requests, utterances, run.json, report and plots on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from omni_bench.accuracy.cross_talk.check import LevelCrossTalk
from omni_bench.accuracy.parity.records import parity_record
from omni_bench.accuracy.parity.verdict import LevelParity
from omni_bench.records.config import CLOSED_LOOP, RunConfig
from omni_bench.records.level import Level, level_or_none
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.stages import Tell, untold
from omni_bench.report.write import write_report
from omni_bench.run.cross_talk import check_cross_talk, cross_talk_record, involved, write_cross_talk
from omni_bench.run.document import build_level, build_run
from omni_bench.run.judging import Verdicts, keep_audio, keep_references, requests_to_keep, utterance_records, within
from omni_bench.run.level_result import LevelResult
from omni_bench.run.parity import ParityResult, recordings_to_keep, write_parity
from omni_bench.run.rate_search import probe_of, probe_record, search_record, slo_of
from omni_bench.run.stored_results import write_results
from omni_bench.run.validity import is_excused, level_reasons, problem_reasons, rate_facts, run_reasons


@dataclass(frozen=True)
class EndedRun:
    """All that is known at the end.

    ``problem``: what cut the run short, None if it ran to its end; ``while_judging``: by then the
    load phase was complete. ``recordings``: what the load phase left in the spool folder, for the
    audio of levels that could not be measured. ``planned``: the levels that were to be measured, as far as that
    was known beforehand. ``prompts``: by id, for the reference recordings that were sent. ``tell`` hears how far the
    writing is.
    """

    config: RunConfig
    folder: RunFolder
    levels: list[LevelResult]
    verdicts: Verdicts | None
    problem: BaseException | None
    started_utc: datetime
    duration_s: float | None
    provenance: Mapping[str, Any]
    while_judging: bool = False
    recordings: list[LevelRecording] = field(default_factory=list)
    parity: ParityResult | None = None
    planned: tuple[Level, ...] = ()
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    tell: Tell = untold


def write_run(outcome: EndedRun) -> dict[str, Any]:
    """Write audio, requests.jsonl, utterances.jsonl, run.json, report.md and plots; returns the content of run.json.

    If anything cut the run short, in the load phase or while judging, the audio of all requests
    is kept (unless ``output.save_audio`` is none), so that ``omni-bench judge`` can finish them.
    Raises StoreError when a file cannot be written; those before it, in that order, are complete.
    """
    config, folder = outcome.config, outcome.folder
    output = config.output
    if outcome.problem is not None and output.save_audio == "worst":
        output = replace(output, save_audio="all")
    cross_talk = check_cross_talk(outcome.levels, outcome.verdicts, config.checks, outcome.tell)
    good, found = requests_to_keep(outcome.levels, outcome.verdicts, output, involved(cross_talk))
    parity = outcome.parity
    if parity is not None:
        names = {request.request_id for request in found}
        found += recordings_to_keep(parity, outcome.levels, output, outcome.provenance, names)
    kept = keep_audio(folder, within([*good, *found], output), config.client.sample_rate_hz, outcome.tell)
    if output.save_audio == "all":
        kept |= _keep_unmeasured(outcome)
    sent = keep_references(folder, outcome.prompts, outcome.levels, kept) if config.client.send_reference else {}
    outcome.tell("writing the results", 0, 1)
    write_results(folder, outcome.levels, kept, sent)
    if parity is not None:
        write_parity(folder, parity, kept)
    if outcome.verdicts is not None:
        folder.write_utterances(utterance_records(outcome.levels, outcome.verdicts, kept))
    write_cross_talk(folder, cross_talk, kept)
    levels = level_records(
        outcome.levels, outcome.verdicts, config, parity, cross_talk, outcome.provenance, outcome.tell
    )
    measured = {level.concurrency for level in outcome.levels}
    own = problem_reasons(
        outcome.problem,
        folder=outcome.folder.path,
        while_judging=outcome.while_judging,
        missing=[level for level in outcome.planned if level not in measured],
    )
    run = build_run(
        scenario=config.scenario.name,
        description=config.scenario.description,
        started_utc=outcome.started_utc,
        duration_s=outcome.duration_s,
        levels=levels,
        provenance=outcome.provenance,
        reasons=run_reasons(own, levels, is_excused),
        rate_search=search_record(levels, config.load, config.slo),
    )
    folder.write_run(run)
    write_report(folder.path, plots=config.output.plots and bool(outcome.levels), tell=outcome.tell)
    return run


def _keep_unmeasured(outcome: EndedRun) -> dict[str, str]:
    """Keep the audio of levels that were recorded but could not be measured; request id -> path."""
    measured = {level.concurrency for level in outcome.levels}
    return {
        timeline.request_id: outcome.folder.save_audio(
            timeline.request_id,
            recording.audio[timeline.request_id],
            timeline.sample_rate_hz or outcome.config.client.sample_rate_hz,
        )
        for recording in outcome.recordings
        if recording.concurrency not in measured
        for timeline in recording.timelines
        if timeline.audio_bytes and timeline.request_id in recording.audio
    }


def level_records(
    levels: Sequence[LevelResult],
    verdicts: Verdicts | None,
    config: RunConfig,
    parity: ParityResult | None,
    cross_talk: Mapping[Level, LevelCrossTalk],
    provenance: Mapping[str, Any],
    tell: Tell = untold,
) -> list[dict[str, Any]]:
    """``levels`` of run.json. ``provenance``: for what the server claims and counted; ``tell`` hears how far it is."""
    records = []
    for level in levels:
        tell("summing up the levels", len(records), len(levels))
        of_level = parity.level(level.concurrency, provenance) if parity is not None else None
        records.append(_level_record(level, verdicts, config, of_level, cross_talk.get(level.concurrency), provenance))
    return records


def _level_record(
    level: LevelResult,
    verdicts: Verdicts | None,
    config: RunConfig,
    parity: LevelParity | None,
    cross_talk: LevelCrossTalk | None,
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    counted = provenance["target"].get("server_metrics") or {}
    corpus = verdicts.corpus(level) if verdicts is not None else None
    summary = level.summary(
        config.load.kind if config.load.kind == CLOSED_LOOP else config.load.arrival,
        max_in_flight=config.load.max_in_flight,
        slo=slo if (slo := slo_of(config.slo)).asked else None,
    )
    pace = level.pace() if config.checks.pace else None
    return build_level(
        summary,
        [request.metrics for request in level.requests if not request.faults],
        corpus,
        lag_budget_ms=config.load.lag_budget_ms,
        reasons=level_reasons(
            summary,
            lag_budget_ms=config.load.lag_budget_ms,
            accuracy=corpus,
            wer_limit=config.asr.wer_limit,
            language=config.dataset.spoken,
            parity=parity,
            cross_talk=cross_talk,
            rate=rate_facts(level, pace),
            audio=level.audio,
            rate_hz=level.sample_rate_hz,
            failure=level.failure,
            accounts=[one for one in counted.get("accounts") or () if level_or_none(one) == level.concurrency],
        ),
        pace=pace,
        parity=parity_record(parity),
        cross_talk=cross_talk_record(cross_talk),
        audio=level.audio,
        voices=verdicts.voice_summary(level) if verdicts is not None else None,
        probe=probe_record(probe_of(level, config.load, config.slo)),
    )
