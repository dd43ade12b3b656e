"""The detectors, over one run: errors, audio faults, words, cross-talk, parity, and length and speed against before.

What a run says of itself (errors, audio faults, WER, cross-talk, parity between alone and in company)
is what ``omni-bench run`` reports to anybody. Where a fault shows in nothing but a difference from
before, the clean run of the same sentences and seeds is the yardstick: for longer audio, later first
audio, stalls and audio a second, as a stored run is for ``omni-bench compare``, and for other codes and
samples (``parity`` too), which no other command compares.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from omni_bench.accuracy.parity.compare import Comparison
from omni_bench.accuracy.wer import UtteranceScore, score_corpus
from omni_bench.records.invalid_reason import CROSS_TALK_CODES, PARITY_CODES, reasons_of
from omni_bench.selftest.evidence import Answer
from omni_bench.selftest.matrix import Alarm

LENGTH_TOLERANCE = 0.02
"""Of the length guard: audio lengths of the same requests may differ by this much in sum."""
TTFP_FACTOR = 2.0
"""The quickest request of the run must be this much later than the clean median: no busy machine does that to all."""
STALL_MORE_S = 0.15
"""A request stalls noticeably longer than the same one on the clean server (a tenth of a second is one frame)."""
SLOWER = 0.7
"""Audio per second below this share of the clean run's."""

Score = Callable[[Answer], UtteranceScore]


def alarms_of(
    run: Mapping[str, Any] | None,
    answers: Sequence[Answer],
    clean: Sequence[Answer],
    differences: Sequence[Comparison],
    score: Score,
    wer_limit: float,
    timed: bool = False,
) -> list[Alarm]:
    """Every detector's findings, one alarm a detector and concurrency.

    ``run``: run.json, None if there is none. ``clean``: the answers of the clean run with the same
    sentences and seeds, and ``differences`` the comparison with them by codes and samples (both empty for the
    clean run itself). ``score``: the judge's score of a sound answer. ``timed``: whether first audio and stalls
    are compared too; with anything but a speed fault, whose audio is right, the comparison would mean nothing.
    """
    by_level: dict[int, list[Answer]] = {}
    for answer in answers:
        by_level.setdefault(answer.concurrency, []).append(answer)
    found = []
    for concurrency, level in sorted(by_level.items()):
        found += _own(concurrency, level)
        found += _words(concurrency, level, score, wer_limit)
        pairs = _pairs(concurrency, level, clean)
        found += _length(concurrency, pairs)
        if timed:
            found += _later(concurrency, pairs) + _stalls(concurrency, pairs)
        found += _other_answers(concurrency, [one for one in differences if one.concurrency == concurrency])
    found += _of_run(run)
    return _first_of_each(found)


def _own(concurrency: int, level: Sequence[Answer]) -> list[Alarm]:
    """Failed requests by the kind of their error, and audio faults by name."""
    found = []
    for answer in level:
        if answer.error is not None:
            kind, message = answer.error
            found.append(Alarm(kind, concurrency, f"{answer.request_id}: {message}"))
        found += [Alarm(fault, concurrency, answer.request_id) for fault in answer.faults]
    return found


def _words(concurrency: int, level: Sequence[Answer], score: Score, wer_limit: float) -> list[Alarm]:
    """WER over what could be heard: a failed or empty answer is somebody else's finding."""
    scores = [score(answer) for answer in level if answer.sound]
    corpus = score_corpus("", scores)
    if corpus.wer is None or corpus.wer <= wer_limit:
        return []
    worst = max(scores, key=lambda one: one.wer or 0.0)
    return [
        Alarm(
            "wer",
            concurrency,
            f"WER {corpus.wer:.0%} over {corpus.utterances} utterances; {worst.request_id} asked for "
            f"{worst.reference_normal!r}, spoke {worst.hypothesis_normal!r}",
        )
    ]


def _of_run(run: Mapping[str, Any] | None) -> list[Alarm]:
    """What the run's own cross-talk and parity checks made of its levels."""
    found = []
    for level in run["levels"] if run is not None else []:
        for detector, codes in (("cross_talk", CROSS_TALK_CODES), ("parity", PARITY_CODES)):
            reason = next((reason for reason in reasons_of(level) if reason.code in codes), None)
            if reason is not None:
                found.append(Alarm(detector, level["concurrency"], str(reason)))
    return found


def _other_answers(concurrency: int, comparisons: Sequence[Comparison]) -> list[Alarm]:
    """Answers that are not those of the clean server to the same requests, with the place of the first difference."""
    different = [one for one in comparisons if one.equal is False]
    if not different:
        return []
    first = different[0]
    where = [
        f"{name} {value}"
        for name, value in (("frame", first.first_frame), ("codebook", first.first_codebook))
        if value is not None
    ]
    if not where and first.at_s is not None:
        where.append(f"{first.at_s:.2f} s")
    place = f" from {', '.join(where)} on" if where else ""
    detail = f"{len(different)} of {len(comparisons)} answers are not those of the clean server, such as "
    return [Alarm("parity", concurrency, f"{detail}{first.request_id}{place}")]


Pairs = Sequence[tuple[Answer, Answer]]


def _pairs(concurrency: int, level: Sequence[Answer], clean: Sequence[Answer]) -> Pairs:
    """Sound answers with the clean server's to the same requests."""
    before = {answer.key: answer for answer in clean if answer.concurrency == concurrency and answer.sound}
    return [(answer, before[answer.key]) for answer in level if answer.sound and answer.key in before]


def _length(concurrency: int, pairs: Pairs) -> list[Alarm]:
    now_s, then_s = sum(now.audio_s or 0.0 for now, _ in pairs), sum(then.audio_s or 0.0 for _, then in pairs)
    if not then_s or abs(now_s / then_s - 1) <= LENGTH_TOLERANCE:
        return []
    return [Alarm("length", concurrency, f"{now_s / then_s - 1:+.1%} audio for the same sentences")]


def _stalls(concurrency: int, pairs: Pairs) -> list[Alarm]:
    stalled = [now for now, then in pairs if (now.stall_s or 0.0) > (then.stall_s or 0.0) + STALL_MORE_S]
    if not pairs or 2 * len(stalled) < len(pairs):
        return []
    return [Alarm("stalls", concurrency, f"{len(stalled)} of {len(pairs)} requests stall longer")]


def _later(concurrency: int, pairs: Pairs) -> list[Alarm]:
    now = [now.ttfp_ms for now, _ in pairs if now.ttfp_ms is not None]
    then = [then.ttfp_ms for _, then in pairs if then.ttfp_ms is not None]
    if not now or not then or min(now) <= TTFP_FACTOR * statistics.median(then):
        return []
    return [
        Alarm("ttfp", concurrency, f"TTFP {min(now):.0f} ms at best, clean median {statistics.median(then):.0f} ms")
    ]


def slower(run: Mapping[str, Any] | None, clean: Mapping[str, Any] | None) -> list[Alarm]:
    """Levels with far less audio per second than the clean run of the same sentences."""
    if run is None or clean is None:
        return []
    rates = {level["concurrency"]: level["metrics"]["audio_per_s"]["mean"] for level in clean["levels"]}
    found = []
    for level in run["levels"]:
        now, then = level["metrics"]["audio_per_s"]["mean"], rates.get(level["concurrency"])
        if now is not None and then is not None and now < SLOWER * then:
            found.append(Alarm("audio_per_s", level["concurrency"], f"{now:.2f} audio-s/s, clean {then:.2f}"))
    return found


def _first_of_each(found: Sequence[Alarm]) -> list[Alarm]:
    """One alarm a detector and concurrency: the first, which says how many there were."""
    counts: dict[tuple[str, int], int] = {}
    first: dict[tuple[str, int], Alarm] = {}
    for alarm in found:
        place = (alarm.detector, alarm.concurrency)
        counts[place] = counts.get(place, 0) + 1
        first.setdefault(place, alarm)
    return [
        Alarm(
            name,
            concurrency,
            alarm.detail + (f" (and {counts[name, concurrency] - 1} more)" * (counts[name, concurrency] > 1)),
        )
        for (name, concurrency), alarm in first.items()
    ]
