"""What pace is to be expected of a level's voice: that of the recordings it was cloned from, else of its language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from omni_bench.accuracy.asr.clips import WHISPER_RATE_HZ, AsrClip, clip_duration_s
from omni_bench.accuracy.recordings import speech_of
from omni_bench.errors import AccuracyError
from omni_bench.metrics.pace import ExpectedPace, language_pace, pace, references_pace, speech_s
from omni_bench.records.config import ClientConfig, RunConfig
from omni_bench.records.prompt import Prompt
from omni_bench.run.level_result import LevelResult

MAX_REFERENCES = 64
LONGEST_REFERENCE_S = 60.0


def with_expected_pace(level: LevelResult, config: RunConfig, prompts: Mapping[str, Prompt]) -> LevelResult:
    """``level`` with what is expected of it; as it is where nothing is.

    Recordings tell a rate that the server does not state: where it states one, a voice that is a little slower than its
    recording is just that. Random weights do not speak.
    """
    is_random = config.target.kind == "reference" and config.reference.checkpoint == "random"
    if not config.checks.pace or is_random or not level.requests:
        return level
    speed = asked_speed(config.client)
    expected: ExpectedPace | None = None
    if config.client.send_reference and not level.states_rate:
        used = [prompts[one.timeline.prompt_id] for one in level.requests]
        expected = references_pace(reference_paces(used), speed)
    return replace(level, expected_pace=expected or language_pace(level.requests[0].language, speed))


def asked_speed(client: ClientConfig) -> float:
    """``speed`` of the request's body (OpenAI's speech API); 1 where it is not asked for."""
    speed = client.extra_body.get("speed")
    is_number = isinstance(speed, (int, float)) and not isinstance(speed, bool)
    return float(speed) if is_number and speed > 0 else 1.0


def reference_paces(prompts: Iterable[Prompt]) -> list[float]:
    """Letters a second of each distinct recording that is speech of its text, of the first 64."""
    found: dict[Path, float] = {}
    for prompt in prompts:
        if prompt.ref_audio is None or not prompt.ref_text or prompt.ref_audio in found:
            continue
        try:
            if clip_duration_s(AsrClip(prompt.id, prompt.ref_audio, WHISPER_RATE_HZ)) > LONGEST_REFERENCE_S:
                continue
            samples = speech_of(prompt.ref_audio, prompt.ref_text, prompt.language)
        except AccuracyError:
            continue
        if (one := pace(prompt.ref_text, speech_s(samples, WHISPER_RATE_HZ))) is not None:
            found[prompt.ref_audio] = one
        if len(found) == MAX_REFERENCES:
            break
    return list(found.values())
