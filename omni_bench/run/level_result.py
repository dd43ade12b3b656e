"""A measured request and level."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from omni_bench.accuracy.signal.level_audio import LevelAudio
from omni_bench.accuracy.signal.shared_audio import SharedAudio
from omni_bench.foreign_text import shorten
from omni_bench.metrics.level import LevelSummary, Warmup, summarise_level
from omni_bench.metrics.open_loop import peak_in_flight
from omni_bench.metrics.pace import ExpectedPace, LevelPace, level_pace, pace
from omni_bench.metrics.slo import Slo
from omni_bench.records.level import Level, Rate
from omni_bench.records.recording import LoopLag
from omni_bench.records.request_metrics import RequestMetrics
from omni_bench.records.timeline import Timeline
from omni_bench.run.warmup import WarmupRequest

UNHEARABLE = ("empty", "silent", "no_text")
"""Faults with which there is nothing to transcribe, or to compare: the utterance counts as wholly wrong."""


@dataclass(frozen=True)
class RequestResult:
    """One measured request. ``audio``: the file that holds its samples (.pcm or .wav), None if there is none.

    ``text``: what is to be heard: of a chat the text of its reply, else that of the prompt.
    ``prompt_text``: what was asked for, None where that is ``text``.
    ``ref_text``: what is said in the reference recording that was sent with it, None if none was.
    ``shared``: which stretches of it are samples of other requests (fault ``shared_audio``).
    """

    timeline: Timeline
    text: str
    language: str
    metrics: RequestMetrics
    faults: tuple[str, ...]
    audio: Path | None
    ref_text: str | None = None
    shared: tuple[SharedAudio, ...] = ()
    prompt_text: str | None = None

    @property
    def request_id(self) -> str:
        """Unique within a run."""
        return self.timeline.request_id

    @property
    def forced(self) -> str | None:
        """Why no transcript can save this utterance (failed, empty, silent), else None."""
        if not self.timeline.ok:
            return "failed"
        return next((fault for fault in UNHEARABLE if fault in self.faults), None)


@dataclass(frozen=True)
class LevelResult:
    """One level: its requests in plan order, the lag of the client (None if it never measured), how the warm-up went.

    ``expected_pace``: of its voice, None if that is not to be looked at. ``warmup`` is None in runs of schema 1.0,
    which did not store it; ``warmup_requests`` is empty before 1.2. ``measured_before``: as of
    :class:`.LevelRecording`. ``audio``: what the answers show together, None if their signal was not checked.
    """

    concurrency: Level
    requests: tuple[RequestResult, ...]
    lag: LoopLag | None
    warmup: Warmup | None = None
    warmup_requests: tuple[WarmupRequest, ...] = ()
    expected_pace: ExpectedPace | None = None
    measured_before: int = 0
    audio: LevelAudio | None = None

    @property
    def rates_hz(self) -> Counter[int]:
        """Sample rates, and how many answers that ended well have each."""
        heard = (one.timeline for one in self.requests if one.timeline.ok and one.timeline.audio_bytes)
        return Counter(one.sample_rate_hz for one in heard if one.sample_rate_hz is not None)

    @property
    def sample_rate_hz(self) -> int | None:
        """The rate of most answers; None without audio."""
        rates = Counter(one.timeline.sample_rate_hz for one in self.requests if one.timeline.sample_rate_hz is not None)
        return max(rates, key=rates.__getitem__, default=None)

    @property
    def failure(self) -> str | None:
        """One of the requests that failed by the server, of the most frequent kind, and what was said."""
        errors = [
            (one.request_id, one.timeline.error)
            for one in self.requests
            if one.timeline.error is not None and one.timeline.error.kind != "client_shortage"
        ]
        kinds = Counter(error.kind for _, error in errors)
        most = max(kinds, key=kinds.__getitem__, default=None)
        return next((f"{name}: {shorten(error.message, 160)}" for name, error in errors if error.kind == most), None)

    @property
    def states_rate(self) -> bool:
        """Whether every answer with audio states its rate, as far as that was noted."""
        return all(one.timeline.rate_stated is not False for one in self.requests)

    def pace(self) -> LevelPace | None:
        """How fast its voice speaks; None if nothing is expected, or too little was spoken."""
        rate_hz = self.sample_rate_hz
        if self.expected_pace is None or rate_hz is None:
            return None
        heard = [one for one in self.requests if one.timeline.ok and one.timeline.sample_rate_hz == rate_hz]
        paces = [pace(one.text, one.metrics["speech_s"]) for one in heard]
        return level_pace(paces, self.expected_pace, rate_hz)

    @property
    def slots(self) -> int:
        """Requests that were to be in flight at once, or that were so at most in an open loop."""
        if not isinstance(self.concurrency, Rate):
            return self.concurrency
        return max(peak_in_flight([request.timeline for request in self.requests]), 1)

    def summary(
        self,
        arrival: str = "closed_loop",
        *,
        max_in_flight: int | None = None,
        slo: Slo | None = None,
    ) -> LevelSummary:
        """Distributions and rates of the level; arguments as of :func:`summarise_level`."""
        return summarise_level(
            self.concurrency,
            [request.timeline for request in self.requests],
            [request.metrics for request in self.requests],
            {request.request_id: request.faults for request in self.requests},
            lag=self.lag,
            warmup=self.warmup,
            slo=slo,
            arrival=arrival,
            max_in_flight=max_in_flight,
            measured_before=self.measured_before,
        )
