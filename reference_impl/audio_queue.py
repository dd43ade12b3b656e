"""Whose frames Code2Wav decodes next.

Jobs of one stream stay in order; between streams a first chunk goes first, since somebody waits for
it in silence, and a reference recording waits for what others are to hear. A reference is long (a
minute of it is 750 frames) and nobody listens to it, so it is decoded in pieces: a stream goes on
from its state, which makes them the same as the whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reference_impl.engine_api import Event, Finished


@dataclass(frozen=True)
class AudioJob:
    """Some frames of one request (codes int64 [T, 16], None for none) and, at its end, the last event.

    ``silent``: the frames are decoded for what follows them and their audio is dropped.
    """

    slot: int
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
        self._streams: dict[int, deque[Queued]] = {}  # by slot, none of them empty
        self._arrived = 0
        self._begun: set[int] = set()  # slots whose first chunk has been taken
        self._before_silent: int | None = 0  # jobs with a lower number go before the next piece; None: all that wait

    def __bool__(self) -> bool:
        return bool(self._streams)

    def put(self, job: AudioJob) -> None:
        """Add a job. The end of a cancelled request takes the place of all that it still had here."""
        if isinstance(job.end, Finished) and job.end.reason == "cancelled":
            self._streams.pop(job.slot, None)
        self._streams.setdefault(job.slot, deque()).append((self._arrived, job))
        self._arrived += 1

    def take(self) -> list[AudioJob]:
        """The jobs of the next call, [] if none waits."""
        heads = sorted(waiting[0] for waiting in self._streams.values())
        if heads and not self._together:
            heads = [self._most_urgent(heads)]
        return [self._remove(head) for head in heads]

    def _most_urgent(self, heads: list[Queued]) -> Queued:
        """One of the streams' next jobs, which come in order of arrival.

        After a piece of a reference, all that is to be heard and waits by then goes before the next one:
        however many references there are, a chunk waits for one piece, and a reference never for ever.
        """
        if self._before_silent is None:
            self._before_silent = self._arrived
        audible = [head for head in heads if not head[1].silent]
        silent = next((head for head in heads if head[1].silent), None)
        for head in audible:
            if head[1].slot not in self._begun:
                return head
        if silent is None or (audible and audible[0][0] < max(self._before_silent, silent[0])):
            return audible[0]
        return silent

    def _remove(self, head: Queued) -> AudioJob:
        """Take a stream's next job from the queue, or a piece of it."""
        number, job = head
        waiting = self._streams[job.slot]
        waiting.popleft()
        if job.silent:
            self._before_silent = None
            if len(job.codes) > self._silent_frames:
                waiting.appendleft((number, replace(job, codes=job.codes[self._silent_frames :])))
                job = replace(job, codes=job.codes[: self._silent_frames])
        else:
            self._begun.add(job.slot)
        if job.end is not None:
            self._begun.discard(job.slot)
        if not waiting:
            del self._streams[job.slot]
        return job
