"""When waiting requests may join the running ones: how much of a frame's time their prompts may take.

A prompt read alone costs nearly as much as eight read together, since either way every weight is
read once. Where requests end one by one, as they do when their lengths differ, they would be
replaced one by one too; letting a few gather costs each a few frames' wait and saves the others
most of those calls.
"""

from __future__ import annotations

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
    gained by waiting, and every frame is such a frame. Belongs to the engine's thread.
    """

    def __init__(self, every_frames: int, rows: int, gathers: bool):
        self._every = every_frames if gathers else 1
        self._rows = rows
        self._frames_since = every_frames

    def may_join(self, running: int, waiting: int) -> bool:
        """Asked once before each frame, with the counts of requests. As many as one call reads do not wait."""
        self._frames_since += 1
        could_join = min(waiting, self._rows - running)
        return self._frames_since >= self._every or 2 * running <= self._rows or could_join >= PREFILLS_PER_STEP

    def joined(self) -> None:
        """Prompts were read before this frame."""
        self._frames_since = 0
