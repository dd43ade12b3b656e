"""Teacher audio in device memory, from which training draws clips."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from omni_bench.errors import DatasetError
from reference_impl.training.synthesise import chunk_name, finished_chunks, read_audio, read_info
from reference_impl.training.teacher import FRAME_SAMPLES, LABELS_PER_FRAME

VALIDATION_CHUNK = chunk_name(0)  # never trained on, neither by the codec nor by the language model
VALIDATION_FRAMES = 2000
FIRST_CHUNKS = 8  # training waits for so many
QUIET_S = 2.0  # without a new chunk, synthesis has stopped
FRAMES_PER_HOUR = 45_000


class AudioPool:
    """Frames of the chunks of ``folder``, at most ``limit_hours`` of them, and their phoneme labels.

    ``validation``: samples [frames, 1920] and labels [frames, 2] of the validation chunk, once it exists.
    """

    def __init__(self, folder: Path, limit_hours: float, device: torch.device):
        self._folder, self._device, self._seen = folder, device, set()
        self._limit = int(limit_hours * FRAMES_PER_HOUR)
        self._samples: Tensor | None = None
        self._labels: Tensor | None = None
        self._frames = 0
        self.validation: tuple[Tensor, Tensor] | None = None

    @property
    def hours(self) -> float:
        """Hours that clips are drawn from."""
        return self._frames / FRAMES_PER_HOUR

    def wait(self, deadline: float = math.inf) -> None:
        """Load what is there; wait until there is something to train on. Raises DatasetError at the deadline."""
        while True:
            self.poll(1 << 30)
            total = len(finished_chunks(self._folder))
            enough = self._frames and self.validation is not None
            if enough and (len(self._seen) >= FIRST_CHUNKS or self._quiet(total)):
                return
            if time.monotonic() >= deadline:
                raise DatasetError(
                    f"{self._folder}: {total} chunks of audio when time was up; synthesis must run first"
                )
            time.sleep(0.3)

    def _quiet(self, total: int) -> bool:
        """Whether synthesis has stopped: no new chunk for a while."""
        time.sleep(QUIET_S)
        return len(finished_chunks(self._folder)) == total

    def poll(self, limit: int) -> None:
        """Load at most ``limit`` chunks that are new."""
        for name in finished_chunks(self._folder):
            if limit == 0 or self._frames >= self._limit:
                return
            if name in self._seen:
                continue
            self._seen.add(name)
            samples = torch.from_numpy(np.array(read_audio(self._folder, name)))
            labels = torch.from_numpy(read_info(self._folder, name).labels)
            if name == VALIDATION_CHUNK:
                self.validation = tuple(x[:VALIDATION_FRAMES].to(self._device) for x in (samples, labels))
                continue
            self._append(samples, labels)
            limit -= 1

    def _append(self, samples: Tensor, labels: Tensor) -> None:
        count = min(len(samples), self._limit - self._frames)
        if self._samples is None:
            shape = (self._limit, FRAME_SAMPLES)
            # on a CPU untouched pages cost nothing
            self._samples = torch.empty(shape, dtype=torch.int16, device=self._device)
            self._labels = torch.empty((self._limit, LABELS_PER_FRAME), dtype=torch.uint8, device=self._device)
        end = self._frames + count
        self._samples[self._frames : end] = samples[:count].to(self._device)
        self._labels[self._frames : end] = labels[:count].to(self._device)
        self._frames = end

    def draw(self, batch: int, frames: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
        """Random clips: samples int16 [batch, frames, 1920] and labels [batch, frames, 2]."""
        starts = torch.randint(0, self._frames - frames + 1, (batch,), device=self._device, generator=gen)
        index = starts[:, None] + torch.arange(frames, device=self._device)
        return self._samples[index], self._labels[index]
