"""The judge's part of a run: clips to hear, scores of what was heard, and which recordings to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omni_bench.accuracy.clips import Clip, Transcript
from omni_bench.accuracy.pool import transcribe
from omni_bench.accuracy.resolve import JudgeSpec, resolve_judge
from omni_bench.accuracy.wer import CorpusScore, UtteranceScore, score_corpus, score_utterance
from omni_bench.config.schema import AsrConfig, OutputConfig
from omni_bench.errors import AccuracyError
from omni_bench.run.results import LevelResult, RequestResult
from omni_bench.store.run_folder import RunFolder
from omni_bench.store.run_json import utterance_record


@dataclass(frozen=True)
class Verdicts:
    """What the judge made of a run: scores by request id, and the transcripts behind them."""

    judge: str
    scores: Mapping[str, UtteranceScore]
    transcripts: Mapping[str, Transcript]

    def corpus(self, level: LevelResult) -> CorpusScore:
        """The scores of one level together."""
        return score_corpus(self.judge, [self.scores[request.request_id] for request in level.requests])


def find_judge(asr: AsrConfig, language: str, say: Callable[[str], None]) -> JudgeSpec | None:
    """The judge's weights, found but not loaded; None for ``asr=none``. ``say`` tells of a download.

    Raises AccuracyError, ConfigError.
    """
    return None if asr.kind == "none" else resolve_judge(asr.model, asr.device, language, say=say)


def audible(levels: Iterable[LevelResult]) -> list[RequestResult]:
    """The requests that there is something to hear of."""
    return [request for level in levels for request in level.requests if request.forced is None]


def judge_levels(
    levels: Sequence[LevelResult],
    asr: AsrConfig,
    spec: JudgeSpec,
    language: str,
    on_progress: Callable[[int, int], None],
) -> Verdicts:
    """Transcribe and score every request of ``levels``. Raises AccuracyError."""
    clips = []
    for request in audible(levels):
        if request.audio is None or request.timeline.sample_rate_hz is None:
            raise AccuracyError(f"request {request.request_id} has no recording to judge")
        clips.append(Clip(request.request_id, request.audio, request.timeline.sample_rate_hz, request.language))
    heard = transcribe(clips, asr, language, on_progress, spec=spec)
    transcripts = {transcript.request_id: transcript for transcript in heard}
    scores = {}
    for level in levels:
        for request in level.requests:
            text = transcripts[request.request_id].text if request.forced is None else ""
            scores[request.request_id] = score_utterance(
                request.request_id, request.text, text, request.language, request.forced
            )
    return Verdicts(spec.name, scores, transcripts)


def wer_reasons(corpus: CorpusScore | None, wer_limit: float) -> list[str]:
    """Why a level's accuracy makes it invalid; [] if it does not (or nothing could be judged)."""
    if corpus is None or corpus.wer is None or corpus.wer <= wer_limit:
        return []
    return [f"WER {corpus.wer:.1%} is above asr.wer_limit={wer_limit:g} ({wer_limit:.1%})"]


def requests_to_keep(
    levels: Sequence[LevelResult], verdicts: Verdicts | None, output: OutputConfig
) -> list[RequestResult]:
    """Whose recordings stay: all, none, or those that failed a check and the ``worst_n`` highest WER of the run."""
    recorded = [request for level in levels for request in level.requests if request.audio is not None]
    if output.save_audio == "none":
        return []
    if output.save_audio == "all":
        return recorded
    suspicious = [request for request in recorded if request.faults or not request.timeline.ok]
    if verdicts is None:
        return suspicious
    others = [request for request in recorded if request not in suspicious]
    others.sort(key=lambda request: verdicts.scores[request.request_id].wer or 0.0, reverse=True)
    return suspicious + others[: output.worst_n]


def keep_audio(folder: RunFolder, requests: Iterable[RequestResult], default_rate_hz: int) -> dict[str, str]:
    """Copy recordings into the run folder as WAV; request id -> path within it. Raises StoreError."""
    return {
        request.request_id: folder.save_audio(
            request.request_id, request.audio, request.timeline.sample_rate_hz or default_rate_hz
        )
        for request in requests
        if request.audio is not None
    }


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
                )
            )
    return records
