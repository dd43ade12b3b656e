"""The engine: one thread that prefills requests, steps the batch, and passes frames on to Code2Wav.

Continuous batching (``scheduler.py``): between two frames, waiting requests are prefilled into free
slots and finished ones give theirs back. Talker and code predictor run in this thread (``decode_batch.py``
or ``cuda/step.py``), Code2Wav in another (``code2wav_worker.py``); callers only touch the queue.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from omni_bench.errors import EngineError
from reference_impl.engine.code2wav_worker import AudioJob
from reference_impl.engine.request_state import Counters, RequestState
from reference_impl.engine.scheduler import PREFILL_BUDGET_S, PREFILLS_PER_STEP, Scheduler
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
from reference_impl.model.spans import span, spanned, start_trace, stop_trace
from reference_impl.model.transfers import use_device
from reference_impl.prompt.builder import PromptBuilder
from reference_impl.settings import PROFILE_VARIABLE, ServerSettings

log = logging.getLogger("reference_impl.engine.engine")


class Engine(EngineLike):
    """Implements :class:`reference_impl.engine_api.EngineLike`. ``stages``: None for those that the settings choose."""

    def __init__(self, model: Model, settings: ServerSettings, origin: Origin, stages: Stages | None = None):
        stages = stages or stages_for(settings)
        self.model, self.settings = model, settings
        self.model_name = model.config.name
        self.sample_rate_hz = model.config.sample_rate_hz
        self._prompts = PromptBuilder(model)
        self.voices = self._prompts.voices
        self.capabilities = self._prompts.capabilities
        self._origin = origin
        self._wake = threading.Condition()
        self._stopping = False
        self._failure: Exception | None = None
        self.fault = stages.fault
        self._batch = stages.batch(model, settings, MAX_FRAMES, self._prompts.pad)
        self._new_schedule = partial(stages.chunks, settings, 1.0 / model.config.frame_rate_hz)
        # twice the slots: a request whose last audio is still being decoded does not keep its slot
        self._audio = stages.code2wav(model, 2 * settings.max_batch, self._fail)
        self._scheduler = Scheduler(self._batch, settings, self._wake)
        self._draining: set[RequestState] = set()  # left the batch, last audio not yet sent
        self._counters = Counters()
        self._thread = threading.Thread(target=self._run, name="reference-engine", daemon=True)
        self._thread.start()

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """See :meth:`EngineLike.submit`."""
        segments = self._prompts.segments(request)
        longest = max(segment.length for segment in segments)
        if longest + self.model.config.talker.min_frames > self._batch.max_length:
            raise RequestRejected(
                f"a segment of the text needs {longest} positions, and more for its frames; this server's slots have "
                f"{self._batch.max_length} (max_seq_len {self.settings.max_seq_len})",
                "input",
            )
        state = RequestState(
            request, on_event, segments, min(request.max_new_tokens or MAX_FRAMES, MAX_FRAMES), self._new_schedule()
        )
        with self._wake:
            if self._stopping or not self._thread.is_alive():
                raise EngineDead("the engine has stopped")
            self._scheduler.add(state)
            self._counters.requests += 1
            self._wake.notify()

    def cancel(self, request_id: str) -> None:
        """See :meth:`EngineLike.cancel`."""
        with self._wake:
            waiting = self._scheduler.cancel(request_id)
            self._counters.cancelled += len(waiting)
        for state in waiting:
            state.emit(Finished("cancelled", 0, state.prompt_tokens))

    def stats(self) -> EngineStats:
        """See :meth:`EngineLike.stats`."""
        running, waiting = len(self._scheduler.running), len(self._scheduler.waiting)
        return self._counters.stats(self._thread.is_alive(), running, waiting, self._audio.busy_s)

    def describe(self) -> dict[str, Any]:
        """See :meth:`EngineLike.describe`."""
        return {
            "model": self.model_name,
            **describe_weights(self.model, self._origin),
            "predictor": self.settings.predictor,
            "max_batch": self.settings.max_batch,
            "deterministic": self.settings.deterministic,
            "graphs": self.settings.graphs,
            "fault": self.fault,
        }

    def stop(self) -> None:
        """See :meth:`EngineLike.stop`."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout=30)

    def profile(self, on: bool) -> None:
        """See :meth:`EngineLike.profile`."""
        if on:
            start_trace(self._speak_a_word)  # operations are recorded anew, with ranges, before and not within
        else:
            stop_trace(Path(os.environ[PROFILE_VARIABLE]))

    def warm_up(self) -> None:
        """Speak one word and forget it in the counters, so that the first request pays for no lazy initialisation."""
        self._speak_a_word()
        self._counters = Counters(code2wav_before_s=self._audio.busy_s)

    def _speak_a_word(self) -> None:
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

    def _fail(self, error: Exception) -> None:
        """Called by the Code2Wav thread when it fails."""
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
                    self._prefill_waiting()
                    self._step()
        except Exception as error:
            log.exception("the engine died")
            self._failure = error
        self._audio.stop()
        with self._wake:
            self._stopping = True
            left = [*self._scheduler.clear(), *self._draining]
            self._draining.clear()
        error = self._failure
        message = f"the engine died: {type(error).__name__}: {error}" if error else "the engine was stopped"
        for state in left:
            self._counters.failed += 1
            state.emit(Failed(message))

    def _wait_for_work(self) -> bool:
        with self._wake:
            while not (self._stopping or self._scheduler.waiting or self._scheduler.busy):
                self._wake.wait()
            return not self._stopping

    def _prefill_waiting(self) -> None:
        """Prefill waiting requests into free slots, as many as the running ones can spare the time for.

        Where nothing runs, all that wait: they then share every step and end together, and nobody is delayed by it.
        """
        with self._wake:
            if not self._scheduler.may_prefill():
                return
            others_run, waiting = bool(self._scheduler.running), len(self._scheduler.waiting)
        begun = self._prefill_call(others_run)
        while begun and begun < waiting and not others_run and self._batch.batches_prefill:
            more = self._prefill_call(others_run)
            begun = begun + more if more else waiting

    def _prefill_call(self, others_run: bool) -> int:
        """Prefill as many of the oldest as one call takes; returns how many that were."""
        began, positions, count = time.perf_counter(), 0, 0
        together: list[RequestState] = []
        for _ in range(PREFILLS_PER_STEP):
            state = self._next_waiting(positions)
            if state is None:
                break
            count += 1
            positions += state.segments[0].length
            most = min(state.max_frames, sum(self._batch.room(segment) for segment in state.segments))
            uniforms = request_uniforms(state.request.seed, most + 1, self.model.config.predictor.num_code_groups)
            state.slot = self._batch.allocate_slot(uniforms)
            together.append(state)
            if not self._batch.batches_prefill:
                self._prefill(together.pop())
                if others_run and time.perf_counter() - began > PREFILL_BUDGET_S:
                    break
        if together:
            self._prefill(*together)
        return count

    def _next_waiting(self, positions: int) -> RequestState | None:
        """The oldest waiting request, with a slot to come and a Code2Wav stream; None if it has to wait longer.

        ``positions``: of the prompts that are prefilled before it.
        """
        with self._wake:
            if not self._scheduler.fits(positions):
                return None
            stream = self._audio.open()
            if stream is None:
                # Code2Wav is behind: with nothing else to do, look again shortly
                if not self._scheduler.running:
                    self._wake.wait(timeout=0.005)
                return None
            state = self._scheduler.run_next()
            state.stream = stream
            return state

    @spanned("prefill")
    def _prefill(self, *states: RequestState) -> None:
        started = time.perf_counter()
        prompts = self._prompts.build_all([state.segments[state.segment] for state in states])
        for state, prompt in zip(states, prompts, strict=True):
            segment = state.segments[state.segment]
            # the draw that ended the segment before used this frame's number: take one from another stream
            draw = segment_uniform(state.request.seed, state.segment) if state.segment else None
            self._batch.prefill(state.slot, prompt, segment.forced_frames, draw, len(state.codes))
            state.segment_frames = 0
            if prompt.reference_codes is not None:
                # the decoder gets the reference first, so that the voice continues without a seam
                heard = prompt.reference_codes.cpu().numpy()
                self._audio.submit(AudioJob(state.stream, state.emit, heard, silent=True))
        self._counters.prefill_s += time.perf_counter() - started

    def _step(self) -> None:
        """One frame for every running request, then the audio that is due."""
        if not self._scheduler.busy:
            return
        started = time.perf_counter()
        with span("step"):
            frames = self._scheduler.next_frames()
        self._counters.steps += bool(frames)
        self._counters.frames += len(frames)
        self._counters.step_s += time.perf_counter() - started
        for state, codes in frames:
            state.codes.append(codes[:-1].astype(np.int16))
            state.segment_frames += 1
            self._advance(state, next_code0=int(codes[-1]))
            if state.chunk_is_due() and not state.finish_reason:
                self._speak(state, AudioJob(state.stream, state.emit, state.unsent()))
        ended = [state for state in self._scheduler.running if state.finish_reason]
        if ended:
            self._scheduler.free(ended)
            with self._wake:
                self._draining.update(ended)
        for state in ended:
            self._finish(state)

    def _advance(self, state: RequestState, next_code0: int) -> None:
        """Decide whether a request goes on, starts its next segment, or ends."""
        segment = state.segments[state.segment]
        ended = next_code0 == self.model.config.talker.codec_eos_id
        if segment.forced_frames is not None:
            ended = state.segment_frames >= segment.forced_frames
        if state.advance(ended, self._batch.room(segment)):
            self._prefill(state)

    def _speak(self, state: RequestState, job: AudioJob) -> None:
        """Hand a chunk of a request to Code2Wav."""
        self._audio.submit(job)

    def _finish(self, state: RequestState) -> None:
        """The rest of the audio and the end go to Code2Wav."""
        reason = state.finish_reason or "stop"
        end = Finished(reason, len(state.codes), state.prompt_tokens, np.stack(state.codes))
        rest = len(state.codes) > state.sent_frames and reason != "cancelled"
        codes = state.unsent() if rest else None

        def on_event(event: Event) -> None:
            if event is end:
                with self._wake:
                    self._draining.discard(state)
                    setattr(self._counters, reason, getattr(self._counters, reason) + 1)
            state.emit(event)

        self._speak(state, AudioJob(state.stream, on_event, codes, end))
