"""The lines of a run folder's files as readers may rely on them: what is there has these types.

A line may have more than is told here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, Required, TypedDict

from omni_bench.records.convert import expect, structure
from omni_bench.records.level import Level


class SharedStretch(TypedDict):
    """Samples of another request in the audio of one."""

    source: str
    at_s: float
    source_at_s: float
    duration_s: float


class ErrorLine(TypedDict):
    """Why a request failed."""

    kind: str
    message: str


class Line(TypedDict, total=False):
    """What lines about one request share; ``audio``: its recording in the run folder."""

    request_id: str
    prompt_id: str | None
    concurrency: Level | None
    rate_hz: float | None
    audio: str | None


class RequestLine(Line, total=False):
    """A line of requests.jsonl, solo.jsonl or warmup.jsonl."""

    request_id: Required[str]
    started_ns: int
    finished_ns: int
    ended_ns: int | None
    failed_ns: int | None
    error: ErrorLine | None
    faults: list[str] | None
    shared_audio: list[SharedStretch] | None
    ref_audio: str | None
    text: str | None


class UtteranceLine(Line):
    """A line of utterances.jsonl: a score, and what the judge and the check of voices said of it."""

    request_id: str
    reference: str
    hypothesis: str
    reference_normal: str
    hypothesis_normal: str
    wer: float | None
    cer: float | None
    substitutions: int
    deletions: int
    insertions: int
    reference_words: int
    character_edits: int
    reference_characters: int
    forced: str | None
    avg_logprob: NotRequired[float | None]
    no_speech_prob: NotRequired[float | None]
    voice_onset_rest: NotRequired[float | None]
    voice_onset: NotRequired[float | None]
    voice_whole: NotRequired[float | None]
    voice_outlier: NotRequired[bool | None]


class HitLine(Line):
    """A line of cross_talk.jsonl."""

    victim: str
    source: str
    kind: str
    relation: str
    also: list[str]
    position: str
    heard: str
    words: str
    score: float


class NeighbourLine(TypedDict):
    """A request that was in flight with another."""

    request_id: str
    prompt_id: str


class ComparisonLine(Line):
    """A line of parity.jsonl."""

    request_id: str
    solo_id: str
    repeat: bool
    equal: bool | None
    at_s: float | None
    neighbours: list[NeighbourLine]
    heard: str | None
    heard_alone: str | None
    wer_between: float | None
    worse: bool | None


_SHAPES: Mapping[str, type] = {
    "requests.jsonl": RequestLine,
    "solo.jsonl": RequestLine,
    "warmup.jsonl": RequestLine,
    "utterances.jsonl": UtteranceLine,
    "cross_talk.jsonl": HitLine,
    "parity.jsonl": ComparisonLine,
}


def check_lines(file: str, lines: Sequence[Mapping[str, Any]], where: str) -> None:
    """Raise StoreError for the first line of a ``file`` of a run folder that has a value of another type.

    ``where`` begins the message; the line's number and the name and value of its field follow.
    """
    shape = _SHAPES.get(file, Line)
    for number, line in enumerate(lines, start=1):
        what = f"{where}, line {number}"
        structure(line, shape, what)
        audio = line.get("audio")
        expect(what, "audio", audio, audio is None or (audio.isprintable() and len(audio) < 4096), "a path")
