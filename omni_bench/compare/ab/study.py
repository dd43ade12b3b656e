"""The study itself: run after run, a look at the plan's pairs, an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omni_bench.compare.ab.arms import StudyArm, level_in_turn, rotated
from omni_bench.compare.ab.notes import few_for_a_tail, look_line, run_line, stopped_text, study_notes
from omni_bench.compare.ab.order import (
    AFTER,
    BEFORE,
    MAX_ATTEMPTS,
    Broken,
    RunRecord,
    RunState,
    Step,
    attempt_runs,
    good_pairs,
    if_valid,
    is_half,
    last_attempt,
    level_order,
    next_step,
    only_after_is_broken,
)
from omni_bench.compare.ab.pace import Pace, about
from omni_bench.compare.ab.state import JUDGING_LOG, RUNS, SERVERS, Ending, Fallback, StudyState
from omni_bench.compare.ab.words import Judging, Restart
from omni_bench.compare.compare import compare_runs
from omni_bench.compare.load import load_run
from omni_bench.compare.result import EXIT_CODES, Comparison, ComparisonOutcome
from omni_bench.compare.stats.verdicts import Verdict
from omni_bench.compare.views import RunView
from omni_bench.errors import (
    EXIT_INFRASTRUCTURE,
    EXIT_INVALID,
    ComparabilityError,
    OmniBenchError,
    ProtocolError,
    StoreError,
    TargetError,
)
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.records.invalid_reason import Blame, reasons_of
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.beside import JudgingBeside
from omni_bench.run.pinning import CorePinning, spare_cores
from omni_bench.run.progress import PartOf
from omni_bench.run.turns import Ended, Measured, Part, Turns
from omni_bench.targets.base import Target
from omni_bench.targets.gpus import visible_gpus
from omni_bench.targets.kept import KeptServers
from omni_bench.targets.launch import launch_env
from omni_bench.targets.process import OutOfMemory
from omni_bench.targets.room import FreeMemory, Room, RoomCode, free_memory, room_beside

Runner = Callable[[Sequence[Part], Turns], list[Ended]]
"""Does whole runs, several with their levels in turns, as :func:`omni_bench.run.orchestrate.run_in_turns` does.

Raises KeyboardInterrupt for Ctrl-C, and what is no OmniBenchError."""


class _NoRoom(Exception):
    """Two servers do not fit beside each other."""

    def __init__(self, room: Room):
        super().__init__(room.text)
        self.room = room


class _NotStarted(Exception):
    """The server of ``arm``, which was to be kept alive, did not start."""

    def __init__(self, arm: str, error: TargetError):
        super().__init__(str(error))
        self.arm, self.error = arm, error


@dataclass(frozen=True)
class StudyResult:
    """An ended study. ``comparison`` is None if no pair is there to compare."""

    state: StudyState
    ending: Ending
    comparison: Comparison | None
    before: tuple[RunView, ...]
    after: tuple[RunView, ...]


class Study:
    """A study in ``folder``, new or to be gone on with; ``state`` is on disk already. ``say`` shows progress."""

    def __init__(
        self, folder: Path, state: StudyState, runner: Runner, say: Callable[[str], None], pace: Pace | None = None
    ):
        self.folder, self.state = folder, state
        self._pace = pace or Pace()
        self._runner, self._say = runner, say
        self._kept = KeptServers(folder / SERVERS)
        self._kept_for: Step | None = None
        beside = state.judging is Judging.BESIDE
        self._spare = spare_cores([arm.config for arm in state.arms]) if beside else ()
        self._judging = JudgingBeside(self._spare, folder / JUDGING_LOG)
        self._views: dict[str, RunView] = {}
        self._said: set[str] = set(few_for_a_tail(state))

    def go(self) -> StudyResult:
        """Run to the end (a study that has ended gives its result again).

        Raises ComparabilityError if the runs turn out not to be comparable, OmniBenchError for what is wrong here
        rather than with a server, and KeyboardInterrupt; the study can be gone on with after any of them.
        """
        if self.state.ending is not None:
            return self._ended(self.state.ending)
        self._recover()
        try:
            return self._until_the_end()
        finally:
            self._judging.close()
            self._kept.close()

    def _until_the_end(self) -> StudyResult:
        shown, wanted = 0, self.state.plan.wanted_pairs(0, None)
        while True:
            if not is_half(self.state.records):
                at_look = len(good_pairs(if_valid(self.state.records))) in self.state.plan.looks
                self._collect(wanted, wait=at_look or not self._spare)
            pairs = good_pairs(self.state.records)
            comparison = self._compare(pairs) if pairs else None
            wanted = self.state.plan.wanted_pairs(len(pairs), verdict_of(comparison))
            if comparison is not None and len(pairs) > shown:
                shown = len(pairs)
                self._show(comparison, shown)
                if shown in self.state.plan.looks and shown < wanted:
                    self._say(f"no verdict after {shown} pairs: on to {wanted}")
            step = next_step(if_valid(self.state.records), wanted, self.state.start)
            if isinstance(step, Step):
                self._run(step, wanted)
                continue
            if any(one.state is RunState.MEASURED for one in self.state.records):
                self._collect(wanted, wait=True)
                continue
            ending = self._broken(step) if step is not None else self._whole(comparison)
            self._write(replace(self.state, ending=ending))
            return self._ended(ending)

    def _collect(self, wanted: int, *, wait: bool) -> None:
        """Take up what has been judged beside the last runs; with ``wait``, until all is. Raises AccuracyError."""
        measured = {self._path(one): one for one in self.state.records if one.state is RunState.MEASURED}
        for path in measured:
            if path not in self._judging.asked and not was_judged(path):  # left by a study that was cut short
                self._judging.judge(path)
        if wait and self._judging.asked:
            self._say(f"waiting until {len(measured)} run{'s are' if len(measured) > 1 else ' is'} judged")
        while measured:
            for path in [path for path in measured if path not in self._judging.asked]:
                ended = assess(measured.pop(path), RunFolder.open(path).read_run())
                self._write(self.state.with_record(ended))
                self._say(run_line(ended, wanted))
                self._say_if_repeated(ended.pair, ended.attempt)
            if not self._judging.ended(wait=wait) and not wait:
                return

    def _recover(self) -> None:
        """What a killed study left behind: runs that are whole count, any other is put aside and made again.

        Of two that took turns, both.
        """
        running = [one for one in self.state.records if one.state is RunState.RUNNING]
        for record in [one for one in self.state.records if one.state is RunState.MEASURED]:
            folder = RunFolder(self._path(record))
            if not folder.journal_jsonl.is_file() and not folder.run_json.is_file():
                self._put_aside(replace(record, state=RunState.INTERRUPTED))
        whole = [finished_before(self._path(record)) for record in running]
        for record, document in zip(running, whole, strict=True):
            if document is not None and None not in whole:
                self._write(self.state.with_record(assess(record, document)))
            else:
                self._put_aside(replace(record, state=RunState.INTERRUPTED))
        was_asked_for = self.state.extended_from[-1:] == (len(good_pairs(self.state.records)),)
        number = len(self.state.records) + 1
        if self.state.records and not was_asked_for and self.state.resumed[-1:] != (number,):
            self._write(replace(self.state, resumed=(*self.state.resumed, number)))

    def _run(self, step: Step, wanted: int) -> None:
        """Make the next run of a pair; both that are missing where the servers are kept alive."""
        try:
            targets = self._targets(step)
        except _NoRoom as no_room:
            room = no_room.room
            number = len(self.state.records) + 1
            self._write(replace(self.state, fallback=Fallback(room.code, room.text, number)))
            self._say(f"{room.text}: the servers cannot be kept alive side by side ({room.code}); as with restart=run")
            return
        except _NotStarted as not_started:
            records = self._begun(replace(step, arms=(not_started.arm,)))
            self._settle(records, [not_started.error], wanted, time.monotonic())
            return
        records = self._begun(step if self.state.kept else replace(step, arms=step.arms[:1]))
        started = time.monotonic()
        part_of = [self._part_of(record, wanted, started) for record in records]
        arms = [record.arm for record in records]
        parts = [
            Part(
                config=rotated(self.state.arm(record.arm).config, step.pair),
                folder=self._path(record),
                command=self.state.arm(record.arm).run_command,
                part_of=of,
                target=targets.get(record.arm),
                spare=self._spare,
            )
            for record, of in zip(records, part_of, strict=True)
        ]

        def turns(turn: int) -> list[int]:
            order = level_order(step.pair, level_in_turn(parts[0].config, turn), self.state.start)
            return [arms.index(arm) for arm in order if arm in arms]

        try:
            ended = self._runner(parts, turns)
            for one in ended:
                if isinstance(one, OmniBenchError) and not isinstance(one, (TargetError, ProtocolError)):
                    raise one
        except (OmniBenchError, OSError, KeyboardInterrupt):
            for record in records:
                self._put_aside(replace(record, state=RunState.INTERRUPTED))
            raise
        self._settle(records, ended, wanted, started)

    def _begun(self, step: Step) -> list[RunRecord]:
        """The records of the runs that begin now, on disk."""
        started_utc = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        first = len(self.state.records) + 1
        records = [
            RunRecord(
                number,
                step.pair,
                step.attempt,
                arm,
                f"{number:02d}-{arm}",
                RunState.RUNNING,
                started_utc,
                in_turns=len(step.arms) > 1,
            )
            for number, arm in enumerate(step.arms, start=first)
        ]
        state = self.state
        for record in records:
            state = state.with_record(record)
        self._write(state)
        return records

    def _settle(self, records: Sequence[RunRecord], ended: Sequence[Ended], wanted: int, started: float) -> None:
        """Write down and say how runs ended."""
        took_s = (time.monotonic() - started) / len(records)
        state, aside = self.state, []
        for record, how in zip(records, ended, strict=True):
            if how is None:
                aside.append(replace(record, state=RunState.INTERRUPTED))
            elif isinstance(how, OmniBenchError):
                why = (str(how).splitlines()[0],)
                aside.append(replace(record, state=RunState.FAILED, reasons=why, content=False))
            elif isinstance(how, Measured):
                state = state.with_record(replace(record, state=RunState.MEASURED, judged_on=len(self._spare)))
                self._pace.add(took_s)
            else:
                state = state.with_record(assess(record, how))
                self._pace.add(took_s)
        if aside:
            self._kept.close()  # the repetition begins anew
        self._write(state)
        for record in aside:
            self._put_aside(record)
        for how in ended:
            if isinstance(how, Measured):
                self._judging.judge(how.folder)
        for record in self.state.records[-len(records) :]:
            if record.state is not RunState.INTERRUPTED:
                self._say(f"{run_line(record, wanted)} ({took_s:.0f} s)")
        self._say_if_repeated(records[0].pair, records[0].attempt)

    def _say_if_repeated(self, pair: int, attempt: int) -> None:
        runs = attempt_runs(self.state.records, pair, attempt).values()
        if any(one.state is RunState.MEASURED for one in runs):
            return
        failed = any(one.state is RunState.FAILED for one in runs)
        invalid = len(runs) == 2 and any(one.state is RunState.INVALID for one in runs)
        if (failed or invalid) and attempt < MAX_ATTEMPTS:
            self._say(f"pair {pair} is repeated once")

    def _targets(self, step: Step) -> dict[str, Target]:
        """The servers that are kept for this pair by arm, started now unless they run; none where each run has its own.

        Both are up before either is measured, so that each has an idle neighbour. Raises _NoRoom, _NotStarted.
        """
        if not self.state.kept:
            return {}
        pair = replace(step, arms=())
        if self.state.restart is Restart.PAIR and pair != self._kept_for:
            self._kept.close()
        self._kept_for = pair
        launched = [arm for arm in self.state.arms if arm.fresh]
        if not all(arm.name in self._kept for arm in launched):
            self._start(launched)
        return {arm.name: self._kept.target(arm.name) for arm in launched}

    def _start(self, arms: Sequence[StudyArm]) -> None:
        """Start the servers of ``arms``, the second if there is room for it beside the first."""
        before = free_memory()
        for number, arm in enumerate(arms):
            if number:
                room = _room(before, free_memory(), arms[0], arm)
                if room.code is RoomCode.UNKNOWN:
                    self._say(f"whether two servers fit beside each other is tried, as {room.text}")
                if room.too_little:
                    self._kept.close()
                    raise _NoRoom(room)
            self._open(arm, beside=number > 0)

    def _open(self, arm: StudyArm, *, beside: bool) -> None:
        pinning = CorePinning(arm.config.target.cores)
        try:
            pinning.to_server()
            if self._kept.open(arm.name, arm.config):
                self._say(f"started the server of {arm.name}, which stays alive")
        except TargetError as error:
            if beside and isinstance(error, OutOfMemory):
                text = f"the server of {arm.name} ran out of memory at its start, beside the other one"
                raise _NoRoom(Room(RoomCode.OUT_OF_MEMORY, text)) from None
            hint = f"restart={self.state.restart}, beside the other one (restart=run gives each the machine alone): "
            raise _NotStarted(arm.name, TargetError(f"{hint if beside else ''}{error}")) from None
        finally:
            pinning.end()

    def _part_of(self, record: RunRecord, wanted: int, started: float) -> PartOf:
        runs = attempt_runs(self.state.records, record.pair, record.attempt)  # this one is recorded already
        earlier = [one for one in runs.values() if one.number < record.number]
        at_once = sum(one.state is RunState.RUNNING for one in runs.values())
        done = 2 * len(good_pairs(self.state.records)) + len(earlier)
        total = 2 * wanted
        first = done - sum(one.state is RunState.RUNNING for one in earlier)
        again = ", repeated" if record.attempt > 1 else ""

        def left() -> str:
            left_s = self._pace.left_s(total - first, time.monotonic() - started, at_once)
            return "" if left_s is None else f"{about(left_s)} left"

        name = f"run {done + 1}/{total}, pair {record.pair}/{wanted}{again}, {record.arm}"
        return PartOf(name, first, total, left, record.arm if at_once > 1 else "")

    def _put_aside(self, record: RunRecord) -> None:
        """Rename the folder of a run that counts for nothing, so that what is left in runs/ are the runs."""
        path = self._path(record)
        name = f"{record.folder}.{record.state}"
        with os_errors_as_store_errors("rename", path):
            if path.is_dir():
                path.rename(path.with_name(name))
                record = replace(record, folder=name)
        self._write(self.state.with_record(record))

    def _compare(self, pairs: Sequence[tuple[RunRecord, RunRecord]]) -> Comparison:
        before, after = self._arms(pairs)
        return compare_runs(before, after, look=self.state.plan.look(len(pairs)))

    def _arms(self, pairs: Sequence[tuple[RunRecord, RunRecord]]) -> tuple[list[RunView], list[RunView]]:
        return [self._view(first) for first, _ in pairs], [self._view(second) for _, second in pairs]

    def _view(self, record: RunRecord) -> RunView:
        if record.folder not in self._views:
            view = load_run(self._path(record))
            self._views[record.folder] = replace(view, source=f"{RUNS}/{record.folder}")
        return self._views[record.folder]

    def _show(self, comparison: Comparison, pairs: int) -> None:
        self._say(look_line(comparison, pairs))
        for note in comparison.notes:
            if note not in self._said:
                self._said.add(note)
                self._say(f"  note: {note}")

    def _whole(self, comparison: Comparison | None) -> Ending:
        assert comparison is not None  # a plan has at least one pair
        return Ending(str(comparison.outcome), EXIT_CODES[comparison.outcome])

    def _broken(self, step: Broken) -> Ending:
        """A pair that failed twice: what after says is wrong of itself is its own failure, all else is ours."""
        _, comparison = self._at_the_end()
        outcome = str(comparison.outcome) if comparison is not None else None
        bad = dict.fromkeys(
            f"{one.arm}: {one.reasons[0] if one.reasons else one.state}"
            for one in self.state.records
            if one.pair == step.pair and one.state in (RunState.INVALID, RunState.FAILED)
        )
        why = f"pair {step.pair} came to nothing in {MAX_ATTEMPTS} attempts"
        told = "; ".join(bad)
        wrong = (ComparisonOutcome.HARD_FAILURE, ComparisonOutcome.AFTER_BROKEN)
        hard = comparison is not None and comparison.outcome in wrong
        if hard or only_after_is_broken(self.state.records, step.pair):
            return Ending(outcome, EXIT_INVALID, f"{why}, as {AFTER} is broken where {BEFORE} is not: {told}")
        return Ending(outcome, EXIT_INFRASTRUCTURE, f"{why}: {told}")

    def _at_the_end(self) -> tuple[list[tuple[RunRecord, RunRecord]], Comparison | None]:
        """The good pairs, with the last attempt at one that is broken if it can be shown beside them."""
        good = good_pairs(self.state.records)
        wanted = max((one.pair for one in self.state.records), default=0)
        last = last_attempt(self.state.records, wanted) if len(good) < wanted else None
        if last is not None:
            try:
                return [*good, last], self._compare([*good, last])
            except ComparabilityError:  # a run that is invalid may be so for lack of any level
                pass
        return good, self._compare(good) if good else None

    def _ended(self, ending: Ending) -> StudyResult:
        pairs, comparison = self._at_the_end()
        if comparison is None:
            return StudyResult(self.state, ending, None, (), ())
        before, after = self._arms(pairs)
        comparison = replace(
            comparison,
            notes=(*study_notes(self.state), *comparison.notes),
            stopped=stopped_text(self.state, len(pairs), ending.exit_code == EXIT_INVALID) if ending.why else None,
        )
        return StudyResult(self.state, ending, comparison, tuple(before), tuple(after))

    def _path(self, record: RunRecord) -> Path:
        return self.folder / RUNS / record.folder

    def _write(self, state: StudyState) -> None:
        self.state = state
        state.write(self.folder)


def _room(before: FreeMemory, after: FreeMemory, first: StudyArm, second: StudyArm) -> Room:
    """Whether the server of ``second`` fits beside that of ``first``."""
    seen = [[gpu.uuid for gpu in visible_gpus(launch_env(arm.config.target)) or ()] for arm in (first, second)]
    return room_beside(before, after, *seen)


def verdict_of(comparison: Comparison | None) -> Verdict | None:
    """The outcome as the plan takes it; None for one that no further pair would change."""
    if comparison is None or comparison.outcome.name not in Verdict.__members__:
        return None
    return Verdict[comparison.outcome.name]


def assess(record: RunRecord, run: Mapping[str, Any]) -> RunRecord:
    """The record of a run that came to its end."""
    if run["valid"]:
        return replace(record, state=RunState.DONE, reasons=(), content=False)
    content = any(reason.blame != Blame.CLIENT for level in run["levels"] for reason in reasons_of(level))
    return replace(record, state=RunState.INVALID, reasons=tuple(map(str, reasons_of(run))), content=content)


def was_judged(folder: Path) -> bool:
    """Whether a run whose load had ended has been judged: what it was gone on with is gone, and run.json is there."""
    run = RunFolder(folder)
    return run.run_json.is_file() and not run.journal_jsonl.exists()


def finished_before(folder: Path) -> Mapping[str, Any] | None:
    """The run.json of a run that was killed after it had ended, if it is there, sound and valid; else None.

    An invalid one may be so because it was cut short.
    """
    try:
        run = RunFolder.open(folder).read_run()
    except StoreError:
        return None
    return run if run["valid"] else None
