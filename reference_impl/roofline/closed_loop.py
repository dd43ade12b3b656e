"""How fast an engine speaks: requests through it one after the other in each of c places, without HTTP.

Used by ``omni-bench roofline --measure`` and ``benchmarks/ladder``. Everything between a
request's text and its last 16-bit sample counts: queue, prefill, steps, Code2Wav, delivery.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from omni_bench.errors import EngineError
from reference_impl.engine.engine import Engine
from reference_impl.engine_api import AudioChunk, EngineStats, Event, Failed, Finished, SpeechRequest
from reference_impl.prompt.builder import FORCED_CHARACTERS_PER_S

PATIENCE_S = 300.0
"""How long a request may say nothing at all."""


@dataclass
class Spoken:
    """What one request did: host times of its start and of every chunk, the frames in the chunks, and its end."""

    started_s: float
    chunks_s: list[float] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    end: Finished | Failed | None = None


@dataclass(frozen=True)
class Pace:
    """One measurement. ``stats``: the engine's counters, after minus before."""

    concurrency: int
    wall_s: float
    frame_s: float
    spoken: tuple[Spoken, ...]
    before: EngineStats
    after: EngineStats

    @property
    def frames(self) -> int:
        """Of all requests."""
        return sum(sum(request.frames) for request in self.spoken)

    @property
    def ms_per_frame(self) -> float:
        """Wall time over the frames that each place spoke."""
        return self.wall_s * 1e3 * self.concurrency / self.frames

    @property
    def rtf(self) -> float:
        """Wall time over the audio that each place spoke."""
        return self.ms_per_frame / 1e3 / self.frame_s

    @property
    def request_rtf(self) -> list[float]:
        """Of each request: from its start to its last chunk, over its audio."""
        return [(r.chunks_s[-1] - r.started_s) / (sum(r.frames) * self.frame_s) for r in self.spoken]

    @property
    def audio_per_s(self) -> float:
        """Seconds of audio a second, all places together."""
        return self.frames * self.frame_s / self.wall_s

    @property
    def ttfp_ms(self) -> list[float]:
        """From a request to its first chunk."""
        return [1e3 * (request.chunks_s[0] - request.started_s) for request in self.spoken]

    @property
    def stall_s(self) -> float:
        """How long the listeners waited, all together; see :func:`stall_s`."""
        return sum(stall_s(request, self.frame_s) for request in self.spoken)

    def of(self, counter: str) -> float:
        """How much a counter of :class:`EngineStats` grew."""
        return getattr(self.after, counter) - getattr(self.before, counter)

    def summary(self) -> dict[str, float | int]:
        """The numbers of a table, units in their names."""
        return {
            "concurrency": self.concurrency,
            "requests": len(self.spoken),
            "frames": self.frames,
            "wall_s": self.wall_s,
            "ms_per_frame": self.ms_per_frame,
            "rtf": self.rtf,
            "audio_per_s": self.audio_per_s,
            "ttfp_p50_ms": median(self.ttfp_ms),
            "ttfp_max_ms": max(self.ttfp_ms),
            "stall_s": self.stall_s,
            "stalled_requests": sum(stall_s(request, self.frame_s) > 0 for request in self.spoken),
            "steps": self.of("steps_total"),
            "rows_per_step": self.of("frames_total") / self.of("steps_total"),
            "step_ms": self.of("step_seconds_total") / self.of("steps_total") * 1e3,
            "prefill_ms": self.of("prefill_seconds_total") / len(self.spoken) * 1e3,
            "code2wav_busy": self.of("code2wav_seconds_total") / self.wall_s,
        }


def closed_loop(
    engine: Engine, text: str | Sequence[str], concurrency: int, rounds: int, seed: int = 0,
    max_frames: int | None = None,
) -> Pace:  # fmt: skip
    """``rounds`` requests one after the other in each of ``concurrency`` places; every one has a seed of its own.

    Several texts are spoken in turn, in another order in each place, so that places do not end together.

    Raises EngineError if a request fails, or for PATIENCE_S nothing comes.
    """
    texts = [text] if isinstance(text, str) else list(text)
    spoken: list[Spoken] = []
    ended: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    before = engine.stats()

    def start(place: int, number: int) -> None:
        request = Spoken(time.perf_counter())
        spoken.append(request)

        def on_event(event: Event) -> None:
            if isinstance(event, AudioChunk):
                request.chunks_s.append(time.perf_counter())
                request.frames.append(event.frames)
                return
            request.end = event
            ended.put((place, number))

        text = texts[(place + number * (2 * place + 1)) % len(texts)]
        name = f"{seed}-{place}-{number}"
        own_seed = seed + place * 1000 + number
        engine.submit(SpeechRequest(name, text, engine.voices[0], own_seed, max_frames), on_event)

    begun = time.perf_counter()
    for place in range(concurrency):
        start(place, 0)
    for _ in range(concurrency * rounds):
        try:
            place, number = ended.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise EngineError(f"no request ended within {PATIENCE_S:.0f} s") from None
        if number + 1 < rounds:
            start(place, number + 1)
    wall_s = time.perf_counter() - begun
    for request in spoken:
        if isinstance(request.end, Failed):
            raise EngineError(request.end.message)
        if not request.frames:
            raise EngineError(f"a request for one of {texts!r} spoke nothing")
    return Pace(concurrency, wall_s, 1.0 / engine.model.config.frame_rate_hz, tuple(spoken), before, engine.stats())


def stall_s(request: Spoken, frame_s: float) -> float:
    """How long playback that starts with the first chunk would have to wait for later ones."""
    heard_until, waited = request.chunks_s[0], 0.0
    for at, frames in zip(request.chunks_s, request.frames, strict=True):
        waited += max(0.0, at - heard_until)
        heard_until = max(at, heard_until) + frames * frame_s
    return waited


def text_of(frames: int, frame_rate_hz: float) -> str:
    """A text that takes about ``frames`` with random weights (forced lengths), a shorter time with the tiny voice."""
    characters = max(1, round(frames * FORCED_CHARACTERS_PER_S / frame_rate_hz))
    return ("a fine day " * (characters // 11 + 1))[:characters].strip()
