"""From codes to audio chunks: one Code2Wav stream a request, decoded in a thread of its own.

While this thread turns frames into samples the engine's thread already works on the next
frames: on two CPU cores the two stages fill one core each, without the barriers that two
threads inside every operation would need. Whose job is next: :class:`AudioQueue`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from reference_impl.engine_api import AudioChunk, Event, Finished
from reference_impl.loading.checkpoint import Model
from reference_impl.model.code2wav_layers import StreamState
from reference_impl.model.spans import span

log = logging.getLogger("reference_impl.engine.code2wav_worker")


@dataclass(frozen=True)
class AudioJob:
    """Some frames of one request (codes int64 [T, 16], None for none) and, at its end, the last event.

    ``silent``: the frames are decoded for what follows them and their audio is dropped.
    """

    stream: int
    on_event: Callable[[Event], None]
    codes: np.ndarray | None
    end: Event | None = None
    silent: bool = False


Queued = tuple[int, AudioJob]
"""A job and its number in the order of arrival."""


class AudioQueue:
    """The jobs that wait. Not thread-safe: the worker's lock guards it.

    ``together``: a call takes the next job of every stream (a GPU); otherwise one job, so that its order
    matters. ``silent_frames``: the most frames of a reference in one call.
    """

    def __init__(self, together: bool, silent_frames: int):
        self._together, self._silent_frames = together, silent_frames
        self._streams: dict[int, deque[Queued]] = {}  # by stream, none of them empty
        self._arrived = 0
        self._begun: set[int] = set()  # streams whose first chunk has been taken
        self._before_silent: int | None = 0  # jobs with a lower number go before the next piece; None: all that wait

    def __bool__(self) -> bool:
        return bool(self._streams)

    def put(self, job: AudioJob) -> None:
        """Add a job. The end of a cancelled request takes the place of all that it still had here."""
        if isinstance(job.end, Finished) and job.end.reason == "cancelled":
            self._streams.pop(job.stream, None)
        self._streams.setdefault(job.stream, deque()).append((self._arrived, job))
        self._arrived += 1

    def take(self) -> list[AudioJob]:
        """The jobs of the next call, [] if none waits."""
        heads = sorted(waiting[0] for waiting in self._streams.values())
        if heads and not self._together:
            heads = [self._most_urgent(heads)]
        return [self._remove(head) for head in heads]

    def _most_urgent(self, heads: list[Queued]) -> Queued:
        """One of the streams' next jobs, which come in order of arrival.

        After a piece of a reference, all audible jobs that wait by then go before the next one:
        however many references there are, a chunk waits for one piece, and a reference never for ever.
        """
        if self._before_silent is None:
            self._before_silent = self._arrived
        audible = [head for head in heads if not head[1].silent]
        silent = next((head for head in heads if head[1].silent), None)
        for head in audible:
            if head[1].stream not in self._begun:
                return head
        if silent is None or (audible and audible[0][0] < max(self._before_silent, silent[0])):
            return audible[0]
        return silent

    def _remove(self, head: Queued) -> AudioJob:
        """Take a stream's next job from the queue, or a piece of it."""
        number, job = head
        waiting = self._streams[job.stream]
        waiting.popleft()
        if job.silent:
            self._before_silent = None
            if len(job.codes) > self._silent_frames:
                waiting.appendleft((number, replace(job, codes=job.codes[self._silent_frames :])))
                job = replace(job, codes=job.codes[: self._silent_frames])
        else:
            self._begun.add(job.stream)
        if job.end is not None:
            self._begun.discard(job.stream)
        if not waiting:
            del self._streams[job.stream]
        return job


def to_pcm(wave: Tensor) -> np.ndarray:
    """Samples in [-1, 1], any shape -> little-endian signed 16 bit, same shape."""
    return (wave.float() * 32767.0).round().to(torch.int16).cpu().numpy().astype("<i2", copy=False)


SILENT_FRAMES = {"cpu": 8, "cuda": 64}
"""The most frames of a reference recording in one call, as others wait for it: on a CPU the size at which a frame
costs least, on a GPU, where an eager call is mostly the launching of its kernels, more."""


class AudioWorker:
    """The Code2Wav thread with the states of ``streams`` streams.

    The engine takes one with :meth:`open` (None if all are busy: the caller waits, which
    bounds how far the engine can run ahead) and submits jobs; the job with an ``end`` gives
    the stream back. ``on_failure`` is called from the thread, once, with what went wrong.
    """

    def __init__(self, model: Model, streams: int, on_failure: Callable[[Exception], None]):
        self._code2wav, self._device = model.code2wav, model.device
        self._state = self._new_state(model, streams)
        self._free = deque(range(streams))
        # on a CPU one stream at a time keeps the convolutions in its caches; a GPU wants one large call
        together = model.device.type == "cuda"
        self._jobs = AudioQueue(together, self.piece(SILENT_FRAMES["cuda" if together else "cpu"]))
        self._wake = threading.Condition()
        self._stopping = False
        self._on_failure = on_failure
        self.busy_s = 0.0
        self._thread = threading.Thread(target=self._run, name="code2wav", daemon=True)
        self._thread.start()

    def _new_state(self, model: Model, streams: int) -> StreamState | None:
        return model.code2wav.new_state(streams)

    def open(self) -> int | None:
        """The number of a fresh stream, or None."""
        with self._wake:
            return self._free.popleft() if self._free else None

    def piece(self, frames: int) -> int:
        """How many of ``frames`` of one stream a call takes: all of them."""
        return frames

    def submit(self, job: AudioJob) -> None:
        """Queue a job."""
        with self._wake:
            self._jobs.put(job)
            self._wake.notify()

    def stop(self) -> None:
        """End the thread after the call it is in; queued jobs are dropped."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=30)

    def _run(self) -> None:
        torch.set_flush_denormal(True)  # the tails of silence otherwise cost a hundred times more on a CPU
        try:
            with torch.inference_mode():
                while jobs := self._take():
                    started = time.perf_counter()
                    with span("Code2Wav"):
                        self._work(jobs)
                    self.busy_s += time.perf_counter() - started
        except Exception as error:
            log.exception("the Code2Wav thread died")
            self._on_failure(error)

    def _take(self) -> list[AudioJob]:
        """The jobs of the next call; [] means stop."""
        with self._wake:
            while not (self._jobs or self._stopping):
                self._wake.wait()
            return [] if self._stopping else self._jobs.take()

    def _work(self, jobs: list[AudioJob]) -> None:
        for job, pcm in self._decode([job for job in jobs if job.codes is not None]):
            if not job.silent:
                self._send(job, pcm)
        for job in jobs:
            if job.end is not None:
                self._end(job)

    def _send(self, job: AudioJob, pcm: np.ndarray) -> None:
        """Send a chunk: int16 samples [1920 × T]."""
        job.on_event(AudioChunk(pcm.tobytes(), len(job.codes)))

    def _end(self, job: AudioJob) -> None:
        """Give the stream back, then pass on the end."""
        self._state.reset(job.stream)
        with self._wake:
            self._free.append(job.stream)
        job.on_event(job.end)

    def _decode(self, jobs: list[AudioJob]) -> Iterator[tuple[AudioJob, np.ndarray]]:
        """Yield (job, int16 samples [1920 × T]); jobs of equal length share a call, and short ones go first."""
        by_length: dict[int, list[AudioJob]] = {}
        for job in jobs:
            by_length.setdefault(len(job.codes), []).append(job)
        for _, group in sorted(by_length.items(), key=lambda item: item[0]):
            codes = torch.from_numpy(np.stack([job.codes.T for job in group])).to(self._device)
            if len(group) == 1:
                streams: slice | Tensor = slice(group[0].stream, group[0].stream + 1)
            else:
                streams = torch.tensor([job.stream for job in group], device=self._device)
            samples = to_pcm(self._code2wav.push(codes, self._state, streams))
            yield from zip(group, samples, strict=True)
