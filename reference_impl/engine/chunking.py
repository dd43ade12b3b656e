"""When a chunk of audio is sent: the first at once, later ones as large as the listener's buffered audio allows.

A chunk of n frames arrives n decode steps after the one before, and meanwhile the listener plays what
has been sent. Large chunks cost less (on two CPU cores a frame of Code2Wav takes 5 ms in chunks of 8 and
13 ms alone), so a chunk waits for more frames, up to the steady size, as long as the frame after the next
would still come in time. At a real-time factor of r the listener's buffer grows by 1 - r of what is sent:
chunks grow fast where r is small, and stay as small as the first where it is nearly 1.
"""

from __future__ import annotations

import time
from collections import deque

PACE_MARGIN = 1.25  # a step may take this much longer than the longest of the last ones
PACE_STEPS = 4


class ChunkSchedule:
    """The chunks of one request.

    ``first``, ``steady``: frames of the first and of the largest chunk. ``frame_s``: audio of a frame.
    ``growth``: ``buffered`` as the module says, or ``double`` (1, 2, 4, ... whatever the pace, which
    stalls at real-time factors of 0.5 to 1). Where the listener already waits, or a step takes longer
    than its audio lasts, nothing can prevent a stall and ``buffered`` doubles too, for the throughput.
    The engine's thread calls :meth:`is_due` and :meth:`cut`, Code2Wav's :meth:`delivered`.
    """

    def __init__(self, first: int, steady: int, frame_s: float, growth: str = "buffered"):
        self.first, self.steady, self.frame_s, self.growth = first, steady, frame_s, growth
        self._sent_frames = self._last = 0
        self._frame_at: float | None = None
        self._steps_s: deque[float] = deque(maxlen=PACE_STEPS)
        self._in_flight: deque[tuple[float, int]] = deque()
        self._heard_at: float | None = None  # when the first chunk left Code2Wav
        self._decode_s = self._decoded = 0.0  # of the last chunk: its last frame to its samples, and frames

    def is_due(self, waiting: int, now_s: float | None = None) -> bool:
        """Whether a chunk of the ``waiting`` frames is sent now. Call it once after each frame."""
        now_s = time.perf_counter() if now_s is None else now_s
        if self._frame_at is not None:
            self._steps_s.append(now_s - self._frame_at)
        self._frame_at = now_s
        if waiting >= self.steady:
            return True
        doubled = max(self.first, min(2 * self._last, self.steady))
        if not self._sent_frames or self.growth == "double":
            return waiting >= doubled
        if self._heard_at is None:
            return False  # the listener has nothing to play yet
        held_s = self._sent_frames * self.frame_s - (now_s - self._heard_at)
        step_s = max(self._steps_s)
        if held_s <= 0 or step_s >= self.frame_s:
            return waiting >= doubled
        decode_s = self._decode_s * max(1.0, (waiting + 1) / self._decoded)
        return held_s < PACE_MARGIN * step_s + decode_s

    def cut(self, frames: int, now_s: float | None = None) -> None:
        """A chunk of ``frames`` went to Code2Wav."""
        self._sent_frames += frames
        self._last = frames
        self._in_flight.append((time.perf_counter() if now_s is None else now_s, frames))

    def delivered(self, now_s: float | None = None) -> None:
        """The oldest chunk that was cut has left Code2Wav."""
        if not self._in_flight:
            return
        now_s = time.perf_counter() if now_s is None else now_s
        cut_at, frames = self._in_flight.popleft()
        self._decode_s, self._decoded = now_s - cut_at, frames
        if self._heard_at is None:
            self._heard_at = now_s
