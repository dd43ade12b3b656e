"""What a run that was cut short needs to be gone on with: its configuration, and what is known of levels that ended.

The requests themselves are in requests.jsonl and solo.jsonl; their audio, as received, is beside the journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from omni_bench.errors import ConfigError, StoreError, TargetError
from omni_bench.load.runner import LevelBroken, LevelInterrupted
from omni_bench.records.config import RunConfig
from omni_bench.records.convert import plain, structure
from omni_bench.records.jsonl import JsonLinesWriter, read_json_lines
from omni_bench.records.level import Level, Rate
from omni_bench.records.plan import LevelPlan
from omni_bench.records.recording import LevelRecording, LoopLag
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline import Timeline
from omni_bench.records.timeline_json import timeline_from_dict
from omni_bench.run.provenance import cpu_model, harness, usable_cores

NOT_SENT = ("cancelled", "connect")
"""Failures of requests that no server has answered; they are sent again."""


@dataclass(frozen=True)
class Begun:
    """A run as it began. ``directory``: the one that relative paths of ``config`` are of."""

    config: RunConfig
    command: tuple[str, ...]
    started_utc: datetime
    directory: str
    prompts_sha256: str
    harness: dict[str, Any]
    cpu: str | None
    cores: int


@dataclass(frozen=True)
class EndedLevel:
    """What is known of a level that ended, beside its measured requests."""

    concurrency: Level
    lag: LoopLag | None
    warmup: tuple[Timeline, ...]
    measured_before: int = 0


@dataclass(frozen=True)
class _Line:
    """A line of the journal, which has one of these."""

    begun: Begun | None = None
    server: dict[str, Any] | None = None
    level: EndedLevel | None = None
    load_ended: dict[str, Any] | None = None
    measured_s: float | None = None


def begun(config: RunConfig, command: Sequence[str], started_utc: datetime, prompts_sha256: str) -> Begun:
    """The run that begins now, here."""
    now = harness()
    return Begun(config, tuple(command), started_utc, os.getcwd(), prompts_sha256, now, cpu_model(), usable_cores())


class Journal:
    """Written while a run goes on; every method raises StoreError."""

    def __init__(self, folder: RunFolder):
        self._lines = JsonLinesWriter(folder.journal_jsonl)

    def begin(self, run: Begun) -> None:
        """The first line."""
        self._lines.append({"begun": plain(run)})

    def server(self, facts: Mapping[str, Any], *, load_ended: bool = False) -> None:
        """What is known of the server (``provenance.target``) before the load, and once all of it has ended."""
        self._lines.append({"load_ended" if load_ended else "server": dict(facts)})

    def level(self, recording: LevelRecording) -> None:
        """A level has ended."""
        names = ("concurrency", "lag", "warmup", "measured_before")
        ended = EndedLevel(**{name: getattr(recording, name) for name in names})
        self._lines.append({"level": plain(ended)})

    def measured(self, took_s: float) -> None:
        """All is measured, after so many seconds, and is to be judged by another process."""
        self._lines.append({"measured_s": took_s})

    def close(self) -> None:
        """More than once is fine."""
        self._lines.close()


@dataclass(frozen=True)
class Earlier:
    """What is there of a run that is gone on with; nothing for one that begins.

    ``timelines``: of measured requests and those sent alone, by id (``alone``: the ids of those); ``audio``: their
    payload as received. ``server``: what was known of it; ``load_ended``: nothing is left to send; ``measured_s``: how
    long it took until then in one process, None if it did not. ``whole``: begun levels of an open loop whose schedule
    was sent to its end.
    """

    run: Begun | None = None
    levels: Mapping[Level, EndedLevel] = field(default_factory=dict)
    timelines: Mapping[str, Timeline] = field(default_factory=dict)
    audio: Mapping[str, Path] = field(default_factory=dict)
    server: Mapping[str, Any] | None = None
    load_ended: bool = False
    measured_s: float | None = None
    alone: frozenset[str] = frozenset()
    whole: frozenset[Level] = frozenset()

    def with_whole(self, plans: Iterable[LevelPlan]) -> Earlier:
        """With the levels of ``plans`` in :attr:`whole` of which every request was answered."""
        whole = [
            plan.concurrency
            for plan in plans
            if isinstance(plan.concurrency, Rate) and all(map(self._is_answered, self._known(plan)))
        ]
        return replace(self, whole=frozenset(whole))

    def ended(self, plan: LevelPlan) -> LevelRecording | None:
        """The recording of a level that has ended; None for any other."""
        level = self.levels.get(plan.concurrency)
        if level is None or any(one.request_id not in self.timelines for one in plan.measured):
            return None
        return _recording(plan, self.timelines, self.audio, level)

    def drive(self, plan: LevelPlan, drive: Callable[[LevelPlan], LevelRecording]) -> LevelRecording:
        """``drive`` what is missing of ``plan``; all of an open loop, as half of a schedule is another load.

        Raises LevelInterrupted and LevelBroken with the recording of the whole plan, and what ``drive`` raises.
        """
        done = self._finished(plan)
        if not done:
            return drive(plan)
        if (answered := self.answered(plan)) is not None:
            return answered
        left = self.missing(plan)
        try:
            return self._joined(plan, done, drive(left))
        except LevelInterrupted as error:
            raise LevelInterrupted(self._joined(plan, done, error.recording)) from None
        except LevelBroken as error:
            raise LevelBroken(str(error), self._joined(plan, done, error.recording)) from None

    def missing(self, plan: LevelPlan) -> LevelPlan:
        """What :meth:`drive` sends of ``plan``."""
        done = self._finished(plan)
        return replace(plan, measured=tuple(one for one in plan.measured if one.request_id not in done))

    def answered(self, plan: LevelPlan) -> LevelRecording | None:
        """The recording of a level that did not end, but of which nothing is left to send; None for any other.

        Nobody knows how it was measured: it is one in parts.
        """
        done = self._finished(plan)
        if len(done) < len(plan.measured):
            return None
        return _recording(plan, done, self.audio, EndedLevel(plan.concurrency, None, (), len(done)))

    def is_kept(self, timeline: Timeline) -> bool:
        """Whether the request is not sent again: its level has ended, or it was answered and its audio is here.

        An answer whose audio was lost cannot be checked.
        """
        if timeline.concurrency in self.levels and timeline.request_id not in self.alone:
            return True
        in_time = not isinstance(timeline.concurrency, Rate) or timeline.concurrency in self.whole
        return in_time and self._is_answered(timeline)

    def _is_answered(self, timeline: Timeline | None) -> bool:
        if timeline is None or (timeline.error is not None and timeline.error.kind in NOT_SENT):
            return False
        return timeline.request_id in self.audio or not timeline.audio_bytes

    def _known(self, plan: LevelPlan) -> Iterator[Timeline | None]:
        return (self.timelines.get(one.request_id) for one in plan.measured)

    def _finished(self, plan: LevelPlan) -> dict[str, Timeline]:
        return {one.request_id: one for one in self._known(plan) if one is not None and self.is_kept(one)}

    def _joined(self, plan: LevelPlan, done: Mapping[str, Timeline], rest: LevelRecording) -> LevelRecording:
        timelines = {**done, **{one.request_id: one for one in rest.timelines}}
        audio = {name: path for name, path in self.audio.items() if name in done} | rest.audio
        return replace(
            rest,
            timelines=tuple(timelines[one.request_id] for one in plan.measured),
            audio=audio,
            lag=None,
            measured_before=len(done),
        )

    def check(self, prompts_sha256: str, hardware: Mapping[str, Any] | None = None) -> None:
        """Raise ConfigError unless this is the omni-bench, the machine and the data set that the run began with.

        ``hardware``: of the machine; None: what this process sees.
        """
        assert self.run is not None
        cores = usable_cores() if hardware is None else hardware["cpu_cores"]
        now, then = (f"{one.get('version')} {one.get('commit') or ''}" for one in (harness(), self.run.harness))
        here = {
            "omni-bench": (now, then),
            "CPU": (cpu_model(), self.run.cpu),
            "number of CPU cores": (cores, self.run.cores),
            "prompts": (prompts_sha256[:12], self.run.prompts_sha256[:12]),
        }
        for what, (new, old) in here.items():
            if new != old:
                raise ConfigError(
                    f"the run began with another {what} ({old}, now {new}): the levels of a run are measured by one; "
                    "go back to that one, or begin a new run"
                )

    def check_server(self, facts: Mapping[str, Any]) -> None:
        """Raise TargetError if levels ended with another version or model than that of ``facts``."""
        if self.server is None or not self.timelines:
            return
        for what, of in (("version", _version), ("model", _model)):
            if of(facts) != of(self.server):
                raise TargetError(
                    f"the server has another {what} ({of(facts)}) than when the run began ({of(self.server)}); launch "
                    "that one, or begin a new run"
                )


def _version(facts: Mapping[str, Any]) -> Any:
    return facts.get("version"), facts.get("commit")


def _model(facts: Mapping[str, Any]) -> Any:
    for name in ("description", "health", "model"):
        facts = facts.get(name) if isinstance(facts, Mapping) else None
    return facts


def _recording(
    plan: LevelPlan, timelines: Mapping[str, Timeline], audio: Mapping[str, Path], level: EndedLevel
) -> LevelRecording:
    names = [one.request_id for one in plan.measured]
    return LevelRecording(
        concurrency=plan.concurrency,
        timelines=tuple(timelines[name] for name in names),
        warmup=level.warmup,
        audio={name: audio[name] for name in names if name in audio},
        lag=level.lag,
        interrupted=False,
        target_died=False,
        measured_before=level.measured_before,
    )


def read_earlier(folder: RunFolder) -> Earlier:
    """What is there of the run in ``folder``. Raises ConfigError if it has ended, StoreError for damaged files."""
    path = folder.journal_jsonl
    if not path.is_file():
        ended = folder.run_json.is_file()
        why = "the run has ended: nothing is left to do" if ended else f"it has no {path.relative_to(folder.path)}"
        raise ConfigError(f"{folder.path} cannot be gone on with: {why}")
    lines = [
        structure(line, _Line, f"{path}, line {number}") for number, line in enumerate(read_json_lines(path), start=1)
    ]
    if not lines or lines[0].begun is None:
        raise StoreError(f"{path} does not say how the run began; begin a new run")
    measured, alone = (
        [timeline_from_dict(line) for line in folder.read_lines(file)]
        for file in (folder.requests_jsonl, folder.solo_jsonl)
    )
    timelines = [*measured, *alone]
    servers = [found for line in lines for found in (line.server, line.load_ended) if found is not None]
    return Earlier(
        run=lines[0].begun,
        levels={line.level.concurrency: line.level for line in lines if line.level is not None},
        timelines={timeline.request_id: timeline for timeline in timelines},
        audio={
            one.request_id: path
            for one in timelines
            if (path := folder.spooled(one.request_id, one.audio_bytes)) is not None
        },
        server=servers[-1] if servers else None,
        load_ended=any(line.load_ended is not None for line in lines),
        alone=frozenset(one.request_id for one in alone),
        measured_s=next((line.measured_s for line in lines if line.measured_s is not None), None),
    )


def keep_finished(folder: RunFolder, earlier: Earlier) -> None:
    """Take the lines that will be written again out of requests.jsonl and solo.jsonl. Raises StoreError."""
    for file in (folder.requests_jsonl, folder.solo_jsonl):
        lines = folder.read_lines(file)
        kept = [line for line in lines if earlier.is_kept(earlier.timelines[line["request_id"]])]
        if len(kept) < len(lines):
            folder.write_lines(file, kept)
