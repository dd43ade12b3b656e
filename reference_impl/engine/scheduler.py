"""The line of requests that wait, and when they may join the running ones.

A prompt read alone costs nearly as much as eight read together, since either way every weight is
read once. Where requests end one by one, as they do when their lengths differ, they would be
replaced one by one too; letting a few gather costs each a few frames' wait and saves the others
most of those calls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import islice

import numpy as np

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.request_state import Running
from reference_impl.engine_api import QueueFull
from reference_impl.settings import ServerSettings

# Joining requests delay the running ones, between two frames, by no more than so many prompts and so many of
# their positions together (one prompt may be longer), nor, where prompts are read one by one, by more than this
# time and one prompt more. One H100 reads 512 positions of the 1.7B shapes in 3 to 5 ms, a frame's time. A request
# that begins its next sentence reads one prompt as well.
PREFILL_BUDGET_S = 0.02
PREFILLS_PER_STEP = 8
PREFILL_POSITIONS_PER_STEP = 512


class JoinPace:
    """Whether this frame is one before which prompts are read (``reference.join_every_frames``).

    ``rows``: of the batch. ``gathers``: whether the batch reads several prompts as one; without it nothing is
    gained by waiting, and every frame is such a frame.
    """

    def __init__(self, every_frames: int, rows: int, gathers: bool):
        self._every = every_frames if gathers else 1
        self._rows = rows
        self._frames_since = every_frames

    def may_join(self, running: int, positions: Sequence[int]) -> bool:
        """Asked once before each frame, with how many run and the positions of each prompt that has a row to come.

        As many prompts, or positions, as one call reads do not wait: more of them would not be read together.
        """
        self._frames_since += 1
        whole_call = len(positions) >= PREFILLS_PER_STEP or sum(positions) >= PREFILL_POSITIONS_PER_STEP
        return self._frames_since >= self._every or 2 * running <= self._rows or whole_call

    def joined(self) -> None:
        """Prompts were read before this frame."""
        self._frames_since = 0


class WaitingLine:
    """The requests that wait, the oldest first. Not thread-safe: the engine's lock guards it.

    ``running``, everywhere: how many of the batch's rows are taken.
    """

    def __init__(self, settings: ServerSettings, gathers: bool):
        self._rows, self._most = settings.max_batch, settings.max_queue
        self._pace = JoinPace(settings.join_every_frames, self._rows, gathers)
        self._requests: deque[Running] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: Running, running: int) -> None:
        """Raises QueueFull if ``max_queue`` wait already, beside those for whom there is a row."""
        if len(self) >= self._most + self._rows - running:
            raise QueueFull(f"{len(self)} requests are waiting; max_queue is {self._most}")
        self._requests.append(request)

    def remove(self, request_id: str) -> list[Running]:
        """Take a request out of the line; [] if it is not there."""
        removed = [request for request in self._requests if request.request.request_id == request_id]
        for request in removed:
            self._requests.remove(request)
        return removed

    def clear(self) -> list[Running]:
        """Take out everybody."""
        left = list(self._requests)
        self._requests.clear()
        return left

    def may_join(self, running: int) -> bool:
        """Whether prompts are to be read before this frame; to be asked once a frame."""
        first = islice(self._requests, min(PREFILLS_PER_STEP, self._rows - running))
        return self._pace.may_join(running, [request.segments[0].length for request in first])

    def fits(self, running: int, positions: int) -> bool:
        """Whether the first in line has a row, and may be read with ``positions`` of others that join before it."""
        if not self._requests or running == self._rows:
            return False
        return not positions or positions + self._requests[0].segments[0].length <= PREFILL_POSITIONS_PER_STEP

    def pop(self) -> Running:
        """The first in line joins."""
        self._pace.joined()
        return self._requests.popleft()


# Which request is in which row of the batch, and whose the frames of a step are.


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
