"""The detectors, over one level of a run: errors, audio faults, words, cross-talk, parity, length and speed.

What a run says of itself (errors, audio faults, WER, cross-talk, parity between alone and in company)
is what ``omni-bench run`` reports to anybody. Where a fault shows in nothing but a difference from
before, the clean run of the same sentences and seeds is the yardstick: for longer audio, later first
audio, stalls and audio a second, as a stored run is for ``omni-bench compare``, and for other codes and
samples (``parity`` too), which no other command compares.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omni_bench.accuracy.parity.compare import ParityComparison
from omni_bench.accuracy.signal.audio_faults import INVALID_REASONS
from omni_bench.accuracy.wer import UtteranceScore, score_corpus
from omni_bench.records.invalid_reason import AUDIO_CODES, CROSS_TALK_CODES, PARITY_CODES, reasons_of
from omni_bench.records.timeline import ERROR_KINDS
from omni_bench.selftest.cases import SelftestCase
from omni_bench.selftest.evidence import StoredAnswer
from omni_bench.selftest.matrix import DetectorAlarm

LENGTH_TOLERANCE = 0.02
"""Of the length guard: audio lengths of the same requests may differ by this much in sum."""
TTFP_FACTOR = 2.0
"""The quickest request of the run must be this much later than the clean median: no busy machine does that to all."""
STALL_MORE_S = 0.15
"""A request stalls noticeably longer than the same one on the clean server (a tenth of a second is one frame)."""
SLOWER = 0.7
"""Audio per second below this share of the clean run's."""
TOGETHER = tuple(sorted(str(code.value) for code in AUDIO_CODES))

Score = Callable[[StoredAnswer], UtteranceScore]


@dataclass(frozen=True)
class RunEvidence:
    """What is known of one run, and of the clean run of the same sentences and seeds.

    ``run``: run.json, None if there is none. ``clean_run`` and ``clean``: that of the clean run, and its answers;
    ``differences``: the comparison with them by codes and samples. None and empty for the clean run itself.
    ``score``: the judge's score of a sound answer.
    """

    run: Mapping[str, Any] | None
    answers: Sequence[StoredAnswer]
    clean_run: Mapping[str, Any] | None
    clean: Sequence[StoredAnswer]
    differences: Sequence[ParityComparison]
    score: Score
    wer_limit: float


@dataclass(frozen=True)
class LevelEvidence:
    """What is known of one level of a run. ``level`` and ``clean_level``: of run.json, None if it is not there.

    ``pairs``: sound answers with the clean server's to the same requests.
    """

    concurrency: int
    answers: Sequence[StoredAnswer]
    pairs: Sequence[tuple[StoredAnswer, StoredAnswer]]
    differences: Sequence[ParityComparison]
    level: Mapping[str, Any] | None
    clean_level: Mapping[str, Any] | None
    score: Score
    wer_limit: float


@dataclass(frozen=True)
class Detector:
    """``find``: the (name, detail) of each alarm over one level. ``names``: those that there can be.

    ``asked_of``: the cases in which its answer means something.
    """

    names: tuple[str, ...]
    find: Callable[[LevelEvidence], Iterable[tuple[str, str]]]
    asked_of: Callable[[SelftestCase], bool] = lambda case: True


def alarms_of(case: SelftestCase, run: RunEvidence) -> list[DetectorAlarm]:
    """Every detector's findings, one alarm a detector and concurrency."""
    levels = [_level(concurrency, run) for concurrency in _concurrencies(run)]
    asked = [detector for detector in DETECTORS if detector.asked_of(case)]
    return _first_of_each(
        [
            DetectorAlarm(name, level.concurrency, detail)
            for level in levels
            for detector in asked
            for name, detail in detector.find(level)
        ]
    )


def _concurrencies(run: RunEvidence) -> list[int]:
    of_levels = [level["concurrency"] for level in run.run["levels"]] if run.run is not None else []
    return sorted({*of_levels, *(answer.concurrency for answer in run.answers)})


def _level(concurrency: int, run: RunEvidence) -> LevelEvidence:
    answers = [answer for answer in run.answers if answer.concurrency == concurrency]
    before = {answer.key: answer for answer in run.clean if answer.concurrency == concurrency and answer.sound}
    levels = (
        next((level for level in (one or {}).get("levels", ()) if level["concurrency"] == concurrency), None)
        for one in (run.run, run.clean_run)
    )
    return LevelEvidence(
        concurrency,
        answers,
        [(answer, before[answer.key]) for answer in answers if answer.sound and answer.key in before],
        [one for one in run.differences if one.concurrency == concurrency],
        *levels,
        run.score,
        run.wer_limit,
    )


Found = Iterator[tuple[str, str]]


def _failures(level: LevelEvidence) -> Found:
    """Failed requests, by the kind of their error."""
    for answer in level.answers:
        if answer.error is not None:
            kind, message = answer.error
            yield kind, f"{answer.request_id}: {message}"


def _faults_of_the_audio(level: LevelEvidence) -> Found:
    for answer in level.answers:
        for fault in answer.faults:
            yield fault, answer.request_id


def _words(level: LevelEvidence) -> Found:
    """WER over what could be heard: a failed or empty answer is another detector's finding."""
    scores = [level.score(answer) for answer in level.answers if answer.sound]
    corpus = score_corpus("", scores)
    if corpus.wer is None or corpus.wer <= level.wer_limit:
        return
    worst = max(scores, key=lambda one: one.wer or 0.0)
    yield (
        "wer",
        f"WER {corpus.wer:.0%} over {corpus.utterances} utterances; {worst.request_id} asked for "
        f"{worst.reference_normal!r}, spoke {worst.hypothesis_normal!r}",
    )


def _length(level: LevelEvidence) -> Found:
    now_s, then_s = (sum(pair[side].audio_s or 0.0 for pair in level.pairs) for side in (0, 1))
    if then_s and abs(now_s / then_s - 1) > LENGTH_TOLERANCE:
        yield "length", f"{now_s / then_s - 1:+.1%} audio for the same sentences"


def _later(level: LevelEvidence) -> Found:
    now = [now.ttfp_ms for now, _ in level.pairs if now.ttfp_ms is not None]
    then = [then.ttfp_ms for _, then in level.pairs if then.ttfp_ms is not None]
    if now and then and min(now) > TTFP_FACTOR * statistics.median(then):
        yield "ttfp", f"TTFP {min(now):.0f} ms at best, clean median {statistics.median(then):.0f} ms"


def _stalls(level: LevelEvidence) -> Found:
    stalled = [now for now, then in level.pairs if (now.stall_s or 0.0) > (then.stall_s or 0.0) + STALL_MORE_S]
    if level.pairs and 2 * len(stalled) >= len(level.pairs):
        yield "stalls", f"{len(stalled)} of {len(level.pairs)} requests stall longer"


def _other_answers(level: LevelEvidence) -> Found:
    """Answers that are not those of the clean server to the same requests, with the place of the first difference."""
    different = [one for one in level.differences if one.equal is False]
    if not different:
        return
    first = different[0]
    where = [
        f"{name} {value}"
        for name, value in (("frame", first.first_frame), ("codebook", first.first_codebook))
        if value is not None
    ]
    if not where and first.at_s is not None:
        where.append(f"{first.at_s:.2f} s")
    place = f" from {', '.join(where)} on" if where else ""
    detail = f"{len(different)} of {len(level.differences)} answers are not those of the clean server, such as "
    yield "parity", f"{detail}{first.request_id}{place}"


def _own_checks(level: LevelEvidence) -> Found:
    """What the run's own checks made of the level: cross-talk, parity, and what all answers show together."""
    together = [(str(code), {code}) for code in TOGETHER]
    for detector, codes in (("cross_talk", CROSS_TALK_CODES), ("parity", PARITY_CODES), *together):
        reasons = reasons_of(level.level) if level.level is not None else ()
        if (reason := next((reason for reason in reasons if reason.code in codes), None)) is not None:
            yield detector, str(reason)


def _slower(level: LevelEvidence) -> Found:
    """Far less audio per second than in the clean run."""
    now, then = (one and one["metrics"]["audio_per_s"]["mean"] for one in (level.level, level.clean_level))
    if now is not None and then is not None and now < SLOWER * then:
        yield "audio_per_s", f"{now:.2f} audio-s/s, clean {then:.2f}"


def _is_of_speed(case: SelftestCase) -> bool:
    """With anything but a speed fault, whose audio is right, a comparison of times would mean nothing."""
    return case.kind == "speed"


DETECTORS = (
    Detector(tuple(ERROR_KINDS), _failures),
    Detector(INVALID_REASONS, _faults_of_the_audio),
    Detector(("wer",), _words),
    Detector(("length",), _length),
    Detector(("ttfp",), _later, _is_of_speed),
    Detector(("stalls",), _stalls, _is_of_speed),
    Detector(("parity",), _other_answers),
    Detector(("cross_talk", "parity", *TOGETHER), _own_checks),
    Detector(("audio_per_s",), _slower, lambda case: "audio_per_s" in case.expected),
)
"""To add one: its function above, and its line here."""


def _first_of_each(found: Sequence[DetectorAlarm]) -> list[DetectorAlarm]:
    """One alarm a detector and concurrency: the first, which says how many there were."""
    counts: dict[tuple[str, int], int] = {}
    first: dict[tuple[str, int], DetectorAlarm] = {}
    for alarm in found:
        place = (alarm.detector, alarm.concurrency)
        counts[place] = counts.get(place, 0) + 1
        first.setdefault(place, alarm)
    return [
        DetectorAlarm(
            name,
            concurrency,
            alarm.detail + (f" (and {counts[name, concurrency] - 1} more)" * (counts[name, concurrency] > 1)),
        )
        for (name, concurrency), alarm in first.items()
    ]
