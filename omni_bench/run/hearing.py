"""What is heard beside the answers themselves: the judge's own error, and whether voices stay the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omni_bench.accuracy.clips import Clip
from omni_bench.accuracy.own_error import Reference, own_error_json, references_of
from omni_bench.accuracy.resolve import JudgeSpec, describe_judge
from omni_bench.accuracy.voices import VoicePrint, VoiceSimilarity, compare_level, voice_prints
from omni_bench.config.schema import AsrConfig, RunConfig
from omni_bench.datasets.load import load_prompts
from omni_bench.datasets.prompt import Prompt
from omni_bench.errors import DatasetError
from omni_bench.run.judging import Verdicts
from omni_bench.run.results import LevelResult, RequestResult

NOT_JUDGED = "judging did not finish"
DATA_SET_GONE = "the data set cannot be read any more"


def check_speaker_encoder(config: RunConfig) -> None:
    """Raise AccuracyError, with the command that brings it, if the run wants a speaker encoder that is not here."""
    if config.checks.speaker_similarity:
        _describe_encoder()


def _describe_encoder() -> str:
    from omni_bench.accuracy.speaker_encoder import describe_encoder  # brings torch

    return describe_encoder()


def references_for(config: RunConfig, prompts: Sequence[Prompt]) -> list[Reference]:
    """The recordings that the judge is to hear beside the run's; [] if ``asr`` wants none."""
    return references_of(prompts) if config.asr.kind != "none" and config.asr.own_error else []


def prompts_again(config: RunConfig, run: Mapping[str, Any]) -> list[Prompt]:
    """The prompts of a run that is over; [] if its data set cannot be read any more."""
    try:
        return load_prompts(config.dataset, run["provenance"]["prompts"]["count"])
    except DatasetError:
        return []


def judge_facts(spec: JudgeSpec, verdicts: Verdicts | None, config: RunConfig) -> dict[str, Any]:
    """``provenance.judge``: the judge, its own error, and the speaker encoder (None if it was not asked)."""
    asked = config.checks.speaker_similarity
    return {
        **describe_judge(spec),
        **_own_error(verdicts, config.asr),
        "speaker_encoder": _describe_encoder() if asked else None,
    }


def judge_facts_again(
    spec: JudgeSpec,
    verdicts: Verdicts,
    config: RunConfig,
    stored: Mapping[str, Any] | None,
    *,
    prompts: Sequence[Prompt],
) -> dict[str, Any]:
    """The same after judging again. If the recordings are gone, the stored own error stays, of the same judge only.

    ``prompts``: of :func:`prompts_again`.
    """
    facts = judge_facts(spec, verdicts, config)
    same = stored is not None and all(stored.get(name) == facts[name] for name in ("sha256", "engine", "dtype"))
    if facts["own_wer"] is None and same and stored is not None and stored.get("own_wer") and config.asr.own_error:
        facts |= {"own_wer": stored["own_wer"], "own_wer_reason": None}
    elif facts["own_wer"] is None and not prompts and config.asr.own_error:
        facts |= {"own_wer_reason": DATA_SET_GONE}
    return facts


def with_voices(
    verdicts: Verdicts, levels: Sequence[LevelResult], config: RunConfig, prompts: Mapping[str, Prompt]
) -> Verdicts:
    """``verdicts`` with the voice of every utterance compared, as they are unless the check is on.

    ``prompts``: by id, for the reference recordings. Raises AccuracyError.
    """
    if not config.checks.speaker_similarity:
        return verdicts
    from omni_bench.accuracy.speaker_encoder import load_speaker_encoder  # brings torch

    encoder = load_speaker_encoder()
    voices: dict[str, VoiceSimilarity] = {}
    known: dict[Any, VoicePrint] = {}
    for level in levels:
        heard = [(request, clip) for request in level.requests if (clip := _clip(request)) is not None]
        found = voice_prints(encoder, [clip for _, clip in heard])
        prints = {request.request_id: one for (request, _), one in zip(heard, found, strict=True)}
        anchors = None
        if config.client.send_reference:
            anchors = {}
            for request, _ in heard:
                prompt = prompts.get(request.timeline.prompt_id)
                if prompt is None or prompt.ref_audio is None:
                    continue
                if prompt.ref_audio not in known:
                    clip = Clip(f"reference of {prompt.id}", prompt.ref_audio, config.client.sample_rate_hz)
                    known[prompt.ref_audio] = voice_prints(encoder, [clip])[0]
                anchors[request.request_id] = known[prompt.ref_audio]
        voices |= compare_level(prints, anchors)
    return replace(verdicts, voices=voices)


def _clip(request: RequestResult) -> Clip | None:
    rate_hz = request.timeline.sample_rate_hz
    if request.forced is not None or request.audio is None or rate_hz is None:
        return None
    return Clip(request.request_id, request.audio, rate_hz)


def _own_error(verdicts: Verdicts | None, asr: AsrConfig) -> dict[str, Any]:
    if verdicts is None:
        return {"own_wer": None, "own_wer_reason": NOT_JUDGED}
    return own_error_json(verdicts.own_error, wanted=asr.own_error)
