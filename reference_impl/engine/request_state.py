"""What the engine keeps of each request, and what it counts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from reference_impl.engine.chunking import ChunkSchedule
from reference_impl.engine_api import AudioChunk, EngineStats, Event, SpeechRequest
from reference_impl.prompt.builder import Segment

log = logging.getLogger("reference_impl.engine.engine")


@dataclass(eq=False)
class RequestState:
    """One request, from the queue to its last chunk. ``slot``: of the batch; ``stream``: of Code2Wav."""

    request: SpeechRequest
    on_event: Callable[[Event], None]
    segments: list[Segment]
    max_frames: int
    schedule: ChunkSchedule
    segment: int = 0
    segment_frames: int = 0
    cut_segments: int = 0
    slot: int = -1
    stream: int = -1
    codes: list[np.ndarray] = field(default_factory=list)
    sent_frames: int = 0
    cancelled: bool = False
    finish_reason: str | None = None
    ended: bool = False

    @property
    def prompt_tokens(self) -> int:
        """Text tokens of all segments."""
        return sum(segment.text_tokens for segment in self.segments)

    def chunk_is_due(self) -> bool:
        """Whether the frames that wait are sent now; call it once a frame."""
        return self.schedule.is_due(len(self.codes) - self.sent_frames)

    def advance(self, ended: bool, room: int) -> bool:
        """After a frame: True if the next segment begins now; ``finish_reason`` is set if it was the last frame.

        ``ended``: the segment is spoken. ``room``: the most frames it may take.
        """
        at_limit = len(self.codes) >= self.max_frames
        if self.cancelled:
            self.finish_reason = "cancelled"
        elif ended or self.segment_frames >= room:
            if not ended:
                self.cut_segments += 1
                name = self.request.request_id
                log.warning("%s: segment %d did not stop within %d frames", name, self.segment, room)
            self.segment += 1
            if self.segment == len(self.segments):
                self.finish_reason = "length" if self.cut_segments else "stop"
            elif not at_limit:
                return True
            else:
                self.finish_reason = "length"
        elif at_limit:
            self.finish_reason = "length"
        return False

    def unsent(self) -> np.ndarray:
        """The frames that Code2Wav has not got yet, int64 [T, 16]; from now on they count as sent."""
        codes = np.stack(self.codes[self.sent_frames :]).astype(np.int64)
        self.schedule.cut(len(codes))
        self.sent_frames += len(codes)
        return codes

    def emit(self, event: Event) -> None:
        """Pass an event on; nothing follows the end."""
        if isinstance(event, AudioChunk):
            self.schedule.delivered()
        if not self.ended:
            self.ended = not isinstance(event, AudioChunk)
            self.on_event(event)


@dataclass
class Counters:
    """What :class:`EngineStats` reports. Ends are counted under the engine's lock, the rest by its thread."""

    requests: int = 0
    stop: int = 0
    length: int = 0
    cancelled: int = 0
    failed: int = 0
    frames: int = 0
    steps: int = 0
    step_s: float = 0.0
    prefill_s: float = 0.0
    code2wav_before_s: float = 0.0  # of the warm-up

    def stats(self, alive: bool, running: int, waiting: int, code2wav_s: float) -> EngineStats:
        """The snapshot; ``code2wav_s``: what Code2Wav has been busy for, the warm-up included."""
        return EngineStats(
            alive=alive,
            running=running,
            waiting=waiting,
            requests_total=self.requests,
            finished_stop_total=self.stop,
            finished_length_total=self.length,
            cancelled_total=self.cancelled,
            failed_total=self.failed,
            frames_total=self.frames,
            steps_total=self.steps,
            step_seconds_total=self.step_s,
            code2wav_seconds_total=code2wav_s - self.code2wav_before_s,
            prefill_seconds_total=self.prefill_s,
        )
