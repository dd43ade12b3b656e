"""The contract between the HTTP server and the engine: what goes in, what comes out.

The server (``server.py``) knows nothing of tensors and the engine (``engine.py``) nothing of
HTTP; both know this file. ``submit`` is thread-safe; ``on_event`` is called from the
engine's thread (or in the event loop, where the engine has a process of its own), in order, and
must not block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Union

from omni_bench.errors import EngineError


@dataclass(frozen=True)
class SpeechRequest:
    """One utterance to speak. ``text`` is as the client sent it; ``seed`` fixes the sampling.

    ``instructions`` describe how to speak (or the voice itself, with a VoiceDesign checkpoint).
    ``reference_audio`` float32 [samples], mono, at the engine's sample rate, is what a Base
    checkpoint clones; with ``reference_text``, what was said in it, in context. A checkpoint
    that cannot follow one of these ignores it. ``streaming_text``: the text reaches the talker
    token by token, one a frame (None: the checkpoint's habit).
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
    """The clean end. ``reason``: ``stop`` (end token), ``length`` (frame cap) or ``cancelled``.

    ``codes``: what was spoken, int16 [frames, 16] (None from an engine that does not tell).
    """

    reason: str
    frames: int
    prompt_tokens: int
    codes: Any = None


@dataclass(frozen=True)
class Failed:
    """The engine could not go on with this request."""

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
    languages: tuple[str, ...] = ("english", "en", "auto")


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
    """What the server needs of an engine (tests use a fake one).

    An engine may also have ``capabilities`` (:class:`Capabilities`; without, the defaults hold) and
    ``fault``, the name of what is broken in it on purpose. One that is reached through the event loop
    (:class:`reference_impl.remote.client.RemoteEngine`) has ``attach()``, awaited before its first
    request, and ``submit_async``, which is ``submit`` as a coroutine.
    """

    model_name: str
    voices: tuple[str, ...]
    sample_rate_hz: int

    def submit(self, request: SpeechRequest, on_event: Callable[[Event], None]) -> None:
        """Queue a request. Raises :class:`QueueFull`, :class:`EngineDead`, :class:`RequestRejected`."""

    def cancel(self, request_id: str) -> None:
        """Stop a request at the next frame; unknown ids are ignored."""

    def stats(self) -> EngineStats:
        """A snapshot."""

    def stop(self) -> None:
        """End the engine's thread; running requests get :class:`Failed`."""
