"""One run: prepare, launch, drive, stop the server, judge, write down.

Whatever goes wrong once the server has been asked for, the server is gone afterwards and what
was measured is on disk, marked invalid; then the error goes on to the command line.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from omni_bench.errors import EXIT_INVALID, EXIT_OK, ConfigError, OmniBenchError, StoreError, TargetError
from omni_bench.load.clients.wire_forms import RequestedModalities
from omni_bench.load.events import LoadEvent, RequestFinished
from omni_bench.load.open_plan import probe_schedule
from omni_bench.load.runner import LevelBroken, LevelInterrupted, run_level
from omni_bench.load.signals import HeldBackSignals, held_back_signals
from omni_bench.records.config import RAY, LoadConfig, RunConfig
from omni_bench.records.invalid_reason import Code, invalid
from omni_bench.records.level import Rate, level_title
from omni_bench.records.plan import LevelPlan
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.stages import Tell
from omni_bench.report.console import print_summary
from omni_bench.run.calibration import with_bias
from omni_bench.run.document import build_run
from omni_bench.run.expected_pace import with_expected_pace
from omni_bench.run.journal import Earlier, Journal, begun, keep_finished, read_earlier
from omni_bench.run.judging import Verdicts, audible, judge_facts, judge_levels, with_voices
from omni_bench.run.level_result import LevelResult
from omni_bench.run.measure import configured_levels, in_configured_order, is_much, measure_level, spread_for
from omni_bench.run.parity import WHILE_ALONE, ParityPhase, ParityResult, keep_codes, parity_result, send_alone
from omni_bench.run.pinning import CorePinning
from omni_bench.run.prepare import Prepared, check_room, check_target, prepare
from omni_bench.run.probing import SETTLE_S
from omni_bench.run.profiling import profile_plan, profiled, take_profile
from omni_bench.run.progress import RunProgress
from omni_bench.run.provenance import provenance
from omni_bench.run.rate_search import probe_plans
from omni_bench.run.server_facts import ServerFacts, target_facts
from omni_bench.run.signal_checks import speaks
from omni_bench.run.stored_results import request_record
from omni_bench.run.turns import Ended, Measured, Part, Turns
from omni_bench.run.write import EndedRun, write_run
from omni_bench.targets.base import Target, TargetInfo
from omni_bench.targets.create import create_target
from omni_bench.targets.probe import key_of


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended that ran to its end."""

    run_dir: Path
    run: dict[str, Any]

    @property
    def exit_code(self) -> int:
        """For the command line: :data:`EXIT_OK` if the run is valid, else :data:`EXIT_INVALID`."""
        return EXIT_OK if self.run["valid"] else EXIT_INVALID


@dataclass
class _Session:
    """What a run has come to so far.

    ``started``: None for one that is made in parts. ``stored``: its whole load is on disk. ``spare``: cores that the
    client leaves free. ``hardware``: of the machine that measured it; None: what this process sees.
    """

    config: RunConfig
    command: tuple[str, ...]
    folder: RunFolder
    prepared: Prepared
    progress: RunProgress
    started_utc: datetime
    started: float | None
    journal: Journal
    attempt: Path
    earlier: Earlier = field(default_factory=Earlier)
    target: Target | None = None
    info: TargetInfo | None = None
    levels_started: list[LevelPlan] = field(default_factory=list)
    recordings: list[LevelRecording] = field(default_factory=list)
    finished: int = 0
    stored: bool = False
    parity: ParityPhase | None = None
    server_facts: ServerFacts = field(default_factory=ServerFacts)
    spare: tuple[int, ...] = ()
    hardware: Mapping[str, Any] | None = None

    def on_event(self, event: LoadEvent) -> None:
        """Write a measured request down the moment it has finished, then show it."""
        if isinstance(event, RequestFinished) and not event.timeline.warmup:
            timeline = event.timeline
            self.folder.append_request(request_record(timeline, self.prepared.prompts[timeline.prompt_id]))
            self.finished += timeline.ok
        self.progress.on_event(event)

    def on_alone(self, event: LoadEvent) -> None:
        """The same for a request that is sent alone, for the parity check."""
        if isinstance(event, RequestFinished):
            timeline = event.timeline
            self.folder.append_solo(request_record(timeline, self.prepared.prompts[timeline.prompt_id]))
        self.progress.on_event(event)


def run(
    config: RunConfig,
    run_dir: Path,
    command: Sequence[str] = (),
    *,
    quiet: bool = False,
    show: Callable[[dict[str, Any], RunFolder], None] = print_summary,
    keep_unanswered: bool = True,
) -> RunOutcome:
    """Do the whole run of a validated ``config`` into ``run_dir`` and ``show`` it: print the summary.

    ``command``: the command line, for the report. ``quiet``: neither progress nor summary (a run that is
    part of something larger). ``keep_unanswered``: whether a run whose target could not be started or reached leaves a
    report, or nothing but its log. A run that ended but may not be trusted is no error: see
    :attr:`RunOutcome.exit_code`. Raises OmniBenchError for what made the run impossible and KeyboardInterrupt for
    Ctrl-C (its argument says where the finished requests are).
    """
    console = Console(file=io.StringIO()) if quiet else None
    resumable = not quiet  # what it is part of does a run that was cut short again
    with RunFolder.create(run_dir) as folder, RunProgress(console) as progress:
        session = _new_session(config, folder, command, progress)
        document = _to_the_end(session, resumable=resumable, keep_unanswered=keep_unanswered)
    if resumable:
        show(document, folder)
    return RunOutcome(run_dir, document)


def run_in_turns(parts: Sequence[Part], turns: Turns) -> list[Ended]:
    """Whole runs at once, one level of each in turn: a drift of the machine falls on all of them alike.

    Only one is under load at a time; all of their targets are up before the first level. Where one breaks, the others
    end there, and what each has measured is on disk. Raises KeyboardInterrupt for Ctrl-C and what is no OmniBenchError.
    """
    sessions: list[_Session] = []
    ended: list[tuple[Mapping[str, Any] | Measured, BaseException | None]] = []
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(RunFolder.create(part.folder)) for part in parts]
        try:
            for part, folder in zip(parts, folders, strict=True):
                beside = sessions[0].progress if sessions else None
                progress = stack.enter_context(RunProgress(part_of=part.part_of, beside=beside))
                sessions.append(_new_session(part.config, folder, part.command, progress, part.target, part.spare))
            with held_back_signals() as signals:
                problems = _take_turns([_LoadPhase(session, signals) for session in sessions], turns)
                for session, problem in zip(sessions, problems, strict=True):
                    if any(earlier is not None for _, earlier in ended):
                        problem = problem or _Stopped()
                    with _time_of(session, sessions):
                        later = problem is None and _can_be_judged_beside(session)
                        ended.append(_measured(session, signals) if later else _finish(session, problem, signals))
        finally:
            for session, (how, _) in itertools.zip_longest(sessions, ended, fillvalue=(None, None)):
                session.journal.close()
                session.folder.end(keep_spool=isinstance(how, Measured))
    for session, (_, problem) in zip(sessions, ended, strict=True):
        if problem is not None and not isinstance(problem, (OmniBenchError, _Stopped)):
            raise _with_place(problem, session)
    return [
        document if problem is None else problem if isinstance(problem, OmniBenchError) else None
        for document, problem in ended
    ]


def _can_be_judged_beside(session: _Session) -> bool:
    """Whether cores were left free for it, and the judge needs no more than those: not a card that is measured on."""
    judge = session.prepared.judge
    return (
        bool(session.spare)
        and (judge is None or judge.device == "cpu")
        and not session.config.checks.speaker_similarity
    )


def _measured(session: _Session, signals: HeldBackSignals) -> tuple[Measured, BaseException | None]:
    assert session.started is not None
    session.journal.measured(time.monotonic() - session.started)
    return Measured(session.folder.path), KeyboardInterrupt() if signals.received else None


def judge_measured(run_dir: Path, hardware: Mapping[str, Any]) -> dict[str, Any]:
    """Measure, judge and write down a run that was only :class:`Measured`, as it would have been in place; run.json.

    ``hardware``: of the machine that measured it. Raises as :func:`run` does; the run can then be judged again.
    """
    now = time.monotonic()
    with _claimed(run_dir) as folder, RunProgress(Console(file=io.StringIO())) as progress:
        earlier = read_earlier(folder)
        started = None if earlier.measured_s is None else now - earlier.measured_s
        with _reopened(folder, earlier, progress, started, hardware) as session:
            if not session.stored:
                raise StoreError(
                    f"{folder.path} was not measured to its end, so that it cannot be judged; make it again"
                )
            return _to_the_end(session, resumable=True)


class _Stopped(KeyboardInterrupt):
    """A run that was stopped because one that it took turns with broke."""


def _take_turns(loads: Sequence[_LoadPhase], turns: Turns) -> list[BaseException | None]:
    """Every load phase to its end, or until one breaks; what went wrong with each."""
    sessions = [load.session for load in loads]

    def well() -> bool:
        return all(load.problem is None for load in loads)

    def step(load: _LoadPhase, do: Callable[[], bool]) -> bool:
        with _time_of(load.session, sessions):
            return well() and do()

    goes_on = [step(load, load.begin) for load in loads]
    turn = 0
    while any(goes_on) and well():
        for index in turns(turn):
            goes_on[index] = goes_on[index] and step(loads[index], loads[index].next_level)
        turn += 1
    if not well():
        for load in loads:
            load.problem = load.problem or _Stopped()
    for load in loads:
        with _time_of(load.session, sessions):
            load.end()
    return [load.problem for load in loads]


@contextlib.contextmanager
def _time_of(session: _Session, sessions: Sequence[_Session]) -> Iterator[None]:
    """What happens within is not counted into how long the other runs take."""
    started = time.monotonic()
    try:
        yield
    finally:
        for other in sessions:
            if other is not session and other.started is not None:
                other.started += time.monotonic() - started


def _new_session(
    config: RunConfig,
    folder: RunFolder,
    command: Sequence[str],
    progress: RunProgress,
    target: Target | None = None,
    spare: tuple[int, ...] = (),
) -> _Session:
    """Prepare a run, and write down that it has begun."""
    started_utc, started = datetime.now(UTC), time.monotonic()
    prepared = prepare(config, folder.path, progress.say)
    journal = Journal(folder)
    session = _Session(
        config, tuple(command), folder, prepared, progress, started_utc, started, journal, folder.next_attempt()
    )
    session.target, session.spare = target, spare
    _note_begun(session)
    journal.begin(begun(config, command, started_utc.isoformat(), prepared.prompts_facts["sha256"]))
    return session


def _note_begun(session: _Session) -> None:
    """Write down what a report needs if this process is killed: all but the requests, which follow one by one."""
    session.folder.write_begun(
        build_run(
            scenario=session.config.scenario.name,
            description=session.config.scenario.description,
            started_utc=session.started_utc,
            duration_s=None,
            levels=[],
            provenance=provenance(
                session.config,
                command=session.command,
                target=_target_facts(session),
                prompts=session.prepared.prompts_facts,
                judge=None,
                with_gpus=False,
                here=session.hardware,
            ),
            reasons=[invalid(Code.INTERRUPTED)],
        )
    )


def resume(run_dir: Path, show: Callable[[dict[str, Any], RunFolder], None] = print_summary) -> RunOutcome:
    """Go on with a run that was killed or interrupted, as it began, and ``show`` it: print the summary.

    Levels that ended are kept. Of the level that had begun what is missing is sent, and it makes no claim of speed; a
    begun level of an open loop is measured anew. Raises ConfigError for a run that cannot be gone on with, and as
    :func:`run` does.
    """
    with _claimed(run_dir) as folder, RunProgress() as progress:
        earlier = read_earlier(folder)
        with _reopened(folder, earlier, progress) as session:
            left = "; nothing is left to send, so that no server is started" if session.stored else ""
            progress.say(f"going on with {folder.path}: {session.finished} finished requests are kept{left}")
            document = _to_the_end(session, resumable=True)
    show(document, folder)
    return RunOutcome(folder.path, document)


@contextlib.contextmanager
def _reopened(
    folder: RunFolder,
    earlier: Earlier,
    progress: RunProgress,
    started: float | None = None,
    hardware: Mapping[str, Any] | None = None,
) -> Iterator[_Session]:
    """The session of a run that is gone on with, within the directory that it began in."""
    first = earlier.run
    assert first is not None
    with _in_directory(first.directory):
        prepared = prepare(first.config, folder.path, progress.say, sends=False)
        earlier.check(prepared.prompts_facts["sha256"], hardware)
        earlier = earlier.with_whole(_open_plans(prepared, first.config.load, earlier))
        session = _Session(
            config=first.config,
            command=first.command,
            folder=folder,
            prepared=prepared,
            progress=progress,
            started_utc=datetime.fromisoformat(first.started_utc),
            started=started,
            journal=Journal(folder),
            attempt=folder.next_attempt(),
            earlier=earlier,
            hardware=hardware,
        )
        session.stored = _stored_load(session)
        if not session.stored:
            check_target(first.config, progress.say)
            check_room(first.config, prepared.plans, prepared.prompts_facts["measured"], folder.path)
        keep_finished(folder, earlier)
        _note_begun(session)
        folder.run_json.unlink(missing_ok=True)
        session.finished = sum(one.ok for one in earlier.timelines.values() if earlier.is_kept(one))
        yield session


def _claimed(run_dir: Path) -> RunFolder:
    folder = RunFolder(run_dir.absolute())
    if not folder.claim():
        raise StoreError(f"the run in {folder.path} goes on in another process; wait for it, or end it")
    return folder


def _in_directory(path: str) -> contextlib.AbstractContextManager[None]:
    if not Path(path).is_dir():
        raise ConfigError(f"the run was begun in {path}, which is gone: its relative paths would lead elsewhere")
    return contextlib.chdir(path)


def _to_the_end(session: _Session, *, resumable: bool, keep_unanswered: bool = True) -> dict[str, Any]:
    """All but the preparation; run.json. What the run needs to be gone on with stays if anything cut it short."""
    unanswered = False
    keep = resumable
    try:
        # An interrupt takes effect at once in the load phase and while judging; elsewhere
        # (the server stops, files are written) only a second one does.
        with held_back_signals() as signals:
            (problem,) = [None] if session.stored else _take_turns([_LoadPhase(session, signals)], lambda turn: [0])
            unanswered = isinstance(problem, TargetError) and session.info is None and not keep_unanswered
            if unanswered:
                raise problem
            if problem is None and resumable and is_much(session.recordings):
                session.progress.say(
                    f"every answer is in {session.folder.path}: checks and report follow. If they are cut off, go on "
                    f"with them by {_resume_command(session)}, or report what is there by "
                    f"omni-bench report {shlex.quote(str(session.folder.path))}; neither needs the server"
                )
            document, problem = _finish(session, problem, signals)
        keep = keep and problem is not None
    except KeyboardInterrupt as interrupt:
        raise _with_place(interrupt, session, resumable=resumable) from None
    finally:
        session.journal.close()
        session.folder.end(keep_spool=keep and not unanswered)
        if unanswered:
            session.folder.discard()
    if problem is not None:
        raise _with_place(problem, session, resumable=resumable)
    return document


def _finish(
    session: _Session, problem: BaseException | None, signals: HeldBackSignals
) -> tuple[dict[str, Any], BaseException | None]:
    """Measure, judge and write down what was recorded: run.json, and what went wrong first."""
    tell = _telling(session, signals)
    results = _results(session, problem, signals, tell)
    document = _write_down(session, results, tell)
    problem = results.problem
    if problem is None and signals.received:
        problem = KeyboardInterrupt()
    return document, problem


class _LoadPhase:
    """Launch the server, run every level, stop the server: step by step, so that two can take turns.

    Between two steps this process is on the cores where it was. ``problem``: what went wrong first, None if nothing
    did; no step but :meth:`end` does anything after it.
    """

    def __init__(self, session: _Session, signals: HeldBackSignals):
        config = session.config
        if config.output.profile:
            config = profiled(config, session.folder.path)
        self.session, self._signals = session, signals
        self._target = session.target or create_target(config, session.folder.server_log)
        self._pinning = CorePinning(session.config.target.cores, session.spare)
        self._plans: Iterator[LevelPlan] = iter(())
        self.problem: BaseException | None = None

    def begin(self) -> bool:
        """Start the target and look at it; whether that went well."""
        return self._step(self._begin)

    def next_level(self) -> bool:
        """Run the next level; False if there is none, or if it broke."""
        return self._step(self._one_level)

    def end(self) -> None:
        """What comes after the levels, if all is well; then stop the target."""
        self._step(self._after_levels)
        try:
            try:
                self.session.progress.end()
            finally:
                self._target.stop()
        except Exception as error:
            self.problem = self.problem or error

    def _step(self, do: Callable[[], bool]) -> bool:
        if self.problem is not None:
            return False
        session = self.session
        try:
            with self._signals.released():
                self._pinning.to_client()
                return do()
        except BaseException as error:
            if isinstance(error, OmniBenchError) and session.info is not None:  # all is stopped and written down first
                session.progress.say(f"the run ends here: {str(error).splitlines()[0].removesuffix(':')}")
            self.problem = error
            return False
        finally:
            self._pinning.end()

    def _begin(self) -> bool:
        session, target = self.session, self._target
        kind, url = session.config.target.kind, session.config.target.url
        session.progress.say(f"starting the target ({kind})" if url is None else f"connecting to {url}")
        self._pinning.to_server()
        session.info = target.start()
        self._pinning.to_client()
        session.progress.say(f"ready at {session.info.base_url} after {session.info.startup_s:.1f} s")
        session.server_facts.before(
            session.config, session.prepared.prompts, target, session.info, session.progress.say
        )
        facts = target_facts(session.config.target, session.info, session.server_facts)
        session.earlier.check_server(facts)
        session.journal.server(facts)
        _note_begun(session)  # with what is known of the server now
        session.progress.begin_load(session.prepared.plans)
        session.parity = _parity_phase(session)
        self._plans = iter(_plans(session, session.recordings, session.progress.say))
        return True

    def _one_level(self) -> bool:
        plan = next(self._plans, None)
        if plan is not None:
            _run_one_level(self.session, plan, self._target)
        return plan is not None

    def _after_levels(self) -> bool:
        session = self.session
        assert session.info is not None
        session.server_facts.after(session.progress.say, resumed=session.earlier.run is not None)
        _run_alone(session, self._target)
        _profile(session, self._target, session.info)
        facts = target_facts(session.config.target, session.info, session.server_facts)
        session.journal.server(facts, load_ended=True)
        return True


def _open_plans(prepared: Prepared, load: LoadConfig, earlier: Earlier) -> Iterable[LevelPlan]:
    """The levels of an open loop that had begun; of a rate search those that it came to."""
    if prepared.planner is None:
        return prepared.plans
    rates = {one.concurrency for one in earlier.timelines.values() if isinstance(one.concurrency, Rate)}
    planner = copy(prepared.planner)
    return [planner.plan(probe_schedule(load, rate.hz)) for rate in rates]


def _stored_load(session: _Session) -> bool:
    """Take the whole load phase from disk, if nothing of it is left to send; whether that is so.

    Raises StoreError for a load that has ended, but lacks requests.
    """
    earlier, parity, config = session.earlier, _parity_phase(session), session.config
    if earlier.server is None or (config.output.profile and not (earlier.load_ended or session.folder.read_profile())):
        return False
    levels, recordings = list[LevelPlan](), list[LevelRecording]()

    def take(plan: LevelPlan, kept: LevelRecording | None) -> LevelRecording | None:
        if kept is None and earlier.load_ended:
            raise StoreError(f"requests of {level_title(plan.concurrency)} are missing, though its load has ended")
        return kept

    for plan in _plans(session, recordings, lambda _: None):
        if (kept := take(plan, earlier.ended(plan) or earlier.answered(plan))) is None:
            return False
        levels.append(plan)
        recordings.append(kept)
    for level in parity.plan(levels, recordings) if parity is not None else ():
        if (kept := take(level.plan, earlier.answered(level.plan))) is None:
            return False
        parity.solos[level.concurrency] = kept
    session.levels_started, session.recordings, session.parity = levels, recordings, parity
    return True


def _parity_phase(session: _Session) -> ParityPhase | None:
    requests = session.config.checks.parity_requests
    return ParityPhase(requests) if requests else None


def _plans(session: _Session, recordings: Sequence[LevelRecording], say: Callable[[str], None]) -> Iterable[LevelPlan]:
    """The levels one after another; in a rate search each depends on the ``recordings`` of those before."""
    prepared = session.prepared
    if prepared.planner is None:
        return prepared.plans
    planner = copy(prepared.planner)  # it deals out the prompts from the first on, whoever asked before
    return probe_plans(planner, session.config.load, session.config.slo, recordings, say)


def _run_one_level(session: _Session, plan: LevelPlan, target: Target) -> None:
    session.levels_started.append(plan)
    kept = session.earlier.ended(plan)
    if kept is not None:
        session.recordings.append(kept)
        return
    session.progress.begin_level(session.earlier.missing(plan))
    try:
        session.recordings.append(session.earlier.drive(plan, lambda left: _drive_level(session, left, target)))
    except (LevelInterrupted, LevelBroken) as error:
        session.recordings.append(error.recording)
        raise
    _check_target(session.recordings[-1], target, f"during {level_title(plan.concurrency)}")
    session.journal.level(session.recordings[-1])


def _drive_level(session: _Session, plan: LevelPlan, target: Target) -> LevelRecording:
    recording = with_bias(_drive(session, plan, target, session.on_event), session.config.client.kind)
    if not recording.target_died and target.is_alive():
        session.server_facts.after_level(recording)
        if session.parity is not None:
            keep_codes(session.parity, target.base_url, recording)
    return recording


def _run_alone(session: _Session, target: Target) -> None:
    """The parity check's requests, after all levels, so that the levels are measured as without it."""
    if session.parity is None:
        return
    send_alone(
        session.parity,
        session.levels_started,
        session.recordings,
        base_url=target.base_url,
        begin=session.progress.begin_alone,
        drive=lambda plan: session.earlier.drive(plan, lambda left: _drive(session, left, target, session.on_alone)),
        check_target=lambda recording: _check_target(recording, target, WHILE_ALONE),
    )


def _profile(session: _Session, target: Target, info: TargetInfo) -> None:
    """Last of all, so that nothing that is measured is traced."""
    if not session.config.output.profile:
        return
    session.progress.say("profile: a few requests once more, while the server takes a trace")
    plan, url = (
        profile_plan(session.levels_started, session.prepared.prompts),
        info.chaos["upstream"] if info.chaos is not None else info.base_url,
    )
    profile = take_profile(
        plan,
        url,
        session.folder.path,
        lambda plan: _drive(session, plan, target, lambda event: None),
        key_of(session.config.client),
    )
    session.folder.write_profile(profile)
    if profile.problem is not None:
        session.progress.say(f"warning: profile: {profile.problem}")


def _drive(session: _Session, plan: LevelPlan, target: Target, on_event: Callable[[LoadEvent], None]) -> LevelRecording:
    config = session.config
    return run_level(
        plan,
        base_url=target.base_url,
        client=config.client,
        spool_dir=session.attempt,
        on_event=on_event,
        is_target_alive=target.is_alive,
        health_path=config.target.health_path,
        workers=config.load.workers,
        ray_address=config.load.ray_address if config.load.engine == RAY else None,
        reuse=session.server_facts.keeps_connections,
    )


def _check_target(recording: LevelRecording, target: Target, when: str) -> None:
    if any(one.error is not None and one.error.kind in ("connect", "disconnected") for one in recording.timelines):
        time.sleep(SETTLE_S)
    if recording.target_died or not target.is_alive():
        raise TargetError(f"the server died {when}: {target.failure()}")


@dataclass(frozen=True)
class _Results:
    levels: list[LevelResult]
    verdicts: Verdicts | None
    problem: BaseException | None
    while_judging: bool = False
    parity: ParityResult | None = None


def _results(session: _Session, problem: BaseException | None, signals: HeldBackSignals, tell: Tell) -> _Results:
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
        return _Results([], None, problem or error)
    levels = [with_expected_pace(level, session.config, session.prepared.prompts) for level in levels]
    levels = in_configured_order(levels, configured_levels(session.config.load, session.prepared.plans))
    try:
        parity = parity_result(session.parity, session.recordings, session.prepared.prompts, requested, tell)
    except Exception as error:
        return _Results(levels, None, problem or error)
    spec = session.prepared.judge
    if problem is not None or spec is None:
        interrupt = KeyboardInterrupt() if signals.received else None
        return _Results(levels, None, problem or interrupt, parity=parity)
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
        return _Results(levels, None, error, while_judging=True, parity=parity)
    finally:
        session.progress.end()
    return _Results(levels, verdicts, None, parity=parity.heard(verdicts, levels) if parity is not None else None)


def _telling(session: _Session, signals: HeldBackSignals) -> Tell:
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


def _write_down(session: _Session, results: _Results, tell: Tell) -> dict[str, Any]:
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
                    target=_target_facts(session),
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
            raise _with_place(results.problem, session)  # noqa: B904 - the second problem stays as its context
        raise


def _target_facts(session: _Session) -> dict[str, Any]:
    if session.info is None and session.earlier.server is not None:
        return dict(session.earlier.server)
    return target_facts(session.config.target, session.info, session.server_facts)


def _resume_command(session: _Session) -> str:
    return f"omni-bench run --resume {shlex.quote(str(session.folder.path))}"


def _with_place(problem: BaseException, session: _Session, *, resumable: bool = False) -> BaseException:
    """The problem as it should reach the user: an interrupt says what it left behind."""
    if isinstance(problem, KeyboardInterrupt):
        place = session.folder.path
        how = f"; go on with: {_resume_command(session)}" if resumable else ""
        return KeyboardInterrupt(f"{session.finished} finished requests are in {place}{how}")
    return problem
