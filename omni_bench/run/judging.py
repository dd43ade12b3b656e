"""The judge's part of a run: clips to hear, scores of what was heard, and which recordings to keep."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omni_bench.accuracy.asr.clips import AsrClip, Transcript
from omni_bench.accuracy.asr.engines import resolve_engine
from omni_bench.accuracy.asr.pool import transcribe
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec, describe_judge
from omni_bench.accuracy.judge_error import OwnError, Reference, References, own_error, own_error_json, references_of
from omni_bench.accuracy.recordings import no_speech
from omni_bench.accuracy.voices.similarity import (
    NO_VOICE,
    VoicePrint,
    VoiceSimilarity,
    VoiceSummary,
    compare_level,
    summarise_voices,
    voice_fields,
    voice_prints,
)
from omni_bench.accuracy.wer import (
    CorpusScore,
    UtteranceScore,
    alignment,
    score_corpus,
    score_utterance,
)
from omni_bench.datasets.load import load_prompts
from omni_bench.errors import AccuracyError, DatasetError
from omni_bench.records.config import AsrConfig, ChecksConfig, ClientConfig, DatasetConfig, OutputConfig
from omni_bench.records.files import write_atomically
from omni_bench.records.level import level_title
from omni_bench.records.prompt import Prompt
from omni_bench.records.run_folder import RunFolder, safe_name
from omni_bench.records.stages import Tell, untold
from omni_bench.run.document import utterance_record
from omni_bench.run.level_result import LevelResult, RequestResult

Transcriber = Callable[..., list[Transcript]]
"""Has the signature of :func:`omni_bench.accuracy.asr.pool.transcribe`."""


@dataclass(frozen=True)
class Verdicts:
    """What the judge made of a run: scores by request id, and the transcripts behind them.

    ``own_error``: of the judge itself, None if it heard no reference recording. ``voices``: by
    request id, empty unless ``checks.speaker_similarity`` is on.
    """

    judge: str
    scores: Mapping[str, UtteranceScore]
    transcripts: Mapping[str, Transcript]
    own_error: OwnError | None = None
    voices: Mapping[str, VoiceSimilarity] = field(default_factory=dict)

    def corpus(self, level: LevelResult) -> CorpusScore:
        """The scores of one level together."""
        return score_corpus(self.judge, [self.scores[request.request_id] for request in level.requests])

    def voice_summary(self, level: LevelResult) -> VoiceSummary | None:
        """How many voices of one level fall out of line; None if voices were not compared."""
        if not self.voices:
            return None
        found = [self.voices.get(request.request_id) for request in level.requests]
        return summarise_voices([voice for voice in found if voice is not None])


def find_judge(asr: AsrConfig, language: str, say: Callable[[str], None]) -> JudgeSpec | None:
    """The judge's weights, found but not loaded; None for ``asr=none``. ``say`` tells of a download.

    Raises AccuracyError, ConfigError.
    """
    return None if asr.kind == "none" else resolve_engine(asr, language, say=say)


def audible(levels: Iterable[LevelResult]) -> list[RequestResult]:
    """The requests that there is something to hear of."""
    return [request for level in levels for request in level.requests if request.forced is None]


def judge_levels(
    levels: Sequence[LevelResult],
    asr: AsrConfig,
    spec: JudgeSpec,
    language: str,
    on_progress: Callable[[int, int], None],
    references: Sequence[Reference] = (),
    transcriber: Transcriber = transcribe,
) -> Verdicts:
    """Transcribe and score every request of ``levels``, and ``references`` for the judge's own error.

    ``transcriber`` hears the clips. Raises AccuracyError.
    """
    clips = []
    for request in audible(levels):
        if request.audio is None or request.timeline.sample_rate_hz is None:
            raise AccuracyError(f"request {request.request_id} has no recording to judge")
        clips.append(AsrClip(request.request_id, request.audio, request.timeline.sample_rate_hz, request.language))
    spoken = len(clips)
    clips += [reference.clip for reference in references]
    everything = transcriber(clips, asr, language, on_progress, spec=spec)
    heard = everything[:spoken]
    transcripts = {transcript.request_id: transcript for transcript in heard}
    scores = {}
    for level in levels:
        for request in level.requests:
            text = transcripts[request.request_id].text if request.forced is None else ""
            scores[request.request_id] = score_utterance(
                request.request_id, request.text, text, request.language, request.forced
            )
    return Verdicts(spec.name, scores, transcripts, own_error(references, everything[spoken:], language))


GOOD = 3
"""Recordings without a finding that are kept beside the others."""


def requests_to_keep(
    levels: Sequence[LevelResult],
    verdicts: Verdicts | None,
    output: OutputConfig,
    suspects: Container[str] = (),
) -> tuple[list[RequestResult], list[RequestResult]]:
    """Whose recordings stay: (a few good ones to compare with, those in which something was found); or all, or none.

    ``suspects``: ids of requests with a finding beyond their own faults (cross-talk). Of the
    second those that failed a check are first, then the rest, the worst WER first: see :func:`within`.
    """
    recorded = [request for level in levels for request in level.requests if request.audio is not None]
    if output.save_audio == "none":
        return [], []
    if output.save_audio == "all":
        return [], recorded
    together = {name for level in levels if level.audio for names in level.audio.suspects.values() for name in names}
    scores = verdicts.scores if verdicts is not None else {}
    outliers = {name for name, voice in verdicts.voices.items() if voice.outlier} if verdicts is not None else ()

    def damage(request: RequestResult) -> tuple[bool, bool, float]:
        name, score = request.request_id, scores.get(request.request_id)
        failed = bool(request.faults) or not request.timeline.ok or name in suspects or name in together
        return failed, name in outliers, (score.wer or 0.0) if score is not None and score.edits else 0.0

    nothing = (False, False, 0.0)
    found = [request for request in recorded if damage(request) != nothing]
    good = [request for request in recorded if damage(request) == nothing] if verdicts is not None or found else []
    return good[:GOOD], sorted(found, key=damage, reverse=True)


def within(requests: Iterable[RequestResult], output: OutputConfig) -> list[RequestResult]:
    """The first of ``requests``, each once, whose recordings together are at most ``kept_audio_mb``; else all."""
    once = {request.request_id: request for request in requests}
    if output.save_audio != "worst":
        return list(once.values())
    kept, left_bytes = [], output.kept_audio_mb * 1e6
    for request in once.values():
        left_bytes -= request.audio.stat().st_size
        if left_bytes < 0:
            break
        kept.append(request)
    return kept


def keep_audio(
    folder: RunFolder, requests: Sequence[RequestResult], default_rate_hz: int, tell: Tell = untold
) -> dict[str, str]:
    """Copy recordings into the run folder as WAV; request id -> path within it. Raises StoreError."""
    kept = {}
    for number, request in enumerate(requests, start=1):
        if request.audio is not None:
            rate_hz = request.timeline.sample_rate_hz or default_rate_hz
            kept[request.request_id] = folder.save_audio(request.request_id, request.audio, rate_hz)
        tell("keeping recordings", number, len(requests))
    return kept


def keep_references(
    folder: RunFolder, prompts: Mapping[str, Prompt], levels: Sequence[LevelResult], kept: Mapping[str, str]
) -> dict[str, str]:
    """Copy the reference recordings of ``kept`` requests; request id -> path within the run folder.

    One that is no longer there is left out. Raises StoreError.
    """
    found = {}
    for request in (one for level in levels for one in level.requests if one.request_id in kept):
        prompt = prompts.get(request.timeline.prompt_id)
        if prompt is None or prompt.ref_audio is None or not prompt.ref_audio.is_file():
            continue
        relative = f"audio/reference-{safe_name(prompt.id + prompt.ref_audio.suffix)}"
        if not (folder.path / relative).exists():
            write_atomically(folder.path / relative, lambda path, of=prompt.ref_audio: shutil.copyfile(of, path))
        found[request.request_id] = relative
    return found


def utterance_records(
    levels: Sequence[LevelResult], verdicts: Verdicts, kept: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The lines of utterances.jsonl."""
    records = []
    for level in levels:
        for request in level.requests:
            transcript = verdicts.transcripts.get(request.request_id)
            records.append(
                utterance_record(
                    verdicts.scores[request.request_id],
                    concurrency=level.concurrency,
                    prompt_id=request.timeline.prompt_id,
                    audio=kept.get(request.request_id),
                    avg_logprob=transcript.avg_logprob if transcript else None,
                    no_speech_prob=transcript.no_speech_prob if transcript else None,
                    alignment=alignment(verdicts.scores[request.request_id]),
                    voice=voice_fields(verdicts.voices.get(request.request_id)),
                )
            )
    return records


# ---- The judge's own error, and speaker similarity ----

NOT_JUDGED = "judging did not finish"
DATA_SET_GONE = "the data set cannot be read any more"


def check_speaker_encoder(checks: ChecksConfig) -> None:
    """Raise AccuracyError, with the command that brings it, if the run wants a speaker encoder that is not here."""
    if checks.speaker_similarity:
        _describe_encoder()


def _describe_encoder() -> str:
    from omni_bench.accuracy.voices.encoder import describe_encoder  # brings torch

    return describe_encoder()


def references_for(asr: AsrConfig, prompts: Sequence[Prompt]) -> References:
    """The recordings that the judge is to hear beside the run's; none if ``asr`` wants none."""
    return references_of(prompts) if asr.kind != "none" and asr.own_error else References()


def prompts_again(dataset: DatasetConfig, run: Mapping[str, Any]) -> list[Prompt]:
    """The prompts of a run that is over; [] if its data set cannot be read any more."""
    try:
        return load_prompts(dataset, run["provenance"]["prompts"]["count"])
    except DatasetError:
        return []


def judge_facts(
    spec: JudgeSpec, verdicts: Verdicts | None, asr: AsrConfig, checks: ChecksConfig, *, unheard: Sequence[str] = ()
) -> dict[str, Any]:
    """``provenance.judge``: the judge, its own error, and the speaker encoder (None if it was not asked).

    ``unheard``: of :class:`.References`.
    """
    asked = checks.speaker_similarity
    return {
        **describe_judge(spec),
        **_own_error(verdicts, asr, unheard),
        "speaker_encoder": _describe_encoder() if asked else None,
    }


def judge_facts_again(
    spec: JudgeSpec,
    verdicts: Verdicts,
    asr: AsrConfig,
    checks: ChecksConfig,
    stored: Mapping[str, Any] | None,
    *,
    prompts: Sequence[Prompt],
    unheard: Sequence[str] = (),
) -> dict[str, Any]:
    """The same after judging again. If the recordings are gone, the stored own error stays, of the same judge only.

    ``prompts``: of :func:`prompts_again`.
    """
    facts = judge_facts(spec, verdicts, asr, checks, unheard=unheard)
    same = stored is not None and all(
        stored.get(name) == facts[name] for name in ("sha256", "engine", "dtype", "normaliser")
    )
    if facts["own_wer"] is None and same and stored is not None and stored.get("own_wer") and asr.own_error:
        facts |= {"own_wer": stored["own_wer"], "own_wer_reason": None}
    elif facts["own_wer"] is None and not prompts and asr.own_error:
        facts |= {"own_wer_reason": DATA_SET_GONE}
    return facts


def with_voices(
    verdicts: Verdicts,
    levels: Sequence[LevelResult],
    client: ClientConfig,
    prompts: Mapping[str, Prompt],
    tell: Tell = untold,
) -> Verdicts:
    """``verdicts`` with the voice of every utterance compared.

    ``prompts``: by id, for the reference recordings. ``tell`` hears how far it is. Raises AccuracyError.
    """
    from omni_bench.accuracy.voices.encoder import load_speaker_encoder  # brings torch

    encoder = load_speaker_encoder()
    voices: dict[str, VoiceSimilarity] = {}
    known: dict[Any, VoicePrint] = {}
    for level in levels:
        heard = [(request, clip) for request in level.requests if (clip := _clip(request)) is not None]
        prints = {}
        for request, clip in heard:
            prints |= {request.request_id: voice_prints(encoder, [clip])[0]}
            tell(f"comparing the voices of {level_title(level.concurrency)}", len(prints), len(heard))
        anchors = None
        if client.send_reference:
            anchors = {}
            for request, _ in heard:
                prompt = prompts.get(request.timeline.prompt_id)
                if prompt is None or prompt.ref_audio is None:
                    continue
                if prompt.ref_audio not in known:
                    spoken = no_speech(prompt.ref_audio, prompt.ref_text, prompt.language) is None
                    clip = AsrClip(f"reference of {prompt.id}", prompt.ref_audio, client.sample_rate_hz)
                    known[prompt.ref_audio] = voice_prints(encoder, [clip])[0] if spoken else NO_VOICE
                anchors[request.request_id] = known[prompt.ref_audio]
        voices |= compare_level(prints, anchors)
    return replace(verdicts, voices=voices)


def _clip(request: RequestResult) -> AsrClip | None:
    rate_hz = request.timeline.sample_rate_hz
    if request.forced is not None or request.audio is None or rate_hz is None:
        return None
    return AsrClip(request.request_id, request.audio, rate_hz)


def _own_error(verdicts: Verdicts | None, asr: AsrConfig, unheard: Sequence[str]) -> dict[str, Any]:
    if verdicts is None:
        return {"own_wer": None, "own_wer_reason": NOT_JUDGED}
    return own_error_json(verdicts.own_error, wanted=asr.own_error, unheard=unheard)
