"""Answers made by hand: 10 frames of 1920 samples, in two reads of five frames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from omni_bench.accuracy.parity.compare import ParityAnswer, ParityComparison, Words
from omni_bench.records.timeline import RequestError, Timeline

FRAME, RATE_HZ, MS = 1920, 24000, 1_000_000


def make_timeline(
    name: str, *, start_ms: int = 0, frames: int = 10, concurrency: int = 2, seed: int | None = 1, prompt: str = "p"
) -> Timeline:
    """A request that arrives in two reads."""
    half = frames // 2
    return Timeline(
        request_id=name,
        prompt_id=prompt,
        concurrency=concurrency,
        seed=seed,
        scheduled_ns=start_ms * MS,
        started_ns=start_ms * MS,
        headers_ns=(start_ms + 1) * MS,
        first_byte_ns=(start_ms + 100) * MS,
        first_audio_ns=(start_ms + 100) * MS,
        ended_ns=(start_ms + 300) * MS,
        failed_ns=None,
        chunk_arrived_ns=((start_ms + 100) * MS, (start_ms + 200) * MS),
        chunk_bytes=(half * FRAME * 2, (frames - half) * FRAME * 2),
        sample_rate_hz=RATE_HZ,
        sample_width_bytes=2,
        http_status=200,
        error=None,
    )


def make_answer(
    folder: Path,
    name: str,
    *,
    change: dict[tuple[int, int], int] | None = None,
    glitch_at: int | None = None,
    audio: bool = True,
    codes: bool = True,
    error: str | None = None,
    frames: int = 10,
    **timeline_fields: object,
) -> ParityAnswer:
    """An answer with codes that count up and audio in ``folder``.

    ``change``: {(frame, codebook): what is added to that code}; ``glitch_at``: the number of a sample that is wrong.
    """
    timeline = make_timeline(name, frames=frames, **timeline_fields)
    if error is not None:
        failure = RequestError(error, "made up")
        return ParityAnswer(replace(timeline, error=failure, ended_ns=None, failed_ns=timeline.ended_ns))
    grid = np.arange(frames * 16, dtype=np.int32).reshape(frames, 16)
    for place, by in (change or {}).items():
        grid[place] += by
    samples = np.repeat(grid.sum(axis=1), FRAME).astype("<i2")
    if glitch_at is not None:
        samples[glitch_at] += 9000
    path = None
    if audio:
        path = folder / f"{name}.pcm"
        path.write_bytes(samples.tobytes())
    return ParityAnswer(timeline, path, grid if codes else None)


def make_comparison(name: str = "c4-0000", **fields: object) -> ParityComparison:
    """Of one request: equal codes, unless ``fields`` say otherwise."""
    values = {
        "solo_id": f"solo-{name}",
        "prompt_id": "p",
        "seed": 1,
        "concurrency": 4,
        "repeat": False,
        "kind": "codes",
        "equal": True,
        "exact": True,
        **fields,
    }
    return ParityComparison(request_id=name, **values)


def make_words(**fields: object) -> Words:
    """Equal words, unless ``fields`` say otherwise."""
    values = {
        "heard": "a b c",
        "heard_alone": "a b c",
        "wer": 0.0,
        "wer_alone": 0.0,
        "wer_between": 0.0,
        "worse": False,
        "worse_alone": False,
        "corrupted": False,
        "corrupted_alone": False,
        **fields,
    }
    return Words(**values)
