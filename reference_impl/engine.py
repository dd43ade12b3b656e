"""The engine: one thread that admits requests, steps the batch, and passes frames on to Code2Wav.

Continuous batching: between two frames, waiting requests are prefilled into free rows and
finished ones leave. Talker and code predictor run in this thread, Code2Wav in another
(``streaming.py``); callers only touch the queue.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from omni_bench.errors import CheckpointError, ConfigError, EngineError
from reference_impl.batch import DecodeBatch
from reference_impl.checkpoint import BUNDLED, Model, load_model
from reference_impl.config import PRESETS
from reference_impl.engine_api import (
    AudioChunk,
    EngineDead,
    EngineStats,
    Event,
    Failed,
    Finished,
    QueueFull,
    RequestRejected,
    SpeechRequest,
)
from reference_impl.sampling import request_uniforms
from reference_impl.settings import ServerSettings
from reference_impl.streaming import AudioJob, AudioWorker, ChunkSchedule
from reference_impl.tokenizer import CharTokenizer, PromptIds

log = logging.getLogger("reference_impl.engine")

MAX_FRAMES = 2048  # 164 s: the most one request may speak
PREFILLS_PER_STEP = 8  # joining requests delay the running ones by at most this many prompts a frame


@dataclass(eq=False)
class Running:
    """One request, from the queue to its last chunk."""

    request: SpeechRequest
    on_event: Callable[[Event], None]
    prompts: list[PromptIds]
    max_frames: int
    schedule: ChunkSchedule
    segment: int = 0
    segment_frames: int = 0
    row: int = -1
    stream: int = -1
    codes: list[np.ndarray] = field(default_factory=list)
    sent_frames: int = 0
    cancelled: bool = False
    finish_reason: str | None = None
    ended: bool = False

    @property
    def prompt_tokens(self) -> int:
        """Text tokens of all segments."""
        return sum(len(prompt.ids) for prompt in self.prompts)

    def emit(self, event: Event) -> None:
        """Pass an event on; nothing follows the end."""
        if not self.ended:
            self.ended = not isinstance(event, AudioChunk)
            self.on_event(event)


@dataclass
class Counters:
    """What :class:`EngineStats` reports, as plain numbers that only the engine's thread changes."""

    requests: int = 0
    stop: int = 0
    length: int = 0
    cancelled: int = 0
    failed: int = 0
    frames: int = 0
    steps: int = 0
    step_s: float = 0.0
    prefill_s: float = 0.0


class Engine:
    """Implements :class:`reference_impl.engine_api.EngineLike`."""

    def __init__(self, model: Model, settings: ServerSettings, checkpoint_sha256: str):
        self.model, self.settings = model, settings
        self.model_name = model.config.name
        self.sample_rate_hz = model.config.sample_rate_hz
        self._tokenizer = CharTokenizer(model.config.text)
        self.voices = self._tokenizer.voices
        self._checkpoint_sha256 = checkpoint_sha256
        self._batch = DecodeBatch(model, settings, MAX_FRAMES)
        # twice the rows: a request whose last audio is still being decoded does not keep its row
        self._audio = AudioWorker(model, 2 * settings.max_batch, self._fail)
        self._waiting: deque[Running] = deque()
        self._running: list[Running] = []  # index = row
        self._draining: set[Running] = set()  # left the batch, last audio not yet out
        self._wake = threading.Condition()
        self._stopping = False
        self._failure: Exception | None = None
        self._counters = Counters()
        self._thread = threading.Thread(target=self._run, name="reference-engine", daemon=True)
        self._thread.start()

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """See :meth:`EngineLike.submit`."""
        prompts = self._tokenizer.prompts(request.text, request.voice)
        longest = max(len(p.ids) for p in prompts)
        if longest + self.model.config.talker.min_frames > self.settings.max_seq_len:
            raise RequestRejected(
                f"a segment needs {longest} positions; this server's max_seq_len is {self.settings.max_seq_len}",
                "input",
            )
        running = Running(
            request,
            on_event,
            prompts,
            min(request.max_new_tokens or MAX_FRAMES, MAX_FRAMES),
            ChunkSchedule(self.settings.first_chunk_frames, self.settings.chunk_frames),
        )
        with self._wake:
            if self._stopping or not self._thread.is_alive():
                raise EngineDead("the engine has stopped")
            free_rows = self.settings.max_batch - len(self._running)
            if len(self._waiting) >= self.settings.max_queue + free_rows:
                raise QueueFull(f"{len(self._waiting)} requests are waiting; max_queue is {self.settings.max_queue}")
            self._counters.requests += 1
            self._waiting.append(running)
            self._wake.notify()

    def cancel(self, request_id: str) -> None:
        """See :meth:`EngineLike.cancel`."""
        with self._wake:
            for running in (*self._waiting, *self._running):
                if running.request.request_id == request_id:
                    running.cancelled = True

    def stats(self) -> EngineStats:
        """See :meth:`EngineLike.stats`."""
        c = self._counters
        return EngineStats(
            alive=self._thread.is_alive(),
            running=len(self._running),
            waiting=len(self._waiting),
            requests_total=c.requests,
            finished_stop_total=c.stop,
            finished_length_total=c.length,
            cancelled_total=c.cancelled,
            failed_total=c.failed,
            frames_total=c.frames,
            steps_total=c.steps,
            step_seconds_total=c.step_s,
            code2wav_seconds_total=self._audio.busy_s,
            prefill_seconds_total=c.prefill_s,
        )

    def describe(self) -> dict[str, Any]:
        """What is running, for /health and for a run's provenance."""
        device = self.model.device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
        return {
            "model": self.model_name,
            "checkpoint_sha256": self._checkpoint_sha256,
            "device": str(device),
            "device_name": name,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "max_batch": self.settings.max_batch,
            "deterministic": self.settings.deterministic,
        }

    def stop(self) -> None:
        """See :meth:`EngineLike.stop`."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout=30)

    def warm_up(self) -> None:
        """Speak one word and forget it in the counters, so that the first request pays for no lazy initialisation."""
        done = threading.Event()
        request = SpeechRequest("warm-up", "Ready.", self.voices[0], seed=0, max_new_tokens=12)
        outcome: list[Event] = []

        def on_event(event: Event) -> None:
            if not isinstance(event, AudioChunk):
                outcome.append(event)
                done.set()

        self.submit(request, on_event)
        if not done.wait(timeout=120):
            raise EngineError("the engine did not finish its warm-up sentence within 120 s")
        if isinstance(outcome[0], Failed):
            raise EngineError(outcome[0].message)
        self._counters = Counters()

    def _fail(self, error: Exception) -> None:
        """Called by the Code2Wav thread when it cannot go on."""
        with self._wake:
            self._failure = error
            self._stopping = True
            self._wake.notify()

    def _run(self) -> None:
        torch.set_flush_denormal(True)
        try:
            with torch.inference_mode():
                while self._wait_for_work():
                    self._admit()
                    self._step()
        except Exception as error:
            log.exception("the engine died")
            self._failure = error
        self._audio.stop()
        with self._wake:
            self._stopping = True
            left = [*self._running, *self._waiting, *self._draining]
            self._running.clear()
            self._waiting.clear()
            self._draining.clear()
        error = self._failure
        message = f"the engine died: {type(error).__name__}: {error}" if error else "the engine was stopped"
        for running in left:
            self._counters.failed += 1
            running.emit(Failed(message))

    def _wait_for_work(self) -> bool:
        with self._wake:
            while not (self._stopping or self._waiting or self._running):
                self._wake.wait()
            return not self._stopping

    def _admit(self) -> None:
        """Prefill waiting requests into free rows."""
        for _ in range(PREFILLS_PER_STEP):
            with self._wake:
                if not self._waiting or len(self._running) == self.settings.max_batch:
                    return
                running = self._waiting[0]
                if not running.cancelled:
                    stream = self._audio.open()
                    if stream is None:
                        # Code2Wav is behind: with nothing else to do, look again shortly
                        if not self._running:
                            self._wake.wait(timeout=0.005)
                        return
                    running.stream = stream
                    self._running.append(running)
                self._waiting.popleft()
            if running.cancelled:
                self._counters.cancelled += 1
                running.emit(Finished("cancelled", 0, running.prompt_tokens))
                continue
            uniforms = request_uniforms(
                running.request.seed, running.max_frames + 1, self.model.config.predictor.num_code_groups
            )
            running.row = self._batch.join(uniforms)
            self._prefill(running)

    def _prefill(self, running: Running) -> None:
        started = time.perf_counter()
        self._batch.prefill(running.row, running.prompts[running.segment])
        running.segment_frames = 0
        self._counters.prefill_s += time.perf_counter() - started

    def _step(self) -> None:
        """One frame for every running request, then the audio that is due."""
        if not self._running:
            return
        started = time.perf_counter()
        frames = self._batch.step()
        self._counters.steps += 1
        self._counters.frames += len(self._running)
        self._counters.step_s += time.perf_counter() - started
        for running, codes in zip(self._running, frames, strict=True):
            running.codes.append(codes[:-1].astype(np.int16))
            running.segment_frames += 1
            self._advance(running, next_code0=int(codes[-1]))
            pending = len(running.codes) - running.sent_frames
            if not running.finish_reason and pending >= running.schedule.due:
                self._audio.submit(AudioJob(running.stream, running.emit, self._unsent(running)))
                running.schedule.advance()
        for running in [r for r in self._running if r.finish_reason]:
            self._finish(running)

    def _advance(self, running: Running, next_code0: int) -> None:
        """Decide whether a request goes on, starts its next segment, or ends."""
        prompt = running.prompts[running.segment]
        room = min(prompt.max_frames, self.settings.max_seq_len - len(prompt.ids))
        if running.cancelled:
            running.finish_reason = "cancelled"
        elif next_code0 == self.model.config.talker.codec_eos_id:
            running.segment += 1
            if running.segment == len(running.prompts):
                running.finish_reason = "stop"
            elif len(running.codes) >= running.max_frames:
                running.finish_reason = "length"
            else:
                self._prefill(running)
        elif len(running.codes) >= running.max_frames or running.segment_frames >= room:
            running.finish_reason = "length"

    def _unsent(self, running: Running) -> np.ndarray:
        """The frames that Code2Wav has not been given, int64 [T, 16]."""
        codes = np.stack(running.codes[running.sent_frames :]).astype(np.int64)
        running.sent_frames = len(running.codes)
        return codes

    def _finish(self, running: Running) -> None:
        """Free the row; the rest of the audio and the end go to Code2Wav."""
        reason = running.finish_reason or "stop"
        moved = self._batch.leave(running.row)
        with self._wake:
            last = self._running.pop()
            if moved is not None:
                last.row = running.row
                self._running[running.row] = last
            self._draining.add(running)
        end = Finished(reason, len(running.codes), running.prompt_tokens, np.stack(running.codes))
        rest = len(running.codes) > running.sent_frames and reason != "cancelled"
        codes = self._unsent(running) if rest else None

        def on_event(event: Event) -> None:
            if event is end:
                with self._wake:
                    self._draining.discard(running)
                setattr(self._counters, reason, getattr(self._counters, reason) + 1)
            running.emit(event)

        self._audio.submit(AudioJob(running.stream, on_event, codes, end))


def build_engine(settings: ServerSettings) -> Engine:
    """Load a checkpoint and start its engine, warmed up by one short sentence.

    Raises ConfigError for an unknown preset, device or dtype and CheckpointError for weights
    that cannot be loaded.
    """
    if settings.preset not in PRESETS:
        raise ConfigError(f"reference.preset={settings.preset!r} is unknown; valid: {', '.join(PRESETS)}")
    folder = BUNDLED[settings.preset] if settings.checkpoint == "bundled" else Path(settings.checkpoint)
    if not folder.is_dir():
        raise CheckpointError(f"reference.checkpoint={settings.checkpoint!r}: no such folder (or the word 'bundled')")
    device = resolve_device(settings.device)
    # float32 must mean float32: with TF32 convolutions a streamed sample differs from the whole decode by 1e-3
    torch.backends.cudnn.allow_tf32 = False
    if device.type == "cpu":
        torch.set_num_threads(settings.threads or default_threads())
    model = load_model(folder, device, resolve_dtype(settings.dtype), settings.max_seq_len, MAX_FRAMES + 1)
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.read_bytes())
    engine = Engine(model, settings, digest.hexdigest())
    engine.warm_up()
    return engine


def default_threads() -> int:
    """Threads inside one operation on a CPU: half the cores, at most 4.

    The engine and Code2Wav run side by side, each with this many. More than the cores can
    serve is far slower than fewer: the threads of an operation wait for each other.
    """
    return max(1, min(4, len(os.sched_getaffinity(0)) // 2))


def resolve_device(name: str) -> torch.device:
    """``auto``: CUDA where there is one, else the CPU. Raises ConfigError for anything that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"reference.device={name!r} is unknown; valid: auto, cpu, cuda, cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"reference.device={name!r}: PyTorch {torch.__version__} sees no CUDA device here")
    return device


def resolve_dtype(name: str) -> torch.dtype:
    """``auto`` is float32: the tiny voice is too small for a narrower type to pay."""
    types = {"auto": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16}
    if name not in types:
        raise ConfigError(f"reference.dtype={name!r} is unknown; valid: {', '.join(types)}")
    return types[name]
