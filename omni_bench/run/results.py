"""What follows the load of a run: measure, judge, write down."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

from omni_bench.errors import StoreError
from omni_bench.load.clients.wire_forms import RequestedModalities
from omni_bench.load.signals import HeldBackSignals
from omni_bench.records.stages import Tell
from omni_bench.run.expected_pace import with_expected_pace
from omni_bench.run.judging import Verdicts, audible, judge_facts, judge_levels, with_voices
from omni_bench.run.level_result import LevelResult
from omni_bench.run.measure import configured_levels, in_configured_order, measure_level, spread_for
from omni_bench.run.parity import ParityResult, parity_result
from omni_bench.run.provenance import provenance
from omni_bench.run.session import Session, known_target_facts, with_place
from omni_bench.run.signal_checks import speaks
from omni_bench.run.write import EndedRun, write_run


@dataclass(frozen=True)
class Results:
    """``verdicts``: None without a judge, or if it did not end. ``problem``: what went wrong first, in the load too."""

    levels: list[LevelResult]
    verdicts: Verdicts | None
    problem: BaseException | None
    while_judging: bool = False
    parity: ParityResult | None = None


def judged_results(session: Session, problem: BaseException | None, signals: HeldBackSignals, tell: Tell) -> Results:
    """Metrics of what was recorded and, if the load phase ran to its end, the judge's verdicts."""
    if not session.folder.begun_json.exists():
        problem = problem or StoreError(
            f"{session.folder.path} was removed while the run went on: what was in memory is written again, without "
            "the audio that was in the folder"
        )
    try:
        check_signal = speaks(session.config)
        with_reference = session.config.client.send_reference
        requested = RequestedModalities.of(session.config.client)
        with spread_for(session.recordings) as spread:
            levels = [
                measure_level(
                    recording,
                    session.prepared.prompts,
                    with_reference=with_reference,
                    check_signal=check_signal,
                    requested=requested,
                    spread=spread,
                    tell=tell,
                )
                for recording in session.recordings
            ]
    except Exception as error:
        return Results([], None, problem or error)
    levels = [with_expected_pace(level, session.config, session.prepared.prompts) for level in levels]
    levels = in_configured_order(levels, configured_levels(session.config.load, session.prepared.plans))
    try:
        parity = parity_result(session.parity, session.recordings, session.prepared.prompts, requested, tell)
    except Exception as error:
        return Results(levels, None, problem or error)
    spec = session.prepared.judge
    if problem is not None or spec is None:
        interrupt = KeyboardInterrupt() if signals.received else None
        return Results(levels, None, problem or interrupt, parity=parity)
    everything = [*levels, *(parity.solos if parity is not None else ())]
    references = session.prepared.references.heard
    session.progress.begin_judging(len(audible(everything)) + len(references), spec.name)
    try:
        asr, language = session.config.asr, session.config.dataset.spoken
        with signals.released():
            verdicts = judge_levels(everything, asr, spec, language, session.progress.judged, references)
            if session.config.checks.speaker_similarity:
                verdicts = with_voices(verdicts, levels, session.config.client, session.prepared.prompts, tell)
    except (Exception, KeyboardInterrupt) as error:
        return Results(levels, None, error, while_judging=True, parity=parity)
    finally:
        session.progress.end()
    return Results(levels, verdicts, None, parity=parity.heard(verdicts, levels) if parity is not None else None)


def telling(session: Session, signals: HeldBackSignals) -> Tell:
    """Shows how far what follows the load is; and once, that a signal came which waits for its end."""
    told = False

    def tell(stage: str, done: int, total: int) -> None:
        nonlocal told
        if signals.received and not told:
            told = True
            with contextlib.suppress(OSError):
                session.progress.say("interrupted: what is there is written down first; once more to stop at once")
        session.progress.tell(stage, done, total)

    return tell


def write_down(session: Session, results: Results, tell: Tell) -> dict[str, Any]:
    """Write every file of the run folder; a disk that is full now does not hide the first problem."""
    judge = session.prepared.judge
    try:
        return write_run(
            EndedRun(
                config=session.config,
                folder=session.folder,
                levels=results.levels,
                recordings=session.recordings,
                verdicts=results.verdicts,
                problem=results.problem,
                while_judging=results.while_judging,
                parity=results.parity,
                prompts=session.prepared.prompts,
                tell=tell,
                planned=tuple(configured_levels(session.config.load, session.prepared.plans)),
                started_utc=session.started_utc,
                duration_s=None if session.started is None else time.monotonic() - session.started,
                provenance=provenance(
                    session.config,
                    command=session.command,
                    target=known_target_facts(session),
                    prompts=session.prepared.prompts_facts,
                    judge=judge_facts(
                        judge,
                        results.verdicts,
                        session.config.asr,
                        session.config.checks,
                        unheard=session.prepared.references.unheard,
                    )
                    if judge is not None
                    else None,
                    here=session.hardware,
                ),
            )
        )
    except Exception:
        if results.problem is not None:
            raise with_place(results.problem, session)  # noqa: B904 - the second problem stays as its context
        raise
