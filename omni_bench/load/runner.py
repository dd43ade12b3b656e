"""The parent side of the load phase: starts the workers of a level, listens to them, and leaves none behind."""

from __future__ import annotations

import os
import queue
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_bench.errors import ConfigError, OmniBenchError, StoreError
from omni_bench.load.clients.session import WireOptions
from omni_bench.load.clients.urls import server_root, url_problem
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.load.events import (
    EngineFailed,
    LevelDone,
    LevelJob,
    LoadEvent,
    Ready,
    RequestFinished,
    WarmupDone,
    WorkerError,
    read_event,
    write_message,
)
from omni_bench.load.files import allow_files, connections_of
from omni_bench.load.process import WorkerProcess
from omni_bench.load.ray_cluster import ENGINE, ray_arguments
from omni_bench.load.shares import split, workers_for
from omni_bench.load.signals import HeldBackSignals, held_back_signals
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.recording import LevelRecording, LoopLag, unsent_timeline
from omni_bench.records.timeline import RequestError, Timeline

if TYPE_CHECKING:
    from omni_bench.records.config import ClientConfig

POLL_S = 0.1  # how soon an interrupt is noticed
TARGET_CHECK_S = 0.5
STOP_GRACE_S = 10.0  # what a worker that was told to stop may take to spool and end
START_IN_NS = 20_000_000  # from "all are ready" to the start: for the word to reach every worker

WORKER_DIED = RequestError("cancelled", "a load worker ended early")
INTERRUPTED = RequestError("cancelled", "the run was interrupted")
TARGET_DIED = RequestError("disconnected", "the server died while the request was in flight")
TARGET_DIED_UNSENT = RequestError("connect", "not sent: the server had died")


class LevelInterrupted(KeyboardInterrupt):
    """Ctrl-C during a level. ``recording`` holds what was finished; the rest is ``cancelled`` in it."""

    def __init__(self, recording: LevelRecording):
        super().__init__("interrupted")
        self.recording = recording


class LevelBroken(OmniBenchError):
    """A load worker ended early. ``recording`` holds what was finished; the rest is ``cancelled`` in it."""

    def __init__(self, message: str, recording: LevelRecording):
        super().__init__(message)
        self.recording = recording


def run_level(
    plan: LevelPlan,
    *,
    base_url: str,
    client: ClientConfig,
    spool_dir: Path,
    on_event: Callable[[LoadEvent], None],
    is_target_alive: Callable[[], bool] | None = None,
    health_path: str = "/health",
    workers: int | None = 1,
    ray_address: str | None = None,
    reuse: bool = True,
) -> LevelRecording:
    """Run one level in ``workers`` processes (None: as :func:`workers_for` has it) and return its raw facts.

    Their clocks are one, as all are processes of this machine (CLOCK_MONOTONIC), and so is the start of the measured
    phase. In a closed loop they draw from one queue of requests. ``ray_address``: spread them over the nodes of that
    Ray cluster (:mod:`omni_bench.load.ray_engine`); each node then has its part of the plan. ``reuse``: whether the
    server keeps connections for a next request.

    ``on_event`` is called in this thread with each event as it comes; the load does not wait
    for it. Every request of the plan gets a RequestFinished event, also one that was given
    up unsent, unless the worker had to be killed. ``is_target_alive`` is asked twice a
    second and must answer at once; when it says no, what is in flight fails as
    ``disconnected`` and what is unsent as ``connect``, without waiting for a timeout, and
    the recording says ``target_died``. ``spool_dir`` is created; the audio of request ID is
    left in it as ``ID.pcm``.

    SIGINT, and SIGTERM and SIGHUP where the program handles them, are held back while a level runs in the
    main thread: the workers stop, finished requests keep their audio, and
    :class:`LevelInterrupted` (a KeyboardInterrupt) is raised with the recording. A second
    signal takes its usual effect at once; the workers are killed then.

    Raises ConfigError (bad URL or key, too few open files allowed), StoreError (audio cannot be written),
    LevelBroken (a worker crashed, with the end of its stderr, or a node of the cluster is gone), and
    whatever ``on_event`` raises.
    """
    job = make_job(plan, base_url, client, spool_dir, health_path, reuse=reuse)
    allow_files(connections_of(plan))
    try:
        spool_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder for audio {spool_dir}: {error}") from None
    count = 1 if ray_address is not None else workers_for(plan, workers, len(os.sched_getaffinity(0)))
    level = LevelEvents(plan, on_event, is_target_alive, count)
    lines: Lines = queue.SimpleQueue()
    with held_back_signals() as signals, ExitStack() as stack:
        jobs, pass_fds = [job], ()
        if count > 1:
            jobs, pass_fds = split(job, count, stack)
        arguments = ("omni_bench.load.worker", ())
        if ray_address is not None:  # one process here, which has load workers on the nodes of a cluster
            arguments = (ENGINE, ray_arguments(ray_address, workers))
        started = [stack.enter_context(WorkerProcess(write_message(one), lines, pass_fds, *arguments)) for one in jobs]
        level.listen(started, lines, signals)
    recording = level.recording(spool_dir, interrupted=signals.received)
    if recording.interrupted:
        raise LevelInterrupted(recording)
    if level.broken is not None:
        raise LevelBroken(level.broken, recording)
    return recording


def check_api_key(client: ClientConfig) -> None:
    """Raise ConfigError if the variable that ``client`` names holds no key that a header can carry."""
    if client.api_key_env is None:
        return
    if not client.api_key_env.isidentifier():  # may be the key itself, which is not to be repeated
        raise ConfigError("client.api_key_env takes the name of an environment variable, not the key itself")
    key = os.environ.get(client.api_key_env, "")
    if not key.isascii() or not key.isprintable() or not key.strip():
        raise ConfigError(
            f"client.api_key_env={client.api_key_env}: that environment variable is not set, or not a usable key"
        )


def make_job(
    plan: LevelPlan, base_url: str, client: ClientConfig, spool_dir: Path, health_path: str, *, reuse: bool = True
) -> LevelJob:
    """The worker's job, checked. Raises ConfigError for a URL or a key that cannot work."""
    problem = url_problem(base_url)
    if problem is not None:
        raise ConfigError(f"the target's URL {problem}")
    check_api_key(client)
    return LevelJob(
        plan=plan,
        kind=client.kind,
        url=FORMS[client.kind].url(base_url),
        health_url=server_root(base_url) + "/" + health_path.lstrip("/"),
        spool_dir=str(spool_dir.absolute()),
        options=WireOptions(
            sample_rate_hz=client.sample_rate_hz,
            request_timeout_s=client.request_timeout_s,
            connect_timeout_s=client.connect_timeout_s,
            max_audio_s=client.max_audio_s,
            stall_timeout_s=client.stall_timeout_s,
            content_types=tuple(one.strip().lower() for one in client.content_types),
            reuse=reuse,
        ),
        api_key_env=client.api_key_env,
        api_key_header=client.api_key_header,
        id_prefix=f"{secrets.token_hex(6)}-",
    )


Lines = queue.SimpleQueue[tuple[WorkerProcess, bytes]]


class LevelEvents:
    """Collects the events of one level and decides when to stop it. ``broken``: how a worker ended early, if one did.

    What each worker says of its share of the warm-up and of the level is passed on as one event of the whole.
    """

    def __init__(
        self,
        plan: LevelPlan,
        on_event: Callable[[LoadEvent], None],
        is_target_alive: Callable[[], bool] | None,
        workers: int,
        start_in_ns: int = START_IN_NS,
    ) -> None:
        self._plan = plan
        self._on_event = on_event
        self._is_target_alive = is_target_alive
        self._workers = workers
        self._start_in_ns = start_in_ns
        self._timelines: dict[str, Timeline] = {}
        self._spooled: list[str] = []
        self._warm: list[WarmupDone] = []
        self._ready: list[WorkerProcess] = []
        self._done: dict[WorkerProcess, LevelDone] = {}
        self.broken: str | None = None
        self._told_to_stop = False
        self._target_died = False
        self._stop_by_s: float | None = None
        self._next_check_s = time.monotonic() + TARGET_CHECK_S

    def listen(self, workers: Sequence[WorkerProcess], lines: Lines, signals: HeldBackSignals) -> None:
        """Handle events until all workers have ended. Raises StoreError and OmniBenchError."""
        running = set(workers)
        while running:
            self._stop_if_needed(workers, signals)
            try:
                worker, line = lines.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if line != b"":
                self._handle(line, worker)
                continue
            running.discard(worker)
            self._ended(worker, workers)

    def _ended(self, worker: WorkerProcess, workers: Sequence[WorkerProcess]) -> None:
        status = worker.wait(STOP_GRACE_S)
        crashed = status is not None and status > 0
        if worker in self._done or (self._stop_by_s is not None and not crashed):
            return
        self.broken = self.broken or worker.why_ended(status)
        if self._stop_by_s is None:  # the others would make another load than was asked for
            self._stop(workers)

    def _stop(self, workers: Sequence[WorkerProcess]) -> None:
        for worker in workers:
            worker.terminate()
        self._stop_by_s = time.monotonic() + STOP_GRACE_S

    def recording(self, spool_dir: Path, interrupted: bool) -> LevelRecording:
        """What was collected; requests that no worker said anything about any more get the reason of the stop."""
        unheard_of = INTERRUPTED if interrupted else WORKER_DIED if self.broken is not None else TARGET_DIED_UNSENT
        return LevelRecording(
            concurrency=self._plan.concurrency,
            timelines=tuple(self._timeline(planned, unheard_of) for planned in self._plan.measured),
            warmup=tuple(self._timeline(planned, unheard_of) for planned in self._plan.warmup),
            audio={request_id: spool_dir / f"{request_id}.pcm" for request_id in self._spooled},
            lag=self._lag(),
            interrupted=interrupted,
            target_died=self._target_died,
        )

    def _lag(self) -> LoopLag | None:
        """Of the worker that lagged most; None as long as one has not said."""
        lags = [done.lag for done in self._done.values() if done.lag is not None]
        if not lags or len(lags) < self._workers:
            return None
        return replace(max(lags, key=lambda lag: lag.p99_ms), workers=sum(lag.workers for lag in lags))

    def _timeline(self, planned: PlannedRequest, error: RequestError) -> Timeline:
        known = self._timelines.get(planned.request_id)
        if known is not None:
            return known
        return unsent_timeline(planned, self._plan.concurrency, error, time.perf_counter_ns())

    def _handle(self, line: bytes, worker: WorkerProcess) -> None:
        if not line.endswith(b"\n"):  # a worker that was killed in the middle of a line; its end is noticed next
            return
        try:
            event = read_event(line)
        except ValueError as error:
            shown = line[:200].decode("utf-8", errors="replace")
            raise OmniBenchError(
                f"the load worker said {shown!r}, which is no event ({error}); {worker.stderr_tail()}"
            ) from error
        if isinstance(event, WorkerError):
            raise StoreError(event.message)
        if isinstance(event, EngineFailed):
            self.broken = event.message
            return
        if isinstance(event, RequestFinished):
            self._timelines[event.timeline.request_id] = event.timeline
            if event.spooled:
                self._spooled.append(event.timeline.request_id)
        of_all = self._of_all(event, worker)
        if of_all is not None:
            self._on_event(of_all)

    def _of_all(self, event: LoadEvent, worker: WorkerProcess) -> LoadEvent | None:
        """``event`` as it is of the whole level; None while other workers have not come as far."""
        if isinstance(event, Ready):
            self._ready.append(worker)
            if len(self._ready) == self._workers:
                start_ns = time.perf_counter_ns() + self._start_in_ns
                for one in self._ready:
                    one.send({"start_ns": start_ns})
                self._ready.clear()
            return None
        if isinstance(event, WarmupDone):
            self._warm.append(event)
            if len(self._warm) < self._workers:
                return None
            completed, failed = sum(one.completed for one in self._warm), sum(one.failed for one in self._warm)
            return WarmupDone(event.concurrency, completed, failed)
        if isinstance(event, LevelDone):
            self._done[worker] = event
            if len(self._done) < self._workers:
                return None
            start_ns = min(one.window_start_ns for one in self._done.values())
            end_ns = max(one.window_end_ns for one in self._done.values())
            return LevelDone(event.concurrency, start_ns, end_ns, self._lag())
        return event

    def _stop_if_needed(self, workers: Sequence[WorkerProcess], signals: HeldBackSignals) -> None:
        now_s = time.monotonic()
        if signals.received and not self._told_to_stop:
            self._told_to_stop = True
            self._stop(workers)
        if self._stop_by_s is None and self._is_target_alive is not None and now_s >= self._next_check_s:
            self._next_check_s = now_s + TARGET_CHECK_S
            if not self._is_target_alive():
                self._target_died = True
                for worker in workers:
                    worker.send({"in_flight": _as_dict(TARGET_DIED), "unsent": _as_dict(TARGET_DIED_UNSENT)})
                self._stop_by_s = now_s + STOP_GRACE_S
        if self._stop_by_s is not None and now_s > self._stop_by_s:
            for worker in workers:
                worker.kill()


def _as_dict(error: RequestError) -> dict[str, Any]:
    return {"kind": error.kind, "message": error.message}
