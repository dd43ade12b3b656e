"""Work on runs that are over: derive their results again, or let a judge hear them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from omni_bench.accuracy.asr.pool import transcribe
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec, check_language
from omni_bench.accuracy.cross_talk.check import LevelCrossTalk
from omni_bench.accuracy.voices.similarity import voice_from_fields
from omni_bench.errors import ConfigError, StoreError
from omni_bench.records.config import RunConfig
from omni_bench.records.convert import plain
from omni_bench.records.level import Level
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.stages import Tell, untold
from omni_bench.report.utterances import score_of
from omni_bench.report.write import write_report
from omni_bench.run.config.compose import from_stored
from omni_bench.run.config.explain import explain
from omni_bench.run.config.validate import validate
from omni_bench.run.cross_talk import check_cross_talk, write_cross_talk
from omni_bench.run.document import build_run
from omni_bench.run.judging import (
    Transcriber,
    Verdicts,
    audible,
    check_speaker_encoder,
    find_judge,
    judge_facts_again,
    judge_levels,
    prompts_again,
    references_for,
    utterance_records,
    with_voices,
)
from omni_bench.run.level_result import LevelResult
from omni_bench.run.parity import ParityResult, read_parity, write_comparisons
from omni_bench.run.progress import RunProgress
from omni_bench.run.rate_search import search_record
from omni_bench.run.stored_results import read_results
from omni_bench.run.validity import carried_over, is_excused, run_reasons
from omni_bench.run.write import level_records


def redraw(path: Path, tell: Tell = untold) -> tuple[RunFolder, dict[str, Any]]:
    """Derive the levels of a run from its raw data again and rewrite run.json, report.md and the plots.

    ``tell`` hears how far it is. Raises StoreError.
    """
    tell("reading the run", 0, 1)
    folder = RunFolder.open(path)
    run = folder.read_run()
    config = stored_config(run, folder)
    levels = read_results(folder, run)
    verdicts = _stored_verdicts(run, folder, levels)
    found = check_cross_talk(levels, verdicts, config.checks, tell)
    run = _rebuild(run, config, levels, verdicts, run["provenance"], read_parity(folder), found, judged_now=False)
    write_cross_talk(folder, found, _kept(levels, folder))
    folder.write_run(run)
    write_report(folder.path, plots=config.output.plots, tell=tell)
    return folder, run


def judge_again(
    path: Path, overrides: Sequence[str], progress: RunProgress, judge: tuple[JudgeSpec, Transcriber] | None = None
) -> tuple[RunFolder, dict[str, Any]]:
    """Transcribe the kept audio of a run and rewrite its accuracy, run.json and report.md.

    ``overrides``: ``asr.KEY=VALUE`` over the run's own settings. ``judge``: found already, and
    what hears the clips; None: that of the settings.
    Raises ConfigError for bad overrides or if not all audio was kept, AccuracyError if there is no judge, StoreError.
    """
    folder = RunFolder.open(path)
    run = folder.read_run()
    config = stored_config(run, folder, overrides)
    if config.asr.kind == "none" and any(override.startswith("asr.kind=") for override in overrides):
        raise ConfigError("asr.kind=none: judge needs a judge; valid: asr.kind=whisper, asr.kind=faster_whisper")
    if config.asr.kind == "none":
        config.asr.kind = "whisper"
    check_speaker_encoder(config.checks)
    levels = read_results(folder, run)
    parity = read_parity(folder)
    everything = [*levels, *parity.solos]
    heard = audible(everything)
    lost = [request for request in heard if request.audio is None or not request.audio.is_file()]
    if lost:
        raise ConfigError(
            f"{len(lost)} of {len(heard)} recordings of {folder.path} were not kept, such as that of "
            f"{lost[0].request_id}; make the run with output.save_audio=all to judge it again"
        )
    language = config.dataset.spoken
    check_language(language, config.dataset.spoken_key)
    spec, transcriber = judge or (find_judge(config.asr, language, progress.say), transcribe)
    assert spec is not None
    prompts = prompts_again(config.dataset, run)
    references = references_for(config.asr, prompts)
    progress.begin_judging(len(heard) + len(references.heard), spec.name)
    verdicts = judge_levels(everything, config.asr, spec, language, progress.judged, references.heard, transcriber)
    if config.checks.speaker_similarity:
        by_id = {prompt.id: prompt for prompt in prompts}
        verdicts = with_voices(verdicts, levels, config.client, by_id, progress.tell)
    progress.end()
    parity = parity.heard(verdicts, levels)
    stored = run["provenance"]
    known = {"prompts": prompts, "unheard": references.unheard}
    facts = judge_facts_again(spec, verdicts, config.asr, config.checks, stored["judge"], **known)
    provenance = {**stored, "judge": facts, "config": {**stored["config"], "asr": plain(config.asr)}}
    found = check_cross_talk(levels, verdicts, config.checks, progress.tell)
    run = _rebuild(run, config, levels, verdicts, provenance, parity, found, judged_now=True)
    kept = _kept(levels, folder)
    folder.write_utterances(utterance_records(levels, verdicts, kept))
    write_cross_talk(folder, found, kept)
    write_comparisons(folder, parity.comparisons)
    folder.write_run(run)
    write_report(folder.path, plots=config.output.plots, tell=progress.tell)
    return folder, run


def stored_config(run: Mapping[str, Any], folder: RunFolder, asr_overrides: Sequence[str] = ()) -> RunConfig:
    """The configuration in ``run``, with ``asr.KEY=VALUE`` over it.

    Raises ConfigError for a bad override, StoreError if the stored part is of another version.
    """
    for override in asr_overrides:
        if "=" not in override or not override.startswith("asr."):
            raise ConfigError(f"{override!r}: judge takes asr.KEY=VALUE only")
    try:
        config = from_stored(run["provenance"]["config"])
    except ConfigError as error:
        raise StoreError(f"{folder.run_json}: provenance.config: {error}") from None
    if not asr_overrides:
        return config
    own = OmegaConf.create({"asr": OmegaConf.structured(config.asr)})
    try:
        config.asr = OmegaConf.to_object(OmegaConf.merge(own, OmegaConf.from_dotlist(list(asr_overrides))).asr)
    except OmegaConfBaseException as error:
        raise explain(error) from None
    except YAMLError as error:
        raise ConfigError(f"cannot read {' '.join(asr_overrides)!r}: {error}; put quotes around the value") from None
    validate(config)
    return config


def _stored_verdicts(run: Mapping[str, Any], folder: RunFolder, levels: Sequence[LevelResult]) -> Verdicts | None:
    """What the judge made of the run; None if it was not judged. Raises StoreError for a file that was cut or is gone.

    A judge alone does not make a judged run: one whose judging did not finish names it too, but has no accuracy.
    """
    records = folder.read_utterances()
    judge = run["provenance"]["judge"]
    judged = judge is not None and any(level["accuracy"] is not None for level in run["levels"])
    if judged and not folder.utterances_jsonl.is_file():
        raise StoreError(
            f"{folder.utterances_jsonl} is missing, though the run was judged by {judge['name']}, as run.json says; "
            "`omni-bench judge` writes it anew if the run kept all audio"
        )
    if judge is None or not (judged or records):
        return None
    scores, voices = {}, {}
    for record in records:
        score = score_of(record)
        scores[score.request_id] = score
        if (voice := voice_from_fields(record)) is not None:
            voices[score.request_id] = voice
    expected = [request.request_id for level in levels for request in level.requests]
    missing = [request_id for request_id in expected if request_id not in scores]
    if missing:
        raise StoreError(
            f"{folder.utterances_jsonl} lacks {len(missing)} of {len(expected)} requests, such as {missing[0]}; "
            "`omni-bench judge` writes it anew if the run kept all audio"
        )
    return Verdicts(judge["name"], scores, {}, voices=voices)


def _kept(levels: Sequence[LevelResult], folder: RunFolder) -> dict[str, str]:
    """Request id -> recording in the run folder."""
    return {
        request.request_id: str(request.audio.relative_to(folder.path.resolve()))
        for level in levels
        for request in level.requests
        if request.audio is not None
    }


def _rebuild(
    run: Mapping[str, Any],
    config: RunConfig,
    levels: Sequence[LevelResult],
    verdicts: Verdicts | None,
    provenance: Mapping[str, Any],
    parity: ParityResult,
    cross_talk: Mapping[Level, LevelCrossTalk],
    *,
    judged_now: bool,
) -> dict[str, Any]:
    """run.json anew. Reasons that are the run's own and not a level's are carried over."""
    records = level_records(levels, verdicts, config, parity, cross_talk, provenance)
    return build_run(
        scenario=run["scenario"],
        description=run.get("description", ""),
        started_utc=datetime.fromisoformat(run["started_utc"]),
        duration_s=run["duration_s"],
        levels=records,
        provenance=provenance,
        reasons=run_reasons(carried_over(run, judged_now=judged_now), records, is_excused),
        rate_search=search_record(records, config.load, config.slo),
    )
