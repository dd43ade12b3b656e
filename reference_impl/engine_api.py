"""The contract between the HTTP server and the engine: what goes in, what comes out.

The server (``http/``) knows nothing of tensors and the engine (``engine/``) nothing of HTTP; both know
this file. ``submit`` is thread-safe; ``on_event`` is called from the engine's thread (or in the event
loop, if the engine has a process of its own), in order, and must not block.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Union

from omni_bench.errors import EngineError

# Normalising a longer text takes milliseconds: that happens outside the event loop, where other streams would wait.
LONG_TEXT_CHARS = 400


@dataclass(frozen=True)
class SpeechRequest:
    """One utterance to speak. ``text`` is as the client sent it; ``seed`` fixes the sampling.

    ``instructions`` describe how to speak (or the voice itself, with a VoiceDesign checkpoint).
    ``reference_audio`` float32 [samples], mono, at the engine's sample rate, is what a Base
    checkpoint clones; with ``reference_text``, its transcript, it is cloned in context. A checkpoint
    that cannot follow one of these ignores it. ``streaming_text``: the text reaches the talker
    token by token, one per frame (None: as the checkpoint was trained).
    """

    request_id: str
    text: str
    voice: str
    seed: int
    max_new_tokens: int | None = None
    language: str | None = None
    instructions: str | None = None
    reference_audio: Any = None
    reference_text: str | None = None
    streaming_text: bool | None = None


@dataclass(frozen=True)
class AudioChunk:
    """Some frames of audio: ``pcm`` is s16le mono at the engine's sample rate, 1920 samples a frame."""

    pcm: bytes
    frames: int


@dataclass(frozen=True)
class Finished:
    """A request's clean end. ``reason``: ``stop`` (end token), ``length`` (frame cap) or ``cancelled``.

    ``codes``: the frames spoken, int16 [frames, 16] (None if the engine does not report them).
    """

    reason: str
    frames: int
    prompt_tokens: int
    codes: Any = None


@dataclass(frozen=True)
class Failed:
    """The engine could not finish this request."""

    message: str


Event = Union[AudioChunk, Finished, Failed]


@dataclass(frozen=True)
class EngineStats:
    """Counters since start and gauges of now, for /metrics and /health."""

    alive: bool
    running: int
    waiting: int
    requests_total: int
    finished_stop_total: int
    finished_length_total: int
    cancelled_total: int
    failed_total: int
    frames_total: int
    steps_total: int
    step_seconds_total: float
    code2wav_seconds_total: float
    prefill_seconds_total: float


@dataclass(frozen=True)
class Capabilities:
    """What requests a checkpoint can follow; the defaults are those of the tiny voice.

    ``clones``: it speaks as ``reference_audio`` does (otherwise a reference has no effect).
    ``follows_instructions``: ``instructions`` have an effect. ``task_types`` and ``languages``:
    the values that clients may send; ``auto`` names no language.
    """

    clones: bool = False
    follows_instructions: bool = False
    task_types: tuple[str, ...] = ("CustomVoice", "VoiceDesign", "Base")
    languages: tuple[str, ...] = ("auto", "english", "en")


class QueueFull(EngineError):
    """More requests wait than ``max_queue``: HTTP 429."""


class EngineDead(EngineError):
    """The engine's thread has ended: HTTP 503."""


class RequestRejected(EngineError):
    """The request cannot be spoken (HTTP 400). ``param`` names the field."""

    def __init__(self, message: str, param: str):
        super().__init__(message)
        self.param = param


class EngineLike(Protocol):
    """What the server needs of an engine. Engines derive from it; tests use a fake one.

    What has a value or a body here is right for an engine that runs in threads of this process and speaks as the
    tiny voice does. ``fault``: the name of what is broken in it on purpose, None if nothing is.
    """

    model_name: str
    voices: tuple[str, ...]
    sample_rate_hz: int
    capabilities: Capabilities = Capabilities()
    fault: str | None = None

    @abstractmethod
    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """Queue a request. Raises :class:`QueueFull`, :class:`EngineDead`, :class:`RequestRejected`."""

    @abstractmethod
    def cancel(self, request_id: str) -> None:
        """Stop a request at the next frame; unknown ids are ignored."""

    @abstractmethod
    def stats(self) -> EngineStats:
        """A snapshot."""

    @abstractmethod
    def stop(self) -> None:
        """End the engine's thread; running requests get :class:`Failed`."""

    def profile(self, on: bool) -> None:
        """Begin a trace, or end it and write it into the folder of PROFILE_VARIABLE. Blocks. Raises EngineError."""
        raise EngineError("this engine takes no traces")

    def describe(self) -> dict[str, Any]:
        """What is running, ready for JSON: for /health and a run's provenance."""
        return {}

    async def attach(self) -> None:
        """To be awaited once in the event loop that serves, before the first request."""

    async def submit_async(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """:meth:`submit` in the event loop. If it is cancelled while it waits, it cancels the request."""
        if len(request.text) <= LONG_TEXT_CHARS:
            self.submit(request, on_event)
            return
        submitting = asyncio.create_task(asyncio.to_thread(self.submit, request, on_event))
        try:
            await asyncio.shield(submitting)
        except asyncio.CancelledError:  # the thread cannot be stopped
            submitting.add_done_callback(partial(self._cancel_submitted, request.request_id))
            raise

    def _cancel_submitted(self, request_id: str, submitting: asyncio.Task[None]) -> None:
        if not submitting.cancelled() and submitting.exception() is None:
            self.cancel(request_id)
