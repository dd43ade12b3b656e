"""What the load worker tells its parent, one JSON object a line, and the job it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Union

from omni_bench.load.clients.session import WireOptions
from omni_bench.records.level import Level, level_fields, level_of
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.recording import LoopLag
from omni_bench.records.timeline import Timeline
from omni_bench.records.timeline_json import timeline_from_dict, timeline_to_dict


@dataclass(frozen=True)
class LevelJob:
    """All that the worker needs for one level.

    ``kind``: the wire form, of :data:`.clients.wire_forms.FORMS`; ``url``: its endpoint. ``api_key_env`` names a
    variable; the key itself is never sent.
    """

    plan: LevelPlan
    kind: str
    url: str
    health_url: str
    spool_dir: str
    options: WireOptions
    api_key_env: str | None

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON values."""
        values = asdict(self)
        values["plan"] |= level_fields(self.plan.concurrency)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LevelJob:
        """The inverse of :meth:`to_dict`."""
        plan = values["plan"]
        return cls(
            plan=LevelPlan(
                warmup=tuple(PlannedRequest(**planned) for planned in plan["warmup"]),
                measured=tuple(PlannedRequest(**planned) for planned in plan["measured"]),
                concurrency=level_of(plan),
                max_in_flight=plan["max_in_flight"],
            ),
            kind=values["kind"],
            url=values["url"],
            health_url=values["health_url"],
            spool_dir=values["spool_dir"],
            options=WireOptions(**values["options"]),
            api_key_env=values["api_key_env"],
        )


@dataclass(frozen=True)
class RequestStarted:
    """A request is about to be sent (warm-up or measured)."""

    request_id: str
    prompt_id: str
    warmup: bool


@dataclass(frozen=True)
class RequestFinished:
    """A request ended, failed, or was given up unsent; ``timeline.warmup`` says which phase it belongs to."""

    timeline: Timeline


@dataclass(frozen=True)
class WarmupDone:
    """The warm-up of a level is over; the measured phase begins."""

    concurrency: Level
    completed: int
    failed: int


@dataclass(frozen=True)
class LevelDone:
    """The level is over and its audio is on disk: ``spooled`` are the ids of the requests that have a file.

    ``window_start_ns``/``window_end_ns`` bound the measured phase; ``lag`` is of that phase
    (None if it was over before the first sample).
    """

    concurrency: Level
    window_start_ns: int
    window_end_ns: int
    peak_in_flight: int
    lag: LoopLag | None
    spooled: tuple[str, ...]


@dataclass(frozen=True)
class WorkerError:
    """The worker could not store the audio; nothing follows."""

    message: str


LoadEvent = Union[RequestStarted, RequestFinished, WarmupDone, LevelDone, WorkerError]


def event_to_dict(event: LoadEvent) -> dict[str, Any]:
    """An event as JSON values, with its name under ``event``."""
    if isinstance(event, RequestFinished):
        return {"event": "finished", "timeline": timeline_to_dict(event.timeline)}
    names = {RequestStarted: "started", WarmupDone: "warmup_done", LevelDone: "level_done", WorkerError: "error"}
    values = {"event": names[type(event)], **asdict(event)}
    if isinstance(event, (WarmupDone, LevelDone)):
        values |= level_fields(event.concurrency)
    return values


def event_from_dict(values: Mapping[str, Any]) -> LoadEvent:
    """The inverse of :func:`event_to_dict`. Raises KeyError, TypeError or StoreError for anything else."""
    fields = {name: value for name, value in values.items() if name not in ("event", "rate_hz")}
    if values["event"] in ("warmup_done", "level_done"):
        fields["concurrency"] = level_of(values)
    match values["event"]:
        case "started":
            return RequestStarted(**fields)
        case "finished":
            return RequestFinished(timeline_from_dict(values["timeline"]))
        case "warmup_done":
            return WarmupDone(**fields)
        case "level_done":
            lag = None if fields["lag"] is None else LoopLag(**fields["lag"])
            return LevelDone(**{**fields, "lag": lag, "spooled": tuple(fields["spooled"])})
        case "error":
            return WorkerError(**fields)
        case name:
            raise KeyError(f"unknown event {name!r}")
