"""The load generator, in a process of its own: ``python -m omni_bench.load.worker``.

It does nothing but send requests and read the clock, so that no progress bar, file or judge
can disturb its times. It imports the standard library, aiohttp and light modules of this
package only. Its parent (:mod:`omni_bench.load.runner`) writes one job as a JSON line on its
stdin, then perhaps a start or an abort; the worker writes events as JSON lines on its stdout, and audio into files.
It ends with the job, at SIGTERM or SIGINT (finished audio is still written, the rest is
reported as cancelled), and when its stdin ends, that is, when the parent is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from omni_bench.load.clients.abort import AbortReason, AbortSwitch
from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.session import open_session, warm_pool
from omni_bench.load.clients.urls import is_on_this_machine
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.load.events import (
    LevelDone,
    LevelJob,
    LoadEvent,
    Ready,
    RequestFinished,
    RequestStarted,
    WarmupDone,
    WorkerError,
    read_job,
    write_message,
)
from omni_bench.load.lag import LagSampler, StampedLoop
from omni_bench.load.loops import LoopResult, run_closed_loop, run_open_loop
from omni_bench.load.shares import drawn
from omni_bench.records.api_key import find_key, without_key
from omni_bench.records.level import Rate
from omni_bench.records.plan import PlannedRequest
from omni_bench.records.recording import unsent_timeline
from omni_bench.records.timeline import RequestError, Timeline

JOB_LIMIT_BYTES = 2**30  # a job line carries the reference audio of all its requests
OPEN_LOOP_SLOTS = 16  # an open loop has none; for how many it counts where slots are asked for
ORPHAN_GRACE_S = 5.0  # after this an orphaned worker ends, whatever it is doing
CANCELLED = AbortReason(
    in_flight=RequestError("cancelled", "the run was interrupted while the request was in flight"),
    unsent=RequestError("cancelled", "not sent: the run was interrupted"),
)


class EventWriter:
    """Writes events and audio from a thread of its own, so that no slow reader or disk can block the event loop.

    The audio of a request is in its file before its end is told, so that whoever hears of it finds the audio, and
    none of it is held longer. A finished request is sent at once and whole, so that a killed run keeps it. Its JSON is
    made during the measured phase, under the interpreter lock, in microseconds.
    """

    def __init__(self, file_descriptor: int) -> None:
        self._file_descriptor = file_descriptor
        self._queue: queue.SimpleQueue[tuple[LoadEvent, Path | None, list[bytes]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="events", daemon=True)
        self._thread.start()

    def put(self, event: LoadEvent, path: Path | None = None, audio: list[bytes] | None = None) -> None:
        """Queue an event, which is told once ``audio`` is in the file ``path``; returns at once."""
        self._queue.put((event, path, audio or []))

    def close(self) -> None:
        """Wait until everything queued is written."""
        self._queue.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while (queued := self._queue.get()) is not None:
            event, path, audio = queued
            if path is not None:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)  # somebody may have removed the run folder
                    with open(path, "wb") as file:
                        file.writelines(audio)
                except OSError as error:
                    event = WorkerError(f"cannot write the audio of request {path.stem} to {path}: {error}")
            del queued, audio
            line = memoryview(write_message(event))
            try:
                while line:
                    line = line[os.write(self._file_descriptor, line) :]
            except OSError:  # the parent is gone; its end of stdin ends the worker
                return
            if isinstance(event, WorkerError):  # the parent ends the worker
                return


class LevelRun:
    """One level, or this worker's share of it: warm-up and measured phase. Used once."""

    def __init__(self, job: LevelJob, events: EventWriter, abort: AbortSwitch) -> None:
        self._job = job
        self._events = events
        self._abort = abort
        self._api_key = find_key(job.api_key_env, job.api_key_header)
        self._spool_dir = Path(job.spool_dir)
        self._start: asyncio.Future[int] | None = None
        self._no_server: RequestError | None = None
        self._connect_failures_in_a_row = 0
        planned = job.plan.warmup + job.plan.measured
        self._form = FORMS[job.kind]
        self._payloads = {request.request_id: self._form.encode(request.body) for request in planned}

    async def run(self) -> None:
        """Do the level; the last event is ``level_done``."""
        plan = self._job.plan
        is_open_loop = isinstance(plan.concurrency, Rate)
        async with open_session(self._job.options, self._api_key, reuse=not is_open_loop) as session:
            await self._open_connections(session)
            warmup = await self._phase(session, plan.warmup)
            completed = sum(timeline.ok for timeline in warmup.timelines)
            self._events.put(WarmupDone(plan.concurrency, completed, len(plan.warmup) - completed))
            await self._all_ready()
            await self._open_connections(session)  # the server may have closed some in the warm-up's tail
            with _garbage_collection_paused():
                start_ns = await self._all_ready()
                async with LagSampler(is_on_this_machine(self._job.url)) as sampler:
                    measured = await self._phase(session, plan.measured, start_ns)
                lag = sampler.result() if measured.timelines else None
        self._events.put(
            LevelDone(
                concurrency=plan.concurrency,
                window_start_ns=measured.window_start_ns,
                window_end_ns=measured.window_end_ns,
                lag=lag,
            )
        )

    def _slots(self) -> int:
        plan = self._job.plan
        if isinstance(plan.concurrency, Rate):
            return min(plan.max_in_flight or OPEN_LOOP_SLOTS, OPEN_LOOP_SLOTS)
        return plan.concurrency if self._job.slots is None else self._job.slots

    def start(self, start_ns: int) -> None:
        """All workers are ready."""
        if self._start is not None and not self._start.done():
            self._start.set_result(start_ns)

    async def _all_ready(self) -> int | None:
        """Wait for the other workers. Returns when they all begin, None where there are none, or all is over."""
        if not self._job.gated:
            return None
        self._start = asyncio.get_running_loop().create_future()
        self._events.put(Ready())
        with contextlib.suppress(TimeoutError):
            async with self._abort.deadline(float("inf")):
                return await self._start
        return None

    def _stopped(self) -> RequestError | None:
        """Why nothing more is sent, or None."""
        return self._abort.reason.unsent if self._abort.reason is not None else self._no_server

    async def _open_connections(self, session: aiohttp.ClientSession) -> None:
        kept = self._job.options.reuse and not isinstance(self._job.plan.concurrency, Rate)  # see open_session
        if self._stopped() is not None or self._form.is_socket or not kept:
            return
        with contextlib.suppress(TimeoutError):  # the requests that follow will say what is wrong
            async with self._abort.deadline(self._job.options.connect_timeout_s):
                await warm_pool(session, self._job.health_url, self._slots())

    async def _phase(
        self, session: aiohttp.ClientSession, planned: tuple[PlannedRequest, ...], start_ns: int | None = None
    ) -> LoopResult:
        concurrency, max_in_flight = self._job.plan.concurrency, self._job.plan.max_in_flight

        async def send(request: PlannedRequest, scheduled_ns: int) -> Timeline:
            self._events.put(RequestStarted(request.request_id, request.prompt_id, request.warmup))
            context = RequestContext(
                session=session,
                url=self._job.url,
                planned=request,
                payload=self._payloads[request.request_id],
                concurrency=concurrency,
                scheduled_ns=scheduled_ns,
                options=self._job.options,
                abort=self._abort,
                id_prefix=self._job.id_prefix,
            )
            timeline, audio = await self._form.send(context)
            self._note_connect_failure(timeline)
            finished = RequestFinished(self._without_key(timeline), not request.warmup and bool(timeline.ok or audio))
            path = self._spool_dir / f"{request.request_id}.pcm" if finished.spooled else None
            self._events.put(finished, path, audio)
            return timeline

        def should_stop() -> bool:
            return self._stopped() is not None

        result: LoopResult
        if isinstance(concurrency, Rate):
            if max_in_flight is None:
                raise ValueError(f"the plan of {concurrency} has no max_in_flight")
            result = await run_open_loop(planned, max_in_flight, send, should_stop=should_stop, start_ns=start_ns)
        else:
            pending: Iterable[PlannedRequest] = planned
            if self._job.tickets_fd is not None and planned is self._job.plan.measured:
                pending = drawn(planned, self._job.tickets_fd)
            result = await run_closed_loop(pending, self._slots(), send, should_stop=should_stop, start_ns=start_ns)
        error = self._stopped()
        if error is not None:
            for request in result.unsent:
                timeline = unsent_timeline(request, concurrency, error, time.perf_counter_ns())
                self._events.put(RequestFinished(timeline))
        return result

    def _without_key(self, timeline: Timeline) -> Timeline:
        """Some servers repeat a refused key in what they say; it must not get into a run folder."""
        said = {name: getattr(timeline, name) for name in ("reply_text", "server_request_id", "unknown_events")}
        hidden = {name: without_key(text, self._api_key) for name, text in said.items()}
        error = timeline.error and replace(timeline.error, message=without_key(timeline.error.message, self._api_key))
        return replace(timeline, **hidden, error=error)

    def _note_connect_failure(self, timeline: Timeline) -> None:
        """Give up what is unsent once twice as many requests in a row as there are slots got no connection.

        An open loop counts as :data:`OPEN_LOOP_SLOTS` slots. Requests that are in flight go on: a server may
        refuse newcomers and still serve them.
        """
        if timeline.error is None or timeline.error.kind != "connect":
            self._connect_failures_in_a_row = 0
            return
        self._connect_failures_in_a_row += 1
        if self._connect_failures_in_a_row >= max(8, 2 * self._slots()):
            count = self._connect_failures_in_a_row
            self._no_server = RequestError(
                "connect", f"not sent: {count} requests in a row got no connection; the last: {timeline.error.message}"
            )


@contextlib.contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


async def _read_commands(stdin: asyncio.StreamReader, level: LevelRun, abort: AbortSwitch) -> None:
    """Obey starts and aborts until stdin ends, which means that the parent is gone."""
    while line := await stdin.readline():
        command: dict[str, Any] = json.loads(line)
        if "start_ns" in command:
            level.start(command["start_ns"])
            continue
        abort.trip(AbortReason(RequestError(**command["in_flight"]), RequestError(**command["unsent"])))
    abort.trip(CANCELLED)
    asyncio.get_running_loop().call_later(ORPHAN_GRACE_S, os._exit, 3)


async def _main(events: EventWriter) -> int:
    loop = asyncio.get_running_loop()
    stdin = asyncio.StreamReader(limit=JOB_LIMIT_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    line = await stdin.readline()
    if not line.endswith(b"\n"):
        return 3  # the parent died before it had written the job
    job = read_job(line)
    abort = AbortSwitch()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, abort.trip, CANCELLED)
    level = LevelRun(job, events, abort)
    commands = loop.create_task(_read_commands(stdin, level, abort))
    try:
        await level.run()
    finally:
        commands.cancel()
    return 0


def main() -> int:
    """Run one job from stdin; returns the exit status."""
    events_descriptor = os.dup(1)
    os.dup2(2, 1)  # a stray print must not end up between the events
    events = EventWriter(events_descriptor)
    try:
        with asyncio.Runner(loop_factory=StampedLoop) as runner:
            return runner.run(_main(events))
    finally:
        events.close()


if __name__ == "__main__":
    sys.exit(main())
