"""The engine of each fault: another stage, or a mistake in the engine itself."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from omni_bench.errors import OmniBenchError
from reference_impl.engine.chunking import ChunkSchedule
from reference_impl.engine.code2wav_worker import AudioJob
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.engine import Engine
from reference_impl.engine.request_state import RequestState
from reference_impl.engine.stages import Stages
from reference_impl.engine_api import AudioChunk, Event, SpeechRequest
from reference_impl.faults.catalogue import ENGINE, PREDICTOR, fault_called, slow_percent
from reference_impl.settings import ServerSettings

log = logging.getLogger("reference_impl.faults")

SLOW_GRAPH = ".slow_step:SlowFullStepBatch"


class NeighbourSlotEngine(Engine):
    """``neighbour_slot`` (vllm-omni issues 4415, 4664): audio is addressed to a slot, not to a request.

    Code2Wav runs CHUNKS_BEHIND chunks behind the talker, as where the two are processes of their
    own. A slot whose request has finished is given to another at once, here by moving the last one
    into it, and the chunks still on their way are delivered to
    the new owner. With two in flight, one of two requests loses its end to its neighbour.
    """

    CHUNKS_BEHIND = 3

    def __init__(self, *args: Any):
        self._behind: dict[RequestState, deque[AudioJob]] = {}
        super().__init__(*args)

    def _speak(self, state: RequestState, job: AudioJob) -> None:
        behind = self._behind.setdefault(state, deque())
        behind.append(job)
        while len(behind) > self.CHUNKS_BEHIND or (job.end is not None and behind):
            late = behind.popleft()
            super()._speak(state, replace(late, on_event=self._to_slot(state.slot, late.on_event)))
        if job.end is not None:
            del self._behind[state]

    def _to_slot(self, slot: int, own: Callable[[Event], None]) -> Callable[[Event], None]:
        def deliver(event: Event) -> None:
            with self._wake:
                running = self._scheduler.running
                owner = running[slot].emit if slot < len(running) else own
            (owner if isinstance(event, AudioChunk) else own)(event)

        return deliver


class ReferenceBleedEngine(Engine):
    """``ref_bleed`` (sglang-omni issue 350): the newest reference text in flight is taken for one's own.

    A request looks up what its reference said by its place in the list of those in flight, and
    finds its neighbour's; that is put before the words to speak, as a prompt is. It therefore
    takes a second request in flight, and clients that send references (which the voice itself
    need not be able to follow).
    """

    def __init__(self, *args: Any):
        self._references: dict[str, str] = {}  # of requests in flight, oldest first
        self._references_lock = threading.Lock()
        super().__init__(*args)
        self.capabilities = replace(self.capabilities, clones=True)  # the server then passes references on

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """See :meth:`Engine.submit`."""

        def on_own_event(event: Event) -> None:
            if not isinstance(event, AudioChunk):
                self._forget(request.request_id)
            on_event(event)

        with self._references_lock:
            in_flight = list(self._references.values())
            if request.reference_text:
                self._references[request.request_id] = request.reference_text
        wrong = replace(request, text=f"{in_flight[-1]} {request.text}") if in_flight else request
        try:
            super().submit(wrong, on_own_event)
        except OmniBenchError:
            self._forget(request.request_id)
            raise

    def _forget(self, request_id: str) -> None:
        with self._references_lock:
            self._references.pop(request_id, None)


def steady_chunks(settings: ServerSettings, frame_s: float) -> ChunkSchedule:
    """``late_first_chunk`` (vllm-omni PR 1930): there is one size of chunk, the steady one."""
    return ChunkSchedule(settings.chunk_frames, settings.chunk_frames, frame_s)


def with_fault(name: str, stages: Stages, *, slow_graph: bool = False) -> tuple[type[Engine], Stages]:
    """The class and the stages of an engine with the fault ``name``; logs a warning. Raises ConfigError if unknown.

    ``slow_graph``: slow the step that is one CUDA graph.
    """
    fault, percent = fault_called(name), slow_percent(name)
    module, _, attribute = (SLOW_GRAPH if slow_graph else fault.code).partition(":")
    code = getattr(import_module(module, __package__), attribute)
    log.warning("FAULT INJECTED: %s - %s", fault.name, fault.what)
    if fault.stage == ENGINE:
        return code, replace(stages, fault=name)
    if fault.stage == PREDICTOR:
        return Engine, replace(stages, batch=partial(DecodeBatch, new_strategy=code), fault=name)
    return Engine, replace(stages, fault=name, **{fault.stage: partial(code, share=percent / 100) if percent else code})
