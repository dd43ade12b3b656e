"""What the load worker tells its parent, one JSON object a line, and the job it is given."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Union

import msgspec

from omni_bench.load.clients.session import WireOptions
from omni_bench.records.level import Level
from omni_bench.records.plan import LevelPlan
from omni_bench.records.recording import LoopLag
from omni_bench.records.timeline import Timeline


@dataclass(frozen=True)
class LevelJob:
    """All that the worker needs for one level.

    ``kind``: the wire form, of :data:`.clients.wire_forms.FORMS`; ``url``: its endpoint. ``api_key_env`` names a
    variable; the key itself is not in a job. ``id_prefix``: of the ids on the wire, so that no two levels share one.

    Where a level has several workers (:mod:`omni_bench.load.shares`), ``slots`` are this one's of a closed loop, and
    ``plan`` is its share. ``tickets_fd``: an inherited file from which they all draw the measured requests of the
    closed loop, each an index into ``plan.measured``. ``gated``: it says :class:`Ready` after its warm-up, and before
    its measured phase, and waits for all others.
    """

    plan: LevelPlan
    kind: str
    url: str
    health_url: str
    spool_dir: str
    options: WireOptions
    api_key_env: str | None
    api_key_header: str
    id_prefix: str = ""
    slots: int | None = None
    tickets_fd: int | None = None
    gated: bool = False


class RequestStarted(msgspec.Struct, frozen=True, tag_field="event", tag="started"):
    """A request is about to be sent (warm-up or measured)."""

    request_id: str
    prompt_id: str
    warmup: bool


class RequestFinished(msgspec.Struct, frozen=True, tag_field="event", tag="finished"):
    """A request ended, failed, or was given up unsent; ``timeline.warmup`` says which phase it belongs to.

    ``spooled``: its audio is on disk.
    """

    timeline: Timeline
    spooled: bool = False


class Ready(msgspec.Struct, frozen=True, tag_field="event", tag="ready"):
    """A gated worker waits for the others; the parent answers all at once with the start, ``{"start_ns": ...}``."""


class WarmupDone(msgspec.Struct, frozen=True, tag_field="event", tag="warmup_done"):
    """The warm-up of a level is over; the measured phase begins."""

    concurrency: Level
    completed: int
    failed: int


class LevelDone(msgspec.Struct, frozen=True, tag_field="event", tag="level_done"):
    """The level is over and its audio is on disk.

    ``window_start_ns``/``window_end_ns`` bound the measured phase; ``lag`` is of that phase
    (None if it was over before the first sample).
    """

    concurrency: Level
    window_start_ns: int
    window_end_ns: int
    lag: LoopLag | None


class WorkerError(msgspec.Struct, frozen=True, tag_field="event", tag="error"):
    """Audio could not be stored; nothing follows."""

    message: str


class EngineFailed(msgspec.Struct, frozen=True, tag_field="event", tag="engine_failed"):
    """The load cannot go on, or cannot begin, for what ``message`` says; nothing follows."""

    message: str


LoadEvent = Union[RequestStarted, RequestFinished, Ready, WarmupDone, LevelDone, WorkerError, EngineFailed]


def write_message(message: LoadEvent | LevelJob) -> bytes:
    """An event or a job as a line of JSON. A lone surrogate (broken text of a server) travels as its escape."""
    try:  # the interpreter lock is held a tenth as long as by the standard library
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(message)).encode() + b"\n"


def read_event(line: bytes) -> LoadEvent:
    """The inverse of :func:`write_message`. Raises ValueError for anything else."""
    return msgspec.convert(json.loads(line), LoadEvent)


def read_job(line: bytes) -> LevelJob:
    """The inverse of :func:`write_message`. Raises ValueError for anything else."""
    return msgspec.convert(json.loads(line), LevelJob)
