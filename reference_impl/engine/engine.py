"""The engine: one thread that admits requests, steps the batch, and passes frames on to Code2Wav.

Continuous batching: between two frames, waiting requests (``admission.py``) are prefilled into free
rows (``rows.py``) and finished ones leave. Talker and code predictor run in this thread (``batch.py``
or ``fast/step.py``), Code2Wav in another (``streaming.py``); callers only touch the queue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from omni_bench.errors import EngineError
from reference_impl.engine.code2wav_worker import AudioJob
from reference_impl.engine.request_state import Counters, Running
from reference_impl.engine.scheduler import PREFILL_BUDGET_S, PREFILLS_PER_STEP, Rows, WaitingLine
from reference_impl.engine.stages import Stages, stages_for
from reference_impl.engine_api import (
    AudioChunk,
    EngineDead,
    EngineLike,
    EngineStats,
    Event,
    Failed,
    Finished,
    RequestRejected,
    SpeechRequest,
)
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.from_settings import MAX_FRAMES, Origin, describe_weights
from reference_impl.model.sampling import request_uniforms, segment_uniform
from reference_impl.model.transfers import use_device
from reference_impl.prompt.for_model import prompt_builder
from reference_impl.settings import ServerSettings

log = logging.getLogger("reference_impl.engine.engine")


class Engine(EngineLike):
    """Implements :class:`reference_impl.engine_api.EngineLike`. ``stages``: None for those that the settings choose."""

    def __init__(self, model: Model, settings: ServerSettings, origin: Origin, stages: Stages | None = None):
        stages = stages or stages_for(settings)
        self.model, self.settings = model, settings
        self.model_name = model.config.name
        self.sample_rate_hz = model.config.sample_rate_hz
        self._prompts = prompt_builder(model)
        self.voices = self._prompts.voices
        self.capabilities = self._prompts.capabilities
        self._origin = origin
        self._wake = threading.Condition()
        self._stopping = False
        self._failure: Exception | None = None
        self.fault = stages.fault
        self._batch = stages.batch(model, settings, MAX_FRAMES, self._prompts.pad)
        self._new_schedule = partial(stages.chunks, settings, 1.0 / model.config.frame_rate_hz)
        # twice the rows: a request whose last audio is still being decoded does not keep its row
        self._audio = stages.code2wav(model, 2 * settings.max_batch, self._fail)
        self._waiting = WaitingLine(settings, self._batch.gathers)
        self._rows = Rows(self._batch, self._wake)
        self._draining: set[Running] = set()  # left the batch, last audio not yet out
        self._counters = Counters()
        self._thread = threading.Thread(target=self._run, name="reference-engine", daemon=True)
        self._thread.start()

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """See :meth:`EngineLike.submit`."""
        segments = self._prompts.segments(request)
        longest = max(segment.length for segment in segments)
        if longest + self.model.config.talker.min_frames > self._batch.max_length:
            raise RequestRejected(
                f"a segment needs {longest} positions and some to speak in; this server's rows have "
                f"{self._batch.max_length} (max_seq_len {self.settings.max_seq_len})",
                "input",
            )
        running = Running(
            request,
            on_event,
            segments,
            min(request.max_new_tokens or MAX_FRAMES, MAX_FRAMES),
            self._new_schedule(),
        )
        with self._wake:
            if self._stopping or not self._thread.is_alive():
                raise EngineDead("the engine has stopped")
            self._waiting.add(running, len(self._rows))
            self._counters.requests += 1
            self._wake.notify()

    def cancel(self, request_id: str) -> None:
        """See :meth:`EngineLike.cancel`."""
        with self._wake:
            for running in self._rows.requests:
                if running.request.request_id == request_id:
                    running.cancelled = True
            waiting = self._waiting.remove(request_id)
            self._counters.cancelled += len(waiting)
        for running in waiting:
            running.emit(Finished("cancelled", 0, running.prompt_tokens))

    def stats(self) -> EngineStats:
        """See :meth:`EngineLike.stats`."""
        alive, now = self._thread.is_alive(), (len(self._rows), len(self._waiting))
        return self._counters.stats(alive, *now, self._audio.busy_s)

    def describe(self) -> dict[str, Any]:
        """See :meth:`EngineLike.describe`."""
        return {
            "model": self.model_name,
            **describe_weights(self.model, self._origin),
            "predictor": self.settings.predictor,
            "max_batch": self.settings.max_batch,
            "deterministic": self.settings.deterministic,
            "graphs": self.settings.graphs,
            "buffers": self.settings.buffers,
            "fault": self.fault,
        }

    def stop(self) -> None:
        """See :meth:`EngineLike.stop`."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout=30)

    def warm_up(self) -> None:
        """Speak one word and forget it in the counters, so that the first request pays for no lazy initialisation."""
        done = threading.Event()
        request = self._prompts.warm_up_request()
        outcome: list[Event] = []

        def on_event(event: Event) -> None:
            if not isinstance(event, AudioChunk):
                outcome.append(event)
                done.set()

        self.submit(request, on_event)
        if not done.wait(timeout=120):
            raise EngineError("the engine did not finish its warm-up sentence within 120 s")
        if isinstance(outcome[0], Failed):
            raise EngineError(outcome[0].message)
        self._counters = Counters(code2wav_before_s=self._audio.busy_s)

    def _fail(self, error: Exception) -> None:
        """Called by the Code2Wav thread when it cannot go on."""
        with self._wake:
            self._failure = error
            self._stopping = True
            self._wake.notify()

    def _run(self) -> None:
        torch.set_flush_denormal(True)
        use_device(self.model.device)
        try:
            with torch.inference_mode():
                while self._wait_for_work():
                    self._admit()
                    self._step()
        except Exception as error:
            log.exception("the engine died")
            self._failure = error
        self._audio.stop()
        with self._wake:
            self._stopping = True
            left = [*self._rows.clear(), *self._waiting.clear(), *self._draining]
            self._draining.clear()
        error = self._failure
        message = f"the engine died: {type(error).__name__}: {error}" if error else "the engine was stopped"
        for running in left:
            self._counters.failed += 1
            running.emit(Failed(message))

    def _wait_for_work(self) -> bool:
        with self._wake:
            while not (self._stopping or self._waiting or self._rows.busy):
                self._wake.wait()
            return not self._stopping

    def _admit(self) -> None:
        """Prefill waiting requests into free rows, as many as the running ones can spare the time for."""
        with self._wake:
            if not self._waiting.may_join(len(self._rows)):
                return
        others_run, began, positions = bool(self._rows), time.perf_counter(), 0
        entering: list[Running] = []
        for _ in range(PREFILLS_PER_STEP):
            running = self._next_waiting(positions)
            if running is None:
                break
            positions += running.segments[0].length
            most = min(running.max_frames, sum(self._batch.room(segment) for segment in running.segments))
            uniforms = request_uniforms(running.request.seed, most + 1, self.model.config.predictor.num_code_groups)
            running.row = self._batch.join(uniforms)
            entering.append(running)
            if not self._batch.gathers:
                self._prefill(entering.pop())
                if others_run and time.perf_counter() - began > PREFILL_BUDGET_S:
                    break
        if entering:
            self._prefill(*entering)

    def _next_waiting(self, positions: int) -> Running | None:
        """The request that waited longest, with a row to come and a stream; None if it has to wait on.

        ``positions``: of the prompts that join before it.
        """
        with self._wake:
            if not self._waiting.fits(len(self._rows), positions):
                return None
            stream = self._audio.open()
            if stream is None:
                # Code2Wav is behind: with nothing else to do, look again shortly
                if not self._rows:
                    self._wake.wait(timeout=0.005)
                return None
            running = self._waiting.pop()
            running.stream = stream
            self._rows.add(running)
            return running

    def _prefill(self, *entering: Running) -> None:
        started = time.perf_counter()
        prompts = self._prompts.build_all([running.segments[running.segment] for running in entering])
        for running, prompt in zip(entering, prompts, strict=True):
            segment = running.segments[running.segment]
            # the draw that ended the segment before used this frame's number: take one from another stream
            draw = segment_uniform(running.request.seed, running.segment) if running.segment else None
            self._batch.enter(running.row, prompt, segment.forced_frames, draw, len(running.codes))
            running.segment_frames = 0
            if prompt.reference_codes is not None:
                # the decoder hears the reference first, so that the voice goes on without a seam
                heard = prompt.reference_codes.cpu().numpy()
                self._audio.submit(AudioJob(running.stream, running.emit, heard, silent=True))
        self._counters.prefill_s += time.perf_counter() - started

    def _step(self) -> None:
        """One frame for every running request, then the audio that is due."""
        if not self._rows.busy:
            return
        started = time.perf_counter()
        frames = self._rows.next_frames()
        self._counters.steps += bool(frames)
        self._counters.frames += len(frames)
        self._counters.step_s += time.perf_counter() - started
        for running, codes in frames:
            running.codes.append(codes[:-1].astype(np.int16))
            running.segment_frames += 1
            self._advance(running, next_code0=int(codes[-1]))
            if running.chunk_is_due() and not running.finish_reason:
                self._speak(running, AudioJob(running.stream, running.emit, running.unsent()))
        ended = [running for running in self._rows.requests if running.finish_reason]
        if ended:
            self._rows.leave(ended)
            with self._wake:
                self._draining.update(ended)
        for running in ended:
            self._finish(running)

    def _advance(self, running: Running, next_code0: int) -> None:
        """Decide whether a request goes on, starts its next segment, or ends."""
        segment = running.segments[running.segment]
        ended = next_code0 == self.model.config.talker.codec_eos_id
        if segment.forced_frames is not None:
            ended = running.segment_frames >= segment.forced_frames
        if running.advance(ended, self._batch.room(segment)):
            self._prefill(running)

    def _speak(self, running: Running, job: AudioJob) -> None:
        """Hand a chunk of a request to Code2Wav."""
        self._audio.submit(job)

    def _finish(self, running: Running) -> None:
        """The rest of the audio and the end go to Code2Wav."""
        reason = running.finish_reason or "stop"
        end = Finished(reason, len(running.codes), running.prompt_tokens, np.stack(running.codes))
        rest = len(running.codes) > running.sent_frames and reason != "cancelled"
        codes = running.unsent() if rest else None

        def on_event(event: Event) -> None:
            if event is end:
                with self._wake:
                    self._draining.discard(running)
                    setattr(self._counters, reason, getattr(self._counters, reason) + 1)
            running.emit(event)

        self._speak(running, AudioJob(running.stream, on_event, codes, end))
