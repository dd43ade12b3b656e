"""Code2Wav in CUDA graphs of few shapes, on a stream of its own (``reference.graphs=full_step``).

A call takes a power of two of streams and of frames. Chunks are cut into such pieces (a
stream goes on from its state, so that this changes nothing), the last one of a stream is
filled up with frames that nobody hears, and calls with spare streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from reference_impl.audio_queue import AudioJob
from reference_impl.checkpoint import Model
from reference_impl.fast.code2wav import FastCode2Wav
from reference_impl.predictor_strategies import bucket
from reference_impl.streaming import AudioWorker
from reference_impl.transfers import to_device

# that of the steps: below it, every small kernel of a call would wait for the step's (20 ms instead of 4 for 8 streams)
PRIORITY = -1
MOST_FRAMES = 32  # of a call: tiles of the attention and the depthwise kernel grow with it; longer chunks take several


class Code2WavGraphs:
    """Graphs for calls of up to ``rows`` streams of ``slots`` and up to ``frames`` frames; captured at once."""

    def __init__(self, model: Model, slots: int, rows: int, frames: int):
        self._slots = slots
        self.stream = torch.cuda.Stream(model.device, priority=PRIORITY)
        self.rows, self.frames = bucket(rows), bucket(frames)
        if self.frames > frames:
            self.frames //= 2
        groups, hop = model.code2wav.config.num_code_groups, model.code2wav.config.samples_per_frame
        self._decoder = FastCode2Wav(model.code2wav, slots + self.rows, self.rows * self.frames * hop)
        device = model.device
        self._codes_in = torch.zeros(self.rows * groups * self.frames, dtype=torch.long, pin_memory=True)
        self._rows_in = torch.zeros(self.rows, dtype=torch.long, pin_memory=True)
        self._codes = torch.zeros_like(self._codes_in, device=device)
        self._rows = torch.arange(self.rows, device=device) + slots
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
        return self._decoder.push(codes, self._rows[:count]).flatten()

    def push(self, codes: np.ndarray, slots: list[int]) -> np.ndarray:
        """The next frames of some streams: codes int64 [B, 16, T], T a power of two -> int16 [B, 1920 × T]."""
        count, groups, length = codes.shape
        padded = bucket(count)
        with torch.cuda.stream(self.stream):
            self._codes_in[: padded * groups * length] = 0
            self._codes_in[: codes.size] = torch.from_numpy(codes).flatten()
            spare = range(self._slots, self._slots + padded - count)
            self._rows_in[:padded] = torch.tensor([*slots, *spare])
            self._codes.copy_(self._codes_in, non_blocking=True)
            self._rows.copy_(self._rows_in, non_blocking=True)
            graph, pcm = self._graphs[padded, length]
            graph.replay()
            samples = count * length * self.hop
            self._pcm_out[:samples].copy_(pcm[:samples], non_blocking=True)
            self._done.record()
        # the pinned buffers are free again, and the samples here, once the copy is done
        self._done.synchronize()
        return self._pcm_out[:samples].numpy().reshape(count, -1).copy()

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
        return min(1 << (frames.bit_length() - 1), self._graphs.frames)

    def _run(self) -> None:
        with torch.cuda.stream(self._graphs.stream):
            super()._run()

    def _work(self, jobs: list[AudioJob]) -> None:
        for job, pcm in self._decode([job for job in jobs if job.codes is not None]):
            if not job.silent:
                self._send(job, pcm)
        ended = [job for job in jobs if job.end is not None]
        if ended:
            slots = [job.slot for job in ended]
            self._graphs.reset(slots)
            with self._wake:
                self._free.extend(slots)
        for job in ended:
            job.on_event(job.end)

    def _decode(self, jobs: list[AudioJob]) -> Iterator[tuple[AudioJob, np.ndarray]]:
        """Yield (job, int16 samples [1920 × T]); pieces of equal length share a call, and short ones go first."""
        parts: dict[int, list[np.ndarray]] = {id(job): [] for job in jobs}
        done = {id(job): 0 for job in jobs}
        open_jobs = list(jobs)
        while open_jobs:
            by_length: dict[int, list[AudioJob]] = {}
            for job in open_jobs:
                left = len(job.codes) - done[id(job)]
                whole = bucket(left) if job.end is not None else left
                by_length.setdefault(self.piece(whole), []).append(job)
            for length, group in sorted(by_length.items(), key=lambda item: item[0]):
                for start in range(0, len(group), self._graphs.rows):
                    share = group[start : start + self._graphs.rows]
                    codes = np.stack([_frames(job.codes, done[id(job)], length).T for job in share])
                    for job, pcm in zip(share, self._graphs.push(codes, [job.slot for job in share]), strict=True):
                        parts[id(job)].append(pcm)
                        done[id(job)] += length
                        if done[id(job)] >= len(job.codes):
                            heard = np.concatenate(parts[id(job)])[: len(job.codes) * self._graphs.hop]
                            yield job, heard.astype("<i2", copy=False)
            open_jobs = [job for job in open_jobs if done[id(job)] < len(job.codes)]


def _frames(codes: np.ndarray, start: int, count: int) -> np.ndarray:
    """``count`` frames of codes [T, 16] from ``start`` on; behind the end the last one again."""
    return codes[np.minimum(np.arange(start, start + count), len(codes) - 1)]
