"""What was heard in both arms: WER or CER, corruption flags, cross-talk, parity. Of all runs, the invalid ones too."""

from __future__ import annotations

from collections.abc import Sequence

from omni_bench.compare.result import AND, Accuracy, HeardPair, LevelAccuracy, common_rate
from omni_bench.compare.stats.accuracy import compare_flags, wer_difference
from omni_bench.compare.stats.length_guard import UtteranceKey
from omni_bench.compare.stats.looks import ONE_LOOK, Look
from omni_bench.compare.views import RequestView, RunView

ACCURACY_ALPHA = 0.05
MAX_WORST = 3


def compare_accuracy(before: Sequence[RunView], after: Sequence[RunView], levels: Sequence[int]) -> Accuracy:
    """Compare the arms; what was not checked is None. Damaged audio is no reason to leave a run out here."""
    arms = (before, after)
    have_requests = all(run.requests is not None for run in (*before, *after))
    flags = wer = None
    rates = (_rate(before), _rate(after))
    if have_requests and common_rate(rates) is not None:
        flags = compare_flags(*([{one.key: one.corrupted for one in _of(run, levels)} for run in arm] for arm in arms))
        wer = wer_difference(*(_edits(arm, levels) for arm in arms))
    hits = [_count(run, levels, "cross_talk_hits") for run in after]
    checked = [count for count in hits if count is not None]
    return Accuracy(
        rates=rates,
        levels=tuple(
            LevelAccuracy(
                level,
                *(_wer(arm, [level]) for arm in arms),
                *(_total(arm, [level], "cross_talk_hits") for arm in arms),
            )
            for level in levels
        ),
        wer_before=_wer(before, levels),
        wer_after=_wer(after, levels),
        wer=wer,
        flags=flags,
        cross_talk_before=_total(before, levels, "cross_talk_hits"),
        cross_talk_after=_total(after, levels, "cross_talk_hits"),
        cross_talk_runs=sum(count > 0 for count in checked) if checked else None,
        parity_before=_total(before, levels, "parity_mismatches"),
        parity_after=_total(after, levels, "parity_mismatches"),
    )


def flags_rose(accuracy: Accuracy, look: Look = ONE_LOOK) -> bool:
    """Whether significantly more utterances are corrupted after: exact McNemar, two-sided at 0.05 over all looks."""
    flags = accuracy.flags
    return flags is not None and flags.worse > flags.better and flags.p < look.level(ACCURACY_ALPHA)


def hard_failures(accuracy: Accuracy, runs: int) -> list[str]:
    """What fails whatever the speed: cross-talk that comes back in another run of after."""
    hits = accuracy.cross_talk_runs
    if hits is None or hits < 2:
        return []
    return [f"cross-talk repeats: {accuracy.cross_talk_after} hits, in {hits} of {runs} runs of after"]


def worst_pairs(before: Sequence[RunView], after: Sequence[RunView], levels: Sequence[int]) -> tuple[HeardPair, ...]:
    """The utterances that after says worst, each once and only where before says it better; :data:`MAX_WORST` of them.

    Of the pairs in which one is equally bad, that of which both recordings were kept.
    """
    found = []
    for number, (first, second) in enumerate(zip(before, after, strict=True), start=1):
        good = {request.key: request for request in _of(first, levels)}
        for bad in _of(second, levels):
            twin = good.get(bad.key)
            if not bad.edits or not bad.words or bad.text is None or twin is None or (twin.edits or 0) >= bad.edits:
                continue
            found.append(
                HeardPair(
                    pair=number,
                    concurrency=bad.key.concurrency,
                    text=bad.text,
                    heard_before=twin.heard,
                    heard_after=bad.heard or "",
                    rate_before=twin.edits / twin.words if twin.words and twin.edits is not None else None,
                    rate_after=bad.edits / bad.words,
                    audio_before=twin.audio and f"{first.source}/{twin.audio}",
                    audio_after=bad.audio and f"{second.source}/{bad.audio}",
                )
            )
    found.sort(key=lambda one: (-one.rate_after, one.audio_after is None, one.audio_before is None, one.pair))
    return tuple({one.text: one for one in reversed(found)}.values())[::-1][:MAX_WORST]


def _rate(arm: Sequence[RunView]) -> str | None:
    """What errors are counted by in an arm; "WER and CER" of one whose runs differ; None without a judge."""
    return AND.join(sorted({run.facts.rate for run in arm if run.facts.rate is not None}, reverse=True)) or None


def _of(run: RunView, levels: Sequence[int]) -> list[RequestView]:
    return [request for request in run.requests or () if request.key.concurrency in levels]


def _edits(arm: Sequence[RunView], levels: Sequence[int]) -> dict[UtteranceKey, tuple[int, int]]:
    """Word edits and reference words of each utterance that every run of the arm has judged, summed over the runs."""
    judged = [
        {request.key: (request.edits, request.words) for request in _of(run, levels) if request.edits is not None}
        for run in arm
    ]
    shared = set.intersection(*(set(one) for one in judged)) if judged else set()
    return {key: (sum(one[key][0] or 0 for one in judged), sum(one[key][1] or 0 for one in judged)) for key in shared}


def _wer(arm: Sequence[RunView], levels: Sequence[int]) -> float | None:
    """Corpus WER (or CER) over the runs and levels; None if any of them was not judged, or they differ in the rate."""
    if len({run.facts.rate for run in arm}) > 1:
        return None
    found = [view.accuracy for run in arm for level in levels if (view := run.level(level)) is not None]
    known = [accuracy for accuracy in found if accuracy is not None and accuracy["words"]]
    if not found or len(known) < len(found):
        return None
    return sum(accuracy["edits"] for accuracy in known) / sum(accuracy["words"] for accuracy in known)


def _count(run: RunView, levels: Sequence[int], name: str) -> int | None:
    """The sum over the levels that were checked; None if none was."""
    views = [view for level in levels if (view := run.level(level)) is not None]
    values = [view.accuracy.get(name) for view in views if view.accuracy is not None]
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _total(arm: Sequence[RunView], levels: Sequence[int], name: str) -> int | None:
    """The sum over the arm; None if any run was not checked."""
    counts = [_count(run, levels, name) for run in arm]
    return None if None in counts else sum(count for count in counts if count is not None)
