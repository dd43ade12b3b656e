"""``slow_N`` on a CUDA device whose whole step is a graph: the device idles for a share of each step."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch
from torch import Tensor

from reference_impl.engine.cuda.batch import FullStepBatch
from reference_impl.loading.checkpoint import Model
from reference_impl.settings import ServerSettings

FIRST_RATE_HZ = 1.0e9


class SlowFullStepBatch(FullStepBatch):
    """A step takes a ``share`` longer than it would: the device spins behind it, before the next one may begin.

    A sleep of the host would be lost behind the step that is queued already. What a spin takes too long is taken off a
    later one, so that the mean is exact whatever the clock of the device.
    """

    def __init__(
        self, model: Model, settings: ServerSettings, max_frames: int, pad: Tensor | None = None, *, share: float
    ):
        super().__init__(model, settings, max_frames, pad)
        self.share, self.owed_ms, self._rate_hz = share, 0.0, FIRST_RATE_HZ
        self._timed: deque[tuple[list[torch.cuda.Event], int, float]] = deque()

    def launch_step(self) -> None:
        """See :meth:`FullStepBatch.launch_step`."""
        self._settle()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        events[0].record()
        super().launch_step()
        events[1].record()
        cycles = int(max(self.owed_ms, 0.0) / 1000 * self._rate_hz)
        planned_ms = cycles / self._rate_hz * 1000
        if cycles:
            torch.cuda._sleep(cycles)
        events[2].record()
        self.owed_ms -= planned_ms
        self._timed.append((events, cycles, planned_ms))

    def collect_step(self) -> np.ndarray:
        """See :meth:`FullStepBatch.collect_step`."""
        frames = super().collect_step()
        self._settle()
        return frames

    def _settle(self) -> None:
        """Owe for the steps that are over, and for what a spin was too short."""
        while self._timed and self._timed[0][0][2].query():
            (begun, stepped, spun), cycles, planned_ms = self._timed.popleft()
            spun_ms = stepped.elapsed_time(spun)
            if cycles and spun_ms > 0:
                self._rate_hz = cycles / spun_ms * 1000
            self.owed_ms += self.share * begun.elapsed_time(stepped) + planned_ms - spun_ms
