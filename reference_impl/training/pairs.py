"""Speech whose codes are known: what an existing checkpoint speaks.

A new encoder starts from these pairs: it learns to find the codes that made the sound, and
with them the code space of the checkpoint, before it meets the teacher's audio.
"""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from omni_bench.errors import EngineError
from reference_impl.build import build_engine
from reference_impl.engine_api import AudioChunk, Event, Failed, Finished, SpeechRequest
from reference_impl.settings import ServerSettings
from reference_impl.training.corpus import Corpus
from reference_impl.training.teacher import FRAME_SAMPLES

SHORTEST, LONGEST = 25, 100  # characters of a sentence that is spoken for a pair


def speak_pairs(
    checkpoint: Path, corpus: Corpus, count: int, device: str, rows: int, timeout_s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Speak ``count`` sentences -> samples int16 [frames, 1920] and codes int16 [frames, 16].

    Sentences that are not finished after ``timeout_s`` are left out. Raises EngineError if none is.
    """
    settings = ServerSettings(
        checkpoint=str(checkpoint),
        device=device,
        max_batch=rows,
        max_queue=count,
        max_seq_len=320,
        first_chunk_frames=256,
        chunk_frames=256,
    )
    engine = build_engine(settings)
    results: dict[int, tuple[bytes, np.ndarray]] = {}
    done = threading.Event()
    lock = threading.Lock()

    def listener(number: int):
        audio: list[bytes] = []

        def on_event(event: Event) -> None:
            if isinstance(event, AudioChunk):
                audio.append(event.pcm)
                return
            with lock:
                if isinstance(event, Finished) and event.reason == "stop":
                    results[number] = (b"".join(audio), event.codes)
                pending.discard(number)
                if not pending or isinstance(event, Failed):
                    done.set()

        return on_event

    try:
        # the last sentences: the first chunk is kept for validation
        usable = [i for i in range(len(corpus) - 1, -1, -1) if SHORTEST <= len(corpus.spoken_text(i)) <= LONGEST][
            :count
        ]
        pending = set(range(len(usable)))
        for number, index in enumerate(usable):
            voice = engine.voices[number % len(engine.voices)]
            request = SpeechRequest(f"pair-{number}", corpus.spoken_text(index), voice, seed=number)
            engine.submit(request, listener(number))
        done.wait(timeout_s)
    finally:
        engine.stop()
    if not results:
        raise EngineError(f"{checkpoint}: no sentence was finished within {timeout_s:.0f} s")
    numbers = sorted(results)
    samples = [np.frombuffer(results[n][0], "<i2").reshape(-1, FRAME_SAMPLES) for n in numbers]
    codes = [np.asarray(results[n][1], np.int16) for n in numbers]
    return np.concatenate(samples), np.concatenate(codes)
