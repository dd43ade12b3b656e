"""Code2Wav in CUDA graphs of few shapes, on a stream of its own (``reference.graphs=full_step``).

A call takes a power of two of streams and of frames. It is filled up with spare streams, and every
stream with frames that are not sent and do not change its state; so chunks of different
lengths share a call. A call costs nearly the same for one stream as for a few, since its 160
kernels, one after the other, compete with those of the decode steps for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from reference_impl.engine.code2wav_worker import AudioJob, AudioWorker
from reference_impl.engine.cuda.code2wav import FastCode2Wav
from reference_impl.loading.checkpoint import Model
from reference_impl.model.predictor_strategies import bucket
from reference_impl.model.transfers import to_device

# that of the steps: below it, every small kernel of a call would wait for the step's (20 ms instead of 4 for 8 streams)
PRIORITY = -1
MOST_FRAMES = 32  # of a call: tiles of the attention and the depthwise kernel grow with it; longer chunks take several
CALL_FRAMES = 48
"""What a call costs in addition to its work, in frames of one stream: on an H200 one of 1 x 1 takes 0.77 ms alone, one
of 32 x 8 4.94 (``benchmarks/step_profile.py``), so 0.75 ms and 0.016 a frame."""


Pieces = list[tuple[AudioJob, np.ndarray]]
"""Jobs and the frames of theirs, int64 [T, 16], that go into a call."""


class Code2WavGraphs:
    """Graphs for calls of up to ``rows`` streams of ``slots`` and up to ``frames`` frames; captured at once."""

    def __init__(self, model: Model, slots: int, rows: int, frames: int):
        self._slots = slots
        self.stream = torch.cuda.Stream(model.device, priority=PRIORITY)
        self.rows, self.frames = bucket(rows), bucket(frames)
        groups, hop = model.code2wav.config.num_code_groups, model.code2wav.config.samples_per_frame
        self._decoder = FastCode2Wav(model.code2wav, slots + self.rows, self.rows * self.frames * hop)
        device = model.device
        self._codes_in = torch.zeros(self.rows * groups * self.frames, dtype=torch.long, pin_memory=True)
        self._rows_in = torch.zeros(2, self.rows, dtype=torch.long, pin_memory=True)
        self._codes = torch.zeros_like(self._codes_in, device=device)
        # of each stream of a call, its slot and how many of its frames count; the spare ones do not advance
        self._rows = torch.zeros_like(self._rows_in, device=device)
        self._rows[0] = torch.arange(self.rows, device=device) + slots
        self._pcm_out = torch.zeros(self.rows * self.frames * hop, dtype=torch.int16, pin_memory=True)
        self._groups, self.hop = groups, hop
        self._done = torch.cuda.Event()
        self._graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
        self._capture()

    def _capture(self) -> None:
        pool = None
        self.stream.wait_stream(torch.cuda.current_stream())  # which filled the buffers
        counts = [1 << power for power in range(self.rows.bit_length())]
        lengths = [1 << power for power in range(self.frames.bit_length())]
        for count in reversed(counts):
            for length in reversed(lengths):
                with torch.inference_mode(), torch.cuda.stream(self.stream):
                    self._run(count, length)
                    self.stream.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, pool=pool, stream=self.stream):
                        pcm = self._run(count, length)
                pool = graph.pool()
                self._graphs[count, length] = graph, pcm

    def _run(self, count: int, length: int) -> torch.Tensor:
        codes = self._codes[: count * self._groups * length].view(count, self._groups, length)
        return self._decoder.push(codes, *self._rows[:, :count]).flatten()

    def push(self, chunks: list[np.ndarray], slots: list[int]) -> list[np.ndarray]:
        """The next frames of up to ``rows`` streams: codes int64 [T, 16], T at most ``frames``, -> int16 [1920 × T]."""
        lengths = [len(codes) for codes in chunks]
        count, length = len(chunks), bucket(max(lengths))
        padded = bucket(count)
        with torch.cuda.stream(self.stream):
            codes_in = self._codes_in[: padded * self._groups * length].view(padded, self._groups, length)
            codes_in.zero_()
            for place, codes in zip(codes_in, chunks, strict=False):
                place[:, : len(codes)] = torch.from_numpy(codes.T)
            spare = range(self._slots, self._slots + padded - count)
            self._rows_in[:, :padded] = torch.tensor([[*slots, *spare], [*lengths, *(0 for _ in spare)]])
            self._codes.copy_(self._codes_in, non_blocking=True)
            self._rows.copy_(self._rows_in, non_blocking=True)
            graph, pcm = self._graphs[padded, length]
            graph.replay()
            samples = count * length * self.hop
            self._pcm_out[:samples].copy_(pcm[:samples], non_blocking=True)
            self._done.record()
        # the pinned buffers are free again, and the samples here, once the copy is done
        self._done.synchronize()
        wave = self._pcm_out[:samples].numpy().reshape(count, -1)
        return [place[: own * self.hop].copy() for place, own in zip(wave, lengths, strict=True)]

    def reset(self, slots: list[int]) -> None:
        """Forget everything of some streams."""
        with torch.cuda.stream(self.stream):
            self._decoder.reset(to_device(slots, self._codes.device))


class GraphAudioWorker(AudioWorker):
    """An audio worker whose calls are graphs; see the module docstring."""

    def __init__(
        self, model: Model, slots: int, on_failure: Callable[[Exception], None], rows: int, frames: int
    ):  # fmt: skip
        self._graphs = Code2WavGraphs(model, slots, rows, min(frames, MOST_FRAMES))
        super().__init__(model, slots, on_failure)

    def _new_state(self, model: Model, slots: int) -> None:
        """The graphs have their own."""

    def piece(self, frames: int) -> int:
        """See :meth:`AudioWorker.piece`: one call's."""
        return min(frames, self._graphs.frames)

    def _run(self) -> None:
        with torch.cuda.stream(self._graphs.stream):
            super()._run()

    def _work(self, jobs: list[AudioJob]) -> None:
        for job, pcm in self._decode([job for job in jobs if job.codes is not None]):
            if not job.silent:
                self._send(job, pcm)
        ended = [job for job in jobs if job.end is not None]
        if ended:
            streams = [job.stream for job in ended]
            self._graphs.reset(streams)
            with self._wake:
                self._free.extend(streams)
        for job in ended:
            job.on_event(job.end)

    def _decode(self, jobs: list[AudioJob]) -> Iterator[tuple[AudioJob, np.ndarray]]:
        """Yield (job, int16 samples [1920 × T]), call by call."""
        parts: dict[int, list[np.ndarray]] = {id(job): [] for job in jobs}
        done = {id(job): 0 for job in jobs}
        open_jobs = list(jobs)
        while open_jobs:
            pieces = [(job, job.codes[done[id(job)] :][: self._graphs.frames]) for job in open_jobs]
            for call in calls(pieces, self._graphs.rows):
                for (job, piece), pcm in zip(call, self._push(call), strict=True):
                    parts[id(job)].append(pcm)
                    done[id(job)] += len(piece)
                    if done[id(job)] == len(job.codes):
                        yield job, np.concatenate(parts[id(job)]).astype("<i2", copy=False)
            open_jobs = [job for job in open_jobs if done[id(job)] < len(job.codes)]

    def _push(self, call: Pieces) -> list[np.ndarray]:
        return self._graphs.push([piece for _, piece in call], [job.stream for job, _ in call])


def calls(pieces: Pieces, rows: int) -> list[Pieces]:
    """Which pieces share a call of at most ``rows``, the calls of the shortest first.

    Shorter ones go along with longer ones unless filling them up costs more than a call of their own.
    """
    by_length: dict[int, Pieces] = {}
    for piece in pieces:
        by_length.setdefault(bucket(len(piece[1])), []).append(piece)
    groups: list[tuple[int, Pieces]] = []
    for length, group in sorted(by_length.items(), reverse=True):
        if groups:
            longest, others = groups[-1]
            apart = bucket(len(others)) * longest + bucket(len(group)) * length + CALL_FRAMES
            together = len(others) + len(group)
            if together <= rows and bucket(together) * longest <= apart:
                groups[-1] = longest, [*group, *others]
                continue
        groups.append((length, group))
    ordered = [group for _, group in reversed(groups)]
    return [group[start : start + rows] for group in ordered for start in range(0, len(group), rows)]
