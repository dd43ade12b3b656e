"""The signal checks of a level that just ended, and their evidence as lines of requests.jsonl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from omni_bench.accuracy.asr.clips import WHISPER_RATE_HZ
from omni_bench.accuracy.recordings import speech_of
from omni_bench.accuracy.signal.audio_faults import in_order
from omni_bench.accuracy.signal.checks import ExpectedVoices, SignalFindings, level_findings, reference_traits
from omni_bench.accuracy.signal.level_audio import ClipTraits, LevelAudio
from omni_bench.errors import AccuracyError
from omni_bench.records.config import RunConfig
from omni_bench.records.prompt import Prompt
from omni_bench.records.timeline import Timeline
from omni_bench.spread import Spread, here

if TYPE_CHECKING:
    from omni_bench.run.level_result import RequestResult

MOST_REFERENCES = 64


def speaks(config: RunConfig) -> bool:
    """Whether the signal checks apply: asked for, and the server is not our own with random weights (it hisses)."""
    is_random = config.target.kind == "reference" and config.reference.checkpoint == "random"
    return config.checks.signal and not is_random


def with_signal_faults(
    requests: tuple[RequestResult, ...],
    prompts: Mapping[str, Prompt],
    alone: Mapping[str, SignalFindings] | None = None,
    *,
    with_reference: bool = False,
    spread: Spread = here,
) -> tuple[tuple[RequestResult, ...], LevelAudio]:
    """The requests of a level, with what the signal checks find in each, and in all together.

    ``prompts``: by id; ``with_reference``: their recordings were sent. ``alone``: what each shows by itself, by request
    id, if that is known; ``spread`` does the rest of the work. Raises StoreError.
    """
    checked = [request for request in requests if is_checked(request.timeline, request.audio)]
    found, together = level_findings(
        [request.timeline for request in checked],
        [request.text for request in checked],
        {request.request_id: request.audio for request in checked if request.audio is not None},
        expected_voices(
            {request.request_id: prompts[request.timeline.prompt_id] for request in checked},
            with_reference=with_reference,
        ),
        [alone[request.request_id] for request in checked] if alone is not None else None,
        spread,
    )
    return (
        tuple(
            replace(
                request,
                faults=in_order((*request.faults, *found[request.request_id].faults)),
                shared=found[request.request_id].shared,
            )
            if request.request_id in found
            else request
            for request in requests
        ),
        together,
    )


def is_checked(timeline: Timeline, audio: Path | None) -> bool:
    """Whether an answer has samples to look at."""
    return timeline.ok and timeline.sample_rate_hz is not None and audio is not None


def expected_voices(prompts: Mapping[str, Prompt], *, with_reference: bool) -> ExpectedVoices:
    """Whose voices a level is to have. ``prompts``: by request id; ``with_reference``: their recordings were sent."""
    recordings = {(prompt.ref_audio, prompt.ref_text, prompt.language) for prompt in prompts.values()}
    chosen = sorted(one for one in recordings if one[0] is not None and one[1] is not None)[:MOST_REFERENCES]
    references = [traits for one in chosen if (traits := _reference(*one)) is not None]
    own = None
    if with_reference:
        own = {
            name: traits
            for name, prompt in prompts.items()
            if prompt.ref_audio is not None
            and (traits := _reference(prompt.ref_audio, prompt.ref_text, prompt.language)) is not None
        }
    one_voice = len({prompt.instructions for prompt in prompts.values()}) <= 1
    return ExpectedVoices(one_voice, own, references)


@lru_cache(maxsize=1024)
def _reference(path: Path, text: str | None, language: str) -> ClipTraits | None:
    """Traits of a recording; None if it is no speech of its text, which is the judge's to say."""
    try:
        samples = speech_of(path, text, language)
    except AccuracyError:
        return None
    return reference_traits(samples, WHISPER_RATE_HZ, text or "")
