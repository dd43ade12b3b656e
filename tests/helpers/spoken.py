"""What an engine says to one request: pass a :class:`Spoken` as ``on_event``."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from reference_impl.engine_api import AudioChunk, Failed, Finished


@dataclass
class Spoken:
    chunks: list[AudioChunk] = field(default_factory=list)
    end: Finished | Failed | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def __call__(self, event) -> None:
        if isinstance(event, AudioChunk):
            self.chunks.append(event)
        else:
            self.end = event
            self.done.set()

    @property
    def pcm(self) -> np.ndarray:
        return np.frombuffer(b"".join(chunk.pcm for chunk in self.chunks), "<i2")

    @property
    def codes(self) -> np.ndarray:
        return self.end.codes

    def wait(self) -> Spoken:
        assert self.done.wait(timeout=240), "the engine did not finish"
        return self
