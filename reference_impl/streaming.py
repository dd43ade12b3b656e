"""From codes to audio chunks: one Code2Wav stream a request, and when its next chunk is due."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference_impl.checkpoint import Model


def to_pcm(wave: Tensor) -> bytes:
    """Samples in [-1, 1] -> little-endian signed 16 bit."""
    return (wave.float() * 32767.0).round().to(torch.int16).cpu().numpy().astype("<i2", copy=False).tobytes()


@dataclass
class ChunkSchedule:
    """How many frames the next chunk waits for: ``first``, then doubling up to ``steady``."""

    first: int
    steady: int

    def __post_init__(self) -> None:
        self.due = self.first

    def advance(self) -> None:
        """A chunk has been sent."""
        self.due = max(self.first, min(2 * self.due, self.steady)) if self.due < self.steady else self.steady


class AudioStreams:
    """The Code2Wav states of ``slots`` requests. The engine's thread owns it."""

    def __init__(self, model: Model, slots: int):
        self._code2wav = model.code2wav
        self._device = model.device
        self._state = model.code2wav.new_state(slots)
        self._free = list(range(slots))
        # on a CPU one stream at a time keeps the convolutions in its caches; a GPU wants one large call
        self._batched = model.device.type == "cuda"

    def open(self) -> int:
        """A fresh stream's slot."""
        slot = self._free.pop()
        self._state.reset(slot)
        return slot

    def close(self, slot: int) -> None:
        """Give a slot back."""
        self._free.append(slot)

    def decode(self, jobs: list[tuple[int, np.ndarray]]):
        """Yield (index of the job, pcm) for jobs (slot, codes [T, 16]); slots must differ. Finished ones come first."""
        if not self._batched:
            for index, (slot, codes) in enumerate(jobs):
                tensor = torch.from_numpy(np.ascontiguousarray(codes.T))[None]
                yield index, to_pcm(self._code2wav.push(tensor, self._state, slice(slot, slot + 1))[0])
            return
        by_length: dict[int, list[int]] = {}
        for index, (_, codes) in enumerate(jobs):
            by_length.setdefault(len(codes), []).append(index)
        for indices in by_length.values():
            slots = torch.tensor([jobs[i][0] for i in indices], device=self._device)
            codes = torch.from_numpy(np.stack([jobs[i][1].T for i in indices])).to(self._device)
            wave = self._code2wav.push(codes, self._state, slots)
            samples = (wave.float() * 32767.0).round().to(torch.int16).cpu().numpy().astype("<i2", copy=False)
            for row, index in enumerate(indices):
                yield index, samples[row].tobytes()
