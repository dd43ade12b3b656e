"""Stand-ins for the stages around the orchestration: a target, a load phase, a judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omni_bench.accuracy.asr.clips import Transcript
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec
from omni_bench.accuracy.signal.audio_faults import speaking_time
from omni_bench.load.events import LoadEvent, RequestFinished, RequestStarted, WarmupDone
from omni_bench.records.config import RunConfig
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.recording import LevelRecording, LoopLag
from omni_bench.records.timeline import RequestError, Timeline
from omni_bench.run import calibration, judging, load_phase, prepare, rejudge, results
from omni_bench.run.config.compose import compose
from omni_bench.targets.base import TargetInfo

RATE_HZ = 24000
SPEC = JudgeSpec("fake-judge", "path", "nowhere", (), "0" * 64, "cpu", 30.0)


@pytest.fixture(scope="session")
def smoke_config() -> RunConfig:
    return compose(["scenario=smoke", "output.plots=false", "target.probe=false"])


@pytest.fixture
def config(smoke_config: RunConfig) -> RunConfig:
    """The smoke scenario: one level of two slots, six requests, four warm-up requests; no plots."""
    return replace(
        smoke_config,
        load=replace(smoke_config.load),
        asr=replace(smoke_config.asr),
        output=replace(smoke_config.output),
        dataset=replace(smoke_config.dataset),
        checks=replace(smoke_config.checks),
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for a run that the tests of a file have in common: made by the first, copied by each."""
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture
def judge_spec() -> JudgeSpec:
    return SPEC


class FakeTarget:
    """A target that does nothing but remember what was asked of it."""

    def __init__(self) -> None:
        self.base_url = "http://127.0.0.1:1"
        self.log_path: Path | None = None
        self.started = self.stopped = 0
        self.alive = False
        self.start_error: BaseException | None = None
        self.health = {"model": "fake", "version": "7"}

    def start(self) -> TargetInfo:
        self.started += 1
        if self.start_error is not None:
            raise self.start_error
        self.alive = True
        return TargetInfo("reference", self.base_url, 0.1, ("server",), self.health, None)

    def is_alive(self) -> bool:
        return self.alive

    def failure(self) -> str:
        return "exit code 9; the end of its log"

    def stop(self) -> None:
        self.stopped += 1
        self.alive = False


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> FakeTarget:
    fake = FakeTarget()
    monkeypatch.setattr(load_phase, "create_target", lambda *_: fake)
    return fake


@cache
def tone(seconds: float) -> bytes:
    """An audible s16le tone."""
    return (8000 * np.sin(0.05 * np.arange(round(seconds * RATE_HZ)))).astype("<i2").tobytes()


class FakeLoad:
    """In the place of run_level: every request gets a tone of its expected length, unless ``spoil`` says otherwise.

    ``spoil[request_id]`` is an error kind, or the audio itself. ``after[request_id]`` is called when
    that request has finished.
    """

    def __init__(self) -> None:
        self.spoil: dict[str, str | bytes] = {}
        self.after: dict[str, Callable[[], Any]] = {}
        self.levels: list[int] = []
        self.urls: list[str] = []
        self.target_died = False
        self.lag = LoopLag(0.1, 0.2, 0.3, 100)

    def __call__(
        self,
        plan: LevelPlan,
        *,
        base_url: str,
        client: Any,
        spool_dir: Path,
        on_event: Callable[[LoadEvent], None],
        is_target_alive: Callable[[], bool] | None = None,
        health_path: str = "/health",
        workers: int | None = 1,
        ray_address: str | None = None,
        reuse: bool = True,
    ) -> LevelRecording:
        self.levels.append(plan.concurrency)
        self.urls.append(base_url)
        spool_dir.mkdir(parents=True, exist_ok=True)
        audio: dict[str, Path] = {}
        warmup = tuple(self._one(planned, plan, spool_dir, on_event, audio) for planned in plan.warmup)
        on_event(WarmupDone(plan.concurrency, len(warmup), 0))
        measured = tuple(self._one(planned, plan, spool_dir, on_event, audio) for planned in plan.measured)
        return LevelRecording(plan.concurrency, measured, warmup, audio, self.lag, False, self.target_died)

    def _one(
        self,
        planned: PlannedRequest,
        plan: LevelPlan,
        spool_dir: Path,
        on_event: Callable[[LoadEvent], None],
        audio: dict[str, Path],
    ) -> Timeline:
        on_event(RequestStarted(planned.request_id, planned.prompt_id, planned.warmup))
        spoiled = self.spoil.get(planned.request_id, b"tone")
        pcm = tone(speaking_time(planned.body["input"], "en").expected_s) if spoiled == b"tone" else spoiled
        error = RequestError(pcm, "made up") if isinstance(pcm, str) else None
        pcm = b"" if isinstance(pcm, str) else pcm
        half = len(pcm) // 4 * 2
        chunks = tuple(len(chunk) for chunk in (pcm[:half], pcm[half:]) if chunk)
        timeline = Timeline(
            request_id=planned.request_id,
            prompt_id=planned.prompt_id,
            concurrency=plan.concurrency,
            seed=planned.seed,
            scheduled_ns=1_000_000_000,
            started_ns=1_001_000_000,
            headers_ns=1_050_000_000,
            first_byte_ns=1_100_000_000 if chunks else None,
            first_audio_ns=1_100_000_000 if chunks else None,
            ended_ns=None if error else 2_000_000_000,
            failed_ns=2_000_000_000 if error else None,
            chunk_arrived_ns=(1_100_000_000, 1_900_000_000)[: len(chunks)],
            chunk_bytes=chunks,
            sample_rate_hz=RATE_HZ,
            sample_width_bytes=2,
            http_status=500 if error else 200,
            error=error,
            warmup=planned.warmup,
        )
        if not planned.warmup and error is None:
            audio[planned.request_id] = spool_dir / f"{planned.request_id}.pcm"
            audio[planned.request_id].write_bytes(pcm)
        on_event(RequestFinished(timeline))
        self.after.get(planned.request_id, lambda: None)()
        return timeline


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> FakeLoad:
    fake = FakeLoad()
    monkeypatch.setattr(load_phase, "run_level", fake)
    return fake


class FakeJudge:
    """In the place of Whisper: hears the text itself, or ``mishears[request_id]``."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.mishears: dict[str, str] = {}
        self.error: BaseException | None = None
        self.heard: list[str] = []

    def transcribe(self, clips: Any, asr: Any, language: str, on_progress: Any, *, spec: Any) -> list[Transcript]:
        if self.error is not None:
            raise self.error
        names = [clip.request_id for clip in clips]
        self.heard = [name for name in names if not name.startswith("reference/")]
        for done in range(1, len(clips) + 1):
            on_progress(done, len(clips))
        return [Transcript(name, self.mishears.get(name, self.texts[name]), -0.1, 0.01) for name in names]


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> FakeJudge:
    fake = FakeJudge({})
    real = judging.judge_levels

    def judge_levels(levels: Any, *rest: Any) -> Any:
        fake.texts = {request.request_id: request.text for level in levels for request in level.requests}
        _, _, _, _, references = rest[:5]
        fake.texts |= {reference.clip.request_id: reference.text for reference in references}
        return real(levels, *rest[:5], judging.transcribe)

    monkeypatch.setattr(results, "judge_levels", judge_levels)
    monkeypatch.setattr(rejudge, "judge_levels", judge_levels)
    monkeypatch.setattr(judging, "transcribe", fake.transcribe)
    monkeypatch.setattr(prepare, "find_judge", lambda *_: SPEC)
    return fake


@pytest.fixture(autouse=True)
def uncalibrated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever this machine's user has measured."""
    monkeypatch.setattr(calibration, "calibration_file", lambda: tmp_path / "no calibration")
