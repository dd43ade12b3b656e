"""Mistakes between the codes and the sender: buffers that are still in use, lost state, padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from reference_impl.engine.code2wav_worker import AudioJob, AudioWorker
from reference_impl.loading.checkpoint import Model

OnFailure = Callable[[Exception], None]

GRAPH_FRAMES = 24
"""Shape of the padded output buffer: three steady chunks, about what servers decode at a time (vllm-omni: 25)."""


class PinnedAliasWorker(AudioWorker):
    """``pinned_alias`` (vllm-omni PR 3164, review): one pinned host buffer for every chunk of every stream.

    Samples are copied to it and a view goes to the sender, which turns it into bytes at the next
    step of the stream. With another stream in flight (c >= 2) that one's samples have been copied
    over by then: nearly all chunks but the last are those of another request. Alone it is clean.
    """

    def __init__(self, model: Model, streams: int, on_failure: OnFailure):
        super().__init__(model, streams, on_failure)
        self._host = self._pinned(GRAPH_FRAMES * model.config.code2wav.samples_per_frame)
        self._late: dict[int, tuple[AudioJob, np.ndarray]] = {}

    def _pinned(self, samples: int) -> np.ndarray:
        return torch.zeros(samples, dtype=torch.int16, pin_memory=self._device.type == "cuda").numpy()

    def _work(self, jobs: list[AudioJob]) -> None:
        for job in jobs:
            if job.stream in self._late:
                super()._send(*self._late.pop(job.stream))
        super()._work(jobs)

    def _send(self, job: AudioJob, pcm: np.ndarray) -> None:
        if pcm.size > self._host.size:
            self._host = self._pinned(pcm.size)
        view = self._host[: pcm.size]
        view[:] = pcm
        if job.end is None:
            self._late[job.stream] = (job, view)
        else:
            super()._send(job, view)


class PayloadViewWorker(AudioWorker):
    """``payload_view`` (vllm-omni PR 3164, review): the payload from talker to Code2Wav is a view.

    The codes of a chunk are staged in one array, and what is queued is a view of it that is
    serialised when the stream's next chunk comes. With another stream in flight (c >= 2) its codes
    have been staged over by then, and are spoken in this one's place. The codes that the engine
    itself keeps are right. Alone it is clean.
    """

    def __init__(self, model: Model, streams: int, on_failure: OnFailure):
        super().__init__(model, streams, on_failure)
        self._staged = np.zeros((GRAPH_FRAMES, model.config.predictor.num_code_groups), dtype=np.int64)
        self._held: dict[int, AudioJob] = {}

    def submit(self, job: AudioJob) -> None:
        """See :meth:`AudioWorker.submit`."""
        held = self._held.pop(job.stream, None)
        if held is not None:
            super().submit(replace(held, codes=held.codes.copy()))
        if job.codes is None or job.silent:
            super().submit(job)
            return
        if len(job.codes) > len(self._staged):
            self._staged = np.zeros_like(job.codes)
        view = self._staged[: len(job.codes)]
        view[:] = job.codes
        if job.end is None:
            self._held[job.stream] = replace(job, codes=view)
        else:
            super().submit(replace(job, codes=view.copy()))


class LostContextWorker(AudioWorker):
    """``lost_left_context`` (vllm-omni PR 1945): every chunk is decoded as if it were the first of its stream.

    Clicks where two chunks meet, and a smeared beginning of each. Wrong at every concurrency.
    """

    def _decode(self, jobs: list[AudioJob]) -> Iterator[tuple[AudioJob, np.ndarray]]:
        for job in jobs:
            self._state.reset(job.stream)
        return super()._decode(jobs)


class PaddingTailWorker(AudioWorker):
    """``padding_tail`` (vllm-omni issue 4466): the last chunk is sent at the graph's full shape.

    Chunks are written into an output buffer of GRAPH_FRAMES frames, one after the other until
    it is full. The last of a request is written at its start and the whole buffer is sent: after
    the request's end follow one to two seconds of its own earlier audio, or (c >= 2) of others'.
    """

    def __init__(self, model: Model, streams: int, on_failure: OnFailure):
        super().__init__(model, streams, on_failure)
        self._output = np.zeros(GRAPH_FRAMES * model.config.code2wav.samples_per_frame, dtype="<i2")
        self._filled = 0

    def _send(self, job: AudioJob, pcm: np.ndarray) -> None:
        if self._filled + pcm.size > self._output.size or job.end is not None:
            self._filled = 0
        if pcm.size > self._output.size:
            self._output = np.resize(self._output, pcm.size)
        self._output[self._filled : self._filled + pcm.size] = pcm
        sent = self._output if job.end is not None else self._output[self._filled : self._filled + pcm.size]
        self._filled += pcm.size
        super()._send(job, sent)


class NoSamplesWorker(AudioWorker):
    """``empty_ok`` (vllm-omni PR 3071, issue 4963): the padding is cut off by ``[:-padding]``, and it is 0.

    What ``[:-0]`` leaves is nothing: chunks without a sample, then a clean end.
    """

    def _send(self, job: AudioJob, pcm: np.ndarray) -> None:
        padding = pcm.size % len(job.codes)  # a whole number of samples a frame was decoded: none is padding
        super()._send(job, pcm[:-padding])


class BurstyWorker(AudioWorker):
    """``bursty_chunks`` (vllm-omni issues 2562, 4913): what is decoded waits until a burst is together.

    The first chunk leaves at once, so that TTFP stays; the player has long run dry when the next
    BURST_FRAMES frames come. The mean rate does not change, and neither does a sample.
    """

    BURST_FRAMES = 40

    def __init__(self, model: Model, streams: int, on_failure: OnFailure):
        super().__init__(model, streams, on_failure)
        self._waiting: dict[int, list[tuple[AudioJob, np.ndarray]]] = {}

    def _send(self, job: AudioJob, pcm: np.ndarray) -> None:
        if job.stream not in self._waiting:
            self._waiting[job.stream] = []
            super()._send(job, pcm)
            return
        waiting = self._waiting[job.stream]
        waiting.append((job, pcm))
        if job.end is not None or sum(len(one.codes) for one, _ in waiting) >= self.BURST_FRAMES:
            for one in waiting:
                super()._send(*one)
            waiting.clear()

    def _end(self, job: AudioJob) -> None:
        self._waiting.pop(job.stream, None)
        super()._end(job)


class LongerWorker(AudioWorker):
    """``longer_audio`` (vllm-omni PR 3071, discussion): 2 frames in 25 are spoken twice.

    The speech is a little slower and otherwise the same; audio per second of computing rises by
    8 % without anything being faster.
    """

    REPEATED, OF = 2, 25

    def __init__(self, model: Model, streams: int, on_failure: OnFailure):
        super().__init__(model, streams, on_failure)
        self._debt = [self.OF // 2] * streams  # as many are rounded up as down

    def submit(self, job: AudioJob) -> None:
        """See :meth:`AudioWorker.submit`."""
        if job.codes is not None and not job.silent:
            job = replace(job, codes=job.codes[self._spoken(job.stream, len(job.codes))])
        if job.end is not None:
            self._debt[job.stream] = self.OF // 2
        super().submit(job)

    def _spoken(self, stream: int, frames: int) -> list[int]:
        """Which of a chunk's ``frames`` are spoken, in order."""
        order = []
        for frame in range(frames):
            order.append(frame)
            self._debt[stream] += self.REPEATED
            if self._debt[stream] >= self.OF:
                self._debt[stream] -= self.OF
                order.append(frame)
        return order
