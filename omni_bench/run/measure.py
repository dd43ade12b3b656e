"""From raw facts to results: what is known of each request and level, and how it is written down.

The same functions serve a run that just ended (audio in the spool folder) and an old one
that is read back (``omni-bench report``, ``omni-bench judge``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from omni_bench.accuracy.signal.audio_faults import audio_faults, delivery_faults, in_order
from omni_bench.accuracy.signal.checks import SignalFindings, chunk_edges, measures_splices, signal_findings
from omni_bench.accuracy.signal.shared_audio import TOGETHER, samples_of
from omni_bench.load.clients.wire_forms import RequestedModalities
from omni_bench.metrics.level import Warmup
from omni_bench.metrics.request import request_metrics
from omni_bench.records.config import LoadConfig
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.records.level import Level, level_title, level_value
from omni_bench.records.plan import LevelPlan
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LevelRecording
from omni_bench.records.stages import Tell, untold
from omni_bench.records.timeline import Timeline
from omni_bench.run.level_result import LevelResult, RequestResult
from omni_bench.run.signal_checks import is_checked, with_signal_faults
from omni_bench.run.warmup import warmup_requests
from omni_bench.spread import Result, Spread, Task, here, on_all_cores

SPEECH = RequestedModalities()
BATCH = 16
"""Answers that are measured in one go: a second or two of work."""
MUCH_S = 600.0


def is_much(recordings: Iterable[LevelRecording]) -> bool:
    """Whether there is so much audio that its checks take a while, and are worth starting processes for."""
    answers = (one for recording in recordings for one in recording.timelines if one.sample_rate_hz)
    audio_s = sum(one.audio_bytes / (one.sample_width_bytes * one.sample_rate_hz) for one in answers)
    return audio_s >= MUCH_S


def spread_for(recordings: Iterable[LevelRecording]) -> AbstractContextManager[Spread]:
    """All cores if there is much to do."""
    return on_all_cores() if is_much(recordings) else nullcontext(here)


def measure_level(
    recording: LevelRecording,
    prompts: Mapping[str, Prompt],
    *,
    with_reference: bool = False,
    check_signal: bool = False,
    requested: RequestedModalities = SPEECH,
    spread: Spread = here,
    tell: Tell = untold,
) -> LevelResult:
    """Derive everything about the requests of a level that just ended. ``prompts``: by prompt id.

    ``with_reference``: their reference recordings were sent. ``check_signal``: look for clicks, dropouts,
    noise and copied audio too, which makes sense for speech only. ``spread`` does the work, ``tell`` hears of it.
    Raises StoreError if spooled audio cannot be read.
    """
    where, total = level_title(recording.concurrency), len(recording.timelines)
    measure = partial(_measure, with_reference=with_reference, requested=requested)
    requests: list[RequestResult] = []
    alone: dict[str, SignalFindings] = {}
    answers = _answers(recording, prompts, check_signal=check_signal)
    for batch in spread(measure, (answers[at : at + BATCH] for at in range(0, total, BATCH))):
        for result, findings in batch:
            # the same timeline as in the recording, and not one that came back from another process
            requests.append(replace(result, timeline=recording.timelines[len(requests)]))
            if findings is not None:
                alone[result.request_id] = findings
        tell(f"checking the answers of {where}", len(requests), total)
    results, audio = tuple(requests), None
    if check_signal:

        def compare(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
            for number, found in enumerate(spread(work, tasks), start=1):
                yield found
                tell(f"comparing the answers of {where}", min(number * TOGETHER, len(alone)), len(alone))

        results, audio = with_signal_faults(results, prompts, alone, with_reference=with_reference, spread=compare)
    warmup = warmup_requests(recording.warmup, prompts, with_reference=with_reference)
    went = Warmup.of(recording.warmup)
    before = recording.measured_before
    return LevelResult(recording.concurrency, results, recording.lag, went, warmup, measured_before=before, audio=audio)


@dataclass(frozen=True)
class _Answer:
    """An answer to measure. ``splices``: whether to look for them too, None to look at no signal at all."""

    timeline: Timeline
    prompt: Prompt
    audio: Path | None
    splices: bool | None = None


def _answers(recording: LevelRecording, prompts: Mapping[str, Prompt], *, check_signal: bool) -> list[_Answer]:
    answers = [_Answer(one, prompts[one.prompt_id], recording.audio.get(one.request_id)) for one in recording.timelines]
    if not check_signal:
        return answers
    checked = [index for index, one in enumerate(answers) if is_checked(one.timeline, one.audio)]
    for number, index in enumerate(checked):
        answers[index] = replace(answers[index], splices=measures_splices(number, len(checked)))
    return answers


def _measure(
    answers: Sequence[_Answer], *, with_reference: bool, requested: RequestedModalities
) -> list[tuple[RequestResult, SignalFindings | None]]:
    measured = []
    for one in answers:
        timeline = one.timeline
        result = measure_request(timeline, one.prompt, one.audio, with_reference=with_reference, requested=requested)
        findings = None
        if one.splices is not None and is_checked(timeline, result.audio):
            samples, edges = samples_of(result.audio), chunk_edges(timeline)
            findings = signal_findings(samples, timeline.sample_rate_hz, edges, result.text, splices=one.splices)
        measured.append((result, findings))
    return measured


def measure_request(
    timeline: Timeline,
    prompt: Prompt,
    audio: Path | None,
    *,
    with_reference: bool = False,
    requested: RequestedModalities = SPEECH,
) -> RequestResult:
    """Metrics and audio faults of one request; ``audio``: its payload as received. Raises StoreError.

    A recording that is gone (somebody removed the run folder) leaves the request unchecked, and its times as they are.
    """
    pcm = None
    if audio is not None and audio.exists():
        with os_errors_as_store_errors("read", audio):
            pcm = audio.read_bytes()
    return RequestResult(
        timeline=timeline,
        text=spoken_text(timeline, prompt),
        language=prompt.language,
        metrics=request_metrics(timeline, pcm),
        faults=answer_faults(timeline, prompt, pcm, requested),
        audio=audio if pcm else None,
        ref_text=prompt.ref_text if with_reference else None,
        prompt_text=other_prompt_text(timeline, prompt),
    )


# ---- The expected text of an answer, and its audio faults ----


def spoken_text(timeline: Timeline, prompt: Prompt) -> str:
    """What is to be heard: the text of the reply if there is one, else that of the prompt."""
    return timeline.reply_text if timeline.reply_text and timeline.reply_text.strip() else prompt.text


def other_prompt_text(timeline: Timeline, prompt: Prompt) -> str | None:
    """What was asked for, None where that is what is to be heard."""
    return None if spoken_text(timeline, prompt) == prompt.text else prompt.text


def answer_faults(
    timeline: Timeline, prompt: Prompt, pcm: bytes | None, requested: RequestedModalities
) -> tuple[str, ...]:
    """What is wrong with an answer to ``requested``, by the names of the validity checks.

    ``pcm``: its samples as received, None if they were not kept. An answer of text alone is held to no rule of audio.
    """
    if not timeline.ok:
        return ()  # a failure already, counted by its kind
    has_text = bool(timeline.reply_text and timeline.reply_text.strip())
    faults = ("no_text",) if requested.text and not has_text else ()
    if not requested.audio and not timeline.audio_bytes:
        return faults
    if pcm is None or timeline.sample_rate_hz is None:
        # The samples were lost with the load worker (a run that was cut off); their number was not.
        return in_order((*faults, "unchecked" if timeline.audio_bytes else "empty"))
    text = spoken_text(timeline, prompt) if has_text or requested.scripted else None
    found = audio_faults(pcm, timeline.sample_rate_hz, text, prompt.language)
    return in_order((*faults, *found, *delivery_faults(timeline)))


# ---- The order of levels: as configured, whatever the order in which they ran ----


def configured_levels(load: LoadConfig, plans: Sequence[LevelPlan]) -> list[Level]:
    """The levels of ``plans`` without the rotation of ``load.rotate_levels``."""
    if load.rotate_levels and plans:
        first = len(plans) - load.rotate_levels % len(plans)
        plans = [*plans[first:], *plans[:first]]
    return [plan.concurrency for plan in plans]


def in_configured_order(levels: Sequence[LevelResult], configured: Sequence[Level]) -> list[LevelResult]:
    """``levels`` in the order of ``configured``; those that it lacks (the probes of a rate search) follow, by rate."""
    listed = [level for level in levels if level.concurrency in configured]
    others = (level for level in levels if level.concurrency not in configured)
    found = sorted(others, key=lambda level: level_value(level.concurrency))
    return sorted(listed, key=lambda level: configured.index(level.concurrency)) + found
