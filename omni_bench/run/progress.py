"""What a person sees while a run goes on: bars on a terminal, a line now and then elsewhere.

Everything here goes to stderr. It is fed from the parent process of the load worker, so that
drawing cannot disturb a measurement.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from omni_bench.load.events import LoadEvent, RequestFinished, WarmupDone
from omni_bench.records.level import level_title
from omni_bench.records.plan import LevelPlan
from omni_bench.report.console import TerminalConsole
from omni_bench.terminal import in_lines

LINE_EVERY_S = 15.0
"""Off a terminal, how long nothing is said at most while requests finish."""
BRIEF_S = 3.0
"""A stage after the load that took no longer leaves neither a bar nor a line."""


@dataclass(frozen=True)
class PartOf:
    """Of which whole a run is one part. ``name``: "run 3/10, pair 2/5, before"; ``done``, ``total``: runs of it.

    ``left``: in words how much time is left for all of it, empty if that is not known. ``who``: which one this is of
    runs that take turns.
    """

    name: str
    done: int
    total: int
    left: Callable[[], str]
    who: str = ""


class RunProgress:
    """Levels, requests, judged clips and the time left. Use as ``with``; every method may be called any time.

    ``part_of``: of which whole this run is a part; its bars go when it has ended. ``beside``: that of a run which takes
    turns with this one, whose bars are then those of both: the whole's shows whose turn it is.
    """

    def __init__(
        self, console: Console | None = None, part_of: PartOf | None = None, beside: RunProgress | None = None
    ):
        self._part_of = part_of
        self._beside = beside
        self.console = beside.console if beside is not None else console or TerminalConsole(stderr=True)
        self._live = self.console.is_terminal and not self.console.is_dumb_terminal
        self._shared = beside._shared if beside is not None else _Shared()
        self._bars = (
            beside._bars
            if beside is not None
            else Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(table_column=Column(no_wrap=True)),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(table_column=Column(no_wrap=True)),
                _EtaColumn(compact=True, table_column=Column(no_wrap=True)),
                console=self.console,
                refresh_per_second=4,  # the load worker needs the processor more
                disable=not self._live,
                transient=part_of is not None,
            )
        )
        self._current: _Count | None = None
        self._after_warmup: tuple[str, int] | None = None
        self._levels = 0
        self._level = 0

    def __enter__(self) -> Self:
        if self._beside is not None:
            return self
        self._bars.start()
        if self._part_of is not None:
            part = self._part_of
            self._shared.whole = self._bars.add_task(
                part.name, total=part.total, completed=part.done, note="", left=part.left()
            )
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.end()
        if self._beside is None:
            self._bars.stop()

    def say(self, text: str) -> None:
        """A text of one line, above the bars if there are any."""
        for line in in_lines(text, file=self.console.file):
            self.console.print(line, markup=False, soft_wrap=True)

    def begin_load(self, plans: list[LevelPlan]) -> None:
        """The load phase begins; the overall bar counts warm-up too, as it takes time as well."""
        self._levels = len(plans)
        total = sum(len(plan.warmup) + len(plan.measured) for plan in plans)
        shared = self._shared
        if shared.all_levels is not None:
            shared.requests += total
            self._bars.update(shared.all_levels, total=shared.requests)
        elif len(plans) > 1:
            shared.requests = total
            shared.all_levels = self._bars.add_task("all levels", total=total, note="")

    def begin_level(self, plan: LevelPlan) -> None:
        """The next level begins, with its warm-up."""
        self._level += 1
        if self._part_of is not None and self._shared.whole is not None:
            self._bars.update(self._shared.whole, description=self._part_of.name)
        of = f"/{self._levels}" if self._levels else ""  # a rate search does not know how many
        who = f"{self._part_of.who}: " if self._live and self._part_of is not None and self._part_of.who else ""
        where = f"{who}level {self._level}{of}, {level_title(plan.concurrency)}"
        self._begin(f"{where}: warm-up", len(plan.warmup))
        # WarmupDone comes after a warm-up of no requests too.
        self._after_warmup = (f"{where}: requests", len(plan.measured))

    def begin_alone(self, requests: int) -> None:
        """The levels are over; ``requests`` of them are sent once more, one after another, for the parity check."""
        self._shared.all_levels = None  # the bar of all levels is full
        self._begin("alone, for parity: requests", requests)

    def on_event(self, event: LoadEvent) -> None:
        """Count a request that was answered or failed, and go on from warm-up to measured requests."""
        if isinstance(event, RequestFinished):
            error = event.timeline.error
            if error is not None and error.kind == "cancelled":
                self._cancel()
                return
            self._advance(failed=not event.timeline.ok)
            if self._shared.all_levels is not None:
                self._bars.advance(self._shared.all_levels)
        elif isinstance(event, WarmupDone) and self._after_warmup is not None:
            name, total = self._after_warmup
            self._begin(name, total)

    def begin_judging(self, clips: int, judge: str) -> None:
        """The load phase is over; the judge hears the clips."""
        self._begin(f"judging with {judge}", clips)

    def judged(self, done: int, total: int) -> None:
        """``done`` clips of ``total`` have been transcribed."""
        while self._current is not None and self._current.done < min(done, total):
            self._advance(failed=False)

    def tell(self, stage: str, done: int, total: int) -> None:
        """A stage after the load is at ``done`` of ``total``; another name begins another one.

        A terminal that is gone costs no result.
        """
        with contextlib.suppress(OSError):
            if self._current is None or self._current.name != stage:
                self._begin(stage, total, may_be_brief=True)
            if self._current is not None:
                self._advance(failed=False, by=done - self._current.done)

    def end(self) -> None:
        """The current bar, if any, is over."""
        count = self._current
        if count is not None and count.is_brief():
            self._bars.remove_task(count.task)
        elif count is not None and not self._live and (count.said < count.done or count.cancelled):
            self._say_count(count)
        self._current = None

    def _say_count(self, count: _Count) -> None:
        part = self._part_of
        if part is None:
            self.say(count.line())
        else:
            left = part.left()
            self.say(f"{part.name}: {count.line()}{f'; of the study {left}' if left else ''}")

    def _begin(self, name: str, total: int, *, may_be_brief: bool = False) -> None:
        before = self._current
        if before is not None and before.may_be_brief and before.done < before.total:
            # the stages after the load follow one another: it is over
            self._advance(failed=False, by=before.total - before.done)
        self.end()
        self._after_warmup = None
        if total == 0:
            return
        task = self._bars.add_task(name, total=total, note="")
        self._current = _Count(name, total, task, may_be_brief=may_be_brief)

    def _advance(self, failed: bool, by: int = 1) -> None:
        count = self._current
        if count is None:
            return
        count.done += by
        count.failed += failed
        self._bars.update(count.task, advance=by, note=count.note())
        if self._part_of is not None and self._shared.whole is not None:
            self._bars.update(self._shared.whole, left=self._part_of.left())
        now = time.monotonic()
        if count.done >= count.total:
            count.ended = now
        if not self._live and (count.is_over() or now - count.said_at >= LINE_EVERY_S):
            count.said, count.said_at = count.done, now
            self._say_count(count)

    def _cancel(self) -> None:
        """One request of the current bar was given up after Ctrl-C: neither done nor failed."""
        if self._current is not None:
            self._current.cancelled += 1
            self._bars.update(self._current.task, note=self._current.note())


class _EtaColumn(TimeRemainingColumn):
    """``ETA 00:12``, or what the whole says of itself: "4 min left". The bars alone give way at 80 columns."""

    def render(self, task: Task) -> Text:
        if left := task.fields.get("left"):
            return Text(left.removeprefix("about "), style="progress.remaining")
        return Text.assemble("ETA ", super().render(task))


@dataclass
class _Shared:
    """Bars of all runs that take turns: of the whole that they are part of, and of their levels."""

    whole: TaskID | None = None
    all_levels: TaskID | None = None
    requests: int = 0


class _Count:
    """Progress of one bar, and when a line was last printed about it."""

    def __init__(self, name: str, total: int, task: TaskID, *, may_be_brief: bool = False):
        self.name, self.total, self.task = name, total, task
        self.done = self.failed = self.cancelled = self.said = 0
        self.started = self.said_at = time.monotonic()
        self.ended: float | None = None
        self.may_be_brief = may_be_brief

    def elapsed_s(self) -> float:
        """Since it began, until its last one was done."""
        return (time.monotonic() if self.ended is None else self.ended) - self.started

    def is_brief(self) -> bool:
        """Whether it is not worth a word so far."""
        return self.may_be_brief and self.elapsed_s() < BRIEF_S

    def is_over(self) -> bool:
        """Whether there is nothing left to count, and it is worth a word."""
        return self.done >= self.total and not self.is_brief()

    def note(self) -> str:
        """``1 failed, 3 cancelled``, without what is 0."""
        numbers = {"failed": self.failed, "cancelled": self.cancelled}
        return ", ".join(f"{number} {what}" for what, number in numbers.items() if number)

    def line(self) -> str:
        """``NAME 12/32, 1 failed, about 0:24 left``."""
        elapsed_s = self.elapsed_s()
        parts = [f"{self.name} {self.done}/{self.total}"]
        if note := self.note():
            parts.append(note)
        if self.done < self.total and not self.cancelled:
            left_s = round(elapsed_s / max(self.done, 1) * (self.total - self.done))
            parts.append(f"about {left_s // 60}:{left_s % 60:02d} left")
        else:
            parts.append(f"{elapsed_s:.0f} s")
        return ", ".join(parts)
