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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from omni_bench.errors import EXIT_INVALID, EXIT_OK, ConfigError, OmniBenchError, StoreError, TargetError
from omni_bench.load.signals import HeldBackSignals, held_back_signals
from omni_bench.records.config import RunConfig
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.console import print_summary
from omni_bench.run.journal import Earlier, Journal, begun, keep_finished, read_earlier
from omni_bench.run.load_phase import LoadPhase, open_plans, take_stored_load
from omni_bench.run.measure import is_much
from omni_bench.run.prepare import check_room, check_target, prepare
from omni_bench.run.progress import RunProgress
from omni_bench.run.results import judged_results, telling, write_down
from omni_bench.run.session import Session, note_begun, resume_command, with_place
from omni_bench.run.turns import Ended, Measured, Part, Turns
from omni_bench.targets.base import Target


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended that ran to its end."""

    run_dir: Path
    run: dict[str, Any]

    @property
    def exit_code(self) -> int:
        """For the command line: :data:`EXIT_OK` if the run is valid, else :data:`EXIT_INVALID`."""
        return EXIT_OK if self.run["valid"] else EXIT_INVALID


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
    sessions: list[Session] = []
    ended: list[tuple[Mapping[str, Any] | Measured, BaseException | None]] = []
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(RunFolder.create(part.folder)) for part in parts]
        try:
            for part, folder in zip(parts, folders, strict=True):
                beside = sessions[0].progress if sessions else None
                progress = stack.enter_context(RunProgress(part_of=part.part_of, beside=beside))
                sessions.append(_new_session(part.config, folder, part.command, progress, part.target, part.spare))
            with held_back_signals() as signals:
                problems = _take_turns([LoadPhase(session, signals) for session in sessions], turns)
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
            raise with_place(problem, session)
    return [
        document if problem is None else problem if isinstance(problem, OmniBenchError) else None
        for document, problem in ended
    ]


def _can_be_judged_beside(session: Session) -> bool:
    """Whether cores were left free for it, and the judge needs no more than those: not a card that is measured on."""
    judge = session.prepared.judge
    return (
        bool(session.spare)
        and (judge is None or judge.device == "cpu")
        and not session.config.checks.speaker_similarity
    )


def _measured(session: Session, signals: HeldBackSignals) -> tuple[Measured, BaseException | None]:
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


def _take_turns(loads: Sequence[LoadPhase], turns: Turns) -> list[BaseException | None]:
    """Every load phase to its end, or until one breaks; what went wrong with each."""
    sessions = [load.session for load in loads]

    def well() -> bool:
        return all(load.problem is None for load in loads)

    def step(load: LoadPhase, do: Callable[[], bool]) -> bool:
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
def _time_of(session: Session, sessions: Sequence[Session]) -> Iterator[None]:
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
) -> Session:
    """Prepare a run, and write down that it has begun."""
    started_utc, started = datetime.now(UTC), time.monotonic()
    prepared = prepare(config, folder.path, progress.say)
    journal = Journal(folder)
    session = Session(
        config, tuple(command), folder, prepared, progress, started_utc, started, journal, folder.next_attempt()
    )
    session.target, session.spare = target, spare
    note_begun(session)
    journal.begin(begun(config, command, started_utc, prepared.prompts_facts["sha256"]))
    return session


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
) -> Iterator[Session]:
    """The session of a run that is gone on with, within the directory that it began in."""
    first = earlier.run
    assert first is not None
    with _in_directory(first.directory):
        prepared = prepare(first.config, folder.path, progress.say, sends=False)
        earlier.check(prepared.prompts_facts["sha256"], hardware)
        earlier = earlier.with_whole(open_plans(prepared, first.config.load, earlier))
        session = Session(
            config=first.config,
            command=first.command,
            folder=folder,
            prepared=prepared,
            progress=progress,
            started_utc=first.started_utc,
            started=started,
            journal=Journal(folder),
            attempt=folder.next_attempt(),
            earlier=earlier,
            hardware=hardware,
        )
        session.stored = take_stored_load(session)
        if not session.stored:
            check_target(first.config, progress.say)
            check_room(first.config, prepared.plans, prepared.prompts_facts["measured"], folder.path)
        keep_finished(folder, earlier)
        note_begun(session)
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


def _to_the_end(session: Session, *, resumable: bool, keep_unanswered: bool = True) -> dict[str, Any]:
    """All but the preparation; run.json. What the run needs to be gone on with stays if anything cut it short."""
    unanswered = False
    keep = resumable
    try:
        # An interrupt takes effect at once in the load phase and while judging; elsewhere
        # (the server stops, files are written) only a second one does.
        with held_back_signals() as signals:
            (problem,) = [None] if session.stored else _take_turns([LoadPhase(session, signals)], lambda turn: [0])
            unanswered = isinstance(problem, TargetError) and session.info is None and not keep_unanswered
            if unanswered:
                raise problem
            if problem is None and resumable and is_much(session.recordings):
                session.progress.say(
                    f"every answer is in {session.folder.path}: checks and report follow. If they are cut off, go on "
                    f"with them by {resume_command(session)}, or report what is there by "
                    f"omni-bench report {shlex.quote(str(session.folder.path))}; neither needs the server"
                )
            document, problem = _finish(session, problem, signals)
        keep = keep and problem is not None
    except KeyboardInterrupt as interrupt:
        raise with_place(interrupt, session, resumable=resumable) from None
    finally:
        session.journal.close()
        session.folder.end(keep_spool=keep and not unanswered)
        if unanswered:
            session.folder.discard()
    if problem is not None:
        raise with_place(problem, session, resumable=resumable)
    return document


def _finish(
    session: Session, problem: BaseException | None, signals: HeldBackSignals
) -> tuple[dict[str, Any], BaseException | None]:
    """Measure, judge and write down what was recorded: run.json, and what went wrong first."""
    tell = telling(session, signals)
    results = judged_results(session, problem, signals, tell)
    document = write_down(session, results, tell)
    problem = results.problem
    if problem is None and signals.received:
        problem = KeyboardInterrupt()
    return document, problem
