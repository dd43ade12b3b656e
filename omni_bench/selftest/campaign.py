"""Runs the cases, lets one judge hear them all, and asks every detector."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omni_bench.accuracy.asr.weights.resolve import describe_judge
from omni_bench.accuracy.judge_error import references_of
from omni_bench.accuracy.wer import UtteranceScore, score_utterance
from omni_bench.errors import AccuracyError, ConfigError, StoreError
from omni_bench.records.config import RunConfig
from omni_bench.run.config.compose import compose
from omni_bench.run.judging import find_judge
from omni_bench.run.progress import RunProgress
from omni_bench.run.provenance import hardware, harness, software
from omni_bench.run.rejudge import judge_again
from omni_bench.selftest.cases import CLEAN, SelftestCase, clean_case
from omni_bench.selftest.damaged import damaged_case
from omni_bench.selftest.detectors import RunEvidence, alarms_of
from omni_bench.selftest.evidence import StoredAnswer, compare_with_clean, read_evidence
from omni_bench.selftest.judging import Ear
from omni_bench.selftest.matrix import CaseRun, SelftestResult, group_by_case
from omni_bench.selftest.plan import LOCALE, SelftestPlan, describe, write_prompts
from omni_bench.selftest.soundness import came_to_its_end, other_fault, other_settings, own_problem, unproven
from omni_bench.selftest.untimed import Order, beside, one_run
from omni_bench.targets.create import create_target

PROMPTS = "prompts"
SHARED_SERVER_LOG = "server.log"
OWN_EVERY = 4
"""Every fourth fault in the model is run after those at the wire, by the same process: then both take about as long."""


@dataclass(frozen=True)
class _Job:
    case: SelftestCase
    repeat: int
    folder: Path


@dataclass(frozen=True)
class _Heard:
    """A run as it is on disk. ``run`` is None if it left no run.json; ``problem`` says why it cannot be judged.

    ``kept``: it was there already when the self-test went on.
    """

    job: _Job
    run: dict[str, Any] | None
    answers: list[StoredAnswer]
    duration_s: float
    problem: str | None
    kept: bool


def run_selftest(
    plan: SelftestPlan, faults: Sequence[SelftestCase], out: Path, progress: RunProgress, command: Sequence[str]
) -> SelftestResult:
    """Run clean server and ``faults`` into ``out`` and judge what came back.

    A run that a fault makes impossible is a finding, not an error. Runs of this plan that ``out`` holds already, and
    that were not interrupted, are not made again. Raises ConfigError if it holds runs of another plan, OmniBenchError
    for what makes the self-test itself impossible (no judge, no disk), KeyboardInterrupt for Ctrl-C.
    """
    started = time.monotonic()
    prompts = out / PROMPTS
    references = references_of(write_prompts(prompts)).heard
    judged = compose([*plan.overrides(0, prompts), "asr=whisper", f"asr.model={plan.judge_model}"])
    spec = find_judge(judged.asr, LOCALE, progress.say)
    assert spec is not None
    testable = [fault for fault in faults if fault.testable and not fault.of_samples]
    clean = clean_case(plan.clean_requests_per_level)
    jobs = [_Job(clean, repeat, out / CLEAN / str(repeat)) for repeat in range(plan.clean_runs)]
    jobs += [_Job(case, repeat, out / case.name / str(repeat)) for case in testable for repeat in range(plan.repeats)]
    runs = _run_all(plan, jobs, prompts, out, progress, command)
    ear = Ear(judged.asr, spec, LOCALE)
    recordings = [
        (answer.recording, answer.sample_rate_hz or judged.client.sample_rate_hz)
        for heard in runs
        for answer in heard.answers
        if answer.sound and answer.recording is not None
    ]
    progress.begin_judging(len(recordings) + len(references), f"{spec.name}, recordings of all runs")
    distinct = ear.learn(recordings, [reference.clip for reference in references], progress.judged)
    progress.end()
    cases = _judge_all(runs, ear, plan, judged, progress)
    answers = [answer for heard in runs if heard.job.case.kind == CLEAN for answer in heard.answers]
    cases += [damaged_case(fault, answers, references) for fault in faults if fault.of_samples]
    facts = {
        "plan": list(describe(plan)),
        "judge": describe_judge(spec),
        "recordings": len(recordings),
        "distinct_recordings": distinct,
        "kept_runs": sum(heard.kept for heard in runs),
        "command": list(command),
        "harness": harness(),
        "hardware": hardware(),
        "software": software(),
    }
    skipped = tuple(fault for fault in faults if not fault.testable)
    earlier_s = sum(heard.duration_s for heard in runs if heard.kept)
    return SelftestResult(group_by_case(cases), skipped, earlier_s + time.monotonic() - started, facts)


def _run_all(
    plan: SelftestPlan, jobs: Sequence[_Job], prompts: Path, out: Path, progress: RunProgress, command: Sequence[str]
) -> list[_Heard]:
    """Every job, in the order of ``jobs``. What is timed (clean server, faults in speed) is run alone, first.

    Then the faults in the model, in a process of their own, beside those at the wire, which share one server.
    """
    wire = [job for job in jobs if job.case.kind == "wire"]
    model = [job for job in jobs if job.case.kind == "model"] if wire else []
    done: dict[Path, _Heard] = {}

    def overrides_of(job: _Job, more: Sequence[str] = ()) -> list[str]:
        return [*plan.overrides(job.repeat, prompts), *job.case.overrides, *more]

    def note(job: _Job, kept: bool, problem: str | None, duration_s: float) -> None:
        run_json, answers, unreadable = _read(job.folder)
        if unreadable is not None:
            problem = problem or unreadable
        elif answers and job.case.kind != CLEAN:
            problem = None  # that the fault ended the run is a finding
        elif run_json is not None:
            problem = problem or own_problem(run_json)
        if kept and run_json is not None:
            duration_s = run_json["duration_s"]
        done[job.folder] = _Heard(job, run_json, answers, duration_s, problem, kept)
        progress.say(
            f"{len(done)}/{len(jobs)} {job.case.name}, run {job.repeat + 1}: "
            + ("kept from before" if kept else f"{duration_s:.0f} s")
        )

    def go(job: _Job, more: Sequence[str] = ()) -> None:
        started = time.monotonic()
        overrides = overrides_of(job, more)
        kept = _is_kept(job, overrides)
        problem = None if kept else one_run(compose(overrides), job.folder, command)
        note(job, kept, problem, time.monotonic() - started)

    for job in jobs:
        if job not in wire and job not in model:
            go(job)
    kept = [job for job in model if _is_kept(job, overrides_of(job))]
    for job in kept:
        note(job, True, None, 0.0)
    left = [job for job in model if job not in kept]
    elsewhere = [job for number, job in enumerate(left) if number % OWN_EVERY]
    orders = [Order(tuple(overrides_of(job)), str(job.folder), tuple(command)) for job in elsewhere]
    if wire:
        with beside(orders) as answers, _shared_server(plan, prompts, out) as url:
            for job in wire:
                alone = [] if plan.wire_alone else ["checks.parity_requests=0"]
                go(job, ["target=external", f"target.url={url}", *alone])
            for job in left[::OWN_EVERY]:
                go(job)
            for job, answer in zip(elsewhere, answers, strict=True):
                note(job, False, answer["problem"], answer["duration_s"])
    return [done[job.folder] for job in jobs]


def _is_kept(job: _Job, overrides: Sequence[str]) -> bool:
    """Whether the run is there already; what did not come to its end is deleted.

    Raises ConfigError if it is a run with other settings.
    """
    kept = came_to_its_end(job.folder)
    if kept and (changed := other_settings(job.folder, compose(overrides))):
        raise ConfigError(
            f"{job.folder} is a run of a self-test with other settings ({', '.join(changed)}); "
            "use the options it was started with, or choose another folder"
        )
    if not kept:
        shutil.rmtree(job.folder, ignore_errors=True)
    return kept


def _read(folder: Path) -> tuple[dict[str, Any] | None, list[StoredAnswer], str | None]:
    """run.json, answers, and why there are none."""
    try:
        run_json, answers = read_evidence(folder)
    except StoreError as error:
        return None, [], str(error)
    return run_json, answers, None


@contextmanager
def _shared_server(plan: SelftestPlan, prompts: Path, out: Path) -> Iterator[str]:
    """The clean reference server, for the proxies to stand before. Raises TargetError."""
    server = create_target(compose(plan.overrides(0, prompts)), out / SHARED_SERVER_LOG)
    try:
        yield server.start().base_url
    finally:
        server.stop()


def _judge_all(
    runs: Sequence[_Heard], ear: Ear, plan: SelftestPlan, config: RunConfig, progress: RunProgress
) -> list[CaseRun]:
    clean = {heard.job.repeat: heard for heard in runs if heard.job.case.kind == CLEAN}
    score = _scorer(ear, config)
    cases = []
    for heard in runs:
        job, problem = heard.job, heard.problem
        started = time.monotonic()
        run_json = heard.run
        if problem is None and run_json is not None and any(answer.sound for answer in heard.answers):
            run_json, problem = _judged(job.folder, run_json, ear, plan, progress)
        if problem is None and run_json is not None:
            problem = other_fault(run_json, job.case)
        if problem is None and job.case.kind == CLEAN:
            problem = unproven(run_json, heard.answers, plan)
        yardstick = clean.get(job.repeat) if job.case.kind != CLEAN else None
        if yardstick is not None and yardstick.problem is not None:
            yardstick = None  # nothing to compare with; the clean run itself is what fails the self-test
        differences = compare_with_clean(job.folder, yardstick.job.folder) if yardstick and not problem else []
        before = yardstick.answers if yardstick else []
        clean_run = yardstick.run if yardstick else None
        evidence = RunEvidence(run_json, heard.answers, clean_run, before, differences, score, config.asr.wer_limit)
        cases.append(
            CaseRun(
                case=job.case,
                repeat=job.repeat,
                folder=f"{job.folder.parent.name}/{job.folder.name}",
                alarms=tuple(alarms_of(job.case, evidence)),
                duration_s=heard.duration_s + time.monotonic() - started,
                problem=problem,
            )
        )
    return cases


def _judged(
    folder: Path, run_json: dict[str, Any], ear: Ear, plan: SelftestPlan, progress: RunProgress
) -> tuple[dict[str, Any], str | None]:
    """The run with the judge's verdicts; as it was, and why, if they could not be had."""
    try:
        return judge_again(folder, [f"asr.model={plan.judge_model}"], progress, (ear.spec, ear))[1], None
    except (AccuracyError, ConfigError, StoreError) as error:
        return run_json, f"not judged again: {str(error).splitlines()[0]}"


def _scorer(ear: Ear, config: RunConfig) -> Callable[[StoredAnswer], UtteranceScore]:
    from omni_bench.accuracy.asr.clips import AsrClip

    def score(answer: StoredAnswer) -> UtteranceScore:
        assert answer.recording is not None
        clip = AsrClip(answer.request_id, answer.recording, answer.sample_rate_hz or config.client.sample_rate_hz)
        heard = ear([clip], config.asr, LOCALE)[0]
        return score_utterance(answer.request_id, answer.text, heard.text, answer.language)

    return score
