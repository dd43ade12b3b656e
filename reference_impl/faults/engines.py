"""The engine of each fault: a subclass with another stage, or with a mistake of its own."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from omni_bench.errors import OmniBenchError
from reference_impl.engine.chunking import ChunkSchedule
from reference_impl.engine.code2wav_worker import AudioJob, AudioWorker
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.engine import Engine
from reference_impl.engine.request_state import Running
from reference_impl.engine_api import AudioChunk, Event, SpeechRequest
from reference_impl.faults import audio, batches
from reference_impl.faults.catalogue import fault_called, slow_percent
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.from_settings import Origin
from reference_impl.prompt.builder import Segment
from reference_impl.settings import ServerSettings

log = logging.getLogger("reference_impl.faults")


class NeighbourSlotEngine(Engine):
    """``neighbour_slot`` (vllm-omni issues 4415, 4664): audio is addressed to a slot, not to a request.

    Code2Wav runs CHUNKS_BEHIND chunks behind the talker, as where the two are processes of their
    own. A slot is a row of the batch; a row whose request has finished is given to another at
    once, here by moving the last row into it, and the chunks still on their way are delivered to
    the new owner. With two in flight, one of two requests loses its end to its neighbour.
    """

    CHUNKS_BEHIND = 3

    def __init__(self, model: Model, settings: ServerSettings, origin: Origin):
        self._behind: dict[Running, deque[AudioJob]] = {}
        super().__init__(model, settings, origin)

    def _speak(self, running: Running, job: AudioJob) -> None:
        behind = self._behind.setdefault(running, deque())
        behind.append(job)
        while len(behind) > self.CHUNKS_BEHIND or (job.end is not None and behind):
            late = behind.popleft()
            super()._speak(running, replace(late, on_event=self._to_slot(running.row, late.on_event)))
        if job.end is not None:
            del self._behind[running]

    def _to_slot(self, row: int, own: Callable[[Event], None]) -> Callable[[Event], None]:
        def deliver(event: Event) -> None:
            with self._wake:
                owner = self._rows.requests[row].emit if row < len(self._rows) else own
            (owner if isinstance(event, AudioChunk) else own)(event)

        return deliver


class ReferenceBleedEngine(Engine):
    """``ref_bleed`` (sglang-omni issue 350): the newest reference text in flight is taken for one's own.

    A request looks up what its reference said by its place in the list of those in flight, and
    finds its neighbour's; that is put before the words to speak, as a prompt is. It therefore
    takes a second request in flight, and clients that send references (which the voice itself
    need not be able to follow).
    """

    def __init__(self, model: Model, settings: ServerSettings, origin: Origin):
        self._references: dict[str, str] = {}  # of requests in flight, oldest first
        self._references_lock = threading.Lock()
        super().__init__(model, settings, origin)
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


class EndlessEngine(Engine):
    """``stop_missed``: see :class:`batches.EndlessBatch`; the net below it hangs too low."""

    batch_class = batches.EndlessBatch
    CAP_FACTOR = 3

    def _room(self, segment: Segment) -> int:
        return min(self.CAP_FACTOR * segment.max_frames, self.settings.max_seq_len - segment.length)


class LateFirstChunkEngine(Engine):
    """``late_first_chunk`` (vllm-omni PR 1930): there is one size of chunk, the steady one."""

    def _schedule(self) -> ChunkSchedule:
        steady = self.settings.chunk_frames
        return ChunkSchedule(steady, steady, 1.0 / self.model.config.frame_rate_hz)


BATCHES: dict[str, type[DecodeBatch]] = {
    "shared_proj_buf": batches.SharedProjectionBatch,
    "broadcast_add": batches.BroadcastBatch,
    "noncausal_mask": batches.NonCausalBatch,
    "stale_rows": batches.StaleRowsBatch,
    "graph_rng": batches.FrozenRandomBatch,
    "graph_pool": batches.GraphPoolBatch,
    "host_roundtrip": batches.RoundTripBatch,
    "slow_attribute": batches.SlowAttributeBatch,
    "serial_predictor": batches.SerialBatch,
}
WORKERS: dict[str, type[AudioWorker]] = {
    "pinned_alias": audio.PinnedAliasWorker,
    "payload_view": audio.PayloadViewWorker,
    "lost_left_context": audio.LostContextWorker,
    "padding_tail": audio.PaddingTailWorker,
    "empty_ok": audio.NoSamplesWorker,
    "bursty_chunks": audio.BurstyWorker,
    "longer_audio": audio.LongerWorker,
}
ENGINES: dict[str, type[Engine]] = {
    "neighbour_slot": NeighbourSlotEngine,
    "ref_bleed": ReferenceBleedEngine,
    "stop_missed": EndlessEngine,
    "late_first_chunk": LateFirstChunkEngine,
}


def faulty_engine(name: str) -> type[Engine]:
    """The class of an engine with the fault ``name``; says so in the log. Raises ConfigError for an unknown name."""
    fault = fault_called(name)
    base = ENGINES.get(name, Engine)
    percent = slow_percent(name)
    stages = {
        "batch_class": batches.slow_batch(percent) if percent else BATCHES.get(name, base.batch_class),
        "audio_class": WORKERS.get(name, base.audio_class),
    }
    log.warning("FAULT INJECTED: %s - %s", fault.name, fault.what)
    return type(base.__name__, (base,), {"fault": name, "__doc__": base.__doc__, **stages})
