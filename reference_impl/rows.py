"""Which request is in which row of the batch, and whose the frames of a step are."""

from __future__ import annotations

import threading

import numpy as np

from reference_impl.batch import DecodeBatch
from reference_impl.running import Running


class Rows:
    """The running requests by row.

    ``requests`` belongs to the engine's thread, which changes it under ``lock``: others look at it under that.
    """

    def __init__(self, batch: DecodeBatch, lock: threading.Condition):
        self.requests: list[Running] = []
        self._batch, self._lock = batch, lock
        self._flight: list[tuple[Running, int]] = []  # requests, and their segments, of the step launched ahead

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def busy(self) -> bool:
        """Whether there is a step to make, or one under way."""
        return bool(self.requests or self._flight)

    def add(self, request: Running) -> None:
        """The next row is this request's; the caller takes it from the batch."""
        with self._lock:
            self.requests.append(request)

    def next_frames(self) -> list[tuple[Running, np.ndarray]]:
        """A frame of every running request: int64 [17], its codes and codebook 0 of the next one.

        A batch that steps ahead begins the next frame before this one is looked at, so that the
        device need not wait for the host. What it then does for a request that ends, or begins
        another segment, is dropped.
        """
        if not self._batch.ahead:
            return list(zip(self.requests, self._batch.step(), strict=True))
        landing, self._flight = self._flight, [(request, request.segment) for request in self.requests]
        if self._flight:
            self._batch.launch()
        if not landing:
            return []
        frames = zip(landing, self._batch.collect(), strict=True)
        return [(r, codes) for (r, segment), codes in frames if not r.finish_reason and r.segment == segment]

    def leave(self, ended: list[Running]) -> None:
        """Free the rows of some requests; others move into them."""
        moved = self._batch.leave_all([request.row for request in ended])
        with self._lock:
            for row, before in moved.items():
                self.requests[row] = self.requests[before]
                self.requests[row].row = row
            del self.requests[len(self.requests) - len(ended) :]

    def clear(self) -> list[Running]:
        """Forget everybody, as the engine ends; returns who was running."""
        with self._lock:
            left = list(self.requests)
            self.requests.clear()
            return left
