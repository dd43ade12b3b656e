"""What a profile of a server says: profile.json of a run folder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """One stage of a trace, over all of it.

    ``host_ms``: on a thread of the host, without the stages within. What it launched on a GPU: ``launches`` (a graph
    is one), ``syncs`` (calls that wait for it), ``to_host`` (copies to the host's memory) and ``device_ms`` of work;
    None where no GPU was traced.
    """

    name: str
    calls: int
    host_ms: float
    device_ms: float | None = None
    launches: int | None = None
    syncs: int | None = None
    to_host: int | None = None


@dataclass(frozen=True)
class Trace:
    """One trace file, by its path in the run folder.

    ``steps``: decode steps in it, each of which makes a frame of every request in flight; None if the server does not
    mark them. ``wall_ms``: from the first to the last step, or of all. ``device_idle_ms``: of which no GPU worked.
    """

    file: str
    wall_ms: float
    steps: int | None
    device_idle_ms: float | None
    stages: tuple[Stage, ...]


@dataclass(frozen=True)
class RunProfile:
    """Traces of ``completed`` requests, ``concurrency`` at a time, with ``audio_s`` of audio; no figures of speed.

    ``problem``: why there is no trace, or not all of it; None if all went well.
    """

    concurrency: int
    completed: int
    audio_s: float
    traces: tuple[Trace, ...] = ()
    problem: str | None = None
