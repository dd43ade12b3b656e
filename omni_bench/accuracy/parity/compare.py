"""Two answers to one request: are they the same, and where does the second part from the first?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import numpy as np

from omni_bench.accuracy.parity.codes import first_code_difference
from omni_bench.accuracy.parity.pcm import PcmComparison, compare_pcm, read_samples
from omni_bench.records.level import Level
from omni_bench.records.timeline import Timeline

CODES, PCM = "codes", "pcm"
NO_AUDIO = "no audio was kept"


@dataclass(frozen=True)
class ParityAnswer:
    """What came of one request: its timeline, its samples (.pcm or .wav) and its codes, int [frames, codebooks].

    Each of the two may be missing.
    """

    timeline: Timeline
    audio: Path | None = None
    codes: np.ndarray | None = None

    @property
    def request_id(self) -> str:
        """As the client sent it."""
        return self.timeline.request_id


@dataclass(frozen=True)
class Neighbour:
    """Another request that was in flight at some moment."""

    request_id: str
    prompt_id: str


@dataclass(frozen=True)
class Words:
    """What a judge heard in company and alone, against the text of the request and against each other.

    ``wer_between``: word error rate of what was heard in company if what was heard alone is taken as the
    text; None if nothing was heard alone. ``worse`` and ``worse_alone``: corrupted beside the other
    (:func:`omni_bench.accuracy.wer.is_corrupted`); ``corrupted`` and ``corrupted_alone``: by itself.
    """

    heard: str
    heard_alone: str
    wer: float
    wer_alone: float
    wer_between: float | None
    worse: bool
    worse_alone: bool
    corrupted: bool
    corrupted_alone: bool


@dataclass(frozen=True)
class ParityComparison:
    """One request in company against the same request sent alone, or (``repeat``) twice alone.

    ``kind``: what decided, ``codes`` or ``pcm``; ``equal`` is None and ``problem`` says why if neither could.
    ``solo_error``: the kind of error if the request failed alone. ``concurrency``: of the level, also for a repeat.
    With codes they decide, and the audio too where both have some: the same codes with other audio
    are not equal. ``exact``: the samples agree bit for bit; None without both. ``first_frame``,
    ``first_codebook``: of the first difference in codes; ``first_sample``: of the first beyond rounding;
    ``at_s``: where in the audio that is; ``arrived_ns``: when that place reached the client in company,
    and ``neighbours`` who else was in flight then. ``length_difference``: samples in company minus alone.
    """

    request_id: str
    solo_id: str
    prompt_id: str
    seed: int | None
    concurrency: Level
    repeat: bool
    kind: str | None
    equal: bool | None
    problem: str | None = None
    solo_error: str | None = None
    exact: bool | None = None
    first_frame: int | None = None
    first_codebook: int | None = None
    first_sample: int | None = None
    at_s: float | None = None
    arrived_ns: int | None = None
    length_difference: int | None = None
    sha256: str | None = None
    solo_sha256: str | None = None
    neighbours: tuple[Neighbour, ...] = field(default=())
    words: Words | None = None


def compare_answers(
    answer: ParityAnswer,
    solo: ParityAnswer,
    flight: Sequence[Timeline] = (),
    *,
    repeat: bool = False,
    concurrency: Level | None = None,
) -> ParityComparison:
    """Compare one request in company (``answer``) with itself alone (``solo``).

    ``concurrency``: of the level that the comparison belongs to, None for that of ``answer``.
    ``flight``: the timelines of the requests that may have been in flight with ``answer``, itself included.
    Raises StoreError if a recording cannot be read.
    """
    timeline = answer.timeline
    names = {
        "request_id": answer.request_id,
        "solo_id": solo.request_id,
        "prompt_id": timeline.prompt_id,
        "seed": timeline.seed,
        "concurrency": timeline.concurrency if concurrency is None else concurrency,
        "repeat": repeat,
        "solo_error": solo.timeline.error.kind if solo.timeline.error is not None else None,
    }
    problem = _failure(answer.timeline) or _failure(solo.timeline)
    audio = None if problem else _compare_audio(answer, solo)
    has_codes = answer.codes is not None and solo.codes is not None
    if problem is None and audio is None and not has_codes:
        problem = NO_AUDIO
    if problem is not None:
        return ParityComparison(**names, kind=None, equal=None, problem=problem)
    place = first_code_difference(answer.codes, solo.codes) if has_codes else None
    sample = audio.first_sample if audio is not None else None
    rate_hz = timeline.sample_rate_hz
    at_sample = sample if place is None else _sample_of_frame(answer, place.frame)
    arrived_ns = None if at_sample is None else sample_arrived_ns(timeline, at_sample)
    return ParityComparison(
        **names,
        kind=CODES if has_codes else PCM,
        equal=place is None and (audio is None or audio.equal),
        exact=None if audio is None else audio.exact,
        first_frame=None if place is None else place.frame,
        first_codebook=None if place is None else place.codebook,
        first_sample=sample,
        at_s=at_sample / rate_hz if at_sample is not None and rate_hz else None,
        arrived_ns=arrived_ns,
        length_difference=None if audio is None else audio.length_difference,
        sha256=None if audio is None else audio.sha256[0],
        solo_sha256=None if audio is None else audio.sha256[1],
        neighbours=() if arrived_ns is None else in_flight_at(arrived_ns, flight, besides=answer.request_id),
    )


def compare_run_answers(answers: Sequence[ParityAnswer], clean: Sequence[ParityAnswer]) -> list[ParityComparison]:
    """Compare the answers of one run with those of another, joined by prompt and seed.

    For a run with a fault against one without. Requests whose prompt and seed the other run lacks are
    left out, and so are requests without a seed: nothing says that their answers should agree. Where ``clean`` has
    a prompt and seed twice, its first answer that ended cleanly counts. ``solo_id`` is the request of ``clean``;
    the neighbours are those of ``answers``.
    """
    twins: dict[tuple[str, int | None], ParityAnswer] = {}
    for other in clean:
        if other.timeline.seed is None:
            continue
        key = (other.timeline.prompt_id, other.timeline.seed)
        if key not in twins or (other.timeline.ok and not twins[key].timeline.ok):
            twins[key] = other
    flight = [answer.timeline for answer in answers]
    joined = []
    for answer in answers:
        if (twin := twins.get((answer.timeline.prompt_id, answer.timeline.seed))) is not None:
            joined.append(compare_answers(answer, twin, flight))
    return joined


def sample_arrived_ns(timeline: Timeline, sample: int) -> int | None:
    """When the read arrived that holds ``sample`` (from 0); for one behind the end, when the answer ended."""
    ends = list(accumulate(timeline.chunk_samples))
    index = bisect_right(ends, sample)
    return timeline.chunk_arrived_ns[index] if index < len(ends) else timeline.finished_ns


def in_flight_at(at_ns: int, timelines: Sequence[Timeline], *, besides: str) -> tuple[Neighbour, ...]:
    """The requests that were sent and not yet finished at ``at_ns``, without ``besides``, in the given order."""
    return tuple(
        Neighbour(timeline.request_id, timeline.prompt_id)
        for timeline in timelines
        if timeline.request_id != besides and timeline.started_ns <= at_ns <= timeline.finished_ns
    )


def _failure(timeline: Timeline) -> str | None:
    if timeline.ok:
        return None
    error = timeline.error
    return f"{timeline.request_id} failed: {error.kind}: {error.message}" if error else f"{timeline.request_id} failed"


def _compare_audio(answer: ParityAnswer, solo: ParityAnswer) -> PcmComparison | None:
    if answer.audio is None or solo.audio is None:
        if answer.timeline.audio_bytes == solo.timeline.audio_bytes == 0:  # nothing twice is the same
            return compare_pcm(np.zeros(0, np.int16), np.zeros(0, np.int16))
        return None
    return compare_pcm(read_samples(answer.audio), read_samples(solo.audio))


def _sample_of_frame(answer: ParityAnswer, frame: int) -> int:
    """The first sample of a frame: the samples are shared out evenly among the frames."""
    assert answer.codes is not None
    samples = sum(answer.timeline.chunk_samples)
    return round(frame * samples / len(answer.codes)) if len(answer.codes) else 0
