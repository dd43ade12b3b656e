"""The study itself: run after run, a look at the plan's pairs, an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from omni_bench.compare.ab.arms import StudyArm, rotated
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
    last_attempt,
    next_step,
    only_after_is_broken,
)
from omni_bench.compare.ab.pace import Pace, about
from omni_bench.compare.ab.state import RUNS, SERVERS, Ending, StudyState
from omni_bench.compare.ab.words import Restart
from omni_bench.compare.compare import compare_runs
from omni_bench.compare.load import load_run
from omni_bench.compare.result import Comparison, ComparisonOutcome
from omni_bench.compare.stats.verdicts import Verdict
from omni_bench.compare.views import RunView
from omni_bench.errors import (
    EXIT_INFRASTRUCTURE,
    EXIT_INVALID,
    EXIT_OK,
    ComparabilityError,
    OmniBenchError,
    ProtocolError,
    StoreError,
    TargetError,
)
from omni_bench.records.config import RunConfig
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.records.invalid_reason import Blame, reasons_of
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.pinning import CorePinning
from omni_bench.run.progress import PartOf
from omni_bench.targets.base import Target
from omni_bench.targets.kept import KeptServers

EXIT_INCONCLUSIVE = 2
EXIT_CODES = {
    ComparisonOutcome.NO_REGRESSION: EXIT_OK,
    ComparisonOutcome.IMPROVEMENT: EXIT_OK,
    ComparisonOutcome.REGRESSION: EXIT_INVALID,
    ComparisonOutcome.HARD_FAILURE: EXIT_INVALID,
    ComparisonOutcome.AFTER_BROKEN: EXIT_INVALID,
    ComparisonOutcome.NO_CLAIM: EXIT_INVALID,
    ComparisonOutcome.INCONCLUSIVE: EXIT_INCONCLUSIVE,
    ComparisonOutcome.ADVISORY: EXIT_INCONCLUSIVE,
}
"""As those of the gate: 0 pass, 1 regression or broken, 2 nothing can be said, 3 infrastructure."""


class Runner(Protocol):
    """Does one whole run and gives its run.json."""

    def __call__(
        self, config: RunConfig, folder: Path, command: Sequence[str], part_of: PartOf, target: Target | None = None
    ) -> Mapping[str, Any]:
        """``part_of``: for its progress; ``target``: a server that is kept alive, None for one of its own.

        Raises OmniBenchError for a run that came to no end, KeyboardInterrupt for Ctrl-C.
        """


@dataclass(frozen=True)
class StudyResult:
    """An ended study. ``comparison`` is None if no pair is there to compare."""

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
            self._kept.close()

    def _until_the_end(self) -> StudyResult:
        shown = 0
        while True:
            pairs = good_pairs(self.state.records)
            comparison = self._compare(pairs) if pairs else None
            wanted = self.state.plan.wanted_pairs(len(pairs), verdict_of(comparison))
            if comparison is not None and len(pairs) > shown:
                shown = len(pairs)
                self._show(comparison, shown)
                if shown in self.state.plan.looks and shown < wanted:
                    self._say(f"no verdict after {shown} pairs: on to {wanted}")
            step = next_step(self.state.records, wanted, self.state.start)
            if isinstance(step, Step):
                self._run(step, wanted)
                continue
            ending = self._broken(step) if step is not None else self._whole(comparison)
            self._write(replace(self.state, ending=ending))
            return self._ended(ending)

    def _recover(self) -> None:
        """What a killed study left behind: a run that is whole counts, any other is put aside and made again."""
        for record in self.state.records:
            if record.state is RunState.RUNNING:
                whole = finished_before(self._path(record))
                if whole is not None:
                    self._write(self.state.with_record(assess(record, whole)))
                else:
                    self._put_aside(replace(record, state=RunState.INTERRUPTED))
        was_asked_for = self.state.extended_from[-1:] == (len(good_pairs(self.state.records)),)
        if self.state.records and not was_asked_for:
            number = len(self.state.records) + 1
            self._write(replace(self.state, resumed=(*self.state.resumed, number)))

    def _run(self, step: Step, wanted: int) -> None:
        number = len(self.state.records) + 1
        started_utc = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = f"{number:02d}-{step.arm}"
        record = RunRecord(number, step.pair, step.attempt, step.arm, name, RunState.RUNNING, started_utc)
        self._write(self.state.with_record(record))
        arm = self.state.arm(step.arm)
        started = time.monotonic()
        try:
            part_of = self._part_of(step, wanted, started)
            target = self._server(step)
            document = self._runner(
                rotated(arm.config, step.pair), self._path(record), arm.run_command, part_of, target
            )
            ended = assess(record, document)
            self._pace.add(time.monotonic() - started)
        except (TargetError, ProtocolError) as error:
            ended = replace(record, state=RunState.FAILED, reasons=(str(error).splitlines()[0],), content=False)
        except (OmniBenchError, OSError, KeyboardInterrupt):
            self._put_aside(replace(record, state=RunState.INTERRUPTED))
            raise
        if ended.state is RunState.FAILED:
            self._kept.close()  # the repetition begins anew
            self._put_aside(ended)
        else:
            self._write(self.state.with_record(ended))
        self._say(f"{run_line(ended, wanted)} ({time.monotonic() - started:.0f} s)")
        runs = attempt_runs(self.state.records, step.pair, step.attempt)
        bad = ended.state is RunState.FAILED or (
            len(runs) == 2 and any(one.state is RunState.INVALID for one in runs.values())
        )
        if bad and step.attempt < MAX_ATTEMPTS:
            self._say(f"pair {step.pair} is repeated once")

    def _server(self, step: Step) -> Target | None:
        """The server that is kept for this run, started now unless it runs; None for one of its own.

        Both are up before either is measured, so that each has an idle neighbour.
        """
        restart = self.state.restart
        if restart is Restart.RUN or not self.state.arm(step.arm).fresh:
            return None
        pair = replace(step, arm="")
        if restart is Restart.PAIR and pair != self._kept_for:
            self._kept.close()
        self._kept_for = pair
        for arm in self.state.arms:
            if arm.fresh:
                self._open(arm)
        return self._kept.target(step.arm)

    def _open(self, arm: StudyArm) -> None:
        pinning = CorePinning(arm.config.target.cores)
        try:
            pinning.to_server()
            if self._kept.open(arm.name, arm.config):
                self._say(f"started the server of {arm.name}, which stays alive")
        except TargetError as error:
            raise TargetError(
                f"restart={self.state.restart}: the server of {arm.name} cannot be kept alive beside the other one "
                f"(restart=run gives each the machine alone): {error}"
            ) from None
        finally:
            pinning.end()

    def _part_of(self, step: Step, wanted: int, started: float) -> PartOf:
        done = 2 * len(good_pairs(self.state.records))
        done += len(attempt_runs(self.state.records, step.pair, step.attempt)) - 1  # this one is recorded already
        total = 2 * wanted
        again = ", repeated" if step.attempt > 1 else ""

        def left() -> str:
            left_s = self._pace.left_s(total - done, time.monotonic() - started)
            return "" if left_s is None else f"{about(left_s)} left"

        return PartOf(f"run {done + 1}/{total}, pair {step.pair}/{wanted}{again}, {step.arm}", done, total, left)

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
            return StudyResult(ending, None, (), ())
        before, after = self._arms(pairs)
        comparison = replace(
            comparison,
            notes=(*study_notes(self.state), *comparison.notes),
            stopped=stopped_text(self.state, len(pairs), ending.exit_code == EXIT_INVALID) if ending.why else None,
        )
        return StudyResult(ending, comparison, tuple(before), tuple(after))

    def _path(self, record: RunRecord) -> Path:
        return self.folder / RUNS / record.folder

    def _write(self, state: StudyState) -> None:
        self.state = state
        state.write(self.folder)


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


def finished_before(folder: Path) -> Mapping[str, Any] | None:
    """The run.json of a run that was killed after it had ended, if it is there, sound and valid; else None.

    An invalid one may be so because it was cut short.
    """
    try:
        run = RunFolder.open(folder).read_run()
    except StoreError:
        return None
    return run if run["valid"] else None
