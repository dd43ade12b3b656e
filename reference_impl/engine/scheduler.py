"""Continuous batching: which requests wait, which run, and in which slot of the batch.

Prefilling one prompt alone costs nearly as much as prefilling eight together, since either way every
weight is read once. Where requests end one by one, as they do when their lengths differ, they would be
replaced one by one too; letting a few wait for each other costs each a few frames and saves the others
most of those calls. That is what :class:`PrefillGate` decides.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from itertools import islice

import numpy as np

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.request_state import RequestState
from reference_impl.engine_api import QueueFull
from reference_impl.settings import ServerSettings

# A prefill between two frames delays the running requests by at most this many prompts and this many of their
# positions together (one prompt may be longer) or, where prompts are prefilled one by one, by at most this time and
# one prompt more. One H100 prefills 512 positions of the 1.7B shapes in 3 to 5 ms, a frame's time. A request that
# begins its next sentence prefills one prompt as well.
PREFILL_BUDGET_S = 0.02
PREFILLS_PER_STEP = 8
PREFILL_POSITIONS_PER_STEP = 512


class PrefillGate:
    """Whether waiting prompts are prefilled before this frame (``reference.join_every_frames``).

    ``slots``: of the batch. ``batches_prefill``: whether the batch prefills several prompts as one; if not,
    nothing is gained by waiting, and the gate is always open.
    """

    def __init__(self, every_frames: int, slots: int, batches_prefill: bool):
        self._every = every_frames if batches_prefill else 1
        self._slots = slots
        self._frames_since = every_frames

    def is_open(self, running: int, positions: Sequence[int]) -> bool:
        """Call it once before each frame: ``running`` requests, ``positions`` of each prompt that gets a slot.

        As many prompts, or positions, as one call prefills do not wait: more of them would not share that call.
        """
        self._frames_since += 1
        full_call = len(positions) >= PREFILLS_PER_STEP or sum(positions) >= PREFILL_POSITIONS_PER_STEP
        return self._frames_since >= self._every or 2 * running <= self._slots or full_call

    def prefilled(self) -> None:
        """Prompts were prefilled before this frame."""
        self._frames_since = 0


class WaitingQueue:
    """The requests that wait, the oldest first. Not thread-safe: the engine's lock guards it.

    ``running``, everywhere: how many of the batch's slots are taken.
    """

    def __init__(self, settings: ServerSettings, batches_prefill: bool):
        self._slots, self._max_queue = settings.max_batch, settings.max_queue
        self._gate = PrefillGate(settings.join_every_frames, self._slots, batches_prefill)
        self._states: deque[RequestState] = deque()

    def __len__(self) -> int:
        return len(self._states)

    def add(self, state: RequestState, running: int) -> None:
        """Raises QueueFull if ``max_queue`` wait already, not counting those for whom a slot is free."""
        if len(self) >= self._max_queue + self._slots - running:
            raise QueueFull(f"{len(self)} requests are waiting; max_queue is {self._max_queue}")
        self._states.append(state)

    def remove(self, request_id: str) -> list[RequestState]:
        """Take a request out of the queue; [] if it is not there."""
        removed = [state for state in self._states if state.request.request_id == request_id]
        for state in removed:
            self._states.remove(state)
        return removed

    def clear(self) -> list[RequestState]:
        """Take all of them out."""
        left = list(self._states)
        self._states.clear()
        return left

    def may_prefill(self, running: int) -> bool:
        """Whether prompts are to be prefilled before this frame; call it once a frame."""
        first = islice(self._states, min(PREFILLS_PER_STEP, self._slots - running))
        return self._gate.is_open(running, [state.segments[0].length for state in first])

    def fits(self, running: int, positions: int) -> bool:
        """Whether the oldest gets a slot, and its prompt may join ``positions`` that are prefilled before it."""
        if not self._states or running == self._slots:
            return False
        return not positions or positions + self._states[0].segments[0].length <= PREFILL_POSITIONS_PER_STEP

    def pop(self) -> RequestState:
        """The oldest request, which is prefilled now."""
        self._gate.prefilled()
        return self._states.popleft()


class Scheduler:
    """The queue and the batch's slots: ``waiting``, and ``running`` by slot.

    The engine's thread alone changes ``running``, under ``lock``: other threads look at it under that.
    """

    def __init__(self, batch: DecodeBatch, settings: ServerSettings, lock: threading.Condition):
        self.waiting = WaitingQueue(settings, batch.batches_prefill)
        self.running: list[RequestState] = []
        self._batch, self._lock = batch, lock
        self._launched: list[tuple[RequestState, int]] = []  # the requests of the launched step, and their segments

    @property
    def busy(self) -> bool:
        """Whether there is a step to make, or one under way."""
        return bool(self.running or self._launched)

    def add(self, state: RequestState) -> None:
        """Let a request wait. Under the lock. Raises QueueFull."""
        self.waiting.add(state, len(self.running))

    def cancel(self, request_id: str) -> list[RequestState]:
        """Mark a running request as cancelled, or return the waiting one, taken out of the queue. Under the lock."""
        for state in self.running:
            if state.request.request_id == request_id:
                state.cancelled = True
        return self.waiting.remove(request_id)

    def may_prefill(self) -> bool:
        """Whether prompts are to be prefilled before this frame; call it once a frame. Under the lock."""
        return self.waiting.may_prefill(len(self.running))

    def fits(self, positions: int) -> bool:
        """See :meth:`WaitingQueue.fits`. Under the lock."""
        return self.waiting.fits(len(self.running), positions)

    def run_next(self) -> RequestState:
        """The oldest waiting request gets the next slot, which the caller allocates in the batch. Under the lock."""
        state = self.waiting.pop()
        self.running.append(state)
        return state

    def next_frames(self) -> list[tuple[RequestState, np.ndarray]]:
        """A frame of every running request: int64 [17], its codes and codebook 0 of the next one.

        A batch that overlaps its steps launches the next one before this one's codes are looked at, so that
        the device need not wait for the host. What that step does for a request that has ended meanwhile, or
        begun another segment, is dropped.
        """
        if not self._batch.overlaps_steps:
            return list(zip(self.running, self._batch.step(), strict=True))
        collected, self._launched = self._launched, [(state, state.segment) for state in self.running]
        if self._launched:
            self._batch.launch_step()
        if not collected:
            return []
        frames = zip(collected, self._batch.collect_step(), strict=True)
        return [(s, codes) for (s, segment), codes in frames if not s.finish_reason and s.segment == segment]

    def free(self, ended: list[RequestState]) -> None:
        """Free the slots of some requests; others move into them."""
        moved = self._batch.free_slots([state.slot for state in ended])
        with self._lock:
            for slot, before in moved.items():
                self.running[slot] = self.running[before]
                self.running[slot].slot = slot
            del self.running[len(self.running) - len(ended) :]

    def clear(self) -> list[RequestState]:
        """Drop all requests, as the engine ends; returns them. Under the lock."""
        left = [*self.running, *self.waiting.clear()]
        self.running.clear()
        return left
