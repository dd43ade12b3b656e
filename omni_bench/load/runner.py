"""The parent side of the load phase: starts a worker for one level, listens to it, and never leaves it behind."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_bench.errors import ConfigError, OmniBenchError, StoreError
from omni_bench.load.clients.session import WireOptions
from omni_bench.load.clients.urls import server_root, url_problem
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.load.events import (
    LevelDone,
    LevelJob,
    LoadEvent,
    RequestFinished,
    WorkerError,
    read_event,
    write_message,
)
from omni_bench.load.files import allow_files, connections_of
from omni_bench.load.process import WorkerProcess
from omni_bench.load.signals import HeldBackSignals, held_back_signals
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.recording import LevelRecording, unsent_timeline
from omni_bench.records.timeline import RequestError, Timeline

if TYPE_CHECKING:
    from omni_bench.records.config import ClientConfig

POLL_S = 0.1  # how soon an interrupt is noticed
TARGET_CHECK_S = 0.5
STOP_GRACE_S = 10.0  # what a worker that was told to stop may take to spool and end

INTERRUPTED = RequestError("cancelled", "the run was interrupted")
TARGET_DIED = RequestError("disconnected", "the server died while the request was in flight")
TARGET_DIED_UNSENT = RequestError("connect", "not sent: the server had died")


class LevelInterrupted(KeyboardInterrupt):
    """Ctrl-C during a level. ``recording`` holds what was finished; the rest is ``cancelled`` in it."""

    def __init__(self, recording: LevelRecording):
        super().__init__("interrupted")
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
) -> LevelRecording:
    """Run one level in a worker process and return its raw facts.

    ``on_event`` is called in this thread with each event as it comes; the load does not wait
    for it. Every request of the plan gets a RequestFinished event, also one that was given
    up unsent, unless the worker had to be killed. ``is_target_alive`` is asked twice a
    second and must answer at once; when it says no, what is in flight fails as
    ``disconnected`` and what is unsent as ``connect``, without waiting for a timeout, and
    the recording says ``target_died``. ``spool_dir`` is created; the audio of request ID is
    left in it as ``ID.pcm``.

    SIGINT, and SIGTERM and SIGHUP where the program handles them, are held back while a level runs in the
    main thread: the worker stops, finished requests keep their audio, and
    :class:`LevelInterrupted` (a KeyboardInterrupt) is raised with the recording. A second
    signal takes its usual effect at once; the worker is killed then.

    Raises ConfigError (bad URL or key, too few open files allowed), StoreError (audio cannot be written),
    OmniBenchError (the worker crashed; with the end of its stderr), and whatever ``on_event`` raises.
    """
    job = make_job(plan, base_url, client, spool_dir, health_path)
    allow_files(connections_of(plan))
    try:
        spool_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder for audio {spool_dir}: {error}") from None
    level = _Level(plan, on_event, is_target_alive)
    with held_back_signals() as signals, WorkerProcess(write_message(job)) as worker:
        level.listen(worker, signals)
    recording = level.recording(spool_dir, interrupted=signals.received)
    if recording.interrupted:
        raise LevelInterrupted(recording)
    return recording


def check_api_key(client: ClientConfig) -> None:
    """Raise ConfigError if the variable that ``client`` names holds no key that a header can carry."""
    if client.api_key_env is None:
        return
    key = os.environ.get(client.api_key_env, "")
    if not key.isascii() or not key.isprintable() or not key.strip():
        raise ConfigError(
            f"client.api_key_env={client.api_key_env}: that environment variable is not set, or not a usable key"
        )


def make_job(plan: LevelPlan, base_url: str, client: ClientConfig, spool_dir: Path, health_path: str) -> LevelJob:
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
        ),
        api_key_env=client.api_key_env,
        id_prefix=f"{secrets.token_hex(6)}-",
    )


class _Level:
    """Collects the events of one level and decides when to stop it."""

    def __init__(
        self,
        plan: LevelPlan,
        on_event: Callable[[LoadEvent], None],
        is_target_alive: Callable[[], bool] | None,
    ) -> None:
        self._plan = plan
        self._on_event = on_event
        self._is_target_alive = is_target_alive
        self._timelines: dict[str, Timeline] = {}
        self._done: LevelDone | None = None
        self._told_to_stop = False
        self._target_died = False
        self._stop_by_s: float | None = None
        self._next_check_s = time.monotonic() + TARGET_CHECK_S

    def listen(self, worker: WorkerProcess, signals: HeldBackSignals) -> None:
        """Handle events until the worker ends. Raises StoreError and OmniBenchError."""
        while True:
            self._stop_if_needed(worker, signals)
            line = worker.next_line(POLL_S)
            if line is None:
                continue
            if line == b"":
                break
            self._handle(line, worker)
        status = worker.wait(STOP_GRACE_S)
        crashed = status is not None and status > 0
        if self._done is None and (self._stop_by_s is None or crashed):
            raise OmniBenchError(f"the load worker ended early, with status {status}; {worker.stderr_tail()}")

    def recording(self, spool_dir: Path, interrupted: bool) -> LevelRecording:
        """What was collected; requests the worker said nothing about any more get the reason of the stop."""
        unheard_of = INTERRUPTED if interrupted else TARGET_DIED_UNSENT
        spooled = self._done.spooled if self._done is not None else ()
        return LevelRecording(
            concurrency=self._plan.concurrency,
            timelines=tuple(self._timeline(planned, unheard_of) for planned in self._plan.measured),
            warmup=tuple(self._timeline(planned, unheard_of) for planned in self._plan.warmup),
            audio={request_id: spool_dir / f"{request_id}.pcm" for request_id in spooled},
            lag=self._done.lag if self._done is not None else None,
            interrupted=interrupted,
            target_died=self._target_died,
            peak_in_flight=self._done.peak_in_flight if self._done is not None else 0,
        )

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
        if isinstance(event, RequestFinished):
            self._timelines[event.timeline.request_id] = event.timeline
        if isinstance(event, LevelDone):
            self._done = event
        self._on_event(event)

    def _stop_if_needed(self, worker: WorkerProcess, signals: HeldBackSignals) -> None:
        now_s = time.monotonic()
        if signals.received and not self._told_to_stop:
            self._told_to_stop = True
            worker.terminate()
            self._stop_by_s = now_s + STOP_GRACE_S
        if self._stop_by_s is None and self._is_target_alive is not None and now_s >= self._next_check_s:
            self._next_check_s = now_s + TARGET_CHECK_S
            if not self._is_target_alive():
                self._target_died = True
                worker.send({"in_flight": _as_dict(TARGET_DIED), "unsent": _as_dict(TARGET_DIED_UNSENT)})
                self._stop_by_s = now_s + STOP_GRACE_S
        if self._stop_by_s is not None and now_s > self._stop_by_s:
            worker.kill()


def _as_dict(error: RequestError) -> dict[str, Any]:
    return {"kind": error.kind, "message": error.message}
