"""The cross-talk check's part of a run: what is compared with what, and what is written of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from omni_bench.accuracy.cross_talk.check import CrossTalkHit, LevelCrossTalk, find_cross_talk
from omni_bench.accuracy.cross_talk.pairs import Request
from omni_bench.accuracy.cross_talk.score import Words
from omni_bench.accuracy.written.normalise import normalise_reference
from omni_bench.datasets.bundled import bundled_texts
from omni_bench.records.config import ChecksConfig
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.records.level import Level, level_fields
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.stages import Tell, untold
from omni_bench.run.judging import Verdicts
from omni_bench.run.level_result import LevelResult


def check_cross_talk(
    levels: Sequence[LevelResult], verdicts: Verdicts | None, checks: ChecksConfig, tell: Tell = untold
) -> dict[Level, LevelCrossTalk]:
    """Cross-talk of each level, by concurrency; a level of which nothing was heard is not in it.

    Empty without a judge or with ``checks.cross_talk=false``. ``tell`` hears how far it is.
    """
    if verdicts is None or not checks.cross_talk:
        return {}
    requests, transcripts = [], {}
    for level in levels:
        slots = level.slots
        for request in level.requests:
            timeline, score = request.timeline, verdicts.scores[request.request_id]
            requests.append(
                Request(
                    request_id=request.request_id,
                    concurrency=level.concurrency,
                    started_ns=timeline.started_ns,
                    finished_ns=timeline.finished_ns,
                    target=_split(score.reference_normal),
                    reference=_words(request.ref_text, request.language),
                    slots=slots,
                )
            )
            if score.forced is None:
                transcripts[request.request_id] = _split(score.hypothesis_normal)
        requests += [
            Request(
                request_id=warmup.request_id,
                concurrency=level.concurrency,
                started_ns=warmup.started_ns,
                finished_ns=warmup.finished_ns,
                target=_words(warmup.text, warmup.language),
                reference=_words(warmup.ref_text, warmup.language),
                slots=slots,
            )
            for warmup in level.warmup_requests
        ]
    if not transcripts:
        return {}
    return find_cross_talk(requests, transcripts, _background(levels), tell)


def cross_talk_record(level: LevelCrossTalk | None) -> dict[str, Any] | None:
    """``cross_talk`` of a level in run.json; None if it was not checked."""
    if level is None:
        return None
    first = max(level.hits, key=lambda hit: hit.score, default=None)
    return {
        "hits": len(level.hits),
        "pairs": level.pairs,
        "expected_false_hits": level.expected_false_hits,
        "null_pairs": level.null.pairs,
        "null_hits": level.null.hits,
        "chance": level.chance,
        "first": None if first is None else _hit(first),
    }


def write_cross_talk(folder: RunFolder, found: Mapping[Level, LevelCrossTalk], kept: Mapping[str, str]) -> None:
    """Write cross_talk.jsonl, an empty file if there is no hit; none, nor an older one, if nothing was checked.

    ``kept``: request id -> recording in the run folder. Raises StoreError.
    """
    if found:
        hits = (hit for level in found.values() for hit in level.hits)
        folder.write_lines(folder.cross_talk_jsonl, [{**_hit(hit), "audio": kept.get(hit.victim)} for hit in hits])
        return
    with os_errors_as_store_errors("remove", folder.cross_talk_jsonl):
        folder.cross_talk_jsonl.unlink(missing_ok=True)


def involved(found: Mapping[Level, LevelCrossTalk]) -> frozenset[str]:
    """The requests in whose output another's words were heard, and those whose words they were."""
    return frozenset(name for level in found.values() for hit in level.hits for name in (hit.victim, hit.source))


def _hit(hit: CrossTalkHit) -> dict[str, Any]:
    return {**asdict(hit), **level_fields(hit.concurrency), "also": list(hit.also)}


def _background(levels: Iterable[LevelResult]) -> list[Words]:
    languages = dict.fromkeys(request.language for level in levels for request in level.requests)
    return [words for language in languages for words in _bundled_words(language)]


@cache  # a self-test checks dozens of runs
def _bundled_words(language: str) -> list[Words]:
    return [_words(text, language) for text in bundled_texts(language)]


def _words(text: str | None, language: str) -> Words:
    return () if text is None else _split(normalise_reference(text, language))


def _split(normal: str) -> Words:
    return tuple(normal.split())
