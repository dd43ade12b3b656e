"""Engines with a fault on the bundled voice, and what the clean one says to the same requests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from spoken import Spoken

from reference_impl.engine.engine import Engine
from reference_impl.engine.stages import stages_for
from reference_impl.engine_api import AudioChunk, Finished, SpeechRequest
from reference_impl.faults.engines import with_fault
from reference_impl.loading.from_settings import Origin
from reference_impl.settings import ServerSettings

# chunks of 1, 2, 4, 8 frames and a last one
FRAMES = 17
SETTINGS = ServerSettings(max_batch=3, max_seq_len=96, deterministic=True, device="cpu")
TEXTS = (  # each takes more than FRAMES
    "The train leaves early in the morning.",
    "Please turn the loud music down now.",
    "She bought some apples and some pears.",
)
REFERENCES = ("An owl sat there.", "Seven boats left.", "My uncle sings.")


def samples(chunk: AudioChunk) -> np.ndarray:
    return np.frombuffer(chunk.pcm, "<i2")


class Speaker:
    """Speaks through one engine."""

    def __init__(self, engine: Engine):
        self.engine = engine

    def __call__(self, *requests: SpeechRequest) -> list[Spoken]:
        """All of them join in the same step."""
        spoken = [Spoken() for _ in requests]
        with self.engine._wake:
            for request, sink in zip(requests, spoken, strict=True):
                self.engine.submit(request, sink)
        for sink in spoken:
            assert isinstance(sink.wait().end, Finished), sink.end
        return spoken

    def alone(self, index: int) -> Spoken:
        return self(asked(index))[0]

    def crowd(self) -> list[Spoken]:
        return self(*(asked(index) for index in range(3)))


def asked(index: int, text: str | None = None, max_new_tokens: int = FRAMES) -> SpeechRequest:
    return SpeechRequest(
        f"r{index}",
        text or TEXTS[index],
        "heart",
        seed=index,
        max_new_tokens=max_new_tokens,
        reference_text=REFERENCES[index],
    )


@pytest.fixture(scope="session")
def ask():
    """Makes request number ``index``."""
    return asked


@pytest.fixture(scope="session")
def clean(tiny):
    """The working engine."""
    engine = Engine(tiny, SETTINGS, Origin(None, None))
    yield Speaker(engine)
    engine.stop()


@pytest.fixture(scope="session")
def expected(clean):
    """What the working engine says to the three requests."""
    spoken = clean.crowd()
    assert [len(one.codes) for one in spoken] == [FRAMES] * 3
    return spoken


@pytest.fixture(scope="module")
def broken(tiny):
    """``broken(fault)``: an engine with that fault, which the tests of a file share.

    It records no operations, which takes longer than to run them as often as here; the clean engine does.
    """
    settings = replace(SETTINGS, recorded=False)
    speakers: dict[str, Speaker] = {}

    def make(name: str) -> Speaker:
        if name not in speakers:
            new_engine, stages = with_fault(name, stages_for(settings))
            speakers[name] = Speaker(new_engine(tiny, settings, Origin(None, None), stages))
        return speakers[name]

    yield make
    for speaker in speakers.values():
        speaker.engine.stop()
